"""The tree that a proof is: splits that cover a cell, empty cells, and the parts of a run.

Nothing in a tree is believed: a polynomial to split by may be any polynomial, and a certificate
is a sum to add up. What it proves is found by walking it (`establish`).
"""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.reference.proof.cells import Signs
from draftproof.reference.proof.polynomials import Polynomial
from draftproof.reference.rational import Rational

Terms = tuple[tuple[Rational, tuple[Polynomial, ...]], ...]


@dataclass(frozen=True)
class Split:
    """A cell is covered by the signs that a polynomial may have there."""

    polynomial: Polynomial
    cases: tuple[tuple[Signs, Node], ...]


@dataclass(frozen=True)
class Empty:
    """A cell has no points: these multiples of products add up to zero (see `cells.refutes`)."""

    terms: Terms


@dataclass(frozen=True)
class Parts:
    """No split is needed: what follows for every answer to the next draw.

    None stands for an impossible answer. At the top, what there is for every program; nothing
    where a run ends.
    """

    children: tuple[Node | None, ...] = ()


Node = Split | Empty | Parts
