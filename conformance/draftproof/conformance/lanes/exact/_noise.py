"""What a random number of a program is, while nobody has looked at it yet.

Every continuous number is an ideal uniform U on (0, 1) behind a chain of monotone *steps*:
`exponential_()` is -log U, Gumbel noise -log(-log U). Looking happens in two ways only:

* a **comparison** with a known number is solved for U and splits its interval;
* a **race** (`argmax(w / e)`, `argmax(logits + g)`) is reduced to exponential clocks, of
  which clock i rings first with probability rate i / sum of rates.

Both are exact. What is looked at in any other way is not understood, and says so.
Where a race has been guarded by a tiny constant (`u + 1e-10`, `clamp(min=1e-7)`), the guard
is dropped and its effect on the law, at most the constant itself, is added to `slack`.

Float32 and float64 are taken as ideal: what they round moves a continuous number a little. But a
number that has been clamped or narrowed has *atoms*, points of positive probability, and there a
rounding may decide a comparison. So where rounding matters a chain has `Nearly` steps, through
which an edge is carried with all that it may be off: what comes out may contain no atom that was
rounded, nor much probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import inf, isnan
from typing import Any, TypeAlias

from draftproof.conformance.lanes.precise import Extended, exp, is_infinite, log, softmax
from draftproof.reference.chance import Chance
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total

Range: TypeAlias = tuple[Extended, Extended]

# The largest guard constant that a race may drop; see `slack` above.
_LARGEST_GUARD = rational("1/100000")

# Uniform floats are multiples of 2**-24: half of that lies beyond either end of what is likely.
_RARE = ONE / 2**25

# Atoms may be on either side of an edge that have no more probability: of float32, 32 roundings.
_LIGHT = ONE / 2**19

# Rounding may move no more probability across an edge; `Nearly` counts a rounding 16 times.
_MOST_MOVED = ONE / 2**10

# More atoms than these are not looked at one by one.
_FEW_ATOMS = 8

LESS, AT_MOST, MORE, AT_LEAST = "<", "<=", ">", ">="
_MIRRORED = {LESS: MORE, MORE: LESS, AT_MOST: AT_LEAST, AT_LEAST: AT_MOST}


class NotUnderstood(Exception):
    """Noise was looked at in a way whose law is not known; the message completes 'it ...'."""


class World:
    """Knowledge of random numbers so far, and the chance that decides what is asked next.

    Numbers themselves never change: a world can be taken up where another stands, and go another
    way.
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
        """All that is known, by the numbers of which it is known."""
        return self._known

    def under(self, chance: Chance, asked: set[object] | None = None) -> World:
        """Return a world in which the same is known, and another chance decides.

        Of which numbers it is asked what is known goes into `asked`, or where it went before.
        """
        return World(chance, self._known, self._asked if asked is None else asked)

    def of(self, number: object, otherwise: Any = None) -> Any:
        """Return what is known of a number."""
        if self._asked is not None:
            self._asked.add(number)
        return self._known.get(number, otherwise)

    def learn(self, number: object, found: Any) -> None:
        """Remember what is known of a number from now on."""
        if self._asked is not None:
            self._asked.add(number)
        self._known[number] = found


@dataclass(frozen=True, eq=False)
class Uniform:
    """One ideal uniform number; a world knows the interval in which it lies, None if it raced."""

    def below(self, edge: Extended, world: World) -> bool:
        """Decide whether the number lies below `edge`, and remember it."""
        interval = world.of(self, (ZERO, ONE))
        if interval is None:
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
        if interval is None:
            raise NotUnderstood("races noise that has already decided another race")
        if interval != (ZERO, ONE):
            raise NotUnderstood("races noise that has already been compared")
        world.learn(self, None)


SPENT = Uniform()
"""A number that nobody may look at."""


