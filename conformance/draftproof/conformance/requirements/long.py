"""Requirement on long drafts.

Id, level and wording are those of the specification's chapter 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from draftproof.conformance.cases.case import BatchCase
from draftproof.conformance.cases.long import LongCases, long, long_batches
from draftproof.conformance.lanes.observe import (
    EXACT,
    PROBE,
    SAMPLE,
    SERVED,
    observe_batch,
    observe_together,
)
from draftproof.conformance.lanes.unwatched import holding_nothing
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.requirements._one_law import (
    judged_law,
    require_certain,
    sampled_law,
    worst_of,
)
from draftproof.conformance.requirements.batches import judge_batch
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.laws import fits, probed, probed_batch, shape_of
from draftproof.conformance.requirements.sampled import Effort
from draftproof.conformance.requirements.task import Task, Terms, is_asked


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on long drafts: one for the pairs of positions at a distance."""
    groups = [_fitting(group, declared) for group in long(mode)]
    shapes = {group.id: shape_of(group.cases[0]) for group in groups if group.cases}
    for own in (group for group in groups if group.cases):
        if own.has_many_ways:
            yield Task(own.id, ("law.long",), (EXACT,), partial(judge_long, own, (own,)))
            continue
        shape = shapes[own.id]
        alike = tuple(
            group for group in groups if shapes.get(group.id) == shape and not group.has_many_ways
        )
        judged, lanes = partial(judge_long, own, alike), (EXACT, PROBE, SAMPLE)
        yield Task(own.id, ("law.long",), lanes, judged, probed_with=("long", *shape))
    batches = [*long_batches(mode)] if declared.batch else []
    for batch in batches:
        length = batch.rows[0][0].length
        fellows = tuple(each for each in batches if each.rows[0][0].length == length)
        judged_rows = partial(judge_long_rows, batch, fellows)
        together = ("long.rows", length)
        yield Task(batch.id, ("law.long",), (EXACT, PROBE), judged_rows, probed_with=together)


def _fitting(group: LongCases, declared: Declaration) -> LongCases:
    return replace(group, cases=tuple(case for case in group.cases if fits(case, declared)))


_PROBED = 12
"""One pair in this many is probed: an interpreted kernel takes a second for each."""

_EFFORTS = {
    "quick": Effort(2**10, 0.3),
    "standard": Effort(2**11, 0.2),
    "certify": Effort(2**11, 0.2),
}
"""Efforts smaller than `sampled.EFFORTS`: each emission is a separate call, and there are about ten
texts."""


def judge_long(
    group: LongCases, alike: Sequence[LongCases], program: Program, terms: Terms
) -> list[Finding]:
    """Return the finding of `law.long` on cases of one form: that on the worst of them.

    On the probe lane they share calls with the cases of all asked groups in `alike`.
    """
    if terms.lane == SAMPLE:
        middle = group.cases[len(group.cases) // 2]
        # One row a call: a fault that draws the same in every call has the right law in one call.
        apart, effort = replace(terms, alone=True), _EFFORTS[terms.mode]
        return [sampled_law("law.long", group.id, program, middle.instance, apart, effort)]
    require_certain(program, terms.lane)
    seen = None
    asked = group.cases[:: _PROBED if terms.lane == PROBE else 1]
    if terms.lane == PROBE and program.declared.batch:
        others = [other for other in alike if is_asked(other.id, terms.cases)]
        seen = probed(asked, [case for each in others for case in each.cases[::_PROBED]], program)
    if seen is None:
        with nullcontext() if group.is_held else holding_nothing():
            seen = observe_together(program, asked, lane=terms.lane)
    return [worst_of(group.id, [judged_law("law.long", each) for each in seen])]


def judge_long_rows(
    batch: BatchCase, alike: Sequence[BatchCase], program: Program, terms: Terms
) -> list[Finding]:
    """Return the finding of `law.long` on two long rows, which must be independent of each other.

    On the probe lane they share calls with the rows of all asked batches in `alike`.
    """
    require_certain(program, terms.lane)
    seen = None
    if terms.lane == PROBE:
        asked = tuple(each for each in alike if is_asked(each.id, terms.cases))
        seen = probed_batch(batch, asked, program)
    if seen is None:
        seen = observe_batch(program, batch.id, batch.rows, lane=terms.lane, share=SERVED)
    return [judge_batch(seen, "law.long")]
