"""Requirement on large batches.

Id, level and wording are those of the specification's chapter 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from draftproof.conformance.cases.case import BatchCase
from draftproof.conformance.cases.large import (
    MOST_PROBED,
    alike,
    among_empty,
    is_pair,
    is_probed,
    large,
)
from draftproof.conformance.lanes.observe import EXACT, PROBE, SAMPLE, SERVED, observe_batch
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.requirements._one_law import require_certain
from draftproof.conformance.requirements.batches import judge_batch, judge_pairs, neighbours
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.pairs import sample_apart
from draftproof.conformance.requirements.sampled import Effort
from draftproof.conformance.requirements.task import Task, Terms


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on large batches, for verifiers that take batches."""
    if not declared.batch:
        return
    for batch in (*large(mode), *(among_empty(mode) if declared.ragged else ())):
        lanes = [EXACT]
        # What is uncertain in more rows has too many ways to probe, and to sample.
        if is_probed(batch):
            lanes.append(PROBE)
        elif is_pair(batch) and len(batch.rows) > MOST_PROBED:
            lanes.append(SAMPLE)
        yield Task(batch.id, ("batch.large",), tuple(lanes), partial(judge_large, batch))


def judge_large(batch: BatchCase, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `batch.large` on a batch."""
    if terms.lane == SAMPLE:
        # All rows are uncertain, so that one call has many pairs as far apart as the two.
        tested = partial(sample_apart, rows=len(batch.rows), pairs=alike(batch), effort=_EFFORT)
        given = neighbours()
        return [judge_pairs("batch.large", batch.id, given, program, terms, tested=tested)]
    require_certain(program, terms.lane)
    seen = observe_batch(program, batch.id, batch.rows, lane=terms.lane, share=SERVED)
    return [judge_batch(seen, "batch.large")]


_EFFORT = Effort(2**15, 0.05)
"""Pairs of a batch that is sampled, and their smallest bias of interest: some hundred calls."""
