"""`random.default`: sources of randomness that a caller may leave to the verifier, or share.

The cases are requests without a generator, requests with a generator per row, a generator that two
verifiers share in turn, and the process after a fork.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy
import torch
from numpy.typing import NDArray

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.lanes._streams import seeded
from draftproof.conformance.lanes.exchange import (
    Asked,
    answer,
    as_loaded,
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
    observe_batch,
    observed,
)
from draftproof.conformance.lanes.unwatched import fresh_generator, generators_of_rows
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program, Request
from draftproof.conformance.requirements._one_law import AskedOtherwise, judged_law, sampled_calls
from draftproof.conformance.requirements.batches import judge_batch
from draftproof.conformance.requirements.calls import independence
from draftproof.conformance.requirements.finding import ERROR, FAIL, PASS, SKIPPED, Finding
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import draft_law

_ID = "random.default"
_ONE_PATH = "generic.v3.l2"


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on requests without a generator, with a shared one or with one per row."""
    sources = ["default", *["generators"] * declared.generators]
    for source in sources:
        chosen = _ONE_PATH, f"several.{declared.scheme}.v3.l1.k2"
        for case in cases("quick"):
            if case.id in chosen and fits(case, declared):
                judged = partial(judge_case, source, case)
                yield Task(f"{source}.{case.id}", (_ID,), (EXACT, PROBE, SAMPLE), judged)
        if declared.batch:
            yield Task(f"{source}.pair", (_ID,), (EXACT, PROBE), partial(judge_pair, source))
    if declared.generators and declared.batch:
        yield Task("generators.own", (_ID,), (RUN,), judge_own)
    if mode != "quick":
        yield Task("default.shared", (_ID,), (EXACT, PROBE), judge_shared)
    yield Task("default.copies", (_ID,), (RUN,), judge_copies)
    yield Task("default.fork", (_ID,), (RUN,), judge_fork)


# --- laws ------------------------------------------------------------------------------------


def _without(asked: Request) -> Request:
    """Return the request without a generator."""
    return replace(asked, generator=None)


def _with_own(asked: Request) -> Request:
    """Return the request with a generator per row."""
    assert asked.generator is not None  # noqa: S101  # every request is made with one
    own = generators_of_rows(asked.generator, len(asked.draft_tokens))
    return replace(asked, generator=None, generators=own)


_SOURCES = {"default": _without, "generators": _with_own}
"""Changes of requests, by the first word of a case's id."""


def _asked_of(source: str, program: Program) -> Program:
    return replace(program, adapter=AskedOtherwise(program.adapter, _SOURCES[source]))


