"""Requirements on the use of randomness.

Ids, levels and wording are those of the specification's chapter 8. `random.fresh` is judged on the
law of one row, with the laws of chapter 2; drafting and verifying in one program, and noise
at the ends of its range, have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.cases.long import drafted, uncertain
from draftproof.conformance.lanes._streams import seeded, states
from draftproof.conformance.lanes.compared import described, note
from draftproof.conformance.lanes.exchange import (
    Asked,
    Outcome,
    answer,
    as_loaded,
    did,
    outcomes,
    request,
    seeded_request,
    told,
    with_noise,
)
from draftproof.conformance.lanes.observe import (
    EXACT,
    PROBE,
    RUN,
    SAMPLE,
    joint_laws,
    observe,
    observed,
)
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements import _ends, _iterations
from draftproof.conformance.requirements._one_law import AskedOtherwise, judged_law
from draftproof.conformance.requirements.batches import judge_pairs
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding, verdict_of
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import draft_law
from draftproof.reference.law import Law
from draftproof.reference.model import Instance
from draftproof.reference.rational import ZERO, total


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on the use of randomness."""
    yield Task("runs", ("random.reproducible", "random.generator"), (RUN,), judge_runs)
    for name, rows in _consecutive().items():
        lanes = (EXACT, PROBE, SAMPLE) if name == "same" else (EXACT, PROBE)
        judged = partial(judge_calls, name, rows)
        yield Task(f"calls.{name}", ("random.calls",), lanes, judged)
    for at in range(1, len(_SEQUENCE)) if declared.batch else ():
        judged = partial(judge_sequence, at)
        yield Task(f"calls.sequence.{at}", ("random.calls",), (EXACT, PROBE), judged)
    for case in cases("quick"):
        if case.id in (_DEFAULT, f"several.{declared.scheme}.v3.l1.k2") and fits(case, declared):
            judged = partial(judge_default, case)
            yield Task(f"default.{case.id}", ("random.default",), (EXACT, PROBE), judged)
    yield from _iterations.tasks(declared)
    yield from _ends.tasks(declared, mode)


# --- single runs ------------------------------------------------------------------------------

# All drafts of each: 22 rows, of which 19 can end in several ways.
_RUN_CASES = ("generic.v3.l2", "banked", "zeros.both")

_SEEDS = 4
"""The number of seeds of single runs. See `judge_runs` for the faults that they can miss."""


@dataclass(frozen=True)
class _Answer:
    """The outcomes of a verifier's rows, and the generators that it moved."""

    outcomes: tuple[Outcome, ...]
    others_moved: tuple[str, ...]
    own_moved: bool


def judge_runs(program: Program, terms: Terms) -> list[Finding]:
    """Return the findings of `random.reproducible` and `random.generator`.

    One adapter object, after a first call that is not counted, verifies every draft of three cases
    with four seeds: twice with all generators seeded alike, once with the request's alone. A
    verifier that draws its results afresh each time has equal outcomes in all 88 pairs of rows with
    a probability below 1e-30, under token and under block verification. Faults that do not change
    the result stay unseen: draws from a generator that decide nothing, randomness that decides less
    than one row in a hundred, and effects that show only in another process, thread or device.
    """
    same = replace(program, adapter=as_loaded(program.adapter))
    differ: list[str] = []
    depends: list[str] = []
    moved: dict[str, None] = {}
    own_moved, runs = bool(program.declared.noise), 0
    for case in (case for case in cases("quick") if case.id in _RUN_CASES):
        first = terms.seed_of(f"runs/{case.id}")
        for rows in _requests(case.instance, program.declared):
            _answered(same, rows, own=first, others=first)
            for seed in range(first, first + _SEEDS):
                one = _answered(same, rows, own=seed, others=seed)
                again = _answered(same, rows, own=seed, others=seed)
                other = _answered(same, rows, own=seed, others=seed + _SEEDS)
                differ += _differences(case, rows, one, again)
                depends += _differences(case, rows, one, other)
                moved.update(dict.fromkeys(one.others_moved))
                own_moved |= one.own_moved
                runs += 3 * len(rows)
    generator = ""
    if moved:
        generator = f"moves {', '.join(moved)}"
    elif not own_moved:
        generator = "never draws from the request's generator"
    elif depends:
        generator = f"depends on more than the request's generator: {depends[0]}"
    faults = {"random.reproducible": "".join(differ[:1]), "random.generator": generator}
    return [
        Finding(each, "runs", FAIL if fault else PASS, lane=RUN, runs=runs, detail=fault)
        for each, fault in faults.items()
    ]


def _requests(instance: Instance, declared: Declaration) -> Iterator[list[Asked]]:
    """Yield all drafts of an instance, in one request if the adapter takes several rows."""
    rows = [(instance, drafts) for drafts in draft_law(instance)]
    yield from [rows] if declared.batch else ([row] for row in rows)


def _answered(program: Program, rows: Sequence[Asked], *, own: int, others: int) -> _Answer:
    """Verify with the request's generator seeded by `own`, and all global ones by `others`."""
    with seeded(others):
        generator = torch.Generator(program.declared.device).manual_seed(own)
        asked = seeded_request(rows, program.declared, generator)
        before, own_before = states(), generator.get_state()
        raw = answer(program.adapter, asked)
        after, own_after = states(), generator.get_state()
    return _Answer(
        outcomes(raw, rows),
        tuple(name for name, state in after.items() if state != before[name]),
        not torch.equal(own_before, own_after),
    )


def _differences(case: Case, rows: Sequence[Asked], one: _Answer, two: _Answer) -> Iterator[str]:
    for (_, drafts), first, second in zip(rows, one.outcomes, two.outcomes, strict=True):
        if first != second:
            yield f"{case.id}, {told(drafts, first)}, then {did(second)}"


