"""Forecast of a campaign's duration, from the times of some tasks of every kind.

Tasks are of one kind if they judge the same requirements. For sampled tasks, a first batch is
timed, and four times the usual number is assumed, the length of the longest test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from time import monotonic

from draftproof.conformance.protocol.adapter import Program
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.run.campaign import Campaign, work_of
from draftproof.conformance.run.schedule import Work, judged
from draftproof.conformance.run.workers import Over, Workers, working

SECONDS = 5.0
"""Seconds after which no further task is timed."""


@dataclass(frozen=True)
class Forecast:
    """Number of tasks, and the seconds that they take in one process on this machine.

    `timed` tasks were worked on, in `spent` seconds; `blind` has the lanes that cannot see the
    adapter, with the reasons.
    """

    tasks: int
    seconds: float
    timed: int
    spent: float
    blind: Mapping[str, str]


def forecast(
    campaign: Campaign, *, program: Program | None = None, seconds: float = SECONDS
) -> Forecast:
    """Return how long a campaign takes, after working on some of its tasks for some seconds.

    Raises as `campaign.run` does.
    """
    work = work_of(campaign, program or load_program(campaign.name), Workers())
    kinds: dict[tuple[str, ...], list[int]] = {}
    for index, task in enumerate(work.tasks):
        kinds.setdefault(task.requirements, []).append(index)
    took: dict[tuple[str, ...], list[float]] = {}
    began = monotonic()
    with working(Workers()) as over:
        for kind, index in _in_turn(kinds):
            took.setdefault(kind, []).append(_timed(work, index, over))
            if monotonic() - began > seconds:
                break
    each = [*chain.from_iterable(took.values())]
    usual = sum(each) / max(len(each), 1)
    known = {kind: sum(own) / len(own) for kind, own in took.items()}
    expected = sum(known.get(kind, usual) * len(tasks) for kind, tasks in kinds.items())
    return Forecast(len(work.tasks), expected, len(each), monotonic() - began, work.blind)


def _in_turn(
    kinds: Mapping[tuple[str, ...], Sequence[int]],
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield a task of every kind in turn, each kind's tasks in the order of `_halves`."""
    spread = ([(kind, index) for index in _halves(own)] for kind, own in kinds.items())
    return (each for turn in zip_longest(*spread) for each in turn if each is not None)


def _halves(tasks: Sequence[int]) -> Iterator[int]:
    """Yield the middle task, then the middles of both halves, and so on: cases grow in order."""
    parts = [tasks]
    while parts:
        part = parts.pop(0)
        if part:
            middle = len(part) // 2
            yield part[middle]
            parts += [part[:middle], part[middle + 1 :]]


def _timed(work: Work, index: int, over: Over) -> float:
    """Return how many seconds a task takes."""
    began = monotonic()
    if (test := work.test(index)) is not None:
        next(test.draw(work.program.adapter, 0))
        batches = [size for share in test.shares for size in share]
        return (monotonic() - began) * sum(batches) / batches[0]
    alone = replace(work, tasks=[work.tasks[index]])
    for _ in judged(alone, known=(), keep=lambda _: None, over=over):
        pass
    return monotonic() - began
