"""Which tasks judge the requirements for an adapter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

from draftproof.conformance.lanes.observe import Coming, foreseeing
from draftproof.conformance.protocol.adapter import Adapter, Declaration, declaration
from draftproof.conformance.requirements import (
    batches,
    drafting,
    inputs,
    laws,
    numerics,
    randomness,
    states,
    texts,
)
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.task import Task, Terms, is_asked

CHAPTERS = (laws, states, drafting, texts, batches, randomness, numerics, inputs)
"""The modules, in the order of the chapters."""


def plan(declared: Declaration, mode: str) -> tuple[Task, ...]:
    """Return the tasks of a mode for an adapter, in the order of the chapters."""
    tasks = (task for chapter in CHAPTERS for task in chapter.tasks(declared, mode))
    return tuple(replace(task, judge=partial(_judged_ahead, task.judge)) for task in tasks)


def _judged_ahead(
    judge: Callable[[Adapter, Terms], list[Finding]], adapter: Adapter, terms: Terms
) -> list[Finding]:
    """Judge a task while the lanes know what the others will ask for."""
    with foreseeing(partial(_coming, declaration(adapter), terms.mode, terms.cases)):
        return judge(adapter, terms)


@lru_cache(maxsize=1)
def _coming(declared: Declaration, mode: str, patterns: tuple[str, ...]) -> Coming:
    """Return what all tasks ask for whose cases are asked."""
    asked = [task for task in plan(declared, mode) if is_asked(task.case, patterns)]
    return [each for task in asked if task.asks is not None for each in task.asks(declared)]
