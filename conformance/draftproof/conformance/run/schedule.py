"""Schedule: workers do tasks in any order, and the results are judged in the tasks' order.

The state after every step depends on the tasks and the seed alone. A task is done as a whole,
unless only samples can decide it: then it is cut into shares, whose counts are added up in order,
and shares that were drawn ahead and are not needed are discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import joblib

from draftproof.conformance.cases import cases
from draftproof.conformance.evidence.keys import code_key
from draftproof.conformance.evidence.records import (
    Record,
    StaleEvidence,
    StoreDiffers,
    differences,
)
from draftproof.conformance.evidence.store import Basis, KnownFindings
from draftproof.conformance.lanes.compared import compared_to_json
from draftproof.conformance.lanes.observe import EXACT, SAMPLE
from draftproof.conformance.protocol.adapter import Program
from draftproof.conformance.protocol.printable import printable_lines
from draftproof.conformance.requirements.finding import (
    Finding,
    findings_from_json,
    findings_to_json,
)
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.sampled import SequentialTest
from draftproof.conformance.requirements.task import Task, Terms, is_asked
from draftproof.conformance.run.judging import Judged
from draftproof.conformance.run.recall import FORGOTTEN, Recall
from draftproof.conformance.run.sampling import TestRun, batches_in
from draftproof.conformance.run.worker import (
    Subject,
    draw_share,
    judge_tasks,
    sources_of,
    subject_of,
)
from draftproof.conformance.run.workers import Over, WorkerLost

_MOST_LOSSES = 3
"""Number of times that lost workers are replaced before the program under test is blamed."""


@dataclass(frozen=True)
class Work:
    """Tasks to be judged, by a program, on terms that leave the lane open.

    `name` identifies the program in other processes, `subject` is the digest of its files. `blind`
    has the lanes that cannot see it, with the reasons; `sampled` says whether samples may decide.
    Findings in the `recall` are not judged again.
    """

    program: Program
    name: str | None
    tasks: Sequence[Task]
    terms: Terms
    blind: Mapping[str, str]
    sampled: bool
    subject: str = ""
    recall: Recall | None = None

    def test(self, index: int) -> SequentialTest | None:
        """Return the sequential test of a task that only samples can decide, otherwise None."""
        task = self.tasks[index]
        others = set(task.lanes) - {SAMPLE}
        if task.sampling is None or not self.sampled or not others <= self.blind.keys():
            return None
        return task.sampling(self.program.declared, replace(self.terms, lane=SAMPLE))

    @property
    def for_workers(self) -> Subject:
        """Adapter that workers load."""
        store = None if self.recall is None else self.recall.store.folder
        return subject_of(self.program, self.name, store)

    def recalled(self, tasks: Iterable[int]) -> dict[int, KnownFindings]:
        """Return the stored findings of some tasks, by their index."""
        found: dict[int, KnownFindings] = {}
        if self.recall is None:
            return found
        for index in tasks:
            seeing = (lane for lane in self.tasks[index].lanes if lane not in self.blind)
            if one := self.recall.finding(self.key(index, lane) for lane in seeing):
                found[index] = one
        return found

    def key(self, index: int, lane: str | None) -> str:
        """Return the code key of a task for the lane that decides it, None if no lane does."""
        return code_key(
            self.tasks[index],
            lane=lane,
            blind=self.blind,
            declared=self.program.declared,
            subject=self.subject,
            terms=self.terms,
        )


def judged(
    work: Work, *, known: Sequence[Record], keep: Callable[[Record], None], over: Over
) -> Iterator[list[Finding]]:
    """Yield the findings of every task, in order, and `keep` a record of every step.

    Steps in the records that are `known`, or in a store, are not done again. Raises `WorkersFailed`
    if workers are lost repeatedly, `StaleEvidence` for records that these tasks cannot have left,
    `StoreDiffers` for a store that is wrong.
    """
    results = [record for record in known if record["record"] == "result"]
    yield from (findings_from_json(record["findings"]) for record in results)
    index = len(results)
    run = _run_of(work, index, known)
    rest = range(index + bool(run and run.shares), len(work.tasks))
    recalled = work.recalled(rest)
    audited = work.recall.drawn(recalled) if work.recall else frozenset[int]()
    losses = 0
    while index < len(work.tasks):
        try:
            for done in _next(work, index, run, recalled.keys() - audited, over, keep):
                yield _concluded(work, index, done or recalled[index], keep, recalled.get(index))
                index += 1
                run = _run_of(work, index, ())
        except WorkerLost:
            losses += 1
            if losses > _MOST_LOSSES:
                raise


def _run_of(work: Work, index: int, known: Sequence[Record]) -> TestRun | None:
    """Return the test of a task with the known shares, None for a task without a test."""
    shares = [record for record in known if record.get("task") == index and "share" in record]
    test = work.test(index) if index < len(work.tasks) else None
    if test is None:
        if shares:
            raise StaleEvidence(f"task {index} was sampled, and another lane sees it now")
        return None
    run = TestRun(test)
    for record in shares:
        run.add(batches_in(record, test))
    return run


@dataclass(frozen=True)
class _Done:
    """Findings of a task, their basis, and the shares of its test."""

    judged: Judged
    basis: Basis
    shares: Sequence[Record] = ()


def _next(
    work: Work,
    index: int,
    run: TestRun | None,
    known: Collection[int],
    over: Over,
    keep: Callable[[Record], None],
) -> Iterator[_Done | None]:
    """Yield the findings of the next task, or the next few; None for one that is `known`."""
    if index in known:
        yield None
    elif run is not None:
        yield _sampled(work, index, run, over, keep)
    else:
        tasks = range(index, len(work.tasks))
        end = (each for each in tasks if each in known or work.test(each) is not None)
        yield from _judged_in_turn(work, range(index, next(end, len(work.tasks))), over)


def _judged_in_turn(work: Work, tasks: Sequence[int], over: Over) -> Iterator[_Done]:
    """Yield the findings of each task in turn; tasks that are probed together share a worker."""
    groups: dict[Hashable, list[int]] = {}
    for index in tasks:
        # Only where the exact lane is blind does the first task observe the cases of all others.
        shared = work.tasks[index].probed_with if EXACT in work.blind else None
        groups.setdefault(index if shared is None else (shared,), []).append(index)
    calls = (
        joblib.delayed(judge_tasks)(
            work.for_workers,
            [work.tasks[index] for index in group],
            work.terms,
            work.blind,
            work.sampled,
        )
        for group in groups.values()
    )
    turn, waiting = iter(tasks), dict[int, _Done]()
    following = next(turn, None)
    for group, found in zip(groups.values(), over(calls), strict=True):
        waiting |= {index: _Done(*each) for index, each in zip(group, found, strict=True)}
        while following in waiting:
            yield waiting.pop(following)
            following = next(turn, None)


def _sampled(
    work: Work, index: int, run: TestRun, over: Over, keep: Callable[[Record], None]
) -> _Done:
    """Return the findings of a task's test, whose shares are kept as they are drawn."""
    subject, first = work.for_workers, len(run.shares)
    numbers = range(first, first if run.is_over else len(run.test.shares))
    drawing = (joblib.delayed(draw_share)(subject, run.test, number) for number in numbers)
    found = Basis()
    with closing(over(drawing)) as shares:
        for batches, basis in shares:
            run.add(batches)
            found.include(basis)
            keep({"record": "share", "task": index, **run.shares[-1]})
            if run.is_over:
                break
    findings = run.findings(work.tasks[index])
    return _Done(Judged(findings, SAMPLE, compared=run.compared), found, run.shares)


