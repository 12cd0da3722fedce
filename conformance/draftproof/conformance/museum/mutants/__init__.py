"""The museum of mutants: faults of real engines, each as a verifier with one wrong step.

The museum measures the strength of the suite. Each mutant names the requirement that its fault
breaks; the kill matrix (`museum.kill_matrix`) shows the requirement, the lane and the case that
catch it. The controls must not be caught: they are lossless verifiers that are slow, or that look
wrong.

Rooms: `token`, `block`, `drafts`, `trees`, `stateful` and `scored` for wrong rules, `shared_noise`
and `boundaries` for randomness, `batches`, `numerics`, `drafting`, `pipelines`, and `serving` for
faults that only act at the sizes that are served. Each module is a table: a correct verifier of
`verifiers` or `texts`, and the wrong steps that replace some of its steps. `gates` has a family:
every base fault behind every gate.
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
    scored,
    serving,
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
    *scored.MUTANTS,
    *shared_noise.MUTANTS,
    *boundaries.MUTANTS,
    *batches.MUTANTS,
    *numerics.MUTANTS,
    *drafting.MUTANTS,
    *pipelines.MUTANTS,
    *serving.MUTANTS,
)
"""All mutants, module by module."""

EXHIBITS: dict[str, Exhibit] = {each.id: each for each in (*CONTROLS, *MUTANTS)}
"""All controls and mutants by id, the controls first: they take longest."""

_CLASSES = {each.make.__name__: each.make for each in EXHIBITS.values()}


def __getattr__(name: str) -> Any:
    """Return the class of an exhibit, for loading it as an adapter or unpickling it."""
    try:
        return _CLASSES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
