"""Law of a program as a function of its noise, found by trying points.

A *box* holds an interval of indices for every column. Points in it are tried: at random, with
single columns at their lowest and highest index, and with all columns there at once. If all
outcomes are equal, the box is a leaf. If a column alone changes the outcome, its walls are found by
cutting its interval into sections, to the last index; a wall that is found twice, in different
contexts, splits the box. If no wall is found twice, the noise races: the box splits by the winner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy

from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.lanes.probe._race import (
    Clocks,
    Found,
    Reading,
    Search,
    clocks,
    readings,
)
from draftproof.conformance.lanes.probe._tape import NOWHERE, Point, RandomTensor, Tape
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total


class Care(NamedTuple):
    """Number of points in a box to check before its outcome counts as constant.

    At `ends` of the points a number is at its lowest or its highest with probability 1/4 each.
    Numbers are tried alone in `contexts` contexts, and walls that a twin predicts in `crossings`
    contexts.
    """

    points: int
    ends: int
    contexts: int
    crossings: int


THOROUGH, SHARED, QUICK = Care(16, 32, 4, 8), Care(6, 8, 4, 2), Care(8, 12, 1, 0)
"""Care for a program, for a small part of a law, and for a twin, whose results are not trusted."""

# Larger draws are tried as a whole first: most of the numbers of a buffer are never looked at.
_CROWD = 32

# Walls of one column that are bisected before it is said that none returns. A column with W walls
# shows one twice among W + 1; few have more than the V - 1 of a draw.
_MOST_WALLS = 12

# And all walls of a column together: without an end, they are a curve's, or a hash's.
_MOST_WALLS_OF_COLUMN, _MOST_WALLS_OF_TOKEN = 100, 20

# A column that may belong to a race is given up sooner: its race is tried first.
_FEW_WALLS = 3

# A few roundings of double precision: a logarithm, or one term of a sum of weights.
_DOUBLES = rational("1/2") ** 51

# What is so near to the ends of its grid says nothing of whether noise races.
_END = 2.0**-16

# What chooses neither end of a box.
_AT_RANDOM = 2

# Fresh points on which a race must foretell the outcome before its box is split by it.
_TRIALS = 12


@dataclass(frozen=True)
class Box:
    """Indices low[c]..high[c] - 1 of every known column c; all other columns are free."""

    low: Point
    high: Point

    def known(self, tape: Tape) -> Box:
        """Return the box, extended by the columns that have been drawn since."""
        new = tape.numbers[len(self.low) :]
        if not len(new):
            return self
        return Box(
            numpy.concatenate([self.low, numpy.zeros_like(new)]),
            numpy.concatenate([self.high, new]),
        )

    def holds(self, point: Point) -> bool:
        return bool(((self.low <= point) & (point < self.high)).all())

    def open(self) -> Iterator[int]:
        """Yield the columns that have more than one index."""
        yield from numpy.flatnonzero(self.high - self.low > 1).tolist()

    def split(self, column: int, wall: int) -> tuple[Box, Box]:
        """Return the part below the wall, and the part from the wall on."""
        below, above = self.high.copy(), self.low.copy()
        below[column] = above[column] = wall
        return Box(self.low, below), Box(above, self.high)

    def held(self, columns: slice, indices: Point) -> Box:
        """Return the part of the box with these columns fixed at these indices."""
        low, high = self.low.copy(), self.high.copy()
        low[columns], high[columns] = indices, indices + 1
        return Box(low, high)


Walls: TypeAlias = dict[int, Counter[int]]
"""Number of times that each wall was found, by column."""

Sample: TypeAlias = list[tuple[Point, Hashable]]
"""Points with their outcomes."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """Box in which every tried point has the same outcome."""

    box: Box
    outcome: Hashable


@dataclass(frozen=True, eq=False)
class Wall:
    """Box in which the index of one column decides between two parts.

    `share` is the probability of the part below, up to `error`.
    """

    column: int
    at: int
    share: Rational
    error: Rational
    below: Node
    above: Node


@dataclass(frozen=True, eq=False)
class Race:
    """Box in which the first of several clocks decides between the parts, one for each winner."""

    clocks: Clocks
    parts: dict[int, Node]


Node: TypeAlias = Leaf | Wall | Race


@dataclass(frozen=True)
class _Flip:
    """Point, and two indices of one of its columns with different outcomes."""

    context: Point
    column: int
    low: int
    high: int

    def at(self, index: int) -> Point:
        return _with(self.context, self.column, index)


class Cuts:
    """Number of sections into which to cut an interval, given how many intervals share a call.

    The fewer intervals there are, the more rows a call has for each.
    """

    def __init__(self, sections: Callable[[int], int] = lambda _: 2) -> None:
        self._sections = sections
        self._intervals = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count an interval within a block, which begins with the call before the first cut."""
        self._intervals += 1
        try:
            yield
        finally:
            self._intervals -= 1

    @property
    def sections(self) -> int:
        """The current number of sections of an interval."""
        return self._sections(self._intervals)


