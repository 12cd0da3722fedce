"""Execution: tasks are worked on anywhere, and judged in their order.

What is known after every step depends on the tasks and the seed alone. A task is worked on as a
whole, unless only samples can decide it: then it is cut into shares, whose counts are added up in
order, and shares that were drawn ahead and turn out not to be needed are thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Lock
from typing import Any

import joblib
import numpy

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.evidence.identity import environment, suite
from draftproof.conformance.evidence.records import (
    EditedEvidence,
    MalformedEvidence,
    Record,
    StaleEvidence,
    differences,
)
from draftproof.conformance.evidence.sources import Source, sources
from draftproof.conformance.lanes.observe import BLINDNESS, SAMPLE, Known, knowing
from draftproof.conformance.lanes.probe._interpreted import patched_once
from draftproof.conformance.lanes.sample import Look
from draftproof.conformance.lanes.unwatched import Held, holding
from draftproof.conformance.protocol.adapter import Adapter, Declaration
from draftproof.conformance.protocol.loading import load_adapter, source_digest
from draftproof.conformance.protocol.raising import told_of
from draftproof.conformance.requirements.finding import (
    ERROR,
    SKIPPED,
    Finding,
    findings_from_json,
    findings_to_json,
)
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.sampled import (
    Course,
    Standing,
    after,
    drawn,
    started,
)
from draftproof.conformance.requirements.task import SampledCase, Task, Terms, is_asked
from draftproof.conformance.run.workers import Over, WorkerLost, WorkersFailed, keep_apart

_MOST_LOSSES = 3
"""So often are lost workers replaced before the program under test is blamed for it."""


@dataclass(frozen=True)
class Work:
    """What is to be judged: tasks, by an adapter, on terms that leave the lane open.

    `name` is what other processes know the adapter by. `blind` has the lanes that cannot see it,
    `sampled` says whether samples may decide.
    """

    adapter: Adapter
    name: str | None
    declared: Declaration
    tasks: Sequence[Task]
    terms: Terms
    blind: Mapping[str, str]
    sampled: bool

    def sampling(self, index: int) -> SampledCase | None:
        """Return how samples judge a task that nothing else can decide, None for others."""
        task = self.tasks[index]
        others = set(task.lanes) - {SAMPLE}
        if task.sampling is None or not self.sampled or not others <= self.blind.keys():
            return None
        return task.sampling(self.declared, replace(self.terms, lane=SAMPLE))


@dataclass(frozen=True)
class Judged:
    """Findings of a task, and what real runs made of the laws that were computed for it.

    `unwatched` are counts by bin, and the lane (`Held.counted`), nothing where no law was computed.
    """

    findings: Sequence[Finding]
    unwatched: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Position:
    """Where the judging stands: at which task, and with what of its shares behind it."""

    task: int = 0
    share: int = 0
    standing: Standing | None = None


def judged(
    work: Work, *, known: Sequence[Record], keep: Callable[[Record], None], over: Over
) -> Iterator[list[Finding]]:
    """Yield the findings of every task, in order, and `keep` a record of every step.

    What the records that are `known` say is not done again. Raises `WorkersFailed` where workers
    are lost again and again, `StaleEvidence` for records that these tasks cannot have left.
    """
    at = _Position()
    for record in known:
        if record["record"] == "result":
            yield findings_from_json(record["findings"])
            at = _Position(at.task + 1)
        elif record["record"] == "share":
            if (sampling := work.sampling(at.task)) is None:
                raise StaleEvidence(f"task {at.task} was sampled, and another lane sees it now")
            _move(at, sampling.course, _looks(record, sampling.course))
    sampling = None if at.standing is None else work.sampling(at.task)
    if sampling and at.standing and _is_over(at.standing, at, sampling.course):
        # It was killed between the last share and what that came to.
        yield _concluded(at, Judged(sampling.findings(at.standing)), keep)
    losses = 0
    while at.task < len(work.tasks):
        try:
            yield from _worked(work, at, keep, over)
        except WorkerLost:
            losses += 1
            if losses > _MOST_LOSSES:
                raise


def _worked(
    work: Work, at: _Position, keep: Callable[[Record], None], over: Over
) -> Iterator[list[Finding]]:
    """Yield the findings of the tasks from a position on, which moves with them."""
    for index, share, done in over(_calls(work, at)):
        if index < at.task:
            continue  # drawn ahead, and not needed
        if (sampling := work.sampling(index)) is not None:
            looks, standing = _move(at, sampling.course, done)
            told = [_look_to_json(look) for look in looks]
            keep({"record": "share", "task": index, "share": share, "looks": told})
            if not _is_over(standing, at, sampling.course):
                continue
            done = Judged(sampling.findings(standing))
        yield _concluded(at, done, keep)


def _is_over(standing: Standing, at: _Position, course: Course) -> bool:
    """Return whether no more shares of a course are needed, or there are no more."""
    return not standing.is_open or at.share == len(course.shares)


def _concluded(at: _Position, done: Judged, keep: Callable[[Record], None]) -> list[Finding]:
    """Keep what the task came to, move on to the next, and return what is written."""
    told = findings_to_json(done.findings)
    unwatched = {"unwatched": dict(done.unwatched)} if done.unwatched else {}
    keep({"record": "result", "task": at.task, "findings": told, **unwatched})
    at.task, at.share, at.standing = at.task + 1, 0, None
    # What is judged is what is written, and nothing else.
    return findings_from_json(told)


def _move(at: _Position, course: Course, looks: Sequence[Look]) -> tuple[list[Look], Standing]:
    """Move by a share, and return those of its looks that are needed, and how the course stands."""
    standing = at.standing or started(course)
    needed = []
    for look in looks:
        if not standing.is_open:
            break
        standing = after(course, standing, look)
        needed.append(look)
    at.standing, at.share = standing, at.share + 1
    return needed, standing


def _calls(work: Work, at: _Position) -> Iterator[Any]:
    """Yield what there is to do from a position on; it moves while this is asked for more."""
    known_as = _known_as(work)
    for index in range(at.task, len(work.tasks)):
        task, sampling = work.tasks[index], work.sampling(index)
        if sampling is None:
            yield joblib.delayed(_whole)(
                known_as, index, task, work.terms, work.blind, work.sampled
            )
            continue
        for share in range(at.share if at.task == index else 0, len(sampling.course.shares)):
            if at.task > index:
                break  # it is decided
            yield joblib.delayed(_share)(known_as, index, share, sampling.course)


def files_that_ran(work: Work, over: Over) -> Record:
    """Return the record of the files whose code runs in calls of the cases that are asked."""
    asked = [
        case
        for case in cases("quick")
        if fits(case, work.declared) and is_asked(case.id, work.terms.cases)
    ]
    (found,) = over([joblib.delayed(_sources)(_known_as(work), asked)])
    return {"record": "sources", "files": [vars(each) for each in found]}


def recount(
    task: Task, declared: Declaration, terms: Terms, shares: Sequence[Record]
) -> list[dict[str, Any]]:
    """Return the findings, as they are written, that follow from the shares of a task.

    Raises `MalformedEvidence` for shares that are none, `EditedEvidence` for some too many or few.
    """
    if task.sampling is None:
        raise EditedEvidence(f"{task.case} has shares, and is not judged by samples")
    sampling = task.sampling(declared, replace(terms, lane=SAMPLE))
    at, course = _Position(), sampling.course
    for record in shares:
        looks = _looks(record, course)
        needed, standing = _move(at, course, looks)
        is_whole = len(looks) == len(course.shares[record["share"]])
        if len(needed) < len(looks) or (standing.is_open and not is_whole):
            raise EditedEvidence(f"{task.case} has more looks than were needed, or less")
    if at.standing is None or not _is_over(at.standing, at, course):
        raise EditedEvidence(f"{task.case} has fewer shares than were needed")
    return findings_to_json(sampling.findings(at.standing))


def _look_to_json(look: Look) -> dict[str, Any]:
    return {"counts": look.counts.tolist(), "words": look.words, "stream": look.stream}


def _looks(record: Record, course: Course) -> list[Look]:
    """Return the looks of a share. Raises `MalformedEvidence` where the course can have none."""
    share, cells = record["share"], started(course).seen.counts.size
    sizes = course.shares[share] if share < len(course.shares) else ()
    if len(record["looks"]) > len(sizes):
        raise MalformedEvidence(f"share {share} has at most {len(sizes)} looks")
    for size, look in zip(sizes, record["looks"], strict=False):
        counts = look["counts"]
        if (
            len(counts) != cells
            or not all(type(each) is int and each >= 0 for each in counts)
            or sum(counts) != size
        ):
            raise MalformedEvidence(f"share {share} has no counts of {size} in {cells} cells")
    return [
        Look(numpy.array(each["counts"], dtype=numpy.int64), each["words"], each["stream"])
        for each in record["looks"]
    ]


# --- in a worker --------------------------------------------------------------------------

# The lanes watch torch as a whole, so one thread at a time uses it.
_ALONE = Lock()

_Identity = dict[str, Any]


@dataclass(frozen=True)
class _Named:
    """An adapter as other processes know it: by its name, and by what must be there."""

    name: str
    identity: _Identity


def _known_as(work: Work) -> Adapter | _Named:
    return work.adapter if work.name is None else _Named(work.name, _identity(work.adapter))


def _share(
    known_as: Adapter | _Named, index: int, share: int, course: Course
) -> tuple[int, int, list[Look]]:
    with _ALONE, patched_once():
        return index, share, list(drawn(course, _loaded(known_as), share))


def _sources(known_as: Adapter | _Named, asked: Sequence[Case]) -> list[Source]:
    with _ALONE:
        return sources(_loaded(known_as), asked)


def _whole(
    known_as: Adapter | _Named,
    index: int,
    task: Task,
    terms: Terms,
    blind: Mapping[str, str],
    sampled: bool,  # noqa: FBT001  # joblib passes it on
) -> tuple[int, None, Judged]:
    with _ALONE, patched_once(), holding(terms.seed_of(f"{task.case}/unwatched")) as held:
        adapter = _loaded(known_as)
        with knowing(_known_of(adapter)):
            return index, None, _seen(adapter, task, terms, blind, held, sampled=sampled)


_LAST: list[Known] = []
"""The laws of the adapter that was judged last in this process."""


def _known_of(adapter: Adapter) -> Known:
    if not _LAST or _LAST[0].adapter is not adapter:
        _LAST[:] = [Known(adapter)]
    return _LAST[0]


def _seen(
    adapter: Adapter,
    task: Task,
    terms: Terms,
    blind: Mapping[str, str],
    held: Held,
    *,
    sampled: bool,
) -> Judged:
    """Return what the strongest lane that can see the adapter finds."""
    if not task.lanes:
        told = "none of the lanes that were asked for can decide it"
        return Judged(_undecided(task, SKIPPED, told))
    reasons = dict(blind)
    for lane in task.lanes:
        if lane in blind:
            continue
        try:
            return Judged(task.judge(adapter, replace(terms, lane=lane)), held.counted(lane))
        except BLINDNESS as error:
            reasons[lane] = told_of(error)
            held.forget()
    if sampled and SAMPLE not in task.lanes and blind.keys() >= set(task.lanes):
        told = "samples cannot decide it, and no other lane sees it"
        return Judged(_undecided(task, SKIPPED, told))
    each = (f"{lane} lane: {reasons[lane]}" for lane in task.lanes)
    return Judged(_undecided(task, ERROR, "; ".join(each)))


def _undecided(task: Task, verdict: str, reason: str) -> list[Finding]:
    return [
        Finding(requirement, task.case, verdict, detail=reason) for requirement in task.requirements
    ]


def _loaded(known_as: Adapter | _Named) -> Adapter:
    """Return the adapter. Raises `WorkersFailed` if what is here is not what is to be judged."""
    if not isinstance(known_as, _Named):
        return known_as
    keep_apart()
    adapter, identity = _by_name(known_as.name)
    for where, there, here in differences(known_as.identity, identity):
        raise WorkersFailed(
            f"a worker has something else than is judged: {where} is {here!r} there, and {there!r} "
            f"here; install the same, and start the workers anew"
        )
    return adapter


@cache
def _by_name(name: str) -> tuple[Adapter, _Identity]:
    """Return the adapter, and what it was when it was loaded: files may change behind it."""
    adapter = load_adapter(name)
    return adapter, _identity(adapter)


def _identity(adapter: Adapter) -> _Identity:
    return {
        "adapter": source_digest(adapter),
        "suite": suite()["sha256"],
        "environment": environment(),
    }
