"""The ledger: claims about verification, each with its verdict.

`CLAIMS` has every claim by its id, `VERDICTS` its verdict: mechanised, proved for a shape, argued,
holds, or refuted. Each claim is data, a statement with its source, shape, evidence and figures, and
carries the program that derives the figures again: `check` runs the program and compares. No
verdict is stronger than the verdict of any claim on which its claim rests. A statement that follows
from a claim in one line is a corollary of that claim: `WITHDRAWN` maps former ids to their claims.

- `single_path`: token, block and greedy block verification of one path.
- `one_position`: several drafts of one token, and the optimum.
- `best_drafts`: the best drafts.
- `several_paths`: greedy multi-path block verification and traversal.
- `spectr_gbv`: several paths with a modified target.
- `mixed` and `scored`: our own multi-path block verification, of two kinds; `scored_greedy`: the
  second with a modified target.
- `limits`: verifiers that know only the rows along the paths, and their shortfall.
- `two_iterations`: one path over two iterations.
- `theorems`: theorems for all p and q of a shape.
- `exhibits`: wrong verifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftproof.reference.errors import Unsupported, unknown
from draftproof.reference.ledger import (
    best_drafts,
    limits,
    mixed,
    one_position,
    scored,
    scored_greedy,
    several_paths,
    single_path,
    spectr_gbv,
    theorems,
    two_iterations,
)
from draftproof.reference.ledger.claim import (
    Claim,
    ClaimFailed,
    Derivation,
    Unfounded,
    Verdict,
    check,
    verdicts,
)
from draftproof.reference.ledger.claim import claim_to_json as _to_json

PARTS = (
    single_path,
    one_position,
    best_drafts,
    several_paths,
    spectr_gbv,
    mixed,
    scored,
    scored_greedy,
    limits,
    two_iterations,
    theorems,
)

CLAIMS: Mapping[str, Claim] = {claim.id: claim for part in PARTS for claim in part.CLAIMS}

VERDICTS: Mapping[str, Verdict] = verdicts(CLAIMS.values())

WITHDRAWN: Mapping[str, str] = {
    "greedy_block.optimal": "greedy_block.bound",
    "khisti.two_drafts": "optimum.subsets",
    "spechub.is_greedy_draft": "spechub.value",
    "spectr_gbv.monotone": "spectr_gbv.value",
    "theorem.block.over_token": "block.is_token.one",
}
"""Withdrawn ids, which stay reserved, and the claim of which each is a corollary."""


def claim_named(name: str) -> Claim:
    """Return the claim with this id. Raises `Unsupported` for an unknown or a withdrawn id."""
    if name in WITHDRAWN:
        raise Unsupported(
            f"claim {name!r} was withdrawn: it is a corollary of {WITHDRAWN[name]!r}, which says so"
        )
    if name not in CLAIMS:
        raise Unsupported(unknown("claim", name, CLAIMS))
    return CLAIMS[name]


def claim_to_json(claim: Claim) -> dict[str, Any]:
    """Return the JSON form of a claim of the ledger."""
    return _to_json(claim, VERDICTS)


__all__ = [
    "CLAIMS",
    "VERDICTS",
    "WITHDRAWN",
    "Claim",
    "ClaimFailed",
    "Derivation",
    "Unfounded",
    "Verdict",
    "check",
    "claim_named",
    "claim_to_json",
    "verdicts",
]
