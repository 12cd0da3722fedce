"""Discrete random numbers, and their laws before the program looks at them.

A choice that the program does not look at does not split the run: its law is a row. A row is exact,
in rationals, or in doubles with a bound on its error, which makes the vocabularies of real models
feasible.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import fsum
from typing import Protocol

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftproof.conformance.lanes.exact._errors import NotUnderstood
from draftproof.conformance.lanes.exact._noise import SPENT, Noise, Uniform, World
from draftproof.conformance.lanes.exact._races import Ranking
from draftproof.conformance.lanes.exact._steps import Affine, Range
from draftproof.conformance.lanes.precise import extended
from draftproof.reference.chance import Distribution, distribution
from draftproof.reference.rational import ONE, ZERO, Rational, exactly, total

UNIT = 2.0**-53
"""Largest relative error of rounding to a double."""


@dataclass(frozen=True)
class DrawnRow:
    """Possible values of a choice, in the order of a draw, with their positive weights.

    Weights need not sum to 1, and a value may occur more than once.
    """

    values: Sequence[int]
    weights: Sequence[Rational]

    def shares(self) -> list[Rational]:
        """Return the probability of each value."""
        mass = total(self.weights)
        return [*self.weights] if mass == 1 else [weight / mass for weight in self.weights]

    def doubles(self) -> Doubles:
        """Return the row in doubles; a quotient may be truncated instead of rounded."""
        shares = numpy.array([float(share) for share in self.shares()])
        return Doubles(numpy.array(self.values, numpy.int64), shares, 2 * UNIT)


@dataclass(frozen=True, eq=False)
class Doubles:
    """A row in doubles: values [n] and their probabilities [n]."""

    values: NDArray[numpy.int64]
    shares: NDArray[numpy.float64]
    error: float
    """Bound on the total variation distance of the doubles from the exact row."""

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Doubles)
            and numpy.array_equal(self.values, other.values)
            and numpy.array_equal(self.shares, other.shares)
            and self.error == other.error
        )

    def __hash__(self) -> int:
        return hash((len(self.values), self.shares.sum()))


class Draw(Protocol):
    """Draw that decides a choice, with a law known in advance."""

    @property
    def within(self) -> range:
        """Range that contains every number that can be drawn."""

    def decide(self, world: World) -> int:
        """Return the number drawn in a world, which records the consequences of the draw."""

    def row(self, world: World) -> DrawnRow:
        """Return the exact row of the draw in a world. Raises `NotUnderstood`."""

    def doubles(self, world: World) -> Doubles:
        """Return the row of the draw in a world, in doubles. Raises `NotUnderstood`."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Discrete random number that is decided at its first reading and then stays the same."""

    decide: Callable[[World], int]
    draw: Draw | None = None
    """The draw that decides the choice, if its law is known in advance."""
    among: range = range(2)
    """Range of the choice, if no draw decides it."""

    @property
    def within(self) -> range:
        """Range that contains every possible value of the choice."""
        return self.among if self.draw is None else self.draw.within

    @classmethod
    def of(cls, draw: Draw) -> Choice:
        """Return the choice that a draw makes."""
        return cls(draw.decide, draw)

    def value(self, world: World) -> int:
        decided: int | None = world.of(self)
        if decided is None:
            decided = self.decide(world)
            world.learn(self, decided)
        return decided


@dataclass(frozen=True, eq=False)
class Listed:
    """Draw of one of several values, with the same weights in every world."""

    values: Sequence[int]
    weights: Sequence[Rational]

    @cached_property
    def within(self) -> range:
        return range(min(self.values), max(self.values) + 1)

    def decide(self, world: World) -> int:
        return self.values[world.chance.draw(self.weights)]

    def row(self, _: World) -> DrawnRow:
        able = [i for i, weight in enumerate(self.weights) if weight > 0]
        return DrawnRow([self.values[i] for i in able], [self.weights[i] for i in able])

    def doubles(self, world: World) -> Doubles:
        return self.row(world).doubles()


@dataclass(frozen=True, eq=False)
class Weighed:
    """Draw of one of several values, with positive doubles as the same weights in every world.

    Its row in doubles needs no rationals, which take long for a large vocabulary.
    """

    values: NDArray[numpy.int64]
    weights: NDArray[numpy.float64]

    @cached_property
    def within(self) -> range:
        return range(int(self.values.min()), int(self.values.max()) + 1)

    @cached_property
    def _listed(self) -> Listed:
        weights = distribution([*map(exactly, self.weights.tolist())])
        return Listed(self.values.tolist(), weights)

    @cached_property
    def _doubles(self) -> Doubles:
        # The sum is rounded once, and each quotient by it once more.
        return Doubles(self.values, self.weights / fsum(self.weights), 2 * UNIT)

    def decide(self, world: World) -> int:
        return self._listed.decide(world)

    def row(self, world: World) -> DrawnRow:
        return self._listed.row(world)

    def doubles(self, _: World) -> Doubles:
        return self._doubles