@dataclass(frozen=True)
class Affine:
    """x -> scale * x + shift, scale not zero."""

    scale: Rational
    shift: Rational

    @property
    def rising(self) -> bool:
        return self.scale > 0

    def image(self, low: Extended, high: Extended) -> Range:
        ends = self._at(low), self._at(high)
        return ends if self.rising else (ends[1], ends[0])

    def solve(self, relation: str, edge: Extended, _domain: Range) -> _Solved:
        inverse = Affine(1 / self.scale, -self.shift / self.scale)
        return (relation if self.rising else _MIRRORED[relation]), inverse._at(edge)

    def is_one_operation(self, kind: Nearly) -> bool:
        """Return whether numbers of a kind are multiplied or added to, by a number of that kind."""
        is_one = abs(self.scale) == 1 or self.shift == 0
        return is_one and kind.holds(self.scale) and kind.holds(self.shift)

    def _at(self, value: Extended) -> Extended:
        if is_infinite(value):
            return value if self.rising else -value
        return self.scale * value + self.shift


@dataclass(frozen=True)
class Log:
    """x -> log x on positive numbers."""

    rising = True

    def image(self, low: Extended, high: Extended) -> Range:
        if low < -_LARGEST_GUARD:
            raise NotUnderstood("takes the logarithm of noise that can be negative")
        # -log(u + 1e-10) is negative with a probability that is the slack of its race.
        if high <= 0:
            raise NotUnderstood("takes the logarithm of noise that is never positive")
        return (-inf if low < 0 else log(low)), log(high)

    def solve(self, relation: str, edge: Extended, domain: Range) -> _Solved:
        if domain[0] < 0:
            raise NotUnderstood("compares the logarithm of noise that can be negative")
        bound = exp(edge)
        is_beyond = is_infinite(bound) and not is_infinite(edge)
        return _from(relation, includes=False) if is_beyond else relation, bound


@dataclass(frozen=True)
class Exp:
    """x -> exp x."""

    rising = True

    def image(self, low: Extended, high: Extended) -> Range:
        ends = exp(low), exp(high)
        if (ends[0] == 0 and not is_infinite(low)) or (ends[1] == inf and not is_infinite(high)):
            raise NotUnderstood("takes an exponential that no number holds")
        return ends

    def solve(self, relation: str, edge: Extended, _domain: Range) -> _Solved:
        if edge < 0:
            return _from(relation, includes=False), -inf
        return relation, log(edge)


@dataclass(frozen=True)
class Reciprocal:
    """x -> 1 / x on numbers of one sign."""

    rising = False

    def image(self, low: Extended, high: Extended) -> Range:
        if low < 0 < high:
            raise NotUnderstood("divides by noise of either sign")
        return (-inf if high == 0 else _inverse(high)), (inf if low == 0 else _inverse(low))

    def solve(self, relation: str, edge: Extended, domain: Range) -> _Solved:
        positive = domain[0] >= 0
        if edge == 0:
            return _MIRRORED[relation], inf if positive else -inf
        if positive != (edge > 0):
            relation = _from(relation, includes=not positive)
            return _MIRRORED[relation], inf if positive else -inf
        return _MIRRORED[relation], _inverse(edge)


@dataclass(frozen=True)
class Clamp:
    """x -> the nearest number in low..high."""

    low: Extended
    high: Extended

    rising = True

    def image(self, low: Extended, high: Extended) -> Range:
        return min(max(low, self.low), self.high), min(max(high, self.low), self.high)

    def solve(self, relation: str, edge: Extended, _domain: Range) -> _Solved:
        inclusive = relation in (AT_MOST, MORE)
        if edge > self.high or (inclusive and edge == self.high):
            return _from(relation, includes=True), inf
        if edge < self.low or (not inclusive and edge == self.low):
            return _from(relation, includes=False), -inf
        return relation, edge

    def atoms(self, low: Extended, high: Extended) -> list[Rational] | None:
        """Return the ends that lie in low..high."""
        return [end for end in self.ends if low <= end <= high]

    @property
    def ends(self) -> set[Rational]:
        """The ends that are finite."""
        return {end for end in (self.low, self.high) if not is_infinite(end)}


