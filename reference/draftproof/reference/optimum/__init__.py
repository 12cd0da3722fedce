"""What no verifier can beat, each value with a certificate."""

from __future__ import annotations

from draftproof.reference.optimum.stateless import NotOptimal, StatelessOptimum, check, stateless

__all__ = ["NotOptimal", "StatelessOptimum", "check", "stateless"]
