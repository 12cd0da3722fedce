"""The museum of mutants: faults of real engines, each as a verifier that is wrong in one place.

A suite is worth what it catches. Each mutant names the requirement that its fault breaks; the kill
matrix (`museum.kill_matrix`) shows by which requirement, on which lane and on which case it is
caught. The controls are what must not be caught: lossless verifiers that are only slow, or only
look wrong.

Rooms: `token`, `block`, `drafts`, `trees` and `stateful` for wrong rules, `shared_noise` and
`boundaries` for randomness, `batches`, `numerics`, `drafting`, `pipelines`. All are made from the
right verifiers of `verifiers` and `texts`.
"""

from __future__ import annotations

from draftproof.conformance.museum.mutants import (
    batches,
    block,
    boundaries,
    controls,
    drafting,
    drafts,
    numerics,
    pipelines,
    shared_noise,
    stateful,
    token,
    trees,
)
from draftproof.conformance.museum.mutants.mutant import Control, Exhibit, Mutant, exhibits

__all__ = ["CONTROLS", "EXHIBITS", "MUTANTS", "Control", "Exhibit", "Mutant"]

_ROOMS = (
    token,
    block,
    drafts,
    trees,
    stateful,
    shared_noise,
    boundaries,
    batches,
    numerics,
    drafting,
    pipelines,
)

MUTANTS: tuple[Mutant, ...] = tuple(each for room in _ROOMS for each in exhibits(room))
"""All mutants, room by room."""

CONTROLS: tuple[Control, ...] = tuple(exhibits(controls))
"""All controls."""

EXHIBITS: dict[str, Exhibit] = {}
"""All of both by id, the controls first: they take longest."""
EXHIBITS.update({each.id: each for each in CONTROLS})
EXHIBITS.update({each.id: each for each in MUTANTS})