@dataclass(frozen=True)
class Nearly:
    """x -> x, as a float of `digits` significant bits that is taken as ideal.

    The float is off by 16 roundings at most: operators round up to 4 ulps. `least` is the exponent
    of the smallest normal float.
    """

    digits: int
    least: int

    rising = True

    def image(self, low: Extended, high: Extended) -> Range:
        return low, high

    def widened(self, low: Extended, high: Extended) -> Range:
        """Return the range, and beyond each end what it may be off, unless it can be exact."""
        return (
            low if is_infinite(low) or self.holds(low) else low - self.off(low),
            high if is_infinite(high) or self.holds(high) else high + self.off(high),
        )

    def solve(self, relation: str, edge: Extended, _domain: Range) -> _Solved:
        return relation, edge

    def around(self, low: Extended, high: Extended) -> Range:
        """Return low..high, and what a float may be off on either side."""
        return (
            low if is_infinite(low) else low - self.off(low),
            high if is_infinite(high) else high + self.off(high),
        )

    def off(self, value: Rational) -> Rational:
        """Return how far off a float may be."""
        return abs(value) * rational(2) ** (4 - self.digits) + rational(2) ** self.least

    def holds(self, value: Rational) -> bool:
        """Return whether a number is such a float."""
        if value == 0:
            return True
        odd = value.numerator // (value.numerator & -value.numerator)
        is_dyadic = value.denominator & (value.denominator - 1) == 0
        is_short = abs(odd).bit_length() <= self.digits
        return bool(is_dyadic and is_short and abs(value) >= rational(2) ** self.least)


