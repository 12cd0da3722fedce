"""Algorithms: a verifier's program, the instances that it accepts, and its laws on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.drafting import (
    SCHEMES,
    Drafted,
    Drafts,
    FixedTree,
    require_drawable,
    scheme_named,
)
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.joining import Promise, law_by_promise
from draftproof.reference.law import Law
from draftproof.reference.model import Instance

Verifier = Callable[[Drafted, Instance, Chance], Emission]

EVERY = tuple(SCHEMES)


@dataclass(frozen=True)
class Algorithm:
    """Verification algorithm: its program, the instances that it accepts, and its claims.

    `schemes` are the drafting schemes that the algorithm accepts for several drafts (a single draft
    has the same law under every scheme); `most_drafts` is the largest accepted K, if there is a
    limit. `trees` is true if tokens below the root may branch, `reads_all` if the algorithm reads
    every path to the end, whatever it keeps, `stateful` if it leaves a modified target, `optimal`
    if it claims the largest E[accepted length] of all verifiers that leave the target unchanged.
    `promise` declares which values the algorithm no longer needs on its way through the drafts, so
    that fewer runs yield its law.
    """

    name: str
    title: str
    source: str
    verify: Verifier
    _: KW_ONLY
    schemes: tuple[str, ...] = EVERY
    most_drafts: int | None = None
    trees: bool = True
    reads_all: bool = False
    stateful: bool = False
    optimal: bool = False
    promise: Promise | None = None


def require_fit(algorithm: Algorithm, instance: Instance) -> None:
    """Raise `Unsupported` if the algorithm does not accept the instance's drafts."""
    scheme_named(instance.scheme)
    if algorithm.most_drafts is not None and instance.drafts > algorithm.most_drafts:
        raise Unsupported(
            f"{algorithm.name} verifies at most {algorithm.most_drafts} path, got {instance.drafts}"
        )
    if instance.drafts > 1 and instance.scheme not in algorithm.schemes:
        raise Unsupported(
            f"{algorithm.name} verifies several drafts of the scheme "
            f"{' or '.join(map(repr, algorithm.schemes))}, got {instance.scheme!r}"
        )
    if instance.scheme == "hub" and max(instance.widths) > 2:
        raise Unsupported(f"the scheme 'hub' draws pairs, got branching {list(instance.widths)}")
    if not algorithm.trees and max(instance.widths[1:], default=1) > 1:
        raise Unsupported(
            f"{algorithm.name} verifies paths that branch at the root only, "
            f"got branching {list(instance.widths)}"
        )


def verification_law(algorithm: Algorithm, instance: Instance, drafts: Drafts) -> Law[Emission]:
    """Return the exact law of the emission of `algorithm` on the given drafts.

    Raises `Unsupported` for an instance that the algorithm does not accept, `WrongShape` for drafts
    that the instance's scheme cannot draw: no verifier is defined on such drafts.
    """
    require_fit(algorithm, instance)
    require_drawable(drafts, instance)
    tree = FixedTree(drafts, instance)
    return enumerate_law(lambda chance: algorithm.verify(tree, instance, chance))


def emission_law(algorithm: Algorithm, instance: Instance) -> Law[Emission]:
    """Return the exact law of one iteration's emission, drafting included.

    Raises `Unsupported` for an instance that the algorithm does not accept.
    """
    require_fit(algorithm, instance)
    return law_by_promise(algorithm.verify, instance, algorithm.promise)
