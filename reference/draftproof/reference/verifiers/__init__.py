"""The verification algorithms, one module each, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported, WrongShape
from draftproof.reference.law import Law
from draftproof.reference.model import Instance
from draftproof.reference.verifiers.block import block
from draftproof.reference.verifiers.token import token

Verifier = Callable[[Drafts, Instance, Chance], Emission]


@dataclass(frozen=True)
class Algorithm:
    """A verification algorithm: its text, what it takes, and what it claims.

    `most_drafts` is the largest K that it takes. `optimal` says that it claims the largest
    E[accepted length] of all verifiers that leave later targets untouched.
    """

    name: str
    title: str
    source: str
    verify: Verifier
    most_drafts: int
    optimal: bool


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("token", "Token verification", "arXiv 2211.17192", token, 1, optimal=False),
        Algorithm("block", "Block verification", "arXiv 2403.10444", block, 1, optimal=True),
    )
}


def algorithm_named(name: str) -> Algorithm:
    """Return the algorithm. Raises `Unsupported` for an unknown name."""
    if name not in ALGORITHMS:
        raise Unsupported(f"unknown algorithm {name!r}; known: {', '.join(sorted(ALGORITHMS))}")
    return ALGORITHMS[name]


def verification_law(algorithm: Algorithm, instance: Instance, drafts: Drafts) -> Law[Emission]:
    """Return the exact law of what `algorithm` emits on the given drafts.

    Raises `Unsupported` for more drafts than the algorithm takes, `WrongShape` for another
    number of them than the instance's, and for a path of the wrong length or of
    probability zero, on which no verifier is defined.
    """
    if len(drafts) > algorithm.most_drafts:
        raise Unsupported(
            f"{algorithm.name} verifies at most {algorithm.most_drafts} path, got {len(drafts)}"
        )
    if len(drafts) != instance.drafts:
        raise WrongShape(f"the instance has {instance.drafts} drafts, got {len(drafts)} paths")
    for path in drafts:
        if len(path) != instance.length:
            raise WrongShape(f"path {path} must have {instance.length} tokens, has {len(path)}")
        if instance.draft.joint(path) == 0:
            raise WrongShape(f"path {path} has probability 0 under the draft: it cannot be drafted")
    return enumerate_law(lambda chance: algorithm.verify(drafts, instance, chance))


def emission_law(algorithm: Algorithm, instance: Instance) -> Law[Emission]:
    """Return the exact law of what one iteration emits, drafting included."""
    return draft_law(instance).then(lambda drafts: verification_law(algorithm, instance, drafts))
