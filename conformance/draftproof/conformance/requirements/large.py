"""Requirement on large batches.

Id, level and wording are those of the specification's chapter 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from draftproof.conformance.cases.case import BatchCase
from draftproof.conformance.cases.large import MOST_PROBED, large
from draftproof.conformance.lanes.observe import EXACT, PROBE, observe_batch
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.requirements.batches import judge_batch
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.task import Task, Terms


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on large batches, for verifiers that take batches."""
    if declared.batch:
        for batch in large(mode):
            lanes = (EXACT, PROBE) if len(batch.rows) <= MOST_PROBED else (EXACT,)
            yield Task(batch.id, ("batch.large",), lanes, partial(judge_large, batch))


def judge_large(batch: BatchCase, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `batch.large` on a batch."""
    seen = observe_batch(program, batch.id, batch.rows, lane=terms.lane)
    return [judge_batch(seen, "batch.large")]
