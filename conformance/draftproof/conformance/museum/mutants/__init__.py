"""The museum of mutants: faults of real engines, each as a verifier that is wrong in one place.

A suite is worth what it catches. Each mutant names the requirement that its fault breaks; the kill
matrix (`museum.kill_matrix`) shows by which requirement, on which lane and on which case it is
caught. The controls are what must not be caught: lossless verifiers that are only slow, or only
look wrong.

Rooms: `token`, `block`, `drafts`, `trees` and `stateful` for wrong rules, `shared_noise` and
`boundaries` for randomness, `batches`, `numerics`, `drafting`, `pipelines`. Each is a table: a
right verifier of `verifiers` or `texts`, and the steps of it that are got wrong.
"""

from __future__ import annotations

from typing import Any

from draftproof.conformance.museum.mutants import (
    batches,
    block,
    boundaries,
    drafting,
    drafts,
    numerics,
    pipelines,
    shared_noise,
    stateful,
    token,
    trees,
)
from draftproof.conformance.museum.mutants.controls import CONTROLS
from draftproof.conformance.museum.mutants.mutant import Control, Exhibit, Mutant

__all__ = ["CONTROLS", "EXHIBITS", "MUTANTS", "Control", "Exhibit", "Mutant"]

MUTANTS: tuple[Mutant, ...] = (
    *token.MUTANTS,
    *block.MUTANTS,
    *drafts.MUTANTS,
    *trees.MUTANTS,
    *stateful.MUTANTS,
    *shared_noise.MUTANTS,
    *boundaries.MUTANTS,
    *batches.MUTANTS,
    *numerics.MUTANTS,
    *drafting.MUTANTS,
    *pipelines.MUTANTS,
)
"""All mutants, room by room."""

EXHIBITS: dict[str, Exhibit] = {each.id: each for each in (*CONTROLS, *MUTANTS)}
"""All of both by id, the controls first: they take longest."""

_CLASSES = {each.make.__name__: each.make for each in EXHIBITS.values()}


def __getattr__(name: str) -> Any:
    """Return the class of an exhibit, to load it as an adapter or to unpickle it."""
    try:
        return _CLASSES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