# --- consecutive calls ------------------------------------------------------------------------


def _consecutive() -> dict[str, tuple[Asked, Asked]]:
    """Return pairs of rows for consecutive calls: equal, different, and of different length."""
    known = {case.id: case.instance for case in cases("quick")}
    short, first, second = (known[n] for n in ("generic.v2.l1", "generic.v2.l2", "banked"))
    return {
        "same": ((first, ((0, 1),)), (first, ((0, 1),))),
        "different": ((first, ((0, 1),)), (second, ((1, 0),))),
        "longer": ((short, ((1,),)), (first, ((1, 0),))),
    }


def judge_calls(
    name: str, rows: tuple[Asked, Asked], program: Program, terms: Terms
) -> list[Finding]:
    """Return the finding of `random.calls` on two consecutive calls of one adapter object."""
    declared, case = program.declared, f"calls.{name}"
    if terms.lane == SAMPLE:
        return [judge_pairs("random.calls", case, rows[0][0], program, terms)]

    def run(asked: Adapter, copies: int) -> Any:
        """Make both calls on a fresh copy."""
        fresh = as_loaded(asked)
        requests = (request([row] * copies, declared) for row in rows)
        return tuple(answer(fresh, with_noise(each, declared)) for each in requests)

    def read(raw: Any, copies: int) -> Sequence[Any]:
        each = (outcomes(r, [row] * copies) for r, row in zip(raw, rows, strict=True))
        return list(zip(*each, strict=True))

    vocabulary, lane = rows[0][0].vocabulary, terms.lane
    together = observed(program, run, read, vocabulary=vocabulary, lane=lane)
    one, two = (joint_laws(program, [[row]], lane=lane)[0] for row in rows)
    for call, row in enumerate(rows, start=1):
        note([described(program.adapter, request([row], declared), call=call)])
    product = one.law.then(lambda first: two.law.map(lambda second: (*first, *second)))
    distance = together.law.total_variation(product)
    # Both calls may be off by the rounding of one law, together and alone.
    allowed = 2 * total(allowed_distance(declared, i.vocabulary, i.length) for i, _ in rows)
    verdict = verdict_of(distance, allowed, together.slack + one.slack + two.slack)
    runs = together.runs + one.runs + two.runs
    detail = _dependence(rows, together.law, product) if verdict == FAIL else ""
    return [Finding("random.calls", case, verdict, distance, allowed, terms.lane, runs, detail)]


_SEQUENCE = ((1, 2), (4, 3), (2, 5), (8, 1), (1, 3))
"""Rows B and tokens L of five calls: batches grow and shrink, and so do drafts."""


def judge_sequence(at: int, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.calls` on a call behind others of one adapter object.

    All calls but this one are certain, so whatever they leave is the same in every run, and the law
    of this one is that of its one uncertain row.
    """
    declared, name = program.declared, f"calls.sequence.{at}"
    rows, length = _SEQUENCE[at]
    row = drafted(uncertain(f"calls.{length}", length, {0, length}))
    beside = [_certain(length)] * (rows - 1)

    def run(asked: Adapter, copies: int) -> Any:
        """Make the calls on a fresh copy; in all of them, as many times as many rows."""
        fresh = as_loaded(asked)
        for earlier, own in _SEQUENCE[:at]:
            certain = request([_certain(own)] * earlier * copies, declared)
            answer(fresh, with_noise(certain, declared))
        requested = request([row, *beside] * copies, declared)
        return answer(fresh, with_noise(requested, declared))

    def read(raw: Any, copies: int) -> Sequence[Any]:
        # Every copy has a share of every call, so the lane can probe many copies in one run.
        return outcomes(raw, [row, *beside] * copies)[::rows]

    seen = observed(program, run, read, vocabulary=row[0].vocabulary, lane=terms.lane)
    (alone,) = joint_laws(program, [[row]], lane=terms.lane)
    asked = request([row, *beside], declared)
    note([described(program.adapter, asked, call=at + 1)])
    distance = seen.law.total_variation(alone.of_row(0))
    allowed = 2 * allowed_distance(declared, row[0].vocabulary, length)
    verdict = verdict_of(distance, allowed, seen.slack + alone.slack)
    before = ", ".join(f"B = {b}, L = {own}" for b, own in _SEQUENCE[:at])
    detail = f"after calls of {before}, one of B = {rows}, L = {length}" if verdict == FAIL else ""
    runs = seen.runs + alone.runs
    return [Finding("random.calls", name, verdict, distance, allowed, terms.lane, runs, detail)]


def _certain(length: int) -> Asked:
    return drafted(uncertain("calls.certain", length, set()))


_DEFAULT = "generic.v3.l2"


def judge_default(case: Case, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.default` on a case whose requests have no generator."""
    adapter = AskedOtherwise(program.adapter, partial(replace, generator=None))
    named = replace(case, id=f"default.{case.id}")
    seen = observe(replace(program, adapter=adapter), named, lane=terms.lane)
    return [judged_law("random.default", seen)]


def _dependence(rows: tuple[Asked, Asked], seen: Law[Any], independent: Law[Any]) -> str:
    """Describe the pair of outcomes with the largest excess; among equals, the first."""
    expected = dict(independent.items())
    excess = {pair: weight - expected.get(pair, ZERO) for pair, weight in seen.items()}
    pair = max(excess, key=lambda each: excess[each])
    first, second = (told(drafts, did_) for (_, drafts), did_ in zip(rows, pair, strict=True))
    often, should = (float(of.get(pair, ZERO)) for of in (dict(seen.items()), expected))
    return (
        f"{first}; then, {second}: both with probability {often:.3g}, and {should:.3g} if calls "
        f"are independent"
    )