class Searcher:
    """Search of the noise of one program, with intervals cut as `cuts` determines.

    It looks for walls first at the places in `hints`, which searches share, and adds those it
    finds.
    """

    def __init__(
        self,
        tape: Tape,
        seed: Sequence[int],
        *,
        cuts: Cuts | None = None,
        care: Care = THOROUGH,
        hints: Walls | None = None,
    ) -> None:
        self._tape = tape
        self.care = care
        self.cuts = Cuts() if cuts is None else cuts
        self._random = numpy.random.default_rng(seed)
        self._walls: Walls = {}
        self._hints: Walls = {} if hints is None else hints
        self._most_walls = _MOST_WALLS_OF_COLUMN + _MOST_WALLS_OF_TOKEN * tape.vocabulary
        # How the noise of a race was read where it was first understood.
        self._read: dict[RandomTensor, Reading] = {}

    def everything(self) -> Box:
        """Return the box of all points."""
        return Box(NOWHERE, NOWHERE).known(self._tape)

    def points(self, box: Box, count: int) -> list[Point]:
        """Return points at random in the box."""
        size = (count, len(box.low))
        return list(self._random.integers(box.low, box.high, size=size))

    def explored(self, box: Box, sample: Sample) -> Search[Node]:
        """Find how the outcome depends on the place of a point in the box.

        Raises `OpaqueRandomness` if neither walls nor races explain it.
        """
        box = box.known(self._tape)
        sample = yield from self._sampled(box, sample)
        flips = yield from self._flips(box.known(self._tape), sample)
        box = box.known(self._tape)
        if not flips:
            return Leaf(box, sample[0][1])
        for attempt in (self._compared, self._raced, self._compared_at_length):
            node = yield from attempt(box, flips, sample)
            if node is not None:
                return node
        raise self._opaque(min(flips))

    def as_foretold(self, leaf: Leaf) -> Search[Leaf | None]:
        """Return a leaf with its outcome as seen, None if an outcome differs from the prediction.

        It tries all points that `explored` would try in such a box.
        """
        seen = yield self._looked_at(leaf.box, self.care.points) + self._with_ends(leaf.box)
        first = seen[0]
        is_same = type(first) is type(leaf.outcome) and first == leaf.outcome
        return Leaf(leaf.box, first) if is_same and all(each == first for each in seen) else None

    def beside_walls(self, tree: Node, most: int) -> list[Point]:
        """Return points on both sides of a tree's walls, in leaves through which the walls run.

        There are at most `most` points.
        """
        walls: dict[int, set[int]] = {}
        leaves: list[Leaf] = []
        for node in nodes(tree):
            if isinstance(node, Wall):
                walls.setdefault(node.column, set()).add(node.at)
            elif isinstance(node, Leaf):
                leaves.append(node)
        crossed = [
            (leaf.box, column, at)
            for leaf in leaves
            for column in leaf.box.open()
            for at in sorted(walls.get(column, ()))
            if leaf.box.low[column] < at < leaf.box.high[column]
        ]
        if len(crossed) > most // 2:
            crossed = [crossed[i] for i in self._random.permutation(len(crossed))[: most // 2]]
        return [
            _with(point, column, index)
            for box, column, at in crossed
            for point in self.points(box, 1)
            for index in (at - 1, at)
        ]

    def wall(self, box: Box, column: int, at: int, below: Node, above: Node) -> Wall:
        """Return the wall between two parts of a box."""
        share = rational(at - int(box.low[column])) / int(box.high[column] - box.low[column])
        is_exact = self._tape.owners[column].law == "uniform"
        error = ZERO if is_exact else self._tape.vocabulary * _DOUBLES
        return Wall(column, at, share, error, below, above)

    def corrected(self, tree: Node, point: Point, outcome: Hashable) -> Search[Node]:
        """Search again the leaf of a point whose outcome differs from the prediction.

        Raises `OpaqueRandomness` if a race is the cause.
        """
        found = _foretold(tree, point)
        (again,) = yield [found.settled]
        if again == found.leaf.outcome:
            if found.race is None:
                raise unsteady(outcome, again)
            raise self._opaque(found.race.clocks.first)
        new = yield from self.explored(found.leaf.box, [(found.settled, again)])
        return regrown(tree, found.leaf, new)

    def _opaque(self, column: int) -> OpaqueRandomness:
        block = self._tape.owners[column]
        reason = "draws noise that is neither compared with a threshold nor raced"
        return OpaqueRandomness(block.operator, reason, block.source)

    # --- looking ------------------------------------------------------------------------

    def _sampled(self, box: Box, sample: Sample) -> Search[Sample]:
        """Return points of the box with their outcomes: old points, new ones, and two corners."""
        kept = [(self._tape.padded(point), outcome) for point, outcome in sample]
        kept = [(point, outcome) for point, outcome in kept if box.holds(point)]
        new = self._looked_at(box, max(self.care.points - len(kept), self.care.contexts))
        return [*zip(new, (yield new), strict=True), *kept]

    def _looked_at(self, box: Box, count: int) -> list[Point]:
        """Return two corners of the box, and random points."""
        lowest, highest, *others = self.points(box, 2 + count)
        # Clocks all at an end would be a tie, which has no probability: each is near it, elsewhere.
        raced = [owner.raced for owner in self._tape.owners[: len(box.low)]]
        near = numpy.where(raced, numpy.sqrt(box.high - box.low).astype(numpy.int64), 1)
        return [box.low + lowest % near, box.high - 1 - highest % near, *others]

    def _with_ends(self, box: Box) -> list[Point]:
        """Return points of the box with many numbers at their lowest or their highest.

        Of clocks that may race, one at a time is at an end, since two would tie.
        """
        raced = [b for b in dict.fromkeys(self._tape.owners[: len(box.low)]) if b.raced]
        count = max(self.care.ends, *(2 * block.width for block in raced), 0)
        points, turn = numpy.stack(self.points(box, count)), numpy.arange(count)
        kind = numpy.minimum(self._random.integers(0, 4, size=points.shape), _AT_RANDOM)
        for block in raced:
            inside = slice(block.first, block.first + block.width)
            kind[:, inside] = _AT_RANDOM
            kind[turn, block.first + turn // 2 % block.width] = turn % 2
        return list(numpy.choose(kind, [box.low, box.high - 1, points]))

    def _flips(self, box: Box, sample: Sample) -> Search[dict[int, list[_Flip]]]:
        """Return the flips of the outcome by a column alone, by column; empty if none."""
        near = self._with_ends(box)
        sample = [*sample, *zip(near, (yield near), strict=True)]
        first, outcome = sample[0]
        other = next((point for point, seen in sample if seen != outcome), None)
        if other is None:
            return {}
        flips = yield from self._flips_of_one(box, sample)
        return flips or (yield from self._on_the_way(first, other, outcome))

    def _flips_of_one(self, box: Box, sample: Sample) -> Search[dict[int, list[_Flip]]]:
        flips: dict[int, list[_Flip]] = {}
        contexts = [
            (self._tape.padded(point), seen) for point, seen in sample[2 : 2 + self.care.contexts]
        ]
        tries = [(c, seen, columns) for c, seen in contexts for columns in self._crowds(box)]
        while tries:
            ends = yield [
                _with(point, columns, bound)
                for point, _, columns in tries
                for bound in (box.low[columns], box.high[columns] - 1)
            ]
            halves = []
            for (point, seen, columns), lowest, highest in zip(
                tries, ends[::2], ends[1::2], strict=True
            ):
                if lowest == highest == seen:
                    continue
                if len(columns) > 1:
                    middle = len(columns) // 2
                    halves += [(point, seen, half) for half in (columns[:middle], columns[middle:])]
                    continue
                column = columns[0]
                low, high = int(box.low[column]), int(box.high[column]) - 1
                here = high if lowest != highest else int(point[column])
                flips.setdefault(column, []).append(_Flip(point, column, low, here))
            tries = halves
        return flips

    def _crowds(self, box: Box) -> list[list[int]]:
        """Return groups of open columns: single ones, and all columns of a large draw."""
        crowds: dict[object, list[int]] = {}
        for column in box.open():
            block = self._tape.owners[column]
            alone = block.raced or block.width <= _CROWD
            crowds.setdefault(column if alone else block, []).append(column)
        return list(crowds.values())

    def _on_the_way(
        self, start: Point, end: Point, outcome: Hashable
    ) -> Search[dict[int, list[_Flip]]]:
        """Return the first flip on a path between points with different outcomes."""
        start, end = self._tape.padded(start), self._tape.padded(end)
        columns = numpy.flatnonzero(start != end).tolist()
        way = [start]
        for column in columns:
            way.append(_with(way[-1], column, int(end[column])))
        outcomes = yield way[1:]
        turn = next((i for i, seen in enumerate(outcomes) if seen != outcome), None)
        if turn is None:
            raise unsteady(outcome, "something else")
        column, before = columns[turn], way[turn]
        low, high = sorted((int(before[column]), int(end[column])))
        return {column: [_Flip(before, column, low, high)]}

    # --- walls --------------------------------------------------------------------------

    def _compared(
        self, box: Box, flips: dict[int, list[_Flip]], sample: Sample
    ) -> Search[Node | None]:
        """Split the box by a wall of noise that certainly does not race, or does not seem to."""
        for column in self._ranked(flips):
            block = self._tape.owners[column]
            if block in self._read or (block.raced and block.law == "exponential"):
                continue
            wall = yield from self._wall(box, flips[column], is_sure=block.raced)
            # At the ends of its grid a race has the same walls everywhere.
            if wall is not None and not (block.raced and _is_at_end(wall, block)):
                return (yield from self._split(box, column, wall, sample))
        return None

    def _compared_at_length(
        self, box: Box, flips: dict[int, list[_Flip]], sample: Sample
    ) -> Search[Node | None]:
        """Split the box by a wall of noise that could race."""
        for column in self._ranked(flips):
            block = self._tape.owners[column]
            if block.raced:
                wall = yield from self._wall(box, flips[column], is_sure=False)
                if wall is not None:
                    return (yield from self._split(box, column, wall, sample))
        return None

    def _ranked(self, flips: dict[int, list[_Flip]]) -> list[int]:
        """Return the columns: noise that cannot race first, then by draw and number of flips."""

        def rank(column: int) -> tuple[bool, int, int, int]:
            block = self._tape.owners[column]
            return block.raced, block.call, -len(flips[column]), column

        return sorted(flips, key=rank)

    def _wall(self, box: Box, flips: Sequence[_Flip], *, is_sure: bool) -> Search[int | None]:
        """Return a wall that is found in two contexts, None if all walls found differ.

        A wall that shows in one context only counts as well, since other columns may hide it
        elsewhere, unless `is_sure` requires a wall that certainly belongs to no race.
        """
        column, found = flips[0].column, Counter[int]()
        known = self._walls.setdefault(column, Counter())
        kept = (0.0,) if is_sure else (0.0, 0.5)
        for attempt in range(_FEW_WALLS if is_sure else _MOST_WALLS):
            if attempt < len(flips):
                flip: _Flip | None = flips[attempt]
            else:
                flip = yield from self._elsewhere(box, flips[0], kept)
            if flip is None:
                break
            likely = [*found, *(wall for wall, _ in known.most_common(6))]
            likely += [wall for wall, _ in self._hints.get(column, Counter()).most_common(6)]
            wall = yield from self._bisected(flip, dict.fromkeys(likely))
            found[wall] += 1
            if found[wall] > 1:
                return wall
        return next(iter(found)) if len(found) == 1 and not is_sure else None

    def _elsewhere(self, box: Box, flip: _Flip, kept: Sequence[float]) -> Search[_Flip | None]:
        """Return the flip in a new context, None if no context shows it.

        Contexts keep each number of the first one with a probability from `kept`, tried in turn.
        """
        for share in kept:
            context = self._tape.padded(flip.context)
            moved = []
            for point in map(self._tape.padded, self.points(box, 16)):
                keeps = self._random.random(len(point)) < share
                moved.append(replace(flip, context=numpy.where(keeps, context, point)))
            ends = yield [each.at(index) for each in moved for index in (flip.low, flip.high)]
            pairs = zip(moved, ends[::2], ends[1::2], strict=True)
            shown = next((each for each, low, high in pairs if low != high), None)
            if shown is not None:
                return shown
        return None

    def _bisected(self, flip: _Flip, hints: Iterable[int]) -> Search[int]:
        """Return the first index above the flip's `low` at which the outcome changes."""
        inside = [hint for hint in hints if flip.low < hint <= flip.high]
        if inside:
            seen = yield [flip.at(index) for hint in inside for index in (hint - 1, hint)]
            for hint, before, after in zip(inside, seen[::2], seen[1::2], strict=True):
                if before != after:
                    return hint
        low, high = flip.low, flip.high
        with self.cuts.one():
            (lowest,) = yield [flip.at(low)]
            while high - low > 1:
                count = min(self.cuts.sections, high - low)
                cuts = [low + (high - low) * i // count for i in range(1, count)]
                outcomes = yield [flip.at(cut) for cut in cuts]
                before = next((i for i, seen in enumerate(outcomes) if seen != lowest), len(cuts))
                low, high = [low, *cuts][before], [*cuts, high][before]
        return high

    def _split(self, box: Box, column: int, wall: int, sample: Sample) -> Search[Node]:
        box = box.known(self._tape)
        self._walls[column][wall] += 1
        self._hints.setdefault(column, Counter())[wall] += 1
        if len(self._walls[column]) > self._most_walls:
            raise self._opaque(column)
        parts = box.split(column, wall)
        below, above = yield from together([self.explored(part, sample) for part in parts])
        return self.wall(box, column, wall, below, above)

    # --- races --------------------------------------------------------------------------

    def _raced(
        self, box: Box, flips: dict[int, list[_Flip]], _sample: Sample
    ) -> Search[Node | None]:
        """Split the box by the winner of a race, the first that predicts the outcomes."""
        for first, block in self._groups(box, flips):
            read = self._read.get(block)
            for reading in readings(block) if read is None else (read,):
                (context,) = self.points(box, 1)
                found = yield from clocks(context, first, self._tape.vocabulary, reading)
                if found is None:
                    continue
                held = yield from self._foretells(box, found)
                if held:
                    self._read[block] = reading
                    return (yield from self._won(box, found, context))
        return None

    def _groups(self, box: Box, flips: dict[int, list[_Flip]]) -> list[tuple[int, RandomTensor]]:
        """Return the first columns of possible races that affect the outcome, in drawn order."""
        groups: dict[int, RandomTensor] = {}
        for column in sorted(flips):
            block = self._tape.owners[column]
            if block.raced:
                width = self._tape.vocabulary
                first = column - (column - block.first) % width
                whole = slice(first, first + width)
                # The number 0 may stand apart: its logarithm is infinite.
                if ((box.high - box.low)[whole] >= block.numbers - 1).all():
                    groups[first] = block
        return sorted(groups.items(), key=lambda group: (group[1].call, group[0]))

    def _foretells(self, box: Box, found: Clocks) -> Search[bool]:
        """Return whether only the winner matters, on fresh points beyond doubt.

        On half of them all contenders are equally likely to win; in an unequal race one contender
        nearly always wins.
        """
        points = self.points(box, 2 * _TRIALS)
        points[_TRIALS:] = [
            found.balanced(point, self._random.exponential(size=len(found.shares)))
            for point in points[_TRIALS:]
        ]
        winners = [found.winner(point) for point in points]
        pairs = [
            (point, found.settled(point, winner))
            for point, (winner, is_clear) in zip(points, winners, strict=True)
            if is_clear
        ]
        outcomes = yield [point for pair in pairs for point in pair]
        return outcomes[::2] == outcomes[1::2]

    def _won(self, box: Box, found: Clocks, context: Point) -> Search[Node]:
        winners = [i for i, share in enumerate(found.shares) if share > 0]
        boxes = [
            box.held(found.columns, found.settled(context, winner)[found.columns])
            for winner in winners
        ]
        parts = yield from together([self.explored(part, []) for part in boxes])
        return Race(found, dict(zip(winners, parts, strict=True)))


def _is_at_end(wall: int, block: RandomTensor) -> bool:
    return min(wall, block.numbers - wall) < block.numbers * _END


def unsteady(first: object, second: object) -> OpaqueRandomness:
    """Return the error of a program whose outcome is not a function of the noise that it is fed."""
    return OpaqueRandomness(
        "the program",
        f"returned {first!r} in one run and {second!r} in another with the same random numbers: it "
        f"drew from, or depends on, something that the probe lane does not feed",
    )


def forgetful(first: Sequence[RandomTensor], second: Sequence[RandomTensor]) -> OpaqueRandomness:
    """Return the error of a program that does not draw the same numbers in every run."""
    block = next(b for b in (*first, *second) if (b in first) != (b in second))
    reason = "drew numbers in one run but not in another with the same ones: it keeps noise"
    return OpaqueRandomness(block.operator, reason, block.source)


def nodes(node: Node) -> Iterator[Node]:
    """Yield all nodes of a tree."""
    yield node
    if isinstance(node, Wall):
        yield from nodes(node.below)
        yield from nodes(node.above)
    elif isinstance(node, Race):
        for part in node.parts.values():
            yield from nodes(part)


def law_of(node: Node) -> dict[Any, Rational]:
    """Return the probability of every outcome."""
    if isinstance(node, Leaf):
        return {node.outcome: ONE}
    weights: dict[Any, Rational] = {}
    for share, part in _parts(node):
        for outcome, weight in law_of(part).items():
            weights[outcome] = weights.get(outcome, ZERO) + share * weight
    return weights


def error_of(node: Node) -> Rational:
    """Return the error of all walls and races, weighted by the probabilities of their boxes."""
    if isinstance(node, Leaf):
        return ZERO
    own = node.clocks.error if isinstance(node, Race) else node.error
    return own + total(share * error_of(part) for share, part in _parts(node))


def _parts(node: Wall | Race) -> list[tuple[Rational, Node]]:
    if isinstance(node, Wall):
        return [(node.share, node.below), (1 - node.share, node.above)]
    return [(node.clocks.shares[winner], part) for winner, part in node.parts.items()]


@dataclass(frozen=True)
class _Foretold:
    """Leaf that a point reaches, the point with all races settled, and the last of these races."""

    leaf: Leaf
    settled: Point
    race: Race | None
    is_clear: bool


def _foretold(node: Node, point: Point) -> _Foretold:
    race, is_clear = None, True
    while not isinstance(node, Leaf):
        if isinstance(node, Wall):
            node = node.below if point[node.column] < node.at else node.above
        else:
            race = node
            winner, clearly = race.clocks.winner(point)
            is_clear &= clearly
            point = race.clocks.settled(point, winner)
            node = race.parts[winner]
    return _Foretold(node, point, race, is_clear)


def foretold(node: Node, points: Sequence[Point]) -> list[Hashable]:
    """Return the outcomes that a tree predicts at points."""
    return [_foretold(node, point).leaf.outcome for point in points]


def agrees(node: Node, point: Point, outcome: Hashable) -> bool:
    """Return whether the outcome at a point is as predicted, or the prediction is not clear."""
    found = _foretold(node, point)
    return found.leaf.outcome == outcome or not found.is_clear


def regrown(node: Node, old: Node, new: Node) -> Node:
    """Return the tree with a node replaced."""
    if node is old:
        return new
    if isinstance(node, Wall):
        below, above = (regrown(part, old, new) for part in (node.below, node.above))
        return replace(node, below=below, above=above)
    if isinstance(node, Race):
        return replace(node, parts={w: regrown(p, old, new) for w, p in node.parts.items()})
    return node


def together(searches: Sequence[Search[Found]]) -> Search[list[Found]]:
    """Run searches side by side, with the points of all in one request."""
    results: dict[int, Found] = {}
    asked: dict[int, list[Point]] = {}
    answers: dict[int, list[Any] | None] = dict.fromkeys(range(len(searches)))
    while True:
        for i, answer in answers.items():
            try:
                asked[i] = next(searches[i]) if answer is None else searches[i].send(answer)
            except StopIteration as end:
                asked.pop(i, None)
                results[i] = end.value
        if not asked:
            return [results[i] for i in range(len(searches))]
        outcomes = iter((yield [point for points in asked.values() for point in points]))
        answers = {i: [next(outcomes) for _ in points] for i, points in asked.items()}


def _with(point: Point, columns: int | list[int], indices: int | Point) -> Point:
    changed = point.copy()
    changed[columns] = indices
    return changed
