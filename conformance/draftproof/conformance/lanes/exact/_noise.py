"""Noise: continuous random numbers, and what is known about them before the program looks.

A `World` holds the knowledge of one run. A `Noise` is a `Uniform` followed by steps (`_steps`),
with bounds on its values. The program can look in two ways only:

* a **comparison** with a known number is solved for U and splits its interval (here);

* a **race** is reduced to exponential clocks (`_races`).

Both are exact. Every other way of looking is unsupported, and raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import inf
from typing import Any

from draftproof.conformance.lanes.exact._errors import NotUnderstood
from draftproof.conformance.lanes.exact._steps import (
    AT_LEAST,
    AT_MOST,
    LESS,
    MORE,
    Affine,
    Clamp,
    Log,
    Nearly,
    Range,
    Rounded,
    Solved,
    Step,
)
from draftproof.conformance.lanes.precise import Extended, is_infinite
from draftproof.reference.chance import Chance
from draftproof.reference.rational import ONE, ZERO, Rational, rational

RARE = ONE / 2**25
"""Probability beyond each end of the likely range: half of 2**-24, the grid of uniform floats."""

# Atoms may be on either side of an edge that have no more probability: of float32, 32 roundings.
_LIGHT = ONE / 2**19

# Rounding may move no more probability across an edge; `Nearly` counts a rounding 16 times.
_MOST_MOVED = ONE / 2**10


class World:
    """Knowledge of random numbers so far, and the chance that decides the next questions.

    The numbers themselves never change, so a run can continue from another world's knowledge with
    different decisions.
    """

    def __init__(
        self,
        chance: Chance,
        known: Mapping[object, Any] | None = None,
        asked: set[object] | None = None,
    ) -> None:
        self.chance = chance
        self._known: dict[object, Any] = {SPENT: None} if known is None else dict(known)
        self._asked = asked

    @property
    def known(self) -> Mapping[object, Any]:
        """All knowledge, by the number that it is about."""
        return self._known

    def under(self, chance: Chance, asked: set[object] | None = None) -> World:
        """Return a world with the same knowledge, in which a different chance decides.

        The world adds every number that it is asked about to `asked`, by default to the set that
        this world adds to.
        """
        return World(chance, self._known, self._asked if asked is None else asked)

    def of(self, number: object, otherwise: Any = None) -> Any:
        """Return the knowledge of a number, `otherwise` if there is none."""
        if self._asked is not None:
            self._asked.add(number)
        return self._known.get(number, otherwise)

    def learn(self, number: object, found: Any) -> None:
        """Remember the knowledge of a number from now on."""
        if self._asked is not None:
            self._asked.add(number)
        self._known[number] = found


@dataclass(frozen=True, eq=False)
class Uniform:
    """Ideal uniform number; a world knows its interval, None if the number raced."""

    def below(self, edge: Extended, world: World) -> bool:
        """Decide whether the number is below `edge`, and remember the decision."""
        interval = world.of(self, (ZERO, ONE))
        if not isinstance(interval, tuple):
            raise NotUnderstood("compares noise that has already decided a race")
        low, high = interval
        if edge <= low:
            return False
        if edge >= high:
            return True
        is_below = world.chance.draw((edge - low, high - edge)) == 0
        world.learn(self, (low, edge) if is_below else (edge, high))
        return is_below

    def enter_race(self, world: World) -> None:
        """Spend the number on a race; only untouched noise can race."""
        interval = world.of(self, (ZERO, ONE))
        if not isinstance(interval, tuple):
            raise NotUnderstood("races noise that has already decided another race")
        if interval != (ZERO, ONE):
            raise NotUnderstood("races noise that has already been compared")
        world.learn(self, None)


SPENT = Uniform()
"""Uniform number that must not be read."""


@dataclass(frozen=True)
class Noise:
    """Continuous random number: monotone steps applied to a uniform number."""

    uniform: Uniform
    steps: tuple[Step, ...] = ()
    range: Range = field(default=(ZERO, ONE), compare=False)
    """An interval that contains the number: the image of 0..1 under the steps."""
    likely: Range = field(default=(RARE, ONE - RARE), compare=False)
    """An interval that the number leaves with probability at most 2**-24."""
    is_swamped: bool = False
    """True if little of it is left after rounding, since it was added to a far larger number."""

    def afresh(self) -> Noise:
        """Return a different number with the same law."""
        return replace(self, uniform=Uniform())

    def of(self, uniform: Uniform) -> Noise:
        """Return the result of the same steps on another uniform number."""
        return Noise(uniform, self.steps, self.range, self.likely, self.is_swamped)

    def held(self, kind: Nearly) -> Noise:
        """Return the number as a float of a type that is taken as ideal.

        It is swamped if one rounding exceeds 2**-10 of the distance between its likely ends: logits
        of 10**4 plus Gumbel noise, which is about 20 wide, are not.
        """
        noise = self.then(kind) if self._is_rounded else self
        low, high = noise.likely
        if is_infinite(low) or is_infinite(high) or low == high:
            return noise
        rounding = max(abs(low), abs(high)) / rational(2) ** kind.digits
        is_swamped = noise.is_swamped or rounding > (high - low) * _MOST_MOVED
        return replace(noise, is_swamped=is_swamped)

    @property
    def has_atoms(self) -> bool:
        """True if single values have more than little probability."""
        return _has_atoms(self.steps)

    @property
    def _is_rounded(self) -> bool:
        """True if rounding may matter: at an atom, or after a constant was added.

        A uniform number has the same density everywhere, so rounding matters only if it is swamped.
        """
        match self.steps:
            case [_, *_, Affine(shift=shift)] if shift != 0:
                return True
        return self.has_atoms

    def then(self, *steps: Step) -> Noise:
        """Return the number after further steps; two affine steps in a row become one."""
        chain, inside, likely = list(self.steps), self.range, self.likely
        for step in steps:
            inside, likely = _image(chain, step, inside), step.image(*likely)
            last = chain[-1] if chain else None
            if isinstance(step, Affine) and isinstance(last, Affine):
                chain[-1] = Affine(step.scale * last.scale, step.scale * last.shift + step.shift)
            elif step != last or not isinstance(step, Nearly):
                chain.append(step)
            if chain[-1] == Affine(ONE, ZERO):
                chain.pop()
        return Noise(self.uniform, tuple(chain), inside, likely, self.is_swamped)

    def can_be(self, value: Extended) -> bool:
        """Return whether the number equals this end of its range with positive probability."""
        is_coarse = any(isinstance(step, (Clamp, Rounded)) for step in self.steps)
        return is_coarse and value in self.range

    @property
    def can_be_nan(self) -> bool:
        """True if the noise may be NaN: the logarithm of a negative number."""
        return any(
            isinstance(step, Log) and domain[0] < 0
            for step, domain in zip(self.steps, self._domains, strict=False)
        )

    def compare(self, relation: str, edge: Extended, world: World) -> bool:
        """Decide `self relation edge`. Events of probability zero do not happen."""
        solved = self.solved(relation, [edge])
        is_below = self.uniform.below(solved.ends[0], world)
        return is_below == (not solved.is_rising)

    def always(self, relation: str, edge: Extended) -> bool | None:
        """Return the value of `self relation edge` if it is the same for all numbers, else None."""
        if self.uniform is SPENT:
            return None
        try:
            solved = self.solved(relation, [edge])
        except NotUnderstood:
            # It is refused when somebody looks.
            return None
        (end,) = solved.ends
        return None if ZERO < end < ONE else (end >= ONE) == (not solved.is_rising)

    def solved(self, relation: str, edges: Iterable[Extended]) -> Thresholds:
        """Return the thresholds of the uniform number for a relation of the noise to each edge.

        `relation` is an order relation. It holds above the thresholds if the noise rises with the
        uniform number and the relation is "more", or if neither is so; otherwise it holds below.
        """
        if self.is_swamped:
            raise NotUnderstood("compares noise that rounding has swamped")
        ends, last = [], relation
        for edge in edges:
            if self._has_roundings:
                self._require_sure(relation, edge)
            last, end = self._before(len(self.steps), relation, edge)
            ends.append(end)
        return Thresholds(ends, is_rising=last in (MORE, AT_LEAST))

    @cached_property
    def _has_roundings(self) -> bool:
        return any(isinstance(step, Nearly) for step in self.steps)

    @cached_property
    def _domains(self) -> list[Range]:
        """Intervals that contain the number before each step, and after the last."""
        domains: list[Range] = [(ZERO, ONE)]
        for place, step in enumerate(self.steps):
            domains.append(_image(self.steps[:place], step, domains[-1]))
        return domains

    def _before(self, count: int, relation: str, edge: Extended) -> Solved:
        """Return the relation and the edge of the uniform number, given those after some steps."""
        for place in reversed(range(count)):
            relation, edge = self.steps[place].solve(relation, edge, self._domains[place])
        return relation, edge

    def _require_sure(self, relation: str, edge: Extended) -> None:
        """Require that rounding decides a comparison only with next to no probability."""
        low = high = edge
        for place in reversed(range(len(self.steps))):
            step = self.steps[place]
            if isinstance(step, Nearly):
                low, high = step.around(low, high)
                continue
            if isinstance(step, (Clamp, Rounded)) and low < high:
                self._require_exact(place, low, high)
            domain = self._domains[place]
            if isinstance(step, Clamp):
                low, high = step.image(low, high)
            else:
                ends = [step.solve(relation, end, domain)[1] for end in (low, high)]
                low, high = min(ends), max(ends)
            relation, edge = step.solve(relation, edge, domain)
            if isinstance(step, Rounded):
                # Whatever comes out of it is an atom.
                low = high = edge
        if min(high, ONE) - max(low, ZERO) > _MOST_MOVED:
            raise NotUnderstood("compares noise where rounding decides")

    def _require_exact(self, place: int, low: Extended, high: Extended) -> None:
        """Require that each atom in low..high is never rounded, or has little probability."""
        step = self.steps[place]
        assert isinstance(step, (Clamp, Rounded))
        atoms = step.atoms(low, high)
        if atoms is None:
            mass = self._mass(place, low, high)
            if low <= ZERO <= high and self._is_exact(place, ZERO):
                mass -= self._mass(place, ZERO, ZERO)
            is_sure = mass <= _LIGHT
        else:
            is_sure = all(
                self._is_exact(place, atom) or self._mass(place, atom, atom) <= _LIGHT
                for atom in atoms
            )
        if not is_sure:
            raise NotUnderstood("compares noise where the rounding of one number decides")

    def _mass(self, place: int, low: Extended, high: Extended) -> Rational:
        """Return the probability that the number is in low..high after the step at a place."""
        pairs = (LESS, low), (AT_MOST, high)
        ends = [min(max(self._before(place + 1, *pair)[1], ZERO), ONE) for pair in pairs]
        mass: Rational = abs(ends[1] - ends[0])
        return mass

    def _is_exact(self, place: int, atom: Extended) -> bool:
        """Return whether later steps never round the atom that a step at a place makes."""
        since: list[Step] = []
        for step in self.steps[place + 1 :]:
            is_log_of_zero = isinstance(step, Log) and atom == 0
            atom = -inf if is_log_of_zero else step.image(atom, atom)[0]
            since.append(step)
            if isinstance(step, Nearly):
                made = [each for each in since if isinstance(each, Affine)]
                is_held = is_infinite(atom) or step.holds(atom)
                if not is_held or not all(each.is_one_operation(step) for each in made):
                    return False
            if isinstance(step, (Nearly, Rounded)):
                since.clear()
        return True


def _image(before: Sequence[Step], step: Step, inside: Range) -> Range:
    """Return an interval that contains the number after a step, given the interval before.

    Rounding at an end matters if the number can be there.
    """
    if isinstance(step, Nearly) and _has_atoms(tuple(before)):
        return step.widened(*inside)
    return step.image(*inside)


def _has_atoms(steps: tuple[Step, ...]) -> bool:
    """Return whether single values have more than little probability after some steps."""
    last = max(
        (i for i, step in enumerate(steps) if isinstance(step, (Clamp, Rounded))), default=-1
    )
    return last >= 0 and _weighs(steps[: last + 1])


@lru_cache(maxsize=4096)
def _weighs(steps: tuple[Step, ...]) -> bool:
    """Return whether a rounding or clamping step makes points of more than little probability.

    Return True if that cannot be determined.
    """
    noise = Noise(SPENT, steps)

    def weighs(place: int, step: Step) -> bool:
        if not isinstance(step, Clamp):
            return isinstance(step, Rounded)
        return any(noise._mass(place, end, end) > _LIGHT for end in step.ends)

    try:
        return any(weighs(place, step) for place, step in enumerate(steps))
    except NotUnderstood:
        return True


@dataclass(frozen=True)
class Thresholds:
    """Comparisons of a number with edges, as comparisons of its uniform number with `ends`."""

    ends: list[Extended]
    is_rising: bool
    """True if the comparisons hold above the ends, False if below."""
