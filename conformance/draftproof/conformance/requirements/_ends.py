"""`random.boundary` and `random.one`: noise at the ends of its range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.lanes.exchange import (
    Asked,
    Failure,
    Outcome,
    answer,
    as_given,
    as_loaded,
    outcomes,
    seeded_request,
    told,
)
from draftproof.conformance.lanes.observe import BLINDNESS, EXACT, PROBE, joint_laws
from draftproof.conformance.lanes.probe._edges import Ends, Put, attainable, exactly_one, runs_at
from draftproof.conformance.lanes.probe._tape import RowsMixed
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED, Finding
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import draft_law
from draftproof.reference.model import Model
from draftproof.reference.rational import Rational

ENDS: dict[str, Ends] = {"random.boundary": attainable, "random.one": exactly_one}
"""Ends of the noise, by requirement."""

# Zeros in either row and in both, equal rows, certain ones; the first has a choice everywhere.
_CASES = (
    "generic.v3.l2",
    "zeros.both",
    "disjoint",
    "equal",
    "zeros.target",
    "point.target",
    "point.draft",
    "point.both",
)


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on noise at the ends of its range, one for every case."""
    for case in _cases(declared, mode):
        yield Task(case.id, tuple(ENDS), (PROBE,), partial(judge_ends, case))


def _cases(declared: Declaration, mode: str) -> Iterator[Case]:
    for case in cases(mode):
        if case.id in _CASES:
            yield case
        if case.id == "zeros.both" and declared.max_drafts > 1:
            pair = replace(case.instance, drafts=2, length=1, scheme=declared.scheme)
            two = replace(case, id=f"{case.id}.k2", instance=pair)
            yield from [two] if fits(two, declared) else []


def judge_ends(case: Case, program: Program, terms: Terms) -> list[Finding]:
    """Return the findings of `random.boundary` and `random.one` on one case."""
    return [_judged(requirement, case, program, terms) for requirement in ENDS]


def _judged(requirement: str, case: Case, program: Program, terms: Terms) -> Finding:
    """Put the noise at its ends, for every draft, and find outcomes that the target cannot write.

    Outcomes that ordinary noise also leads to are left out, since there the laws of chapter 2 fail.
    """
    target = as_given(case.instance, program.declared).target
    law = draft_law(case.instance)
    rows = [(case.instance, drafts) for drafts in law]
    found = list(_found(ENDS[requirement], program, rows, terms.seed_of(case.id)))
    if not any(put for _, _, put in found):
        reason = "it draws no such noise by torch's operators, and takes none"
        return Finding(requirement, case.id, SKIPPED, lane=PROBE, runs=len(found), detail=reason)
    ordinary = {(row, outcome) for row, outcome, put in found if not put}
    wrong = [each for each in found if not _can_be(each[1], target) and each[:2] not in ordinary]
    for row in dict.fromkeys(row for row, _, _ in wrong):
        ordinary |= {(row, each) for each in _ordinary(program, row, law[row[1]])}
    faults = [
        (sum(each.moved for each in put), f"{' and '.join(map(str, put))}: {told(row[1], outcome)}")
        for row, outcome, put in wrong
        if (row, outcome) not in ordinary
    ]
    simplest = min(faults)[1] if faults else ""
    verdict = FAIL if faults else PASS
    return Finding(requirement, case.id, verdict, lane=PROBE, runs=len(found), detail=simplest)


def _found(
    ends: Ends, program: Program, rows: Sequence[Asked], seed: int
) -> Iterator[tuple[Asked, Outcome, tuple[Put, ...]]]:
    """Yield every row with its outcome, and the noise that was put at its ends."""
    try:
        together = [rows] if program.declared.batch else [[row] for row in rows]
        yield from _of_requests(ends, program, together, seed)
    except RowsMixed:
        yield from _of_requests(ends, program, [[row] for row in rows], seed)


def _of_requests(
    ends: Ends, program: Program, requests: Sequence[Sequence[Asked]], seed: int
) -> Iterator[tuple[Asked, Outcome, tuple[Put, ...]]]:
    for rows in requests:
        run = partial(_emitted, program, rows, seed)
        for emitted, put in runs_at(ends, run, rows=len(rows), seed=seed):
            yield from ((row, each, put) for row, each in zip(rows, emitted, strict=True))


def _emitted(program: Program, rows: Sequence[Asked], seed: int) -> tuple[Outcome, ...]:
    generator = torch.Generator(program.declared.device).manual_seed(seed)
    asked = seeded_request(rows, program.declared, generator)
    return outcomes(answer(as_loaded(program.adapter), asked), rows)


def _can_be(outcome: Outcome, target: Model) -> bool:
    return not isinstance(outcome, Failure) and target.joint(outcome.tokens) > 0


def _ordinary(program: Program, row: Asked, drawn: Rational) -> set[Outcome]:
    """Return the outcomes of noise away from its ends, where rounding cannot explain them.

    The set is limited to outcomes that the exact lane can see; `drawn` is the probability of the
    row's drafts.
    """
    try:
        (found,) = joint_laws(program, [[row]], lane=EXACT)
    except BLINDNESS:
        return set()
    allowed = allowed_distance(program.declared, row[0].vocabulary, row[0].length)
    return {outcome for outcome, weight in found.of_row(0).items() if drawn * weight > allowed}
