"""Steps: the monotone functions that turn a uniform number into noise.

Every continuous random number is an ideal uniform U on (0, 1) followed by a chain of steps:
`exponential_()` is -log U, Gumbel noise -log(-log U). A comparison with a known number is carried
back through the chain, step by step (`solve`), and becomes a comparison of U.

Float32 and float64 are taken as ideal: rounding moves a continuous number only a little. But a
number that was clamped or narrowed has *atoms*, points of positive probability, at which rounding
may decide a comparison. So where rounding matters a chain has `Nearly` steps. An edge is carried
through them with its possible error; the resulting interval may contain neither a rounded atom nor
much probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TypeAlias

from draftproof.conformance.lanes.exact._errors import NotUnderstood
from draftproof.conformance.lanes.precise import Extended, exp, is_infinite, log
from draftproof.reference.rational import ZERO, Rational, rational

Range: TypeAlias = tuple[Extended, Extended]

LARGEST_GUARD = rational("1/100000")
"""Largest constant that guards noise against zero and that a race may drop."""

# More atoms than these are not looked at one by one.
_FEW_ATOMS = 8

LESS, AT_MOST, MORE, AT_LEAST = "<", "<=", ">", ">="
_MIRRORED = {LESS: MORE, MORE: LESS, AT_MOST: AT_LEAST, AT_LEAST: AT_MOST}

Solved: TypeAlias = tuple[str, Extended]
"""Relation and edge, before a step, that are equivalent to a comparison after it."""


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

    def solve(self, relation: str, edge: Extended, _domain: Range) -> Solved:
        inverse = Affine(1 / self.scale, -self.shift / self.scale)
        return (relation if self.rising else _MIRRORED[relation]), inverse._at(edge)

    def is_one_operation(self, kind: Nearly) -> bool:
        """Return whether a step is one multiplication or addition of numbers of this kind."""
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
        if low < -LARGEST_GUARD:
            raise NotUnderstood("takes the logarithm of noise that can be negative")
        # -log(u + 1e-10) is negative with a probability that is the slack of its race.
        if high <= 0:
            raise NotUnderstood("takes the logarithm of noise that is never positive")
        return (-inf if low < 0 else log(low)), log(high)

    def solve(self, relation: str, edge: Extended, domain: Range) -> Solved:
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

    def solve(self, relation: str, edge: Extended, _domain: Range) -> Solved:
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

    def solve(self, relation: str, edge: Extended, domain: Range) -> Solved:
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

    def solve(self, relation: str, edge: Extended, _domain: Range) -> Solved:
        inclusive = relation in (AT_MOST, MORE)
        if edge > self.high or (inclusive and edge == self.high):
            return _from(relation, includes=True), inf
        if edge < self.low or (not inclusive and edge == self.low):
            return _from(relation, includes=False), -inf
        return relation, edge

    def atoms(self, low: Extended, high: Extended) -> list[Rational] | None:
        """Return the finite ends that are in low..high."""
        return [end for end in self.ends if low <= end <= high]

    @property
    def ends(self) -> set[Rational]:
        """The finite ends."""
        return {end for end in (self.low, self.high) if not is_infinite(end)}


@dataclass(frozen=True)
class Nearly:
    """x -> x, as a float of `digits` significant bits that is taken as ideal.

    The float has an error of 16 roundings at most: operators round up to 4 ulps. `least` is the
    exponent of the smallest normal float.
    """

    digits: int
    least: int

    rising = True

    def image(self, low: Extended, high: Extended) -> Range:
        return low, high

    def widened(self, low: Extended, high: Extended) -> Range:
        """Return the range, widened by the possible error at each end that is not exact."""
        return (
            low if is_infinite(low) or self.holds(low) else low - self.off(low),
            high if is_infinite(high) or self.holds(high) else high + self.off(high),
        )

    def solve(self, relation: str, edge: Extended, _domain: Range) -> Solved:
        return relation, edge

    def around(self, low: Extended, high: Extended) -> Range:
        """Return low..high, widened by the possible error of a float at each finite end."""
        return (
            low if is_infinite(low) else low - self.off(low),
            high if is_infinite(high) else high + self.off(high),
        )

    def off(self, value: Rational) -> Rational:
        """Return the largest error of a float."""
        return abs(value) * rational(2) ** (4 - self.digits) + rational(2) ** self.least

    def holds(self, value: Rational) -> bool:
        """Return whether a number is a float of this kind."""
        if value == 0:
            return True
        odd = value.numerator // (value.numerator & -value.numerator)
        is_dyadic = value.denominator & (value.denominator - 1) == 0
        is_short = abs(odd).bit_length() <= self.digits
        return bool(is_dyadic and is_short and abs(value) >= rational(2) ** self.least)


@dataclass(frozen=True)
class Rounded:
    """x -> the nearest float of `digits` significant bits, the smallest being 2**`least`.

    A number halfway between two floats is rounded to the float whose last bit is 0. It is infinite
    from half a step beyond `most`, the largest float.
    """

    digits: int
    least: int
    most: Extended = inf

    rising = True

    def image(self, low: Extended, high: Extended) -> Range:
        return self._nearest(low), self._nearest(high)

    def solve(self, relation: str, edge: Extended, _domain: Range) -> Solved:
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
        """The smallest number that rounds to infinity."""
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
        """Return the distance between floats around `value`, or to the next float up or down."""
        size = abs(value)
        exponent = self.least
        if size != 0:
            exponent = size.numerator.bit_length() - size.denominator.bit_length()
            exponent -= rational(2) ** exponent > size
        if up is not None and up != (value > 0) and size == rational(2) ** exponent:
            exponent -= 1
        return rational(2) ** max(exponent - self.digits + 1, self.least)


def _from(relation: str, *, includes: bool) -> str:
    """Return the relation of the same direction that includes its edge below, or excludes it."""
    if relation in (LESS, AT_MOST):
        return AT_MOST if includes else LESS
    return MORE if includes else AT_LEAST


def _inverse(value: Extended) -> Extended:
    return ZERO if is_infinite(value) else 1 / value


Step: TypeAlias = Affine | Log | Exp | Reciprocal | Clamp | Nearly | Rounded
