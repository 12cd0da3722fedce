"""The checker of proofs: it walks a tree with the program's own text, and adds up every sum again.

The walk relies on the text of the program, on this package's arithmetic of cells and laws, and on
sympy's arithmetic of polynomials. It uses no result of a search, of floats or of a solver.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.errors import InvalidInput
from draftproof.reference.proof.cells import Cell, Undecided, refutes
from draftproof.reference.proof.claims import Statement
from draftproof.reference.proof.polynomials import Quotient, written
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
from draftproof.reference.proof.symbols import everywhere
from draftproof.reference.proof.tree import Empty, Node, Split


class NotAProof(InvalidInput):
    """A tree or a record does not prove its claim; the message names the place of the error."""


def establish(claim: Statement, tree: Node) -> None:
    """Raise `NotAProof` unless the tree proves the claim.

    The function checks that every split covers its cell, that every certificate adds up, that every
    run asks only questions that its cell decides, and that every difference vanishes or has the
    required sign. It trusts nothing in the tree, and asks no solver.
    """
    try:
        _Walk(claim).cover(everywhere(claim.shape), tree)
    except Undecided as undecided:
        raise NotAProof(
            f"the program asks for the sign of {written(undecided.polynomial)} in a cell that "
            f"does not know it: a split is missing"
        ) from None
    except Misbehaves as failure:
        raise NotAProof(f"the program fails where {failure.cell}: {failure.reason}") from None


class _Walk:
    def __init__(self, claim: Statement) -> None:
        self._claim = claim

    def cover(self, cell: Cell, node: Node) -> None:
        """Raise `NotAProof` unless the node proves the claim in the cell."""
        if self._has_no_points(cell, node):
            return
        if isinstance(node, Split):
            for case, below in _cases(cell, node):
                self.cover(case, below)
            return
        count = len(self._claim.programs)
        laws = [
            self._law(program, (), cell, child)
            for program, child in enumerate(_children(node, count))
        ]
        known = tuple(law for law in laws if law is not None)
        if len(known) < count:
            return
        for judgement, holds in judged(self._claim, cell, known):
            if not holds:
                raise NotAProof(
                    f"{judgement.outcome} has {judgement.observed}, required is "
                    f"{judgement.required}, and they differ where {cell}"
                )

    def _law(self, program: int, answers: Answers, cell: Cell, node: Node | None) -> Law | None:
        """Return the law of the outcomes given these answers, None where the cell is empty."""
        if node is None:
            raise NotAProof(f"nothing is said about the answers {answers} where {cell}")
        if self._has_no_points(cell, node):
            return None
        if isinstance(node, Split):
            return self._common_law(program, answers, cell, node)
        event = next_event(self._claim, program, answers, cell)
        if not isinstance(event, tuple):
            _children(node, 0)
            return event
        weighted: list[tuple[Quotient, Law]] = []
        children = _children(node, len(event))
        for answer, (share, child) in enumerate(zip(event, children, strict=True)):
            inner = answered(cell, share)
            if inner is None:
                continue
            law = self._law(program, (*answers, answer), inner, child)
            if law is None:
                continue
            if inner is not cell and not holds_everywhere(law, cell):
                raise NotAProof(
                    f"the law after the answers {(*answers, answer)} is not defined where they "
                    f"have probability zero, within {cell}"
                )
            weighted.append((share, law))
        return mixture(weighted)

    def _common_law(self, program: int, answers: Answers, cell: Cell, split: Split) -> Law | None:
        laws = []
        for case, below in _cases(cell, split):
            law = self._law(program, answers, case, below)
            if law is not None:
                laws.append((law, case))
        found = agreed(laws, cell)
        if laws and found is None:
            raise NotAProof(
                f"the cases of {written(split.polynomial)} give different laws after the "
                f"answers {answers} where {cell}"
            )
        return found

    def _has_no_points(self, cell: Cell, node: Node) -> bool:
        if cell.contradictory:
            return True
        if isinstance(node, Empty):
            if not refutes(node.terms, cell):
                raise NotAProof(
                    f"the certificate does not show that there is no point where {cell}"
                )
            return True
        return False


def _cases(cell: Cell, split: Split) -> list[tuple[Cell, Node]]:
    """Return the parts of a cell under a split, which must cover the cell."""
    value = cell.restricted(split.polynomial)
    covered = frozenset[int]().union(*(signs for signs, _ in split.cases))
    if value is None or not cell.signs(value) <= covered:
        raise NotAProof(
            f"the cases of {written(split.polynomial)} do not cover all of its signs where {cell}"
        )
    return [(cell.where(split.polynomial, signs), node) for signs, node in split.cases]


def _children(node: Node, count: int) -> Sequence[Node | None]:
    if isinstance(node, Split | Empty) or len(node.children) != count:
        raise NotAProof(f"a node of {count} parts is expected here, the record has another one")
    return node.children
