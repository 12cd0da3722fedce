"""Requirement on calls that a CUDA graph captures.

Id, level and wording are those of the specification's chapter 9. It is untested: no device was
available.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.exchange import (
    Asked,
    Failure,
    as_loaded,
    columns,
    outcomes,
    raised,
    request,
)
from draftproof.conformance.lanes.observe import RUN
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED, Finding
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import draft_law

_ID, _CASE = "device.graph", "graph"


def tasks(_declared: Declaration, _mode: str) -> Iterator[Task]:
    """Yield the task on captured calls."""
    yield Task(_CASE, (_ID,), (RUN,), judge_graph)


_REPLAYS = 100


def judge_graph(program: Program, _terms: Terms) -> list[Finding]:
    """Return the finding of `device.graph`: one captured call of every draft of a case.

    The generator is CUDA's default, which a graph registers.
    """
    declared = program.declared
    if reason := _not_asked(declared):
        return [Finding(_ID, _CASE, SKIPPED, detail=reason, applies=False)]
    instance = next(case.instance for case in cases("quick") if case.id == "generic.v3.l2")
    rows: list[Asked] = [(instance, drafts) for drafts in draft_law(instance)]
    try:
        replays = _replayed(program, rows)
    except BaseException as error:
        return [Finding(_ID, _CASE, FAIL, lane=RUN, detail=raised(error))]
    fault = fault_of([outcomes(replay, rows) for replay in replays])
    verdict = FAIL if fault else PASS
    return [Finding(_ID, _CASE, verdict, lane=RUN, runs=len(replays), detail=fault)]


def _not_asked(declared: Declaration) -> str:
    if torch.device(declared.device).type != "cuda":
        return f"graphs are captured on CUDA, and its device is {declared.device!r}"
    if not declared.batch:
        return "it takes one row at a time, and captured calls are of a batch"
    if declared.noise:
        return "its noise comes with its requests: a replay has that of the captured one"
    return ""


def fault_of(replays: list[Any]) -> str:
    """Describe the fault in the outcomes of replays, empty if there is none.

    Two replays of a correct verifier agree in all of 9 rows once in some hundred times, so more
    than half of all neighbours agree with a probability below 1e-50.
    """
    failed = [each for replay in replays for each in replay if isinstance(each, Failure)]
    if failed:
        return failed[0].what
    alike = sum(one == two for one, two in pairwise(replays))
    if alike > len(replays) // 2:
        return f"{alike} of {len(replays)} replays emit what the replay before emitted"
    return ""


def _replayed(program: Program, rows: list[Asked]) -> list[Any]:
    """Return the columns of every replay of a captured call."""
    adapter, declared = as_loaded(program.adapter), program.declared
    asked = replace(request(rows, declared), generator=None)
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            adapter.verify(asked)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = adapter.verify(asked)
    found = []
    for _ in range(_REPLAYS):
        graph.replay()
        found.append([column.tolist() for column in columns(result, len(rows))])
    return found
