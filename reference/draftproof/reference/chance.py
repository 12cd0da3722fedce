"""Random programs, and the law of a random program.

A program asks a `Chance` for its draws. `enumerate_law` tries every answer, which gives the
program's exact law; `sample` draws one answer. The program cannot tell which of the two is asking.

    >>> from draftproof.reference.rational import rational
    >>> def first_head(chance):
    ...     return next((i for i in range(2) if chance.coin(rational("1/3"))), 2)
    >>> {toss: str(weight) for toss, weight in enumerate_law(first_head).items()}
    {0: '1/3', 1: '2/9', 2: '4/9'}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Protocol, TypeAlias, TypeVar

from draftproof.reference.errors import NotADistribution
from draftproof.reference.law import Law
from draftproof.reference.rational import ONE, ZERO, Rational, rational, rationals, total

Outcome = TypeVar("Outcome")


class Chance(Protocol):
    """The source of every random choice of a program."""

    def draw(self, weights: Sequence[Rational]) -> int:
        """Return index i with probability weights[i] / sum(weights).

        Raises `NotRational` if a weight is a float, `NotADistribution` if a weight is negative or
        all weights are zero.
        """

    def coin(self, probability: Rational) -> bool:
        """Return True with the given probability.

        Raises `NotRational` if the probability is a float, `NotADistribution` outside 0..1.
        """
        return self.draw((probability, _complement(probability))) == 0


class NondeterministicProgram(RuntimeError):
    """A program given the same answers asked different questions: it has hidden randomness."""


def enumerate_law(program: Callable[[Chance], Outcome]) -> Law[Outcome]:
    """Return the exact law of `program`, which is run once for each sequence of answers.

    The program must be a function of its chance alone, and its outcomes hashable.
    Raises `NondeterministicProgram` where a repeated run asks a different question.
    """
    weights: dict[Outcome, Rational] = {}
    for outcome, weight in enumerate_runs(program):
        weights[outcome] = weights[outcome] + weight if outcome in weights else weight
    return Law(weights)


def enumerate_runs(program: Callable[[Chance], Outcome]) -> Iterator[tuple[Outcome, Rational]]:
    """Yield (outcome, probability) for every run of `program`, depth first."""
    replay: Replay | None = Replay()
    while replay is not None:
        outcome = program(replay)
        yield outcome, replay.probability()
        replay = replay.next()


def enumerate_rows(
    program: Callable[[Chance], tuple[Outcome, int]], size: int
) -> dict[Outcome, list[Rational]]:
    """Return the probabilities [size] of each outcome with each token, for a program of pairs.

    The program returns an outcome and a token. A draw of one of `size` does not fork the program,
    but gives a row: the program must return the draw as the token, and raises `TypeError` if it
    looks at the draw. So vocabularies may be large. Otherwise it is a program for `enumerate_law`.
    """
    rows: dict[Outcome, list[Rational]] = {}
    runs: Iterator[tuple[Any, Rational]] = enumerate_runs(
        lambda chance: program(_Rows(chance, size))
    )
    for (outcome, token), probability in runs:
        row = rows.setdefault(outcome, [ZERO] * size)
        if isinstance(token, _UndecidedAnswer):
            row[:] = [was + probability * own for was, own in zip(row, token.weights, strict=True)]
        else:
            row[token] += probability
    return rows


class _Rows:
    """Leaves draws of one of `size` undecided."""

    def __init__(self, decided: Chance, size: int) -> None:
        self._decided, self._size = decided, size

    def draw(self, weights: Sequence[Rational]) -> int:
        if len(weights) != self._size:
            return self._decided.draw(weights)
        undecided: Any = _UndecidedAnswer(distribution(weights))
        return undecided  # type: ignore[no-any-return]  # whoever looks at it is told

    def coin(self, probability: Rational) -> bool:
        return self._decided.coin(probability)


class _UndecidedAnswer:
    """The result of an undecided draw, which nothing may look at."""

    __hash__ = None  # type: ignore[assignment]  # it has no value

    def __init__(self, weights: Distribution) -> None:
        self.weights = weights

    def __eq__(self, other: object) -> bool:
        raise TypeError("the program looks at a draw that is left undecided: it is a row")


def sample(program: Callable[[Chance], Outcome], random: Random) -> Outcome:
    """Run `program` once, with answers drawn exactly from the bits of `random`."""
    return program(_Dice(random))


Answer: TypeAlias = tuple[tuple[Rational, ...], int]
"""The weights of a random choice, and the index that was chosen."""


def probability(answers: Sequence[Answer]) -> Rational:
    """Return the probability of a sequence of answers."""
    product = ONE
    for weights, answer in answers:
        product *= weights[answer]
    return product


class Replay(Chance):
    """Gives the given answers, then the first possible ones.

    `given` has the answers that the program has received.
    """

    def __init__(self, told: Sequence[Answer] = ()) -> None:
        self._told = told
        self.given: list[Answer] = []

    def draw(self, weights: Sequence[Rational]) -> int:
        """Return the next answer. Raises `NondeterministicProgram` if its weights are different."""
        asked = distribution(weights)
        step = len(self.given)
        if step < len(self._told):
            told, answer = self._told[step]
            if told != asked:
                raise NondeterministicProgram(
                    f"random choice {step} had weights [{_listed(told)}] in one run and "
                    f"[{_listed(asked)}] in another with the same choices before it"
                )
            # Equal weights are kept once: there may be thousands of replays.
            asked = told
        else:
            answer = _next_possible(asked, -1)
        self.given.append((asked, answer))
        return answer

    def probability(self) -> Rational:
        """Return the probability of all the answers given."""
        return probability(self.given)

    def next(self) -> Replay | None:
        """Return the replay of the next sequence of answers, None after the last sequence."""
        if len(self.given) < len(self._told):
            raise NondeterministicProgram(
                f"a run made {len(self.given)} random choices where another with the same "
                f"choices made at least {len(self._told)}"
            )
        told = list(self.given)
        while told:
            weights, answer = told.pop()
            following = _next_possible(weights, answer)
            if following < len(weights):
                return Replay([*told, (weights, following)])
        return None


class _Dice(Chance):
    """Draws each answer, without any rounding, from uniform integers."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def draw(self, weights: Sequence[Rational]) -> int:
        shares = distribution(weights)
        low, width = ZERO, ONE
        # The uniform number low..low+width is refined until it lies inside one share.
        while True:
            edge = ZERO
            for index, share in enumerate(shares):
                if edge <= low and low + width <= edge + share:
                    return index
                edge += share
            width /= 2
            low += self._random.getrandbits(1) * width