def judge_case(source: str, case: Case, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.default` on a case whose requests have different generators."""
    other, name = _asked_of(source, program), f"{source}.{case.id}"
    if terms.lane == SAMPLE:
        return [sampled_calls(_ID, name, other, case.instance, terms)]
    return [judged_law(_ID, observe(other, replace(case, id=name), lane=terms.lane))]


def judge_pair(source: str, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.default` on a batch and its rows alone, in other generators."""
    known = {case.id: case.instance for case in cases("quick")}
    rows: list[Asked] = [(known["generic.v2.l2"], ((0, 1),)), (known["banked"], ((1, 0),))]
    other = _asked_of(source, program)
    seen = observe_batch(other, f"{source}.pair", rows, lane=terms.lane, beside=program)
    return [judge_batch(seen, _ID)]


def judge_shared(program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.default` on two verifiers that share a generator."""
    declared = program.declared
    instance = next(case.instance for case in cases("quick") if case.id == "generic.v2.l2")
    row: Asked = instance, ((0, 1),)

    def run(asked: Adapter, copies: int) -> Any:
        generator = fresh_generator(declared.device)
        return tuple(
            answer(as_loaded(asked), seeded_request([row] * copies, declared, generator))
            for _ in range(2)
        )

    def read(raw: Any, copies: int) -> Sequence[Any]:
        return list(zip(*(outcomes(each, [row] * copies) for each in raw), strict=True))

    lane = terms.lane
    together = observed(program, run, read, vocabulary=instance.vocabulary, lane=lane)
    alone = joint_laws(program, [[row]], lane=lane) * 2
    return [independence(_ID, "default.shared", program, [row, row], together, alone, lane)]


# --- single runs: each row's own generator ------------------------------------------------------


def judge_own(program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.default` on rows with a generator each.

    The emission of a row depends on its generator alone: not on the seeds of other rows, the order
    of the rows, or the state of a global generator. Every draft of a case is verified with four
    seeds.
    """
    instance = next(case.instance for case in cases("quick") if case.id == _ONE_PATH)
    rows: list[Asked] = [(instance, drafts) for drafts in draft_law(instance)]
    count, first = len(rows), terms.seed_of("generators.own")
    backwards = range(count)[::-1]
    runs, fault = 0, ""

    def emitted(order: Sequence[int], seeds: Sequence[int], others: int) -> dict[int, Any]:
        """Return the emission of each row, in a batch of some order, by its number."""
        device = program.declared.device
        own = tuple(torch.Generator(device).manual_seed(seeds[row]) for row in order)
        asked = request([rows[row] for row in order], program.declared)
        with seeded(others):
            # Noise of the request's is drawn from a generator of the request's.
            asked = with_noise(asked, program.declared)
            raw = answer(as_loaded(program.adapter), replace(asked, generator=None, generators=own))
        return dict(zip(order, outcomes(raw, [rows[row] for row in order]), strict=True))

    for again in range(_SEEDS):
        seeds = [first + again * count + row for row in range(count)]
        one = emitted(range(count), seeds, first)
        every_other = [seed + _FAR * (row % 2) for row, seed in enumerate(seeds)]
        trials = {
            "the order of the rows": emitted(backwards, seeds, first),
            "the generators of other rows": emitted(range(count), every_other, first),
            "a global generator": emitted(range(count), seeds, first + 1),
        }
        runs += 1 + len(trials)
        for what, other in trials.items():
            kept = range(0, count, 2) if "other" in what else range(count)
            changed = [row for row in kept if one[row] != other[row]]
            if changed and not fault:
                where = changed[0]
                fault = f"depends on {what}: row {where}, {told(rows[where][1], one[where])}"
    verdict = FAIL if fault else PASS
    return [Finding(_ID, "generators.own", verdict, lane=RUN, runs=runs, detail=fault)]


_SEEDS = 4
_FAR = 2**40
"""Offset to the other seeds, so that no two rows share a seed."""


# --- single runs: repeated numbers ---------------------------------------------------------------

_CALLS = 16
"""Number of calls that are compared; see `repeated`."""

_TIMES = 4
"""Number of rows of a call for every draft."""

_Emitted = NDArray[numpy.int64]
"""[calls, rows, 3]: accepted lengths, paths and next tokens; -2 for missing results."""


def judge_copies(program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.default` on two copies that share a generator in turn."""
    copies = [as_loaded(program.adapter) for _ in range(2)]
    seed = terms.seed_of("default.copies")
    generator = torch.Generator(program.declared.device).manual_seed(seed)
    found: list[list[list[Any]]] = [[], []]
    with seeded(seed):
        for _ in range(_CALLS):
            for copy, calls in zip(copies, found, strict=True):
                calls.append(_call(replace(program, adapter=copy), generator))
    said = repeated(*map(numpy.array, found))
    detail = f"two verifiers that draw from one generator in turn repeat each other's {said}"
    return [_single("default.copies", said and detail)]


def judge_fork(program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.default` on a process and its fork, with different seeds.

    A call before the fork lets the verifier build whatever it keeps. Then the global generators of
    both processes are seeded, with two seeds: a verifier that draws from them emits different
    tokens in each, and a verifier with its own stream, copied by the fork, emits the same tokens.
    """
    if not hasattr(os, "fork"):
        return [_not_asked("this system has no fork")]
    if program.declared.device != "cpu":
        return [_not_asked("a device cannot be used in a forked process")]
    seed = terms.seed_of("default.fork")
    own = replace(program, adapter=as_loaded(program.adapter))
    _call(own, None)
    with _forked(partial(_calls, own, seed + 1)) as result:
        here = _calls(own, seed)
        there = result()
    if there is None:
        lost = f"a forked process emitted nothing in {_PATIENCE} seconds"
        return [Finding(_ID, "default.fork", ERROR, lane=RUN, detail=lost)]
    said = repeated(numpy.array(here), numpy.array(there))
    detail = f"a forked process whose generators are seeded otherwise repeats its parent's {said}"
    return [_single("default.fork", said and detail)]


def _single(case: str, fault: str) -> Finding:
    verdict = FAIL if fault else PASS
    return Finding(_ID, case, verdict, lane=RUN, runs=2 * _CALLS, detail=fault)


def _not_asked(reason: str) -> Finding:
    return Finding(_ID, "default.fork", SKIPPED, detail=reason, applies=False)


def _calls(program: Program, seed: int) -> list[list[Any]]:
    """Return the emissions of calls without a generator, after seeding the global generators."""
    with seeded(seed):
        return [_call(program, None) for _ in range(_CALLS)]


def _call(program: Program, generator: torch.Generator | None) -> list[Any]:
    """Return the emission of every row of a case, [rows, 3], -2 for an error."""
    instance = next(case.instance for case in cases("quick") if case.id == _ONE_PATH)
    rows: list[Asked] = [(instance, drafts) for drafts in draft_law(instance)] * _TIMES
    emitted: list[Any] = []
    for part in [rows] if program.declared.batch else [[row] for row in rows]:
        asked = replace(request(part, program.declared), generator=generator)
        raw = answer(program.adapter, with_noise(asked, program.declared))
        failed = [torch.full((len(part),), -2)] * 3
        emitted += torch.stack(failed if isinstance(raw, str) else [*raw], 1).long().tolist()
    return emitted


def repeated(one: _Emitted, other: _Emitted) -> str:
    """Return what a sequence of calls repeats of a second sequence, empty for nothing.

    It is a repetition if each call of the first sequence agrees with the call of the same number in
    the second on more rows than with any other call. Then, among all n! orders of the second
    sequence's calls, this order alone agrees best. For independent sequences all orders are equally
    likely, so a correct verifier fails with probability at most 3 / 16! < 1.5e-13, whatever its
    law.
    """
    whole = (one[:, None] == other[None]).all(-1)
    aspects = {
        "emissions": whole,
        "accepted lengths": one[:, None, :, 0] == other[None, :, :, 0],
        "next tokens": one[:, None, :, 2] == other[None, :, :, 2],
    }
    for name, agrees in aspects.items():
        rows = agrees.sum(-1)
        beside = rows.copy()
        numpy.fill_diagonal(beside, -1)
        if (numpy.diagonal(rows) > beside.max(1)).all():
            return name
    return ""


# --- forks -------------------------------------------------------------------------------------

_PATIENCE = 120
"""Seconds that a forked process has."""


@contextmanager
def _forked(work: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Do work in a forked process, and yield a function that returns its result, or None."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Other threads than this one may exist, but none runs the code under test.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        # Nothing of what this process has begun is to be finished by its copy, whose OpenMP would
        # wait forever for threads that are not copied.
        try:
            torch.set_num_threads(1)
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                json.dump(work(), out)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        yield partial(_result, reading)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _result(reading: int) -> Any:
    """Return what a forked process has written, None if it has no result, or is late."""
    text, deadline = b"", time.monotonic() + _PATIENCE
    while select.select([reading], [], [], max(deadline - time.monotonic(), 0))[0]:
        some = os.read(reading, 2**16)
        if not some:
            return json.loads(text) if text else None
        text += some
    return None
