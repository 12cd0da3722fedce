"""Inside a worker process: the adapter is loaded and checked, and one piece of work is done."""

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
from draftproof.conformance.evidence.store import keep_trace
from draftproof.conformance.evidence.traces import trace, traced
from draftproof.conformance.lanes.cache import foreseeing
from draftproof.conformance.lanes.probe._interpreted import patched_once
from draftproof.conformance.lanes.sample import BatchCounts
from draftproof.conformance.protocol.adapter import Adapter, declaration
from draftproof.conformance.protocol.loading import load_adapter, source_digest
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
    """An adapter as other processes know it: by its name, and by what must be there."""

    name: str
    identity: _Identity


@dataclass(frozen=True)
class Subject:
    """The adapter for a worker, and the folder of the store that has its traces, if one has."""

    adapter: Adapter | _Named
    store: Path | None


def subject_of(adapter: Adapter, name: str | None, store: Path | None) -> Subject:
    """Return what workers load: the adapter itself where no `name` is known in other processes."""
    return Subject(adapter if name is None else _Named(name, _identity(adapter)), store)


@contextmanager
def _at_work(subject: Subject, traces: set[str]) -> Iterator[Adapter]:
    """Let nobody else use torch meanwhile; add the digest of what has been read to the traces."""
    with _ALONE, patched_once():
        adapter = _loaded(subject.adapter)
        with traced():
            yield adapter
    if subject.store is not None:
        traces.add(keep_trace(subject.store, trace()))


def draw_share(
    subject: Subject, test: SequentialTest, share: int
) -> tuple[list[BatchCounts], set[str]]:
    """Return the counts of a share, and the digest of what the program has read, if it is kept."""
    traces: set[str] = set()
    with _at_work(subject, traces) as adapter:
        batches = list(test.draw(adapter, share))
    return batches, traces


def sources_of(subject: Subject, asked: Sequence[Case]) -> list[Source]:
    """Return the files whose code runs in calls of these cases."""
    with _ALONE:
        return sources(_loaded(subject.adapter), asked)


def judge_task(
    subject: Subject,
    task: Task,
    terms: Terms,
    blind: Mapping[str, str],
    sampled: bool,  # noqa: FBT001  # joblib passes it on
) -> tuple[Judged, set[str]]:
    """Return what a task comes to, and the digest of what the program has read, if it is kept."""
    traces: set[str] = set()
    with _at_work(subject, traces) as adapter:
        ahead = partial(coming, declaration(adapter), terms.mode, terms.cases)
        with foreseeing(ahead):
            done = judge(adapter, task, terms, blind=blind, sampled=sampled)
    return done, traces


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
    with traced():
        adapter = load_adapter(name)
    return adapter, _identity(adapter)


def _identity(adapter: Adapter) -> _Identity:
    return {
        "adapter": source_digest(adapter),
        "suite": suite()["sha256"],
        "environment": environment(),
    }