class Distribution(tuple[Rational, ...]):
    """Weights that sum to 1, in a form that is prepared once for repeated draws.

    `distribution` makes it.
    """

    __slots__ = ()


def distribution(weights: Sequence[Rational]) -> Distribution:
    """Return weights / sum(weights).

    Raises `NotRational` if a weight is a float, `NotADistribution` if a weight is negative or all
    weights are zero.
    """
    if isinstance(weights, Distribution):
        return weights
    weights = rationals(weights)
    mass = total(weights)
    if any(weight < 0 for weight in weights):
        raise NotADistribution(f"cannot draw with a negative weight: [{_listed(weights)}]")
    if mass == 0:
        raise NotADistribution(f"cannot draw with no positive weight: [{_listed(weights)}]")
    return Distribution(weights if mass == 1 else [weight / mass for weight in weights])


def _complement(probability: Rational) -> Rational:
    probability = rational(probability)
    if not 0 <= probability <= 1:
        raise NotADistribution(f"a coin's probability must lie in 0..1, got {probability}")
    return ONE - probability


def _next_possible(weights: Sequence[Rational], after: int) -> int:
    index = after + 1
    while index < len(weights) and weights[index] == 0:
        index += 1
    return index


def _listed(weights: Sequence[Rational]) -> str:
    return ", ".join(map(str, weights))
