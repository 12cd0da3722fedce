"""The ledger: claims about verification, and the verdicts of exact arithmetic on them.

`CLAIMS` has every claim by its id. Each claim is data, a statement with its source, its verdict and
its figures, and carries the program that derives the verdict and figures again: `check` runs the
program and compares.

- `single_path`: token, block and greedy block verification of one path.
- `one_position`: several drafts of one token, and the optimum.
- `several_paths`: greedy multi-path block verification and traversal.
- `spectr_gbv`: several paths with a modified target.
- `mixed` and `scored`: our own multi-path block verification, of two kinds.
- `theorems`: theorems for all p and q of a shape.
- `exhibits`: wrong verifiers.
"""

from __future__ import annotations

from collections.abc import Mapping

from draftproof.reference.errors import Unsupported, unknown
from draftproof.reference.ledger import (
    mixed,
    one_position,
    scored,
    several_paths,
    single_path,
    spectr_gbv,
    theorems,
)
from draftproof.reference.ledger.claim import (
    Claim,
    ClaimFailed,
    Derivation,
    Verdict,
    check,
    claim_to_json,
)

CLAIMS: Mapping[str, Claim] = {
    claim.id: claim
    for part in (single_path, one_position, several_paths, spectr_gbv, mixed, scored, theorems)
    for claim in part.CLAIMS
}


def claim_named(name: str) -> Claim:
    """Return the claim. Raises `Unsupported` for an unknown id."""
    if name not in CLAIMS:
        raise Unsupported(unknown("claim", name, CLAIMS))
    return CLAIMS[name]


__all__ = [
    "CLAIMS",
    "Claim",
    "ClaimFailed",
    "Derivation",
    "Verdict",
    "check",
    "claim_named",
    "claim_to_json",
]