def coin(heads: Rational) -> Listed:
    """Return the toss of a coin: 1 with probability `heads`, or else 0."""
    return Listed((1, 0), (heads, ONE - heads))


@dataclass(frozen=True, eq=False)
class Winner:
    """Draw of the first contender in a ranking."""

    ranking: Ranking

    @property
    def within(self) -> range:
        return self.ranking.within

    def decide(self, world: World) -> int:
        return self.ranking.at(0, world)

    def row(self, world: World) -> DrawnRow:
        rates = self.ranking.rates
        if world.of(self.ranking) or not rates:
            return DrawnRow([self.ranking.at(0, world)], [ONE])
        self.ranking.begin(world.under(world.chance))
        return DrawnRow([*rates], [*rates.values()])

    def doubles(self, world: World) -> Doubles:
        return self.row(world).doubles()


@dataclass(frozen=True)
class Cells:
    """Values in the order of a uniform number, with the interval and the share of each."""

    values: list[int]
    ends: list[Range]
    shares: Distribution


@dataclass(frozen=True, eq=False)
class Bins:
    """Draw of the number of rising edges [n] that a random number has passed.

    This is how a program inverts a distribution function.
    """

    noise: Noise
    edges: NDArray[numpy.float64]
    relation: str
    """Relation of the number to an edge that it has passed."""
    _known: dict[Range, Cells] = field(default_factory=dict)
    _rounded: dict[Range, Doubles] = field(default_factory=dict)

    @property
    def within(self) -> range:
        return range(len(self.edges) + 1)

    def decide(self, world: World) -> int:
        cells = self._cells(self._interval(world))
        drawn = world.chance.draw(cells.shares) if len(cells.values) > 1 else 0
        world.learn(self.noise.uniform, cells.ends[drawn])
        return cells.values[drawn]

    def row(self, world: World) -> DrawnRow:
        cells = self._cells(self._interval(world))
        return DrawnRow(cells.values, cells.shares)

    def doubles(self, world: World) -> Doubles:
        """Return the row in doubles, if the number is scale * U + shift.

        U passes an edge at (edge - shift) / scale. With u = 2**-53, the error of this end is at
        most (|shift / scale| + 4) u within 0..1: shift, scale, difference and quotient are rounded.
        A weight has two ends, and half of the sum of the errors of the weights counts; weights are
        divided by the width of the interval of U, and rounded twice more.
        """
        interval = self._interval(world)
        if interval not in self._rounded:
            self._rounded[interval] = self._doubles(*interval)
        return self._rounded[interval]

    def _doubles(self, low: Rational, high: Rational) -> Doubles:
        match self.noise.steps:
            case []:
                scale, shift = ONE, ZERO
            case [Affine(scale, shift)] if all(
                map(_is_normal, [scale, shift, shift / scale, high - low])
            ):
                pass
            case _:
                cells = self._cells((low, high))
                return DrawnRow(cells.values, cells.shares).doubles()
        ends = ((self.edges - float(shift)) / float(scale)).clip(float(low), float(high))
        if scale > 0:
            ends = numpy.concatenate([[float(low)], numpy.maximum.accumulate(ends), [float(high)]])
        else:
            ends = numpy.concatenate([[float(high)], numpy.minimum.accumulate(ends), [float(low)]])
        shares = numpy.asarray(abs(numpy.diff(ends)) / float(high - low), numpy.float64)
        able = numpy.flatnonzero(shares)[:: 1 if scale > 0 else -1]
        off = len(ends) * (float(abs(shift / scale)) + 4) / float(high - low) + 2
        return Doubles(able, shares[able], off * UNIT)

    def _interval(self, world: World) -> Range:
        interval: Range | None = world.of(self.noise.uniform, (ZERO, ONE))
        if not isinstance(interval, tuple):
            raise NotUnderstood("compares noise that has already decided a race")
        return interval

    @property
    def cells(self) -> Cells:
        """All possible values, in the order of U."""
        return self._cells((ZERO, ONE))

    def _cells(self, interval: Range) -> Cells:
        """Return the possible values within an interval of U, in the order of U."""
        if interval not in self._known:
            self._known[interval] = self._found(*interval)
        return self._known[interval]

    def _found(self, low: Rational, high: Rational) -> Cells:
        # No number lies between equals: only the first is met.
        first = numpy.flatnonzero(numpy.diff(self.edges, prepend=-numpy.inf) != 0)
        solved = self.noise.solved(self.relation, map(extended, self.edges[first].tolist()))
        # Who has passed an edge has passed those before it.
        ends = [low] if solved.is_rising else [high]
        for end in solved.ends:
            inside = min(max(end, low), high)
            ends.append(max(ends[-1], inside) if solved.is_rising else min(ends[-1], inside))
        ends.append(high if solved.is_rising else low)
        passed = [*first.tolist(), len(self.edges)]
        between = [(min(pair), max(pair)) for pair in pairwise(ends)]
        met = [each for each in zip(passed, between, strict=True) if each[1][0] < each[1][1]]
        values, inside = zip(*(met if solved.is_rising else met[::-1]), strict=True)
        return Cells([*values], [*inside], distribution([last - first for first, last in inside]))


