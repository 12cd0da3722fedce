"""The cases: small targets and drafts with stable ids, each included for a stated reason.

A good toy model depends on its context (a context-free one cannot see a verifier that goes on
after a rejection) and has what real rows have: zeros, ties, equal rows, disjoint supports, point
masses, near certainty. Rows are multiples of 1/16 or 1/256, exact in every float dtype, so that an
observed distance is the adapter's own; `motivating` alone is in thirds, as in its paper, and
`near-one.sure` needs more bits than bfloat16 has.
"""

from __future__ import annotations

from functools import cache

from draftproof.conformance.cases.case import BatchCase, Case
from draftproof.conformance.cases.several import several
from draftproof.conformance.cases.single import single
from draftproof.conformance.cases.together import together
from draftproof.conformance.cases.trees import trees
from draftproof.conformance.protocol.modes import modes_up_to

__all__ = ["BatchCase", "Case", "batches", "cases"]


def cases(mode: str) -> tuple[Case, ...]:
    """Return the cases of a mode. Raises `Unsupported` for an unknown mode."""
    included = modes_up_to(mode)
    return tuple(case for case in _all_cases() if case.mode in included)


def batches(mode: str) -> tuple[BatchCase, ...]:
    """Return the batches of a mode. Raises `Unsupported` for an unknown mode."""
    included = modes_up_to(mode)
    return tuple(batch for batch in _all_batches() if batch.mode in included)


@cache
def _all_cases() -> tuple[Case, ...]:
    return (*single(), *several(), *trees())


@cache
def _all_batches() -> tuple[BatchCase, ...]:
    return tuple(together())