@dataclass(frozen=True)
class Rounded:
    """x -> the nearest float of `digits` significant bits, the smallest being 2**`least`.

    A number half way between two floats goes to the one whose last bit is 0. As far beyond `most`,
    the largest float, it is infinite.
    """

    digits: int
    least: int
    most: Extended = inf

    rising = True

    def image(self, low: Extended, high: Extended) -> Range:
        return self._nearest(low), self._nearest(high)

    def solve(self, relation: str, edge: Extended, _domain: Range) -> _Solved:
        inclusive = relation in (AT_MOST, MORE)
        if is_infinite(edge) and (is_infinite(self.most) or inclusive == (edge > 0)):
            return relation, edge
        if abs(edge) > self.most:
            return _from(relation, includes=edge < 0), self._end if edge > 0 else -self._end
        # The last float at or below the edge that counts as below, and the float after it:
        # their midpoint decides.
        step = self._step(edge)
        before = step * int((edge / step).numerator // (edge / step).denominator)
        if before == edge and not inclusive:
            before -= self._step(edge, up=False)
        after = before + self._step(before, up=True)
        is_even = (before / self._step(before)).numerator % 2 == 0
        return _from(relation, includes=is_even), (before + after) / 2

    def atoms(self, low: Extended, high: Extended) -> list[Rational] | None:
        """Return the floats in low..high, None if there are more than a few."""
        if max(abs(low), abs(high)) > self.most or is_infinite(low) or is_infinite(high):
            return None
        found: list[Rational] = []
        atom = self._nearest(low)
        if atom < low:
            atom += self._step(atom, up=True)
        while atom <= high:
            if len(found) == _FEW_ATOMS:
                return None
            found.append(atom)
            atom += self._step(atom, up=True)
        return found

    @cached_property
    def _end(self) -> Extended:
        """The first number that is infinite when it is rounded."""
        return inf if is_infinite(self.most) else self.most + self._step(self.most) / 2

    def _nearest(self, value: Extended) -> Extended:
        if abs(value) >= self._end:
            return inf if value > 0 else -inf
        step = self._step(value)
        scaled = value / step
        below = scaled.numerator // scaled.denominator
        excess = scaled - below
        is_up = excess > rational("1/2") or (excess == rational("1/2") and below % 2 == 1)
        return step * int(below + is_up)

    def _step(self, value: Rational, *, up: bool | None = None) -> Rational:
        """Return the distance of neighbouring floats around `value`, or from it up or down."""
        size = abs(value)
        exponent = self.least
        if size != 0:
            exponent = size.numerator.bit_length() - size.denominator.bit_length()
            exponent -= rational(2) ** exponent > size
        if up is not None and up != (value > 0) and size == rational(2) ** exponent:
            exponent -= 1
        return rational(2) ** max(exponent - self.digits + 1, self.least)


def _from(relation: str, *, includes: bool) -> str:
    """Return the relation of the same direction that includes its edge below, or does not."""
    if relation in (LESS, AT_MOST):
        return AT_MOST if includes else LESS
    return MORE if includes else AT_LEAST


_Solved: TypeAlias = tuple[str, Extended]
Step: TypeAlias = Affine | Log | Exp | Reciprocal | Clamp | Nearly | Rounded


@dataclass(frozen=True)
class Noise:
    """A continuous random number: a uniform behind monotone steps."""

    uniform: Uniform
    steps: tuple[Step, ...] = ()
    range: Range = field(default=(ZERO, ONE), compare=False)
    """An interval that holds the number: what the steps make of 0 and 1."""
    likely: Range = field(default=(_RARE, ONE - _RARE), compare=False)
    """An interval outside of which it lies with a probability of no more than 2**-24."""
    is_swamped: bool = False
    """True if rounding has left little of it: it has been added to a number that is far larger."""

    def afresh(self) -> Noise:
        """Return another number of the same law."""
        return replace(self, uniform=Uniform())

    def held(self, kind: Nearly) -> Noise:
        """Return the number as a float that is taken as ideal.

        It is swamped where one rounding is more than 2**-10 of the distance of its likely ends:
        logits of 10**4 are not, beside Gumbel noise, which is some 20 wide.
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
        """True if there are points of more than little probability."""
        return _has_atoms(self.steps)

    @property
    def _is_rounded(self) -> bool:
        """True if rounding may matter: at an atom, or where much lies at a constant's side.

        A uniform number lies everywhere alike, and is swamped or not.
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
        """Return whether the number is this end of its range with positive probability."""
        is_coarse = any(isinstance(step, (Clamp, Rounded)) for step in self.steps)
        return is_coarse and value in self.range

    @property
    def can_be_nan(self) -> bool:
        """True if it may be no number: the logarithm of one below 0."""
        return any(
            isinstance(step, Log) and domain[0] < 0
            for step, domain in zip(self.steps, self._domains, strict=False)
        )

    def compare(self, relation: str, edge: Extended, world: World) -> bool:
        """Decide `self relation edge`. Events of probability zero do not happen."""
        solved = self.solved(relation, [edge])
        is_below = self.uniform.below(solved.ends[0], world)
        return is_below == (not solved.is_rising)

    def solved(self, relation: str, edges: Iterable[Extended]) -> Thresholds:
        """Return where the uniform number begins, or ceases, to be in the relation to each edge.

        `relation` is one of the order: it begins where the number rises with the uniform one and
        the relation is "more", or both are the other way.
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
        """An interval that holds the number before each step, and after the last."""
        domains: list[Range] = [(ZERO, ONE)]
        for place, step in enumerate(self.steps):
            domains.append(_image(self.steps[:place], step, domains[-1]))
        return domains

    def _before(self, count: int, relation: str, edge: Extended) -> _Solved:
        """Return the relation and the edge of the uniform number for those after some steps."""
        for place in reversed(range(count)):
            relation, edge = self.steps[place].solve(relation, edge, self._domains[place])
        return relation, edge

    def _require_sure(self, relation: str, edge: Extended) -> None:
        """Require that rounding decides a comparison with next to no probability."""
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
        """Require of the atoms in low..high that they are never rounded, or light."""
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
        """Return whether nothing is rounded that becomes of what a step at a place makes `atom`."""
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
    """Return an interval that holds the number after a step, from the one before.

    What is rounded at an end matters if the number can be there.
    """
    if isinstance(step, Nearly) and _has_atoms(tuple(before)):
        return step.widened(*inside)
    return step.image(*inside)


def _has_atoms(steps: tuple[Step, ...]) -> bool:
    """Return whether there are points of more than little probability after some steps."""
    last = max(
        (i for i, step in enumerate(steps) if isinstance(step, (Clamp, Rounded))), default=-1
    )
    return last >= 0 and _weighs(steps[: last + 1])


@lru_cache(maxsize=4096)
def _weighs(steps: tuple[Step, ...]) -> bool:
    """Return whether a step that rounds or clamps makes points of more than little probability.

    So it is where nobody can tell.
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
    """Comparisons of a number with edges, as comparisons of its uniform one with `ends`."""

    ends: list[Extended]
    is_rising: bool
    """Whether they hold above the ends, or else below."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Contenders in the order in which their exponential clocks ring, drawn as far as asked.

    Position 0 is the winner of a race; the first n positions are n draws without
    replacement. `rates` maps a contender to the rate of its clock, `others` are those that
    come after all clocks, in order. Source: the Plackett-Luce law of exponential clocks.
    """

    rates: dict[int, Rational]
    others: tuple[int, ...] = ()
    noises: tuple[Noise, ...] = ()

    @cached_property
    def within(self) -> range:
        """Numbers among which are all contenders."""
        return range(1 + max((*self.rates, *self.others), default=0))

    def begin(self, world: World) -> None:
        """Spend the noise of the race; only untouched noise can race."""
        for noise in self.noises:
            noise.uniform.enter_race(world)

    def at(self, position: int, world: World) -> int:
        """Return who comes at `position`."""
        order: tuple[int, ...] = world.of(self, ())
        if not order:
            self.begin(world)
        while len(order) <= position:
            left = [contender for contender in self.rates if contender not in order]
            if left:
                winner = left[world.chance.draw([self.rates[contender] for contender in left])]
            else:
                winner = self.others[len(order) - len(self.rates)]
            order = (*order, winner)
        world.learn(self, order)
        return order[position]


def ranking(contenders: Sequence[Noise | float], *, largest: bool) -> tuple[Ranking, Rational]:
    """Return the ranking of random and known numbers by value, and the slack of its law.

    Known numbers must lie outside the range of the random ones. As in torch, NaN counts as
    the largest number.
    """
    noises = {i: c for i, c in enumerate(contenders) if isinstance(c, Noise)}
    known = {i: float(c) for i, c in enumerate(contenders) if not isinstance(c, Noise)}
    low = min(noise.range[0] for noise in noises.values())
    high = max(noise.range[1] for noise in noises.values())
    above = [i for i, value in known.items() if isnan(value) or value >= high]
    below = [i for i, value in known.items() if value <= low and i not in above]
    if len(above) + len(below) < len(known):
        raise NotUnderstood("races noise against a known number that may win or lose")
    ahead, behind = (above, below) if largest else (below, above)
    if ahead:
        raise NotUnderstood("races noise against a known number that always wins")
    behind.sort(key=lambda i: (isnan(known[i]), known[i]), reverse=largest)
    rates, slack = _rates(list(noises.values()), largest=largest)
    if any(noise.is_swamped for noise in noises.values()):
        _require_sure_winner(list(noises.values()), rates)
    ringing = {i: rate for i, rate in zip(noises, rates, strict=True) if rate > 0}
    silent = [i for i in noises if i not in ringing]
    return Ranking(ringing, (*silent, *behind), tuple(noises.values())), slack


def _require_sure_winner(noises: Sequence[Noise], rates: Sequence[Rational]) -> None:
    """Require that no swamped noise is one of several that may win a race."""
    likely = _RARE * total(rates)
    rivals = [noise for noise, rate in zip(noises, rates, strict=True) if rate > likely]
    if len(rivals) > 1 and any(noise.is_swamped for noise in rivals):
        raise NotUnderstood("races noise that rounding has swamped")


def _rates(noises: Sequence[Noise], *, largest: bool) -> tuple[list[Rational], Rational]:
    """Return the rates of exponential clocks that ring in the order of the noises' values."""
    chains = [list(noise.steps) for noise in noises]
    # A monotone function of all contenders alike does not change who is ahead of whom.
    while chains[0] and all(chain and chain[-1] == chains[0][-1] for chain in chains):
        # The others may make a tie of two numbers, or no number of one.
        if not isinstance(chains[0][-1], (Affine, Exp, Nearly, Reciprocal)):
            break
        largest ^= not chains[0][-1].rising
        for chain in chains:
            chain.pop()
    if not any(chains):
        return [ONE for _ in chains], ZERO
    forms = [_reduced(chain) for chain in chains]
    kinds = {form.kind for form in forms}
    slack = sum((form.slack for form in forms), ZERO)
    if len(kinds) == 1:
        kind = kinds.pop()
        scales = [form.scale if largest else -form.scale for form in forms]
        shifts = [form.shift for form in forms]
        if kind == "clock" and len(set(shifts)) == 1 and all(scale < 0 for scale in scales):
            return [-1 / scale for scale in scales], slack
        if kind == "inverse clock" and all(scale > 0 for scale in scales):
            return scales, slack
        if kind == "log clock" and len(set(scales)) == 1 and scales[0] < 0:
            sign = 1 if largest else -1
            return softmax([sign * shift / -scales[0] for shift in shifts]), slack
    raise NotUnderstood("races noise that is neither exponential nor Gumbel")


@dataclass(frozen=True)
class _Form:
    """shift + scale * f(E), E a standard exponential clock; f is named by `kind`.

    "clock": E, "inverse clock": 1 / E (shift 0), "log clock": log E; and "uniform" for
    shift + scale * U.
    """

    kind: str
    shift: Rational
    scale: Rational
    slack: Rational = ZERO

    def without_shift(self, shift: Rational) -> _Form:
        """Return the form with a guard constant dropped, its effect added to the slack."""
        effect = abs(shift / self.scale)
        if effect > _LARGEST_GUARD:
            raise NotUnderstood("races noise that is neither exponential nor Gumbel")
        return _Form(self.kind, ZERO, self.scale, self.slack + effect)


def _reduced(chain: Sequence[Step]) -> _Form:
    form = _Form("uniform", ZERO, ONE)
    for step in chain:
        form = _after(form, step)
    return form


def _after(form: _Form, step: Step) -> _Form:
    kind, shift, scale, slack = form.kind, form.shift, form.scale, form.slack
    match step:
        case Nearly():
            return form
        case Affine() if kind != "inverse clock" or step.shift == 0:
            return _Form(kind, step.scale * shift + step.shift, step.scale * scale, slack)
        case Log() if kind == "uniform":
            # With scale < 0: 1 - U is as uniform as U.
            form = form.without_shift(shift if scale > 0 else shift + scale)
            return _Form("clock", log(abs(scale)), -ONE, form.slack)
        case Log() if kind == "clock" and scale > 0:
            form = form.without_shift(shift)
            return _Form("log clock", log(scale), ONE, form.slack)
        case Log() if kind == "inverse clock" and scale > 0:
            return _Form("log clock", log(scale), -ONE, slack)
        case Reciprocal() if kind == "clock":
            form = form.without_shift(shift)
            return _Form("inverse clock", ZERO, 1 / scale, form.slack)
        case Reciprocal() if kind == "inverse clock":
            return _Form("clock", ZERO, 1 / scale, slack)
        case Clamp() if kind in ("uniform", "clock") and scale > 0:
            cut = _mass_cut(form, step)
            if cut <= _LARGEST_GUARD:
                return _Form(kind, shift, scale, slack + cut)
    raise NotUnderstood("races noise that is neither exponential nor Gumbel")


def _mass_cut(form: _Form, clamp: Clamp) -> Rational:
    """Return a bound on the probability that the clamp changes the number."""
    inverse = Affine(1 / form.scale, -form.shift / form.scale)
    low, high = inverse.image(clamp.low, clamp.high)
    # Either law has at most density 1; a clock rings after t with probability exp(-t).
    above = exp(-high) if form.kind == "clock" else max(ONE - high, ZERO)
    return max(low, ZERO) + above  # type: ignore[no-any-return]  # finite, being a mass


def _inverse(value: Extended) -> Extended:
    return ZERO if is_infinite(value) else 1 / value
