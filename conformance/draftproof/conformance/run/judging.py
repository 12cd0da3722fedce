"""Judging of one task, by the strongest lane that can see the adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from draftproof.conformance.lanes.cache import LawCache, caching
from draftproof.conformance.lanes.compared import Compared, Noted, noting
from draftproof.conformance.lanes.observe import BLINDNESS, PROBE, SAMPLE
from draftproof.conformance.lanes.opaque import FixedRandomness
from draftproof.conformance.lanes.unwatched import Held, holding
from draftproof.conformance.protocol.adapter import Adapter, Program
from draftproof.conformance.protocol.raising import told_of
from draftproof.conformance.requirements.finding import ERROR, SKIPPED, Finding
from draftproof.conformance.requirements.task import Task, Terms


@dataclass(frozen=True)
class Judged:
    """Findings of a task, and the result of real runs against its computed laws.

    `lane` is the deciding lane, None if none could decide. `unwatched` are counts by bin, and the
    lane (`Held.counted`), empty if no law was computed. `compared` has the compared laws, each with
    its number of occurrences.
    """

    findings: Sequence[Finding]
    lane: str | None = None
    unwatched: Mapping[str, Any] = field(default_factory=dict)
    compared: Mapping[Compared, int] = field(default_factory=dict)


def judge(
    program: Program, task: Task, terms: Terms, *, blind: Mapping[str, str], sampled: bool
) -> Judged:
    """Return the findings of a task.

    The lanes that are `blind` cannot see the adapter, for these reasons; `sampled` says whether
    samples may decide.
    """
    laws = _cache_of(program.adapter)
    seed = terms.seed_of(f"{task.case}/unwatched")
    with holding(seed) as held, noting() as noted, caching(laws):
        return _seen(program, task, terms, blind, held, noted, sampled=sampled)


_LAST: list[LawCache] = []
"""Laws of the adapter that this process judged last."""


def _cache_of(adapter: Adapter) -> LawCache:
    if not _LAST or _LAST[0].adapter is not adapter:
        _LAST[:] = [LawCache(adapter)]
    return _LAST[0]


def _seen(
    program: Program,
    task: Task,
    terms: Terms,
    blind: Mapping[str, str],
    held: Held,
    noted: Noted,
    *,
    sampled: bool,
) -> Judged:
    """Return the findings of the strongest lane that can see the adapter."""
    if not task.lanes:
        told = "none of the lanes that were asked for can decide it"
        return Judged(_undecided(task, SKIPPED, told))
    reasons, fixed = dict(blind), False
    for lane in task.lanes:
        if lane in blind:
            continue
        try:
            findings = task.judge(program, replace(terms, lane=lane))
            if fixed and all(each.verdict == SKIPPED for each in findings):
                # Its numbers are fixed in this task alone, where no other lane can see them.
                break
            if lane == PROBE:
                resolution = float(noted.resolution)
                findings = [replace(each, resolution=resolution) for each in findings]
            return Judged(findings, lane, held.counted(lane), noted.laws)
        except BLINDNESS as error:
            reasons[lane] = told_of(error)
            fixed |= isinstance(error, FixedRandomness)
            held.forget()
            noted.forget()
    if sampled and SAMPLE not in task.lanes and blind.keys() >= set(task.lanes):
        told = "samples cannot decide it, and no other lane sees it"
        return Judged(_undecided(task, SKIPPED, told))
    each = (f"{lane} lane: {reasons[lane]}" for lane in task.lanes if lane in reasons)
    return Judged(_undecided(task, ERROR, "; ".join(each)))


def _undecided(task: Task, verdict: str, reason: str) -> list[Finding]:
    return [
        Finding(requirement, task.case, verdict, detail=reason) for requirement in task.requirements
    ]
