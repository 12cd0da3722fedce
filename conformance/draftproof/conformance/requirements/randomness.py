"""Requirements on the use of randomness.

Ids, levels and wording are those of the specification's chapter 8. `random.fresh` is judged on the
law of one row, with the laws of chapter 2. Requests without a generator, several calls, drafting
and verifying in one program, and noise at the ends of its range have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.lanes._streams import seeded, states
from draftproof.conformance.lanes.exchange import (
    Asked,
    Outcome,
    answer,
    as_loaded,
    did,
    outcomes,
    seeded_request,
    told,
)
from draftproof.conformance.lanes.observe import RUN
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.requirements import _defaults, _ends, _iterations, calls
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import draft_law
from draftproof.reference.model import Instance


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on the use of randomness."""
    yield Task("runs", ("random.reproducible", "random.generator"), (RUN,), judge_runs)
    yield from _defaults.tasks(declared, mode)
    yield from calls.tasks(declared, mode)
    yield from _iterations.tasks(declared)
    yield from _ends.tasks(declared, mode)


# --- single runs ------------------------------------------------------------------------------

# All drafts of each: 22 rows, of which 19 can end in several ways.
_RUN_CASES = ("generic.v3.l2", "banked", "zeros.both")

_SEEDS = 4
"""Number of seeds of single runs. See `judge_runs` for the faults that they can miss."""


@dataclass(frozen=True)
class _Answer:
    """Outcomes of a verifier's rows, and the generators that it moved."""

    outcomes: tuple[Outcome, ...]
    others_moved: tuple[str, ...]
    own_moved: bool


def judge_runs(program: Program, terms: Terms) -> list[Finding]:
    """Return the findings of `random.reproducible` and `random.generator`.

    One adapter object, after a first call that is not counted, verifies every draft of three cases
    with four seeds: twice with all generators seeded alike, once with the request's alone. A
    verifier that draws its results afresh each time has equal outcomes in all 88 pairs of rows with
    a probability below 1e-30, under token and under block verification. The test does not see
    faults that leave the result unchanged: draws from a generator that decide nothing, randomness
    that decides less than one row in a hundred, and effects that show only in another process,
    thread or device.
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
