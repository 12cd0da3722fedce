"""Worker process: it loads and checks the adapter, and does one piece of work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

from draftproof.conformance.cases import Case
from draftproof.conformance.evidence.identity import environment, suite
from draftproof.conformance.evidence.records import differences
from draftproof.conformance.evidence.sources import Source, sources
from draftproof.conformance.evidence.store import Basis
from draftproof.conformance.evidence.traces import (
    begin,
    close,
    is_recording,
    traced,
    untraced,
)
from draftproof.conformance.lanes.cache import foreseeing
from draftproof.conformance.lanes.exchange import raised
from draftproof.conformance.lanes.probe._interpreted import patched_once
from draftproof.conformance.lanes.sample import BatchCounts
from draftproof.conformance.protocol.adapter import Adapter, Program
from draftproof.conformance.protocol.loading import built_in, load_program, source_digest
from draftproof.conformance.protocol.raising import place_of
from draftproof.conformance.requirements.finding import ERROR, Finding
from draftproof.conformance.requirements.plan import coming
from draftproof.conformance.requirements.sampled import SequentialTest
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.conformance.run.judging import Judged, judge
from draftproof.conformance.run.workers import WorkersFailed, keep_apart

# The lanes watch torch as a whole, so one thread at a time uses it.
_ALONE = Lock()

_Identity = dict[str, Any]


@dataclass(frozen=True)
class _Named:
    """Adapter in the form for other processes: its name, and the identity to check."""

    name: str
    identity: _Identity


@dataclass(frozen=True)
class Subject:
    """Adapter for a worker, and the folder of the store with its traces, if any."""

    program: Program | _Named
    store: Path | None


def subject_of(program: Program, name: str | None, store: Path | None) -> Subject:
    """Return the subject for workers: the program itself if it has no `name` in other processes."""
    return Subject(program if name is None else _Named(name, _identity(program.adapter)), store)


@contextmanager
def _at_work(subject: Subject, basis: Basis) -> Iterator[Program]:
    """Yield the program, with torch reserved for it; then add all that was read to the basis."""
    with _ALONE, patched_once():
        program = _loaded(subject)
        with traced():
            yield program
    if subject.store is not None:
        basis.read(subject.store)


def draw_share(
    subject: Subject, test: SequentialTest, share: int
) -> tuple[list[BatchCounts], Basis]:
    """Return the counts of a share, and their basis."""
    basis = Basis()
    with _at_work(subject, basis) as program:
        batches = list(test.draw(program.adapter, share))
    return batches, basis


def sources_of(subject: Subject, asked: Sequence[Case]) -> tuple[list[Source], Basis]:
    """Return the files whose code runs in calls of these cases, and the reads of these calls."""
    basis = Basis()
    with _at_work(subject, basis) as program:
        found = sources(program, asked)
    return found, basis


def judge_task(
    subject: Subject,
    task: Task,
    terms: Terms,
    blind: Mapping[str, str],
    sampled: bool,  # noqa: FBT001  # joblib passes it on
) -> tuple[Judged, Basis]:
    """Return the findings of a task, and their basis.

    An error of the adapter that no lane took for an outcome decides nothing.
    """
    basis = Basis()
    with _at_work(subject, basis) as program:
        ahead = partial(coming, program.declared, terms.mode, terms.cases)
        try:
            with foreseeing(ahead):
                done = judge(program, task, terms, blind=blind, sampled=sampled)
        except Exception as error:
            if not place_of(error):
                raise
            told = f"it {raised(error)}"
            done = Judged(
                [Finding(each, task.case, ERROR, detail=told) for each in task.requirements]
            )
    return done, basis


def judge_tasks(
    subject: Subject,
    tasks: Sequence[Task],
    terms: Terms,
    blind: Mapping[str, str],
    sampled: bool,  # noqa: FBT001  # joblib passes it on
) -> list[tuple[Judged, Basis]]:
    """Return the findings of some tasks, all judged by this process."""
    return [judge_task(subject, task, terms, blind, sampled) for task in tasks]


def _loaded(subject: Subject) -> Program:
    """Return the program. Raises `WorkersFailed` if it is not the program to judge."""
    known_as = subject.program
    if not isinstance(known_as, _Named):
        return known_as
    keep_apart()
    if subject.store is not None and not is_recording():
        begin()
        if _by_name.cache_info().currsize:
            close("its worker had loaded it before what it reads was recorded")
    # Who is installed is asked once, and not by the adapter.
    built_in()
    with traced():
        program, identity = _by_name(known_as.name)
    for where, there, here in differences(known_as.identity, identity):
        raise WorkersFailed(
            f"a worker has something else than is judged: {where} is {here!r} there, and {there!r} "
            f"here; install the same, and start the workers anew"
        )
    return program


@cache
def _by_name(name: str) -> tuple[Program, _Identity]:
    """Return the program, and its identity at loading: files may change afterwards."""
    program = load_program(name)
    return program, _identity(program.adapter)


def _identity(adapter: Adapter) -> _Identity:
    digest = source_digest(adapter)
    with untraced():
        return {
            "adapter": digest,
            "suite": suite()["sha256"],
            "environment": environment(),
        }
