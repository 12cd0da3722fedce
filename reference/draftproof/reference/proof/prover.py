"""The prover: it splits the space of all p and q until every cell shows or refutes the claim."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from draftproof.reference.chance import enumerate_runs
from draftproof.reference.drafting import most_probable
from draftproof.reference.errors import InvalidInput
from draftproof.reference.model import Instance
from draftproof.reference.proof.cells import NEGATIVE, POSITIVE, ZERO, Cell, Signs, Undecided
from draftproof.reference.proof.checker import NotAProof, establish
from draftproof.reference.proof.claims import Masses, Outcome, Statement
from draftproof.reference.proof.polynomials import Polynomial, Quotient, at
from draftproof.reference.proof.runs import (
    Answers,
    Law,
    Misbehaves,
    agreed,
    answered,
    holds_everywhere,
    judged,
    mixture,
    next_event,
)
from draftproof.reference.proof.search import Point, Points, refutation, sign, solved_point
from draftproof.reference.proof.symbols import everywhere, instance_at, symbolic_instance
from draftproof.reference.proof.tree import Empty, Node, Parts, Split
from draftproof.reference.rational import ZERO as NOTHING
from draftproof.reference.rational import Rational

# How many of the cells in which the same run was shown are looked through.
_REMEMBERED = 12

Watch = Callable[[int], object]


@dataclass(frozen=True)
class Refutation:
    """A point at which the claim is false, by exact enumeration.

    If the program fails there instead of having a law, `reason` describes the failure.
    """

    claim: Statement
    instance: Instance
    rho: Rational | None
    outcome: Outcome = None
    observed: Rational | None = None
    required: Rational | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.claim.algorithm} fails: {self.reason}"
        is_text = isinstance(self.outcome, tuple)
        found = f"the text {self.outcome} has probability" if is_text else f"{self.outcome} is"
        return (
            f"it is false that {self.claim.statement}: {found} {self.observed}, "
            f"required is {self.required}"
        )


class Unproven(RuntimeError):
    """Neither a proof nor a counterexample was found; the message names the cell."""


def find(claim: Statement, watch: Watch | None = None) -> Node | Refutation:
    """Return a tree that proves the claim, or a counterexample. Raises `Unproven`.

    `watch` is called with the number of the step, before every step of a run.
    """
    for remembered in (_REMEMBERED, 0):
        prover = _Prover(claim, watch or (lambda _: None), remembered)
        try:
            tree = prover.cover(everywhere(claim.shape))
            establish(claim, tree)
        except _Refuted as refuted:
            return refuted.counterexample
        except NotAProof:
            # A run that was shown in one cell need not be shown in a part of it by the same tree.
            continue
        except RecursionError:
            raise Unproven(
                f"{claim.statement}: the splits of its runs are nested deeper than Python's limit "
                f"of {sys.getrecursionlimit()} calls; a smaller shape may do"
            ) from None
        return tree
    raise Unproven(f"{claim.statement}: a tree was found that does not prove it")


class _Refuted(Exception):
    def __init__(self, counterexample: Refutation) -> None:
        super().__init__(counterexample)
        self.counterexample = counterexample


class _Prover:
    def __init__(self, claim: Statement, watch: Watch, remembered: int) -> None:
        self._claim, self._watch, self._remembered = claim, watch, remembered
        self._points = Points(claim.shape)
        self._steps = 0
        # Splits that did not close where they were tried: they are made further up at once.
        self._open: set[tuple[int, Answers, Polynomial]] = set()
        # What was shown of a run in one cell holds in every part of it.
        self._shown_before: dict[tuple[int, Answers], list[tuple[Cell, Law, Node]]] = {}

    def cover(self, cell: Cell) -> Node:
        """Return the tree that shows the claim in the cell."""
        try:
            return self._shown(cell)
        except Undecided as undecided:
            question = undecided
        cases: list[tuple[Signs, Node]] = []
        for signs, case, empty in self._cases(cell, question):
            cases.append((signs, empty or self.cover(case)))
        return Split(question.polynomial, tuple(cases))

    def _shown(self, cell: Cell) -> Node:
        self._settle(cell)
        laws, nodes = [], []
        for program in range(len(self._claim.programs)):
            law, node = self._explored(program, (), cell)
            if law is None:
                return node
            laws.append(law)
            nodes.append(node)
        try:
            for judgement, holds in judged(self._claim, cell, tuple(laws)):
                if not holds:
                    return self._failed(cell, str(judgement.outcome))
        except Misbehaves as failure:
            return self._failed(cell, failure.reason)
        return Parts(tuple(nodes))

    def _settle(self, cell: Cell) -> None:
        """Raise `Undecided` until the tokens that are drafted for sure are known.

        Every run of the schemes that have such tokens depends on them, so this saves many splits.
        """
        shape = self._claim.shape
        if shape.drafts > 1 and shape.scheme in ("hub", "greedy"):
            instance, _ = symbolic_instance(shape, cell)
            most_probable(instance.draft(()), shape.drafts - 1)

    def _explored(self, program: int, answers: Answers, cell: Cell) -> tuple[Law | None, Node]:
        """Return the law of the outcomes given these answers, and the tree that shows it.

        The law is None if the cell is empty. Raises `Undecided` for a split that changes the law,
        which therefore belongs where these answers are weighed against others.
        """
        shown = self._shown_before.setdefault((program, answers), [])
        for outer, law, node in shown[: -self._remembered - 1 : -1]:
            if cell.solved.keys() == outer.solved.keys() and cell.is_within(outer):
                return law, node
        try:
            try:
                found, node = self._run(program, answers, cell)
            except Misbehaves as failure:
                found, node = None, self._failed(cell, failure.reason)
            if found is not None:
                shown.append((cell, found, node))
            return found, node
        except Undecided as undecided:
            question = undecided
        return self._closed(program, answers, cell, question)

    def _run(self, program: int, answers: Answers, cell: Cell) -> tuple[Law | None, Node]:
        self._steps += 1
        self._watch(self._steps)
        event = next_event(self._claim, program, answers, cell)
        if not isinstance(event, tuple):
            return event, Parts()
        weighted: list[tuple[Quotient, Law]] = []
        children: list[Node | None] = []
        for answer, share in enumerate(event):
            inner = answered(cell, share)
            law, node = None, None
            if inner is not None:
                law, node = self._explored(program, (*answers, answer), inner)
            if law is not None:
                if inner is not cell and not holds_everywhere(law, cell):
                    raise cell.question(share, ZERO)
                weighted.append((share, law))
            children.append(node)
        return mixture(weighted), Parts(tuple(children))

    def _closed(
        self, program: int, answers: Answers, cell: Cell, question: Undecided
    ) -> tuple[Law | None, Node]:
        """Return the one law of a split's cases and its tree, or raise the split if laws differ."""
        key = (program, answers, question.polynomial)
        if key in self._open:
            raise question
        cases: list[tuple[Signs, Node]] = []
        laws: list[tuple[Law, Cell]] = []
        for signs, case, empty in self._cases(cell, question):
            law, node = (None, empty) if empty else self._explored(program, answers, case)
            if law is not None:
                laws.append((law, case))
            cases.append((signs, node))
        found, node = agreed(laws, cell), Split(question.polynomial, tuple(cases))
        if laws and found is None:
            self._open.add(key)
            raise question
        if found is not None:
            self._shown_before[program, answers].append((cell, found, node))
        return found, node

    def _cases(self, cell: Cell, question: Undecided) -> Iterator[tuple[Signs, Cell, Empty | None]]:
        """Yield the cases of a split, each with the proof that the case is empty, if any."""
        polynomial = question.polynomial
        possible = cell.signs(polynomial)
        met = {sign(at(polynomial, point)) for point in self._points.within(cell)}
        for strict in (NEGATIVE, POSITIVE):
            if strict <= possible and not strict & met:
                case = cell.where(polynomial, strict)
                empty = self._empty(case, polynomial, cell)
                if empty:
                    possible -= strict
                    yield strict, case, empty
        for half in (possible - question.signs, possible & question.signs):
            if half:
                case = cell.where(polynomial, half)
                is_open = half != ZERO or possible == ZERO
                yield half, case, None if is_open else self._empty(case, polynomial, cell)

    def _empty(self, cell: Cell, about: Polynomial | None, outer: Cell) -> Empty | None:
        if self._points.within(cell, outer):
            return None
        terms = refutation(cell, about, 2)
        return None if terms is None else Empty(terms)

    def _failed(self, cell: Cell, reason: str) -> Empty:
        """Return the proof that a cell where the claim fails is empty, or raise a counterexample.

        Raises `Undecided` for a part of the boundary: a relation that holds only there, or
        everywhere except there, is an identity after the next split.
        """
        for point in self._points.within(cell):
            found = counterexample_at(self._claim, point)
            if found is not None:
                raise _Refuted(found)
        closed = [fact for fact in cell.facts if cell.signs(fact) > ZERO]
        closed.sort(key=lambda f: (sum(f.degrees()), len(f)))
        for fact in closed:
            strict = cell.where(fact, cell.signs(fact) - ZERO)
            if self._empty(strict, fact, cell):
                raise Undecided(fact, ZERO)
        for fact in closed:
            raise cell.question(fact, ZERO)
        terms = refutation(cell, None, 3)
        met = solved_point(cell) if terms is None else None
        if met is not None and (found := counterexample_at(self._claim, met)):
            raise _Refuted(found)
        if terms is None:
            raise Unproven(
                f"{self._claim.statement}: neither shown nor refuted ({reason}) where {cell}"
            )
        return Empty(terms)


def counterexample_at(claim: Statement, point: Point) -> Refutation | None:
    """Return the claim's violation at a point, by exact enumeration; None if the claim holds."""
    instance, rho = instance_at(claim.shape, point)

    def law(program: int) -> Masses:
        whole: dict[Outcome, Rational] = {}
        runs = enumerate_runs(lambda chance: claim.programs[program](instance, rho, chance))
        for masses, weight in runs:
            for outcome, mass in masses.items():
                whole[outcome] = whole.get(outcome, NOTHING) + weight * mass
        return whole

    try:
        laws = tuple(law(program) for program in range(len(claim.programs)))
        for judgement in claim.judge(instance, rho, laws):
            if judgement.difference < 0 or (judgement.exactly and judgement.difference != 0):
                return Refutation(
                    claim,
                    instance,
                    rho,
                    judgement.outcome,
                    judgement.observed,
                    judgement.required,
                )
    except (ZeroDivisionError, InvalidInput) as error:
        return Refutation(claim, instance, rho, reason=str(error))
    return None
