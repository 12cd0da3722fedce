"""The ledger as a page: what is claimed of verification, and which kind of truth it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from textwrap import indent

from building.markdown import fenced, flat, table
from draftproof.reference.ledger import CLAIMS, VERDICTS, Claim, Verdict, claim_to_json

_MEANING = {
    Verdict.REFUTED: "There is a counterexample, the first in the order of search; it is shown.",
    Verdict.MECHANISED: "Theorems that Coq has checked say at least the claim, for every V, L and "
    "K of its shape. They are about programs in Coq; that these are the reference's is tested, not "
    "proved.",
    Verdict.PROVED: "A proof by cells, which is checked again, for all p and q of the one shape "
    "that the statement names, of the reference's own text.",
    Verdict.ARGUED: "There is an argument in prose for all instances of the shape, tested on those "
    "examined. Nobody but its readers has checked it.",
    Verdict.HOLDS: "It holds on every instance examined, as many as are told; that is no proof.",
}


def pages() -> Mapping[str, str]:
    """Return the page of the ledger."""
    parts = [
        "# The ledger of claims",
        f"{len(CLAIMS)} claims of papers and of public code, each derived again by a program: "
        "`draftproof claims --check` does it anew, and compares figure by figure. A verdict is "
        "never stronger than that of a claim that the claim rests on: an argument upon what only "
        "holds only holds. What follows from another claim in one line is told there, as a "
        "corollary.",
        table(
            ["verdict", "claims", "which means"],
            [
                [f"[{verdict}](#{_anchor(verdict)})", str(len(_of(verdict))), meaning]
                for verdict, meaning in _MEANING.items()
            ],
        ),
    ]
    for verdict in _MEANING:
        parts.append(f"## {verdict.capitalize()} {{ #{_anchor(verdict)} }}")
        parts += [_claim(claim) for claim in _of(verdict)]
    return {"ledger.md": "\n\n".join(parts) + "\n"}


def _of(verdict: Verdict) -> list[Claim]:
    return [claim for claim in CLAIMS.values() if VERDICTS[claim.id] is verdict]


def _anchor(verdict: Verdict) -> str:
    return verdict.replace(" ", "-")


def _claim(claim: Claim) -> str:
    parts = [
        f"### {claim.id} {{ #claim.{claim.id} }}",
        f"> {flat(claim.statement)}",
        f"*Source:* {claim.source} · *Shape:* {claim.shape} · *Examined:* {_examined(claim)}",
    ]
    if claim.theorems:
        parts.append(f"*Theorems:* {', '.join(map(_theorem, claim.theorems))}")
    if claim.proof:
        parts.append(flat(claim.proof))
    if claim.rests_on:
        below = (f"[`{name}`](#claim.{name}), {VERDICTS[name]}" for name in claim.rests_on)
        parts.append(f"*Rests on:* {'; '.join(below)}")
    if claim.recorded.figures:
        rows = [[name, f"`{figure}`"] for name, figure in claim.recorded.figures.items()]
        parts.append(table(["figure", "value"], rows))
    counterexample = claim_to_json(claim).get("counterexample")
    if counterexample:
        shown = json.dumps(counterexample, ensure_ascii=False)
        parts.append('??? example "The counterexample"\n\n' + indent(fenced(shown, "json"), "    "))
    return "\n\n".join(parts)


def _examined(claim: Claim) -> str:
    """Return what was examined, and how much of it; a proof by cells examines no instances."""
    if claim.evidence is Verdict.PROVED:
        return flat(claim.scope)
    count = claim.recorded.instances
    return f"{count} instance{'s' if count > 1 else ''}: {flat(claim.scope)}"


def _theorem(name: str) -> str:
    file, _, theorem = name.partition(".")
    anchor = f"theorem.{file}.{theorem}".replace("'", "-")
    return f"[`{name}`](#{anchor})"
