"""Upper bounds for all verifiers, each value with a certificate."""

from __future__ import annotations

from draftproof.reference.optimum.acceptance_rate import AcceptanceRate, acceptance_rate
from draftproof.reference.optimum.certified import NotOptimal
from draftproof.reference.optimum.length import LengthOptimum, check
from draftproof.reference.optimum.stateful import StatefulOptimum, stateful
from draftproof.reference.optimum.stateless import StatelessOptimum, stateless

__all__ = [
    "AcceptanceRate",
    "LengthOptimum",
    "NotOptimal",
    "StatefulOptimum",
    "StatelessOptimum",
    "acceptance_rate",
    "check",
    "stateful",
    "stateless",
]
