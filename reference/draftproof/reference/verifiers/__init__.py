"""The verification algorithms, one module each, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.drafting import (
    SCHEMES,
    Drafted,
    Drafts,
    FixedTree,
    GrowingTree,
    require_drawable,
    scheme_named,
)
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported, unknown
from draftproof.reference.law import Law
from draftproof.reference.model import Instance
from draftproof.reference.verifiers.block import block
from draftproof.reference.verifiers.canonical import canonical
from draftproof.reference.verifiers.greedy_block import greedy_block
from draftproof.reference.verifiers.greedy_draft import greedy_draft
from draftproof.reference.verifiers.k_seq import k_seq
from draftproof.reference.verifiers.mixed_multipath_block import mixed_multipath_block
from draftproof.reference.verifiers.multipath_block import multipath_block
from draftproof.reference.verifiers.naive_tree import naive_tree
from draftproof.reference.verifiers.optimal_transport import optimal_transport
from draftproof.reference.verifiers.recursive_greedy_block import recursive_greedy_block
from draftproof.reference.verifiers.recursive_rejection import recursive_rejection
from draftproof.reference.verifiers.scored_multipath_block import scored_multipath_block
from draftproof.reference.verifiers.spechub import spechub
from draftproof.reference.verifiers.spectr_gbv import spectr_gbv
from draftproof.reference.verifiers.target_first import target_first
from draftproof.reference.verifiers.token import token
from draftproof.reference.verifiers.traversal import traversal

Verifier = Callable[[Drafted, Instance, Chance], Emission]

EVERY = tuple(SCHEMES)


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A verification algorithm: its text, what it takes, and what it claims.

    `schemes` are the drafting schemes that it takes for several drafts (one draft is the same under
    all of them), `most_drafts` the largest K, if there is one. `trees` says whether tokens below
    the root may branch. `reads_all` says that it reads every path to the end, whatever it keeps.
    `stateful` says that it leaves a modified target behind. `optimal` says that it claims the
    largest E[accepted length] of all verifiers that leave the target untouched.
    """

    name: str
    title: str
    source: str
    verify: Verifier
    schemes: tuple[str, ...] = EVERY
    most_drafts: int | None = None
    trees: bool = True
    reads_all: bool = False
    stateful: bool = False
    optimal: bool = False


_TABLE = (
    Algorithm(
        name="token",
        title="Token verification",
        source="arXiv 2211.17192",
        verify=token,
        most_drafts=1,
    ),
    Algorithm(
        name="block",
        title="Block verification",
        source="arXiv 2403.10444",
        verify=block,
        most_drafts=1,
        optimal=True,
    ),
    Algorithm(
        name="greedy_block",
        title="Greedy block verification",
        source="arXiv 2403.10444",
        verify=greedy_block,
        most_drafts=1,
        stateful=True,
    ),
    Algorithm(
        name="recursive_rejection",
        title="Recursive rejection sampling",
        source="arXiv 2305.09781",
        verify=recursive_rejection,
        schemes=("iid", "without_replacement"),
    ),
    Algorithm(
        name="k_seq",
        title="K-SEQ",
        source="arXiv 2310.15141",
        verify=k_seq,
        schemes=("iid",),
    ),
    Algorithm(
        name="naive_tree",
        title="Naive tree verification",
        source="arXiv 2602.16994",
        verify=naive_tree,
        schemes=("iid", "without_replacement", "hub"),
    ),
    Algorithm(
        name="target_first",
        title="Target first",
        source="arXiv 2305.09781",
        verify=target_first,
    ),
    Algorithm(
        name="spechub",
        title="SpecHub",
        source="arXiv 2411.05289",
        verify=spechub,
        schemes=("hub",),
    ),
    Algorithm(
        name="greedy_draft",
        title="Greedy draft",
        source="arXiv 2502.18779",
        verify=greedy_draft,
        schemes=("greedy",),
    ),
    Algorithm(
        name="optimal_transport",
        title="Optimal transport",
        source="arXiv 2310.15141",
        verify=optimal_transport,
    ),
    Algorithm(
        name="canonical",
        title="Canonical decomposition",
        source="arXiv 2410.18234",
        verify=canonical,
    ),
    Algorithm(
        name="multipath_block",
        title="Greedy multi-path block verification",
        source="arXiv 2602.16961",
        verify=multipath_block,
        schemes=("iid",),
        trees=False,
    ),
    Algorithm(
        name="traversal",
        title="Traversal verification",
        source="arXiv 2505.12398",
        verify=traversal,
        reads_all=True,
        schemes=("iid", "without_replacement"),
    ),
    Algorithm(
        name="spectr_gbv",
        title="SpecTr-GBV",
        source="arXiv 2604.25925",
        verify=spectr_gbv,
        reads_all=True,
        schemes=("iid",),
        trees=False,
        stateful=True,
    ),
    Algorithm(
        name="recursive_greedy_block",
        title="Recursive greedy block verification",
        source="draftproof",
        verify=recursive_greedy_block,
        reads_all=True,
        schemes=("iid",),
        trees=False,
        stateful=True,
    ),
    Algorithm(
        name="mixed_multipath_block",
        title="Mixed multi-path block verification",
        source="draftproof",
        verify=mixed_multipath_block,
        schemes=("iid",),
        trees=False,
    ),
    Algorithm(
        name="scored_multipath_block",
        title="Scored multi-path block verification",
        source="draftproof",
        verify=scored_multipath_block,
        reads_all=True,
        schemes=("iid",),
        trees=False,
    ),
)

ALGORITHMS = {algorithm.name: algorithm for algorithm in _TABLE}


def algorithm_named(name: str) -> Algorithm:
    """Return the algorithm. Raises `Unsupported` for an unknown name."""
    if name not in ALGORITHMS:
        raise Unsupported(unknown("algorithm", name, ALGORITHMS))
    return ALGORITHMS[name]


def require_fit(algorithm: Algorithm, instance: Instance) -> None:
    """Raise `Unsupported` where the algorithm does not take the instance's drafts."""
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
    """Return the exact law of what `algorithm` emits on the given drafts.

    Raises `Unsupported` for an instance that the algorithm does not take, `WrongShape` for drafts
    that the instance's scheme cannot draw, on which no verifier is defined.
    """
    require_fit(algorithm, instance)
    require_drawable(drafts, instance)
    tree = FixedTree(drafts, instance)
    return enumerate_law(lambda chance: algorithm.verify(tree, instance, chance))


def emission_law(algorithm: Algorithm, instance: Instance) -> Law[Emission]:
    """Return the exact law of what one iteration emits, drafting included.

    Raises `Unsupported` for an instance that the algorithm does not take.
    """
    require_fit(algorithm, instance)
    return enumerate_law(
        lambda chance: algorithm.verify(GrowingTree(instance, chance), instance, chance)
    )
