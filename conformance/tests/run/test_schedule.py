from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from draftproof.conformance.cases import cases
from draftproof.conformance.evidence.records import (
    EditedEvidence,
    MalformedEvidence,
    Record,
    StaleEvidence,
)
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.lanes.statistics import Budget
from draftproof.conformance.protocol.adapter import (
    Declaration,
    Program,
    Request,
    Result,
    declaration,
    program_of,
)
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.conformance.requirements import sampled as sequential
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.sampled import (
    TESTS,
    Effort,
    SequentialTest,
)
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.conformance.run.sampling import recount
from draftproof.conformance.run.schedule import Work, judged
from draftproof.conformance.run.workers import WorkerLost, WorkersFailed
from draftproof.reference.rational import exactly

CASE = next(case for case in cases("quick") if case.id == "equal")
TERMS = Terms("", "quick", seed=1)


class Token:
    """Token verification, one path per row."""

    name, version, algorithm = "token", "1", "token"

    def verify(self, request: Request) -> Result:
        path, q, p = (
            request.draft_tokens[:, 0],
            request.draft_probs[:, 0],
            request.target_probs[:, 0],
        )
        ratio = (p[:, :-1] / q).gather(-1, path[..., None])[..., 0]
        accepted = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)
        rows = torch.cat([(p[:, :-1] - q).clamp(min=0), self.bonus(q, p)], 1)
        token = torch.multinomial(rows[torch.arange(len(path)), accepted], 1)[:, 0]
        return Result(accepted, torch.zeros_like(accepted), token)

    def bonus(self, q: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return p[:, -1:]


class FirstTokenAlways(Token):
    def bonus(self, q: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.zeros_like(p[:, -1:, 0]).long(), p.shape[-1])


def told(test: SequentialTest, state: sequential.TestState) -> list[Finding]:
    """What a test came to, as findings."""
    return [
        Finding(
            each, "equal", found.verdict, exactly(found.distance), lane="sample", detail=found.what
        )
        for each, found in test.results(state).items()
    ]


def sequential_of(effort: Effort, declared: Declaration, terms: Terms) -> SequentialTest:
    budget = Budget(TESTS * terms.false_alarm, TESTS)
    return SequentialTest(declared, CASE.instance, terms.seed_of(str(effort)), effort, budget)


def blind(adapter: Any, terms: Terms) -> list[Finding]:
    raise OpaqueRandomness("torch.rand", "is opaque")


def certain(adapter: Any, terms: Terms) -> list[Finding]:
    return [Finding("input.unchanged", "tensors", "pass", lane=terms.lane, runs=1)]


def sampled(emissions: int, bias: float) -> Task:
    effort = Effort(emissions, bias)
    return Task(
        "equal", ("law.lossless",), ("exact", "sample"), blind, partial(sequential_of, effort), told
    )


TASKS = (
    Task("tensors", ("input.unchanged",), ("run",), certain),
    sampled(2**13, 0.4),  # decided within its first share
    sampled(2**13, 0.001),  # never decided: all of its shares are drawn
    Task("tensors", ("input.unchanged",), ("run",), certain),
    sampled(2**12, 0.2),
)
"""Tasks in which samples decide some, in part of a share, in all shares, and at the very end."""


def work(adapter: Any = None, *, name: str | None = None, tasks: Sequence[Task] = TASKS) -> Work:
    program = program_of(adapter or Token())
    return Work(program, name, tasks, TERMS, {"exact": "it is opaque"}, sampled=True)


def here(calls: Iterable[Any]) -> Generator[Any, None, None]:
    for function, arguments, options in calls:
        yield function(*arguments, **options)


def ahead(number: int, calls: Iterable[Any]) -> Generator[Any, None, None]:
    """Work on so many calls before the first result is looked at, as processes do."""
    rest = iter(calls)
    waiting = list(here(islice(rest, number)))
    while waiting:
        yield waiting.pop(0)
        waiting += here(islice(rest, 1))


def left(over: Callable[..., Any] = here, **terms: Any) -> list[Record]:
    """The records that a work leaves behind, nothing known."""
    records: list[Record] = []
    for _ in judged(work(**terms), known=(), keep=records.append, over=over):
        pass
    return records


@pytest.fixture(scope="module")
def whole() -> list[Record]:
    return left()


def test_shares_are_left_as_they_are_needed(whole: list[Record]) -> None:
    kinds = [(record["record"], record["task"]) for record in whole]
    test = sequential_of(Effort(2**13, 0.001), declaration(Token()), TERMS)
    assert len(test.shares) > 1
    assert kinds == [
        ("result", 0),
        ("share", 1),
        ("result", 1),
        *[("share", 2)] * len(test.shares),
        ("result", 2),
        ("result", 3),
        ("share", 4),
        ("result", 4),
    ]
    decided, *open_ = (record["looks"] for record in whole if record["record"] == "share")
    assert 0 < len(decided) < len(test.shares[0])
    assert [len(looks) for looks in open_[:-1]] == [len(share) for share in test.shares]


OPAQUE = {"exact": "it is opaque"}


@pytest.mark.parametrize(("blind", "groups"), [(OPAQUE, [2, 1, 2]), ({}, [1] * 5)])
def test_tasks_that_are_probed_together_go_to_one_worker(
    blind: dict[str, str], groups: list[int]
) -> None:
    """Or each worker would observe the cases of all; what they come to is told in their order."""
    tasks = [replace(TASKS[0], probed_with=form) for form in ("a", None, "b", "a", "b")]
    sent, records = list[int](), list[Record]()

    def over(calls: Iterable[Any]) -> Generator[Any, None, None]:
        for function, arguments, options in calls:
            sent.append(len(arguments[1]))
            yield function(*arguments, **options)

    asked = replace(work(tasks=tasks), blind=blind)
    assert len([*judged(asked, known=(), keep=records.append, over=over)]) == len(tasks)
    assert sent == groups
    assert [record["task"] for record in records] == [*range(len(tasks))]


def test_what_fails_ends_at_once() -> None:
    records = left(adapter=FirstTokenAlways(), tasks=TASKS[2:3])
    assert [record["record"] for record in records] == ["share", "result"]
    verdicts = {each["requirement"]: each["verdict"] for each in records[-1]["findings"]}
    assert verdicts["law.lossless"] == "fail"


@pytest.mark.parametrize("number", [2, 3, 8])
def test_what_is_drawn_ahead_in_vain_leaves_no_trace(whole: list[Record], number: int) -> None:
    assert left(over=partial(ahead, number)) == whole


def test_it_goes_on_behind_any_record(whole: list[Record]) -> None:
    everything = list(judged(work(), known=whole, keep=refuse, over=here))
    assert len(everything) == len(TASKS)
    for known in range(len(whole)):
        records = whole[:known]
        steps = judged(work(), known=whole[:known], keep=records.append, over=partial(ahead, 2))
        assert list(steps) == everything
        assert records == whole, f"behind {known} records, the last a {whole[known - 1]['record']}"


def refuse(record: Record) -> None:
    raise AssertionError(f"this was known already: {record}")


def forget(record: Record) -> None:
    """Keep nothing."""


# --- workers that are lost ----------------------------------------------------------------


def losing(after: list[int], calls: Iterable[Any]) -> Generator[Any, None, None]:
    """Lose the workers after so many results, each time one entry, and then no more."""
    results = here(calls)
    if after:
        yield from islice(results, after.pop(0))
        raise WorkerLost("lost")
    yield from results


@pytest.mark.parametrize("after", [[0], [1], [2], [3], [4], [1, 1, 1], [0, 0, 0]])
def test_lost_work_is_done_again(whole: list[Record], after: list[int]) -> None:
    assert left(over=partial(losing, after)) == whole


def test_who_loses_every_worker_is_not_asked_for_ever() -> None:
    after = [0] * 10
    with pytest.raises(WorkerLost, match="lost"):
        left(over=partial(losing, after))
    assert len(after) == 6


# --- workers that have something else -----------------------------------------------------

SOURCE = """
import torch
from types import SimpleNamespace


class Silent:
    name, version, algorithm = "silent", "1", "token"

    def verify(self, request):
        return SimpleNamespace()
"""


def test_a_worker_judges_what_is_asked_for_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "silent.py"
    file.write_text(SOURCE)
    named: dict[str, Any] = {"name": f"{file}:Silent", "tasks": TASKS[:1]}
    adapter = load_adapter(f"{file}:Silent")
    assert len(left(adapter=adapter, **named)) == 1
    file.write_text(SOURCE.replace("SimpleNamespace()", "None"))
    with pytest.raises(
        WorkersFailed, match=r"a worker has something else.*adapter is '[0-9a-f]{64}'"
    ):
        left(adapter=adapter, **named)


# --- what known records cannot be of ------------------------------------------------------


def test_shares_of_what_another_lane_sees_now_are_stale(whole: list[Record]) -> None:
    seen = Work(program_of(Token()), None, TASKS, TERMS, {}, sampled=True)
    with pytest.raises(StaleEvidence, match="task 1 was sampled, and another lane sees it now"):
        list(judged(seen, known=whole[:2], keep=refuse, over=here))


def test_what_no_lane_sees_is_said_lane_by_lane() -> None:
    opaque = Task("equal", ("law.lossless",), ("exact", "probe"), blind)
    nothing = Task("equal", ("law.support", "law.prefix"), (), blind)
    unsampled = Work(program_of(Token()), None, [opaque, nothing], TERMS, {}, sampled=False)
    opaque_found, nothing_found = judged(unsampled, known=(), keep=forget, over=here)
    (found,) = opaque_found
    assert found.verdict == "error"
    assert found.detail.startswith("exact lane: OpaqueRandomness: torch.rand is opaque")
    assert "; probe lane: OpaqueRandomness" in found.detail
    assert {each.verdict for each in nothing_found} == {"skipped"}
    assert [each.requirement for each in nothing_found] == ["law.support", "law.prefix"]
    assert "none of the lanes that were asked for" in nothing_found[0].detail


def ours(text: str) -> Callable[[Program, Terms], list[Finding]]:
    """Return a judgement whose code is the suite's own, and which evaluates this."""
    own = {"__name__": "draftproof.conformance.requirements.tail"}
    found: Callable[[Program, Terms], list[Finding]] = eval(f"lambda program, terms: {text}", own)
    return found


def test_an_error_of_the_adapter_in_a_task_decides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "raising.py"
    file.write_text(SOURCE.replace("return SimpleNamespace()", 'raise KeyError("no cache")'))
    task = Task("tail.flat.v8", ("number.tail",), ("probe",), ours("program.adapter.verify(None)"))
    raising = program_of(load_adapter(f"{file}:Silent"))
    ((found,),) = judged(
        Work(raising, None, [task], TERMS, {}, sampled=True), known=(), keep=forget, over=here
    )
    assert (found.requirement, found.verdict) == ("number.tail", "error")
    assert found.detail == "it raised KeyError: 'no cache' (raising.py:10)"


def test_an_error_of_ours_is_raised() -> None:
    task = Task("equal", ("law.lossless",), ("exact",), ours("{}['no such key']"))
    work = Work(program_of(Token()), None, [task], TERMS, {}, sampled=True)
    with pytest.raises(KeyError, match="no such key"):
        list(judged(work, known=(), keep=forget, over=here))


def test_what_samples_cannot_decide_is_skipped_where_nothing_else_sees() -> None:
    unseen = Task("equal", ("random.one",), ("exact", "probe"), blind)
    reasons = {"exact": "opaque", "probe": "opaque"}
    alone = Work(program_of(Token()), None, [unseen], TERMS, reasons, sampled=True)
    ((found,),) = judged(alone, known=(), keep=forget, over=here)
    assert (found.verdict, found.applies) == ("skipped", True)
    assert found.detail == "samples cannot decide it, and no other lane sees it"


# --- counting again -----------------------------------------------------------------------


def counted(task: int, shares: Sequence[Record]) -> Record:
    return recount(TASKS[task], declaration(Token()), TERMS, shares)


def shares_of(task: int, records: Sequence[Record]) -> list[Record]:
    return copy.deepcopy([r for r in records if r["record"] == "share" and r["task"] == task])


def test_counts_lead_to_their_findings_again(whole: list[Record]) -> None:
    for task in (1, 2, 4):
        (result,) = (r for r in whole if r["record"] == "result" and r["task"] == task)
        found = counted(task, shares_of(task, whole))
        assert found == {key: result[key] for key in ("findings", "compared")}


def test_samples_say_in_which_batches_they_were_asked_for(whole: list[Record]) -> None:
    for task in (1, 2, 4):
        (result,) = (r for r in whole if r["record"] == "result" and r["task"] == task)
        looks = [look for share in shares_of(task, whole) for look in share["looks"]]
        assert {each["rows"] for each in result["compared"]} == {
            sum(look["counts"]) for look in looks
        }
        assert {each["laws"] for each in result["compared"]} == {1}


def test_other_counts_lead_to_other_findings(whole: list[Record]) -> None:
    shares = shares_of(2, whole)
    (result,) = (r for r in whole if r["record"] == "result" and r["task"] == 2)
    counts = shares[0]["looks"][0]["counts"]
    most = counts.index(max(counts))
    counts[most], counts[0 if most else 1] = counts[most] - 1, counts[0 if most else 1] + 1
    assert counted(2, shares)["findings"] != result["findings"]


@pytest.mark.parametrize(
    ("task", "edit", "message"),
    [
        (2, lambda shares: shares.pop(), "equal has fewer shares than were needed"),
        (2, lambda shares: shares.clear(), "equal has fewer shares than were needed"),
        (2, lambda shares: shares[0]["looks"].pop(), "more looks than were needed, or less"),
        (1, lambda shares: shares[0]["looks"].pop(), "more looks than were needed, or less"),
        (1, lambda shares: doubled(shares[0]), "more looks than were needed, or less"),
    ],
)
def test_a_course_ends_where_it_is_decided(
    whole: list[Record], task: int, edit: Callable[[list[Record]], None], message: str
) -> None:
    shares = shares_of(task, whole)
    edit(shares)
    with pytest.raises(EditedEvidence, match=message):
        counted(task, shares)


def doubled(share: Record) -> None:
    share["looks"].append(share["looks"][-1])


@pytest.mark.parametrize(
    "counts",
    [
        [],
        [256],
        ["a"] * 8,
        [[1, 2], 3],
        [1.5, 254.5],
        [True],
        [10**30],
        [-1, 257],
        [None],
    ],
)
def test_counts_that_are_none_are_malformed(whole: list[Record], counts: list[Any]) -> None:
    shares = shares_of(2, whole)
    shares[0]["looks"][0]["counts"] = counts
    with pytest.raises(MalformedEvidence, match="share 0 has no counts of 256 in "):
        counted(2, shares)
    with pytest.raises(MalformedEvidence, match="share 0 has no counts of 256 in "):
        list(judged(work(), known=[*whole[:3], shares[0]], keep=refuse, over=here))


def test_counts_of_a_share_that_no_course_has_are_malformed(whole: list[Record]) -> None:
    shares = shares_of(2, whole)
    shares[0]["share"] = 99
    with pytest.raises(MalformedEvidence, match="share 99 has at most 0 looks"):
        counted(2, shares)


def test_a_task_that_samples_do_not_judge_has_no_shares(whole: list[Record]) -> None:
    with pytest.raises(EditedEvidence, match="tensors has shares, and is not judged by samples"):
        counted(0, shares_of(2, whole))
