"""Theorems for every p and q of a shape, from the same verifier text that is enumerated.

    claim -> program on symbols -> splits and certificates -> tree -> check

The text runs on symbols instead of numbers. Where it compares two symbols, the prover splits the
space of all p and q by the sign of their difference; in each of the resulting cells the text's law
is a law of rational functions, and the claim is an identity, or an inequality with a certificate.
Every number has a sign, so the cells cover the whole space, including zeros, ties and point masses.
A split that does not change the law of the runs it occurs in is closed there, so that the numbers
of cells add up instead of multiplying.

Read `claims` first, then `cells`, `runs` and `checker`; `prover` and `search` only find proofs.
"""

from draftproof.reference.proof.checker import NotAProof, establish
from draftproof.reference.proof.claims import CLAIMS, Statement
from draftproof.reference.proof.prover import Refutation, Unproven
from draftproof.reference.proof.records import Theorem, check, prove, record
from draftproof.reference.proof.search import SolverMissing

__all__ = [
    "CLAIMS",
    "NotAProof",
    "Refutation",
    "SolverMissing",
    "Statement",
    "Theorem",
    "Unproven",
    "check",
    "establish",
    "prove",
    "record",
]