def _concluded(
    work: Work,
    index: int,
    done: _Done | KnownFindings,
    keep: Callable[[Record], None],
    known: KnownFindings | None,
) -> list[Finding]:
    """Keep the findings of a task, also in the store, and return the written record.

    Raises `StoreDiffers` if the task is judged again and the stored findings are different.
    """
    if isinstance(done, KnownFindings):
        *shares, result = done.records
        for share in shares:
            keep({"record": "share", "task": index, **share})
        result = {**result, "made": done.made}
    else:
        result = _result(work, index, done, known)
    keep({"record": "result", "task": index, **result})
    # What is judged is what is written, and nothing else.
    findings = findings_from_json(result["findings"])
    if work.recall is not None and isinstance(done, KnownFindings):
        work.recall.known[done.made] += len(findings)
        work.recall.basis.add(traces=done.traces)
    elif work.recall is not None:
        work.recall.judged += len(findings)
    return findings


def _result(work: Work, index: int, done: _Done, known: KnownFindings | None) -> Record:
    """Return the record of a task's findings, which the store receives, too."""
    found = done.judged
    code = work.key(index, found.lane)
    unwatched = {"unwatched": dict(found.unwatched)} if found.unwatched else {}
    told = findings_to_json(found.findings)
    compared = compared_to_json(found.compared)
    result: Record = {
        "findings": told,
        "compared": compared,
        **unwatched,
        "lane": found.lane,
        "key": code,
    }
    records = printable_lines([*done.shares, result])
    for where, was, now in differences([*known.records], records) if known else ():
        if work.recall is not None:
            work.recall.forget(work.key(index, lane) for lane in work.tasks[index].lanes)
        raise StoreDiffers(
            f"{work.tasks[index].case} was judged again: {where} is {now!r}, where the store has "
            f"{was!r}; {FORGOTTEN}"
        )
    if work.recall is not None:
        work.recall.basis.include(done.basis)
        if found.lane is not None:
            work.recall.keep(code, records, done.basis)
    return result


def files_that_ran(work: Work, over: Over) -> Record:
    """Return the record of the files whose code runs in calls of the cases that are asked."""
    asked = [
        case
        for case in cases("quick")
        if fits(case, work.program.declared) and is_asked(case.id, work.terms.cases)
    ]
    ((found, basis),) = over([joblib.delayed(sources_of)(work.for_workers, asked)])
    if work.recall is not None:
        work.recall.basis.include(basis)
    return {"record": "sources", "files": [vars(each) for each in found]}
