"""Races of exponential clocks, found from outside: rates that would explain a program's outcomes.

V noises *race* if the outcome depends only on which rings first: contender i at time E_i / w_i,
with E_i a standard exponential clock. Noise can be read as clocks in up to three ways (itself,
-log U, -log(1 - U)). The rates follow from duels: all but two clocks are set to ring late, one at
time 1, and the other is moved until the outcome flips. Callers test whether the reading holds: a
race counts only after it has predicted the program's outcomes on fresh noise.

Every step is a generator that yields points to try and receives their outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from math import exp, expm1
from typing import Any, TypeAlias, TypeVar

import numpy
from numpy.typing import NDArray

from draftproof.conformance.lanes.probe._tape import Point, RandomTensor, clock
from draftproof.reference.rational import ONE, ZERO, Rational, exactly, rational, total

Found = TypeVar("Found")
Search: TypeAlias = Generator[list[Point], list[Any], Found]
"""Generator that yields points to try, receives the outcomes there, and returns its result."""

Bounds: TypeAlias = tuple[Rational, Rational]

# Times that every kind of noise can have: float32's first positive number is 2**-24, and
# -log(1 - U) of its last one is 16.6.
_EARLY, _LATE = 2.0**-24, 16.0

# Times at which a strong contender is looked for, and how much earlier it then rings for sure.
_FAR = 8
_HEATS = [2.0**-exponent for exponent in range(0, 21, 3)]

# Of float32, at best: no program is held to more, see `DOUBT`.
_UNIT = rational("1/2") ** 24

DOUBT = 32 * _UNIT
"""Relative distance of the first two clocks within which rounding may decide.

