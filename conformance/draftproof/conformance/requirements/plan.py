"""Which tasks judge the requirements for an adapter."""

from __future__ import annotations

from draftproof.conformance.protocol.adapter import Declaration
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
from draftproof.conformance.requirements.task import Task

CHAPTERS = (laws, states, drafting, texts, batches, randomness, numerics, inputs)
"""The modules, in the order of the chapters."""


def plan(declared: Declaration, tier: str) -> tuple[Task, ...]:
    """Return the tasks of a tier for an adapter, in the order of the chapters."""
    return tuple(task for chapter in CHAPTERS for task in chapter.tasks(declared, tier))
