"""The tree of a proof: splits that cover a cell, empty cells, and the parts of a run.

The checker trusts nothing in a tree: a split may use any polynomial, and a certificate is a sum to
add up. `establish` walks the tree to find what it proves.
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
    """No split is needed: the continuations for every answer to the next draw.

    None stands for an impossible answer. At the top there is a continuation for every program;
    where a run ends there is none.
    """

    children: tuple[Node | None, ...] = ()


Node = Split | Empty | Parts
