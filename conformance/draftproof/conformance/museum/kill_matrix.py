"""Kill matrix: the requirements that catch each mutant, lane by lane."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from secrets import randbits

import joblib

from draftproof.conformance.failure.counterexample import Progress
from draftproof.conformance.lanes.observe import BLINDNESS, RUN
from draftproof.conformance.museum.mutants.mutant import Control, Exhibit, Mutant
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.requirements.finding import (
    ERROR,
    FAIL,
    INCONCLUSIVE,
    PASS,
    SKIPPED,
    Finding,
)
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.conformance.run.campaign import FALSE_ALARM, LANES

KILLED, SURVIVED, UNDECIDED, BLIND = "killed", "survived", "undecided", "blind"
"""Fates of an exhibit on a lane; a blind lane could not observe every case."""

LOSSLESS = ("law.lossless", "law.support", "law.prefix", "length.bounded")
"""Requirements that every control satisfies."""


@dataclass(frozen=True)
class KillCell:
    """Verdict of one requirement on one lane: killed, survived, undecided or blind.

    `finding` is the first finding that gives the verdict; `cases` is the number of cases judged
    until then.
    """

    requirement: str
    lane: str
    verdict: str
    finding: Finding
    cases: int


@dataclass(frozen=True)
class KillRow:
    """Fate of one mutant or control.

    `caught` is true for the required fate. A mutant must be killed by the requirement that it
    breaks, and by the others that must catch it, on every lane that could observe it. A control
    must fail the requirements that it must fail, and no requirement that would call it lossy.
    """

    exhibit: Exhibit
    cells: tuple[KillCell, ...]
    caught: bool


def kill_matrix(
    exhibits: Sequence[Exhibit],
    *,
    lanes: Sequence[str],
    mode: str,
    seed: int | None = None,
    jobs: int = 1,
    progress: Progress,
) -> tuple[KillRow, ...]:
    """Judge mutants and controls on each of the lanes alone.

    A mutant is judged by the requirements that must catch it, quick cases first, each until it
    catches the mutant; a control by all requirements on all cases. If none of the lanes can decide
    on a mutant, the strongest other lane that can decide judges it. `seed` is random by default.
    """
    terms = Terms("", mode, randbits(48) if seed is None else seed, FALSE_ALARM)
    work = joblib.Parallel(n_jobs=jobs, return_as="generator")(
        joblib.delayed(_judged)(exhibit, tuple(lanes), terms) for exhibit in exhibits
    )
    return tuple(progress(work, len(exhibits), "mutants"))


def _judged(exhibit: Exhibit, lanes: Sequence[str], terms: Terms) -> KillRow:
    tasks = _quick_first(exhibit, terms.mode)
    must = exhibit.must_fail
    wanted = {r for task in tasks for r in task.requirements}
    if isinstance(exhibit, Mutant):
        wanted = set(must)
    cells: list[KillCell] = []
    for lane in dict.fromkeys((*lanes, *LANES)):
        seen = {cell.requirement for cell in cells if cell.verdict in (KILLED, SURVIVED)}
        asked = wanted if lane in lanes else set(must) - seen
        cells += _cells(exhibit, tasks, asked, replace(terms, lane=lane))
    caught = all(_is_killed(requirement, cells) for requirement in must)
    if isinstance(exhibit, Control):
        killed, spared = (
            {cell.requirement for cell in cells if cell.verdict == verdict}
            for verdict in (KILLED, SURVIVED)
        )
        caught &= spared - killed >= set(LOSSLESS) and (bool(must) or not killed)
    return KillRow(exhibit, tuple(cells), caught)


def _is_killed(requirement: str, cells: Sequence[KillCell]) -> bool:
    """Return True if a lane decided a requirement, and all deciding lanes killed the exhibit."""
    verdicts = {cell.verdict for cell in cells if cell.requirement == requirement}
    return verdicts - {UNDECIDED, BLIND} == {KILLED}


def _quick_first(exhibit: Exhibit, mode: str) -> list[Task]:
    """Return the tasks of the mode, starting with the tasks of mode quick."""
    declared = program_of(exhibit.make()).declared
    quick = {(task.case, task.requirements) for task in plan(declared, "quick")}
    return sorted(
        plan(declared, mode), key=lambda task: (task.case, task.requirements) not in quick
    )


def _cells(
    exhibit: Exhibit, tasks: Sequence[Task], asked: Collection[str], terms: Terms
) -> Iterator[KillCell]:
    """Yield the cells of the requirements on one lane, single runs included."""
    found: dict[str, list[Finding]] = {}
    alive = set(asked)
    for task in tasks:
        lane = next((each for each in (terms.lane, RUN) if each in task.lanes), None)
        if lane is None or alive.isdisjoint(task.requirements):
            continue
        for finding in _findings(exhibit, task, replace(terms, lane=lane)):
            if finding.verdict != SKIPPED:
                found.setdefault(finding.requirement, []).append(finding)
            # A lane that is blind on one case is not asked again: it would look for minutes.
            if finding.verdict == ERROR or (
                finding.verdict == FAIL and isinstance(exhibit, Mutant)
            ):
                alive.discard(finding.requirement)
    for requirement, findings in found.items():
        verdict, decisive = _verdict(findings)
        # What was judged by the way, on some cases only, has not survived.
        if requirement in asked or verdict == KILLED:
            by = decisive.lane or terms.lane
            yield KillCell(requirement, by, verdict, decisive, len(findings))


def _verdict(findings: Sequence[Finding]) -> tuple[str, Finding]:
    """Return the verdict of the findings, and the first finding that gives it."""
    kinds = ((KILLED, FAIL), (BLIND, ERROR), (UNDECIDED, INCONCLUSIVE), (SURVIVED, PASS))
    return next((v, f) for v, verdict in kinds for f in findings if f.verdict == verdict)


def _findings(exhibit: Exhibit, task: Task, terms: Terms) -> list[Finding]:
    try:
        return task.judge(program_of(exhibit.make()), terms)
    except BLINDNESS as error:
        reason = f"{type(error).__name__}: {error}"
        return [
            Finding(r, task.case, ERROR, lane=terms.lane, detail=reason) for r in task.requirements
        ]