A logit and a Gumbel noise below 8 are rounded to 2**-22 each, and so is their sum.
"""


@dataclass(frozen=True)
class Reading:
    """Way to read noise as clocks; if it is `rising`, larger noise rings later."""

    law: str
    numbers: int
    rising: bool

    def times(self, indices: NDArray[numpy.int64]) -> NDArray[numpy.float64]:
        """Return the times at which clocks of rate one ring."""
        if self.law == "exponential":
            return clock(indices)
        with numpy.errstate(divide="ignore"):
            uniform = indices / self.numbers
            times: NDArray[numpy.float64] = (
                -numpy.log1p(-uniform) if self.rising else -numpy.log(uniform)
            )
        return times

    def index(self, time: float) -> int:
        """Return the index at which a clock of rate one rings as near as possible to a time."""
        share = -expm1(-time) if self.rising else exp(-time)
        return min(max(int(share * self.numbers), 1), self.numbers - 1)


def readings(block: RandomTensor) -> tuple[Reading, ...]:
    """Return the ways to read a block of noise as clocks."""
    if block.law == "exponential":
        return (Reading(block.law, block.numbers, rising=True),)
    return tuple(Reading(block.law, block.numbers, rising=r) for r in (False, True))


@dataclass(frozen=True)
class Clocks:
    """Clocks in columns `first`, `first` + 1, ...: their rates, as shares of the sum of all.

    The duels bound each share between `bounds`. `error` bounds the total variation distance between
    the law of the first clock and the shares:

    * a duel ends between two times, and the sum of the gaps, in shares, is the error of the duels;
      a clock that does not win even at time 2**-24 has share 0, off by at most its gap;

    * if the second clock rings within `DOUBT` of the first, rounding may decide. The first rings
      at T / W, the second Exp(1) / (W - w) later, with W the sum of all rates and w the rate of the
      first: given which is first, the probability is at most E[T] * `DOUBT` * (W - w) / W. A clock
      is first with its share s = w / W, so the term is at most `DOUBT` times the sum of s (1 - s);

    * the grid: given all others, a clock flips the winner at one time, and the cell of the grid
      that contains this time has probability 2**-24 at most in float32.
    """

    first: int
    reading: Reading
    shares: tuple[Rational, ...]
    bounds: tuple[tuple[float, float], ...]
    error: Rational

    @property
    def columns(self) -> slice:
        return slice(self.first, self.first + len(self.shares))

    def winner(self, point: Point) -> tuple[int, bool]:
        """Return which clock rings first, and whether that is beyond doubt."""
        times = self.reading.times(point[self.columns]).tolist()
        contenders = [i for i, share in enumerate(self.shares) if share > 0]
        winner = min(contenders, key=lambda i: times[i] / float(self.shares[i]))
        rings = times[winner] / self.bounds[winner][0] * (1 + float(DOUBT))
        is_clear = all(times[i] / self.bounds[i][1] > rings for i in contenders if i != winner)
        return winner, is_clear

    def balanced(self, point: Point, times: NDArray[numpy.float64]) -> Point:
        """Return the point with clocks that ring at these times, each at its own rate."""
        largest = float(max(self.shares))
        shown = {i: float(s) / largest * times[i] for i, s in enumerate(self.shares) if s > 0}
        return _set(point, self.first, len(self.shares), self.reading, shown)

    def settled(self, point: Point, winner: int) -> Point:
        """Return the point with noise on which `winner` wins by far."""
        return _set(point, self.first, len(self.shares), self.reading, {winner: _EARLY})


def _set(point: Point, first: int, width: int, reading: Reading, times: dict[int, float]) -> Point:
    """Return the point with clocks that ring at these times, late for clocks without a time."""
    changed = point.copy()
    changed[first : first + width] = [
        reading.index(times.get(contender, _LATE)) for contender in range(width)
    ]
    return changed


def clocks(context: Point, first: int, width: int, reading: Reading) -> Search[Clocks | None]:
    """Find the rates of clocks that would explain the outcomes at `context`, None if none do."""

    def at(times: dict[int, float]) -> Point:
        return _set(context, first, width, reading, times)

    everyone = range(width)
    calm, *alone = yield [
        at(dict.fromkeys(everyone, 1.0)),
        *(at({contender: _EARLY}) for contender in everyone),
    ]
    # Whoever has the outcome of calm either wins there or never rings; all others do ring.
    same = [i for i in everyone if alone[i] == calm]
    others = [i for i in everyone if alone[i] != calm]
    if not same or not others:
        return None
    champion = same[0]
    rates: dict[int, Bounds] = {}
    if len(same) > 1:
        # They do not show in duels among themselves: they meet one of the others.
        rival, time = yield from _strongest(at, others, calm)
        rates = yield from _duels(at, reading, first, same, alone, rival, time)
        champion = max(same, key=lambda i: rates[i])
        least, most = rates[champion]
        if least == 0:
            return None
        rates = {i: (low / most, high / least) for i, (low, high) in rates.items()}
    rates[champion] = ONE, ONE
    rates.update((yield from _duels(at, reading, first, others, alone, champion, 1.0)))
    middles = {i: (low + high) / 2 for i, (low, high) in rates.items()}
    mass = total(middles.values())
    if not any(middles[i] for i in others):
        return None
    gaps = total(high - low for low, high in rates.values()) / mass
    shares = tuple(middles[i] / mass for i in everyone)
    # No share is further off than its gap, which moves a square by at most twice that.
    close = 1 - total(share**2 for share in shares) + 2 * gaps
    return Clocks(
        first=first,
        reading=reading,
        shares=shares,
        bounds=tuple((float(rates[i][0] / mass), float(rates[i][1] / mass)) for i in everyone),
        error=gaps + DOUBT * close + 2 * width * _UNIT,
    )


def _strongest(
    at: Callable[[dict[int, float]], Point], contenders: Sequence[int], calm: Hashable
) -> Search[tuple[int, float]]:
    """Return a contender, and a time at which it rings first by far if all others are late."""
    for time in _HEATS:
        outcomes = yield [at({contender: time}) for contender in contenders]
        for contender, outcome in zip(contenders, outcomes, strict=True):
            if outcome != calm:
                return contender, time / _FAR
    return contenders[0], _EARLY


def _duels(
    at: Callable[[dict[int, float]], Point],
    reading: Reading,
    first: int,
    contenders: Sequence[int],
    alone: Sequence[Hashable],
    opponent: int,
    time: float,
) -> Search[dict[int, Bounds]]:
    """Return bounds on the rates of contenders, as multiples of the rate of the opponent.

    The opponent's clock rings at `time`, the contender's is moved, and all others are late.
    """
    stage = at({opponent: time})
    place = first + opponent
    stands = exactly(float(reading.times(stage[place : place + 1])[0]))
    extremes = reading.index(_EARLY), reading.index(_LATE)

    def duel(contender: int, index: int) -> Point:
        point = stage.copy()
        point[first + contender] = index
        return point

    outcomes = yield [duel(contender, extremes[0]) for contender in contenders]
    ringing = [c for c, seen in zip(contenders, outcomes, strict=True) if seen == alone[c]]
    # The indices at which each contender wins and loses, which close in on each other.
    sides = dict.fromkeys(ringing, extremes)
    while still := [c for c in ringing if abs(sides[c][0] - sides[c][1]) > 1]:
        middles = {c: sum(sides[c]) // 2 for c in still}
        outcomes = yield [duel(c, middles[c]) for c in still]
        for c, seen in zip(still, outcomes, strict=True):
            wins, loses = sides[c]
            sides[c] = (middles[c], loses) if seen == alone[c] else (wins, middles[c])
    rates: dict[int, Bounds] = dict.fromkeys(contenders, (ZERO, ZERO))
    for c in ringing:
        first_time, last_time = map(exactly, reading.times(numpy.array(sides[c])).tolist())
        rates[c] = first_time / stands, last_time / stands
    return rates
