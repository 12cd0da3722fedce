"""Requirement on long drafts.

Id, level and wording are those of the specification's chapter 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from draftproof.conformance.cases.case import BatchCase
from draftproof.conformance.cases.long import LongCases, long, long_batches
from draftproof.conformance.lanes.observe import (
    EXACT,
    PROBE,
    SAMPLE,
    observe_batch,
    observe_together,
)
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.requirements._one_law import judged_law, sampled_law, worst_of
from draftproof.conformance.requirements.batches import judge_batch
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.sampled import Effort
from draftproof.conformance.requirements.task import Task, Terms


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on long drafts: one for the pairs of positions at a distance."""
    for group in long(mode):
        fitting = tuple(case for case in group.cases if fits(case, declared))
        if fitting:
            judged = partial(judge_long, replace(group, cases=fitting))
            yield Task(group.id, ("law.long",), (EXACT, PROBE, SAMPLE), judged)
    for batch in long_batches(mode) if declared.batch else ():
        judged_rows = partial(judge_long_rows, batch)
        yield Task(batch.id, ("law.long",), (EXACT, PROBE), judged_rows)


_PROBED = 4
"""One in so many pairs is probed: an interpreted kernel takes seconds for each."""

_EFFORTS = {
    "quick": Effort(2**10, 0.3),
    "standard": Effort(2**11, 0.2),
    "certify": Effort(2**11, 0.2),
}
"""Smaller than `sampled.EFFORTS`: every emission is a call of its own, and some ten texts can be
said."""


def judge_long(group: LongCases, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `law.long` on cases of one form: that on the worst of them."""
    if terms.lane == SAMPLE:
        middle = group.cases[len(group.cases) // 2]
        # One row a call: a fault that draws the same in every call has the right law in one call.
        apart, effort = replace(terms, alone=True), _EFFORTS[terms.mode]
        return [sampled_law("law.long", group.id, program, middle.instance, apart, effort)]
    asked = group.cases[:: _PROBED if terms.lane == PROBE else 1]
    seen = observe_together(program, asked, lane=terms.lane)
    return [worst_of(group.id, [judged_law("law.long", each) for each in seen])]


def judge_long_rows(batch: BatchCase, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `law.long` on two long rows: they are independent of each other."""
    seen = observe_batch(program, batch.id, batch.rows, lane=terms.lane)
    return [judge_batch(seen, "law.long")]
