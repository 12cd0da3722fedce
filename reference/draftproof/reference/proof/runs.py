"""The runs of a program on symbols: the next event after given answers, in a given cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from draftproof.reference.errors import NotRational, Unsupported
from draftproof.reference.proof.cells import NOT_NEGATIVE, POSITIVE, ZERO, Cell
from draftproof.reference.proof.claims import Judgement, Outcome, Statement
from draftproof.reference.proof.polynomials import Quotient, field_of, parts
from draftproof.reference.proof.symbols import (
    KeptBetweenRuns,
    Unknown,
    quotient,
    symbolic_instance,
    within,
)
from draftproof.reference.rational import Rational, total

Answers = tuple[int, ...]
Law = Mapping[Outcome, Quotient]
Shares = tuple[Quotient, ...]


class Misbehaves(Exception):
    """At every point of the cell, the program divides by zero or draws from an invalid law."""

    def __init__(self, reason: str, cell: Cell) -> None:
        super().__init__(reason)
        self.reason, self.cell = reason, cell


def next_event(claim: Statement, program: int, answers: Answers, cell: Cell) -> Law | Shares:
    """Run a program of the claim with these answers until it ends or asks for another draw.

    Return the law of outcomes given this run, or the probability of every answer to the draw.
    Raises `Undecided` if the cell cannot answer the program's question, `Misbehaves` if the program
    fails, `Unsupported` for a program that refuses symbols.
    """
    try:
        instance, rho = symbolic_instance(claim.shape, cell)
        with within(cell):
            masses = claim.programs[program](instance, rho, _Answers(answers, cell))
    except _AskedForMore as asked:
        return asked.shares
    except NotRational as error:
        raise Unsupported(f"{claim.algorithm} cannot run on symbols: {error}") from error
    except KeptBetweenRuns:
        raise Unsupported(
            f"{claim.algorithm} keeps numbers from one run to the next, it cannot run on symbols: "
            "compute them anew in every run, or cache them by the instance"
        ) from None
    except (ArithmeticError, LookupError, ValueError) as error:
        raise Misbehaves(str(error), cell) from error
    return {outcome: quotient(mass, cell.ring) for outcome, mass in masses.items()}


def answered(cell: Cell, share: Quotient) -> Cell | None:
    """Return the part of the cell where an answer of this probability is possible, or None."""
    signs = cell.signs(share)
    if signs == ZERO:
        return None
    top, bottom = parts(share)
    inner = cell if signs == POSITIVE else cell.where(top * bottom, POSITIVE)
    return None if inner.contradictory else inner


def mixture(weighted: Iterable[tuple[Quotient, Law]]) -> Law:
    """Return the sum of laws times their weights."""
    whole: dict[Outcome, Quotient] = {}
    for weight, law in weighted:
        for outcome, mass in law.items():
            whole[outcome] = whole[outcome] + weight * mass if outcome in whole else weight * mass
    return whole


def is_same_law(one: Law, other: Law, cell: Cell) -> bool:
    """Return True if two laws are equal at every point of a cell.

    `other` must be in the symbols that the cell leaves undetermined, and the denominators of `one`
    must not vanish in the cell.
    """
    for outcome in {*one, *other}:
        mine = cell.restricted(one[outcome]) if outcome in one else field_of(cell.ring).zero
        theirs = other.get(outcome, field_of(cell.ring).zero)
        if mine is None or not cell.vanishes(mine - theirs):
            return False
    return True


def holds_everywhere(law: Law, cell: Cell) -> bool:
    """Return True if the law's denominators vanish nowhere in the cell."""
    return all(cell.is_regular(mass) for mass in law.values())


def agreed(laws: list[tuple[Law, Cell]], cell: Cell) -> Law | None:
    """Return the law of a cell covered by parts with these laws, or None if the laws differ.

    One of the laws must hold in all of the parts.
    """
    if len(laws) == 1:
        return laws[0][0]
    for candidate, _ in laws:
        if holds_everywhere(candidate, cell) and all(
            is_same_law(candidate, law, case) for law, case in laws
        ):
            return candidate
    return None


def judged(claim: Statement, cell: Cell, laws: tuple[Law, ...]) -> Iterator[tuple[Judgement, bool]]:
    """Yield the judgements on the laws of all programs, each with True if it holds in the cell.

    Raises `Undecided` if the cell does not decide which of two numbers is larger, `Misbehaves` if
    the judgement fails.
    """
    try:
        instance, rho = symbolic_instance(claim.shape, cell)
        numbers: Any = tuple({x: Unknown(mass, cell) for x, mass in law.items()} for law in laws)
        for judgement in claim.judge(instance, rho, numbers):
            difference = quotient(judgement.difference, cell.ring)
            if judgement.exactly:
                yield judgement, cell.vanishes(difference)
            else:
                yield judgement, cell.ask(difference, NOT_NEGATIVE)
    except (ArithmeticError, LookupError, ValueError) as error:
        raise Misbehaves(str(error), cell) from error


class _AskedForMore(Exception):
    def __init__(self, shares: Shares) -> None:
        super().__init__(shares)
        self.shares = shares


class _Answers:
    """Chance that returns the given answers, and then stops the program."""

    def __init__(self, answers: Answers, cell: Cell) -> None:
        self._answers, self._cell = iter(answers), cell

    def draw(self, weights: Sequence[Rational]) -> int:
        for answer in self._answers:
            return answer
        raise _AskedForMore(self._shares(weights))

    def coin(self, probability: Rational) -> bool:
        return self.draw((probability, 1 - probability)) == 0

    def _shares(self, weights: Sequence[Rational]) -> Shares:
        cell, ring = self._cell, self._cell.ring
        mass = quotient(total(weights), ring)
        shares = tuple(quotient(weight, ring) for weight in weights)
        for share in shares:
            if not cell.ask(share, NOT_NEGATIVE):
                raise Misbehaves(f"a draw with the negative weight {share}", cell)
        if cell.ask(mass, ZERO):
            raise Misbehaves("a draw with no positive weight", cell)
        return shares if mass == 1 else tuple(share / mass for share in shares)