def passed_by_all(noise: Noise, edges: NDArray[numpy.float64], relation: str) -> int | None:
    """Return how many of a few edges every value of the noise passes, None if that varies."""
    if noise.uniform is SPENT or len(edges) > _FEW:
        return None
    # Rows that are certain are alike: each is solved once, for a number of the same law.
    law = replace(noise, uniform=_ANY)
    return _passed_by_all(law, relation, *edges.tolist())


_ANY = Uniform()
"""Uniform number that represents all uniform numbers."""


@lru_cache(maxsize=4096)
def _passed_by_all(noise: Noise, relation: str, *edges: float) -> int | None:
    try:
        cells = Bins(noise, numpy.array(edges), relation).cells
    except NotUnderstood:
        # It is refused when somebody looks.
        return None
    return cells.values[0] if len(cells.values) == 1 else None


_FEW = 64
"""Maximum number of edges of a row that is solved before the program looks: rows of serving have
thousands."""


@dataclass(frozen=True, eq=False)
class Image:
    """Whole number computed from a choice with a draw."""

    of: Choice
    image: Callable[[Tensor], Tensor]
    """Function from values [n] to their images [n]."""
    _rounded: dict[Doubles, Doubles] = field(default_factory=dict)

    @cached_property
    def within(self) -> range:
        images = self._images(self._root.within)
        return range(min(images), max(images) + 1)

    def decide(self, world: World) -> int:
        return self._images([self._root.value(world)])[0]

    def row(self, world: World) -> DrawnRow:
        row = row_of(self._root, world)
        return DrawnRow(self._images(row.values), row.weights)

    def doubles(self, world: World) -> Doubles:
        found = doubles_of(self._root, world)
        if found not in self._rounded:
            images = numpy.array(self._images(found.values), numpy.int64)
            self._rounded[found] = _merged(images, found)
        return self._rounded[found]

    @cached_property
    def _root(self) -> Choice:
        """Choice at the root of a chain of images."""
        return self._chain()[-1].of

    def _chain(self) -> list[Image]:
        """Return the chain of images, from the last to the first; it may have thousands."""
        chain = [self]
        while isinstance(chain[-1].of.draw, Image):
            chain.append(chain[-1].of.draw)
        return chain

    def _images(self, values: Sequence[int] | NDArray[numpy.int64]) -> list[int]:
        found = torch.as_tensor(numpy.array(values))
        for each in reversed(self._chain()):
            found = each.image(found)
        images: list[int] = found.tolist()
        return images


def _is_normal(value: Rational) -> bool:
    """Return whether rounding a number to a double has a relative error of at most `UNIT`."""
    return bool(value == 0 or _LEAST <= abs(value) <= _MOST)


_LEAST, _MOST = (exactly(end) for end in (sys.float_info.min, sys.float_info.max))


def _merged(images: NDArray[numpy.int64], row: Doubles) -> Doubles:
    """Return the row of the images of a row's values, without repeated values.

    The weight of an image of several values is their sum, which is rounded once.
    """
    values, where = numpy.unique(images, return_inverse=True)
    if len(values) == len(images):
        return Doubles(images, row.shares, row.error)
    parts = numpy.split(
        row.shares[numpy.argsort(where, kind="stable")], numpy.cumsum(numpy.bincount(where))[:-1]
    )
    return Doubles(values, numpy.array([*map(fsum, parts)]), row.error + UNIT)


def row_of(choice: Choice, world: World) -> DrawnRow:
    """Return the row of a choice. Raises `NotUnderstood`."""
    if choice.draw is None or world.of(choice) is not None:
        return DrawnRow([choice.value(world)], [ONE])
    return choice.draw.row(world)


def doubles_of(choice: Choice, world: World) -> Doubles:
    """Return the row of a choice, in doubles. Raises `NotUnderstood`."""
    if choice.draw is None or world.of(choice) is not None:
        return row_of(choice, world).doubles()
    return choice.draw.doubles(world)
