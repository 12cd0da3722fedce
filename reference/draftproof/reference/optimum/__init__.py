"""What no verifier can beat, each value with a certificate."""

from __future__ import annotations

from draftproof.reference.optimum.certified import NotOptimal
from draftproof.reference.optimum.stateless import StatelessOptimum, check, stateless

__all__ = ["NotOptimal", "StatelessOptimum", "check", "stateless"]
