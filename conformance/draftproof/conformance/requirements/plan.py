"""Plan: the tasks that judge the requirements for an adapter."""

from __future__ import annotations

from functools import lru_cache

from draftproof.conformance.lanes.cache import Coming
from draftproof.conformance.protocol.adapter import Declaration
from draftproof.conformance.requirements import (
    batches,
    crossed,
    drafting,
    graphs,
    inputs,
    large,
    laws,
    layouts,
    long,
    numerics,
    offsets,
    randomness,
    states,
    tail,
    texts,
)
from draftproof.conformance.requirements.task import Task, is_asked

CHAPTERS = (
    *(laws, long, states, drafting, texts, batches, large, randomness),
    *(numerics, tail, offsets, graphs, inputs, layouts, crossed),
)
"""Modules, in the order of the chapters."""


@lru_cache(maxsize=8)
def plan(declared: Declaration, mode: str) -> tuple[Task, ...]:
    """Return the tasks of a mode for an adapter, in the order of the chapters."""
    return tuple(task for chapter in CHAPTERS for task in chapter.tasks(declared, mode))


@lru_cache(maxsize=1)
def coming(declared: Declaration, mode: str, patterns: tuple[str, ...]) -> Coming:
    """Return the future requests of a mode's tasks to the lanes, for the asked cases."""
    asked = [task for task in plan(declared, mode) if is_asked(task.case, patterns)]
    return [each for task in asked if task.asks is not None for each in task.asks(declared)]
