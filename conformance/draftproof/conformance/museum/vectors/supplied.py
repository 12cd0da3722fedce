"""Supplied numbers: a chance that answers from a list, and records its questions.

Every question takes the next number u, 0 <= u < 1, even where the answer is certain. A question is
its *thresholds*: the running sums of the weights, divided by their sum. The answer is the first
place whose threshold exceeds u; so a coin, whose one threshold is its probability, passes if and
only if u is below it.

    >>> from draftproof.reference.rational import rational
    >>> supplied = SuppliedNoise([rational("1/3"), rational("1/2")])
    >>> supplied.coin(rational("1/3")), supplied.draw([rational(1), rational(0), rational(1)])
    (False, 2)
    >>> [[str(edge) for edge in question.thresholds] for question in supplied.asked]
    [['1/3'], ['1/2', '1/2', '1']]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, pairwise

from draftproof.reference.chance import Chance
from draftproof.reference.emission import Emission
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total

Numbers = tuple[Rational, ...]
Verification = Callable[[Chance], Emission]
"""Verification of some drafts, by one algorithm, which asks a chance for its decisions."""

BITS = 16
"""Bits of a number just inside a threshold: the largest multiple of 2**-16, which is a float, at
least `MARGIN` below the threshold."""

MARGIN = rational("1/2") ** (BITS + 1)
"""The distance from a threshold at which float32 decides a number as exact arithmetic does:
thresholds are off by a few 2**-24, divided by the mass of a residual. A test checks verifiers at
this distance."""


class OutOfNumbers(RuntimeError):
    """Error of a verification that asks for more numbers than it is supplied with."""


@dataclass(frozen=True)
class Question:
    """A coin or a draw, by its thresholds, which never fall; the last threshold of a draw is 1."""

    coin: bool
    thresholds: Numbers

    def cells(self) -> Iterator[tuple[Rational, Rational]]:
        """Yield, for every possible answer, the numbers low <= u < high that give it."""
        ends = (ZERO, *self.thresholds, *((ONE,) if self.coin else ()))
        yield from ((low, high) for low, high in pairwise(ends) if low < high)


class SuppliedNoise:
    """A chance that answers from numbers, and keeps its questions.

    After the last number it uses `otherwise`(question), and keeps these numbers too; without
    `otherwise`, it raises `OutOfNumbers`.
    """

    def __init__(
        self,
        numbers: Sequence[Rational],
        *,
        otherwise: Callable[[Question], Rational] | None = None,
    ) -> None:
        self._given = tuple(numbers)
        self._otherwise = otherwise
        self.numbers: list[Rational] = []
        self.asked: list[Question] = []

    def draw(self, weights: Sequence[Rational]) -> int:
        """Return the first place whose threshold exceeds the next number."""
        mass = total(weights)
        thresholds = tuple(accumulate(weight / mass for weight in weights))
        number = self._next(Question(coin=False, thresholds=thresholds))
        return next(place for place, edge in enumerate(thresholds) if number < edge)

    def coin(self, probability: Rational) -> bool:
        """Return True if the next number is below the probability."""
        return self._next(Question(coin=True, thresholds=(rational(probability),))) < probability

    def _next(self, question: Question) -> Rational:
        step = len(self.asked)
        self.asked.append(question)
        if step < len(self._given):
            number = self._given[step]
        elif self._otherwise is not None:
            number = self._otherwise(question)
        else:
            raise OutOfNumbers(f"question {step + 1} has no number: {len(self._given)} are given")
        self.numbers.append(number)
        return number


@dataclass(frozen=True)
class SuppliedRun:
    """A run of a verification: its questions, the numbers that answered, and its emission."""

    asked: tuple[Question, ...]
    numbers: Numbers
    emission: Emission


def run_on(verification: Verification, numbers: Sequence[Rational]) -> SuppliedRun:
    """Run a verification on exactly these numbers.

    Raises `OutOfNumbers` where it asks for more, `ValueError` where it asks for fewer.
    """
    run = _run(verification, SuppliedNoise(numbers))
    if len(run.numbers) < len(numbers):
        raise ValueError(f"{len(numbers)} numbers are given, {len(run.numbers)} are asked for")
    return run


def table(verification: Verification) -> list[SuppliedRun]:
    """Return runs that reach every leaf of the tree of decisions, and every threshold.

    A leaf is reached with numbers inside the cells of its answers. Every question, once, also gets
    the numbers at the ends of its cells: each threshold below 1, and the number just inside of
    each; later questions are answered from inside the first cell. One run has zeros alone. Runs are
    in the order of their numbers.
    """
    found: dict[Numbers, SuppliedRun] = {}
    questions: set[Question] = set()

    def follow(start: Numbers) -> SuppliedRun:
        run = _run(verification, SuppliedNoise(start, otherwise=_first_inside))
        found[run.numbers] = run
        return run

    starts: list[Numbers] = [()]
    while starts:
        start = starts.pop()
        run = follow(start)
        for step, question in enumerate(run.asked[len(start) :], len(start)):
            before = run.numbers[:step]
            inside = [_inside(*cell) for cell in question.cells()]
            starts += [(*before, number) for number in inside if number != run.numbers[step]]
            if question not in questions:
                questions.add(question)
                for number in _edges(question):
                    follow((*before, number))
    zeros = _run(verification, SuppliedNoise((), otherwise=lambda _: ZERO))
    found[zeros.numbers] = zeros
    return [found[numbers] for numbers in sorted(found)]


def _run(verification: Verification, chance: SuppliedNoise) -> SuppliedRun:
    emission = verification(chance)
    return SuppliedRun(tuple(chance.asked), tuple(chance.numbers), emission)


def _first_inside(question: Question) -> Rational:
    return _inside(*next(question.cells()))


def _inside(low: Rational, high: Rational) -> Rational:
    """Return the number of fewest bits in the middle third of a cell."""
    first, last = low + (high - low) / 3, high - (high - low) / 3
    rounded_up = (rational(-_floor(-first * (1 << bits))) / (1 << bits) for bits in count())
    return next(number for number in rounded_up if number <= last)


def _edges(question: Question) -> Iterator[Rational]:
    """Yield thresholds below 1, and the numbers just inside all thresholds (for a draw, 1 too)."""
    for low, high in question.cells():
        if low in question.thresholds:
            yield low
        inside = rational(_floor((high - MARGIN) * 2**BITS)) / 2**BITS
        if high in question.thresholds and low + MARGIN <= inside:
            yield inside


def _floor(value: Rational) -> int:
    return int(value.numerator // value.denominator)
