"""The verification algorithms, one module each, and the table that names them."""

from __future__ import annotations

from functools import partial

from draftproof.reference.algorithm import (
    Algorithm,
    Verifier,
    emission_law,
    require_fit,
    verification_law,
)
from draftproof.reference.errors import Unsupported, unknown
from draftproof.reference.joining import Promise
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

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Verifier",
    "algorithm_named",
    "emission_law",
    "require_fit",
    "verification_law",
]

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
    """Return the algorithm called `name`. Raises `Unsupported` for an unknown name."""
    if name not in ALGORITHMS:
        raise Unsupported(unknown("algorithm", name, ALGORITHMS))
    return ALGORITHMS[name]
