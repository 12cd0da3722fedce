"""The ledger as a page: what is claimed of verification, and what exact arithmetic says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from textwrap import indent

from building.markdown import fenced, flat, table
from draftproof.reference.ledger import CLAIMS, Claim, Verdict, claim_to_json

_MEANING = {
    Verdict.REFUTED: "There is a counterexample, the first by size, and it is shown.",
    Verdict.PROVED: "There is an argument for all instances of the shape, or a proof by cells.",
    Verdict.HOLDS: "It holds on every instance examined; that is no proof.",
}


def pages() -> Mapping[str, str]:
    """Return the page of the ledger."""
    parts = [
        "# The ledger of claims",
        f"{len(CLAIMS)} claims of papers and of public code, each derived again by a program: "
        "`draftproof claims --check` does it anew, and compares figure by figure.",
        table(
            ["verdict", "claims", "which means"],
            [
                [f"[{verdict}](#{verdict})", str(len(_of(verdict))), meaning]
                for verdict, meaning in _MEANING.items()
            ],
        ),
    ]
    for verdict in _MEANING:
        parts.append(f"## {verdict.capitalize()} {{ #{verdict} }}")
        parts += [_claim(claim) for claim in _of(verdict)]
    return {"ledger.md": "\n\n".join(parts) + "\n"}


def _of(verdict: Verdict) -> list[Claim]:
    return [claim for claim in CLAIMS.values() if claim.verdict is verdict]


def _claim(claim: Claim) -> str:
    parts = [
        f"### {claim.id} {{ #claim.{claim.id} }}",
        f"> {flat(claim.statement)}",
        f"*Source:* {claim.source} · *Shape:* {claim.shape} · *Examined:* {flat(claim.scope)}",
    ]
    if claim.proof:
        parts.append(flat(claim.proof))
    if claim.recorded.figures:
        rows = [[name, f"`{figure}`"] for name, figure in claim.recorded.figures.items()]
        parts.append(table(["figure", "value"], rows))
    counterexample = claim_to_json(claim).get("counterexample")
    if counterexample:
        shown = json.dumps(counterexample, ensure_ascii=False)
        parts.append('??? example "The counterexample"\n\n' + indent(fenced(shown, "json"), "    "))
    return "\n\n".join(parts)
