"""The verification algorithms, one module each, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial

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
from draftproof.reference.errors import Unsupported, unknown
from draftproof.reference.joining import Promise, law_by_promise
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
from draftproof.reference.verifiers.scored_greedy_block import scored_greedy_block
from draftproof.reference.verifiers.scored_multipath_block import scored_multipath_block
from draftproof.reference.verifiers.spechub import spechub
from draftproof.reference.verifiers.spectr_gbv import spectr_gbv
from draftproof.reference.verifiers.target_first import target_first
from draftproof.reference.verifiers.token import token
from draftproof.reference.verifiers.traversal import traversal

Verifier = Callable[[Drafted, Instance, Chance], Emission]

EVERY = tuple(SCHEMES)


@dataclass(frozen=True)
class Algorithm:
    """A verification algorithm: its text, its accepted instances, and its claims.

    `schemes` are the drafting schemes that it takes for several drafts (one draft is the same under
    all schemes), `most_drafts` is the largest K, if there is one. `trees` is true if tokens below
    the root may branch, `reads_all` if the algorithm reads every path to the end, whatever it
    keeps, `stateful` if it leaves a modified target, `optimal` if it claims the largest
    E[accepted length] of all verifiers that leave the target untouched. `promise` says what it
    forgets on its way through the drafts: with it, its law is found from fewer runs.
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


_down = partial(Algorithm, promise=Promise.DOWN)
_of_paths = partial(Algorithm, schemes=("iid",), trees=False)

_TABLE = (
    _down("token", "Token verification", "arXiv 2211.17192", token, most_drafts=1),
    Algorithm(
        "block", "Block verification", "arXiv 2403.10444", block, most_drafts=1, optimal=True
    ),
    Algorithm(
        "greedy_block",
        "Greedy block verification",
        "arXiv 2403.10444",
        greedy_block,
        most_drafts=1,
        stateful=True,
    ),
    _down(
        "recursive_rejection",
        "Recursive rejection sampling",
        "arXiv 2305.09781",
        recursive_rejection,
        schemes=("iid", "without_replacement"),
    ),
    _down("k_seq", "K-SEQ", "arXiv 2310.15141", k_seq, schemes=("iid",)),
    _down(
        "naive_tree",
        "Naive tree verification",
        "arXiv 2602.16994",
        naive_tree,
        schemes=("iid", "without_replacement", "hub"),
    ),
    _down("target_first", "Target first", "arXiv 2305.09781", target_first),
    _down("spechub", "SpecHub", "arXiv 2411.05289", spechub, schemes=("hub",)),
    _down("greedy_draft", "Greedy draft", "arXiv 2502.18779", greedy_draft, schemes=("greedy",)),
    _down("optimal_transport", "Optimal transport", "arXiv 2310.15141", optimal_transport),
    _down("canonical", "Canonical decomposition", "arXiv 2410.18234", canonical),
    _of_paths(
        "multipath_block",
        "Greedy multi-path block verification",
        "arXiv 2602.16961",
        multipath_block,
        promise=Promise.DOWN,
    ),
    Algorithm(
        "traversal",
        "Traversal verification",
        "arXiv 2505.12398",
        traversal,
        promise=Promise.DEPTH_FIRST,
        reads_all=True,
        schemes=("iid", "without_replacement"),
    ),
    _of_paths(
        "spectr_gbv",
        "SpecTr-GBV",
        "arXiv 2604.25925",
        spectr_gbv,
        promise=Promise.AT_ONCE,
        reads_all=True,
        stateful=True,
    ),
    _of_paths(
        "recursive_greedy_block",
        "Recursive greedy block verification",
        "draftproof",
        recursive_greedy_block,
        reads_all=True,
        stateful=True,
    ),
    _of_paths(
        "mixed_multipath_block",
        "Mixed multi-path block verification",
        "draftproof",
        mixed_multipath_block,
        promise=Promise.DOWN,
    ),
    _of_paths(
        "scored_multipath_block",
        "Scored multi-path block verification",
        "draftproof",
        scored_multipath_block,
        promise=Promise.SELECTING,
        reads_all=True,
    ),
    _of_paths(
        "scored_greedy_block",
        "Scored greedy block verification",
        "draftproof",
        scored_greedy_block,
        promise=Promise.SELECTING,
        reads_all=True,
        stateful=True,
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
    """Return the exact law of the emission of `algorithm` on the given drafts.

    Raises `Unsupported` for an instance that the algorithm does not take, `WrongShape` for drafts
    that the instance's scheme cannot draw, on which no verifier is defined.
    """
    require_fit(algorithm, instance)
    require_drawable(drafts, instance)
    tree = FixedTree(drafts, instance)
    return enumerate_law(lambda chance: algorithm.verify(tree, instance, chance))


def emission_law(algorithm: Algorithm, instance: Instance) -> Law[Emission]:
    """Return the exact law of one iteration's emission, drafting included.

    Raises `Unsupported` for an instance that the algorithm does not take.
    """
    require_fit(algorithm, instance)
    return law_by_promise(algorithm.verify, instance, algorithm.promise)
