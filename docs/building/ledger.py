"""The ledger as a page: claims about verification, with their verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from textwrap import indent

from building.entries import Entry, Facet, form, section, slug
from building.markdown import WIDE, fenced, flat, table
from building.pages import HOUSE
from draftproof.reference.ledger import CLAIMS, VERDICTS, Claim, Verdict, claim_to_json
from draftproof.reference.verifiers import ALGORITHMS

_EXPLANATION = HOUSE / "docs/pages/explanation/algorithms"

_MEANING = {
    Verdict.REFUTED: "There is a counterexample. The page shows the first that the search found.",
    Verdict.MECHANISED: "Theorems checked by Coq imply the claim, for every V, L and K of its "
    "shape. They are about programs in Coq; tests, not a proof, show that these programs are the "
    "reference's.",
    Verdict.PROVED: "A proof by cells of the reference's own source, which is checked again, for "
    "all p and q of the one shape that the statement names.",
    Verdict.ARGUED: "An argument in prose covers all instances of the shape. It is tested on the "
    "examined instances, but only human readers have checked it.",
    Verdict.HOLDS: "The claim holds on every examined instance, which is not a proof. Each claim "
    "states the number of instances.",
}


def pages() -> Mapping[str, str]:
    """Return the page of the ledger."""
    entries = {verdict: [_entry(claim) for claim in _of(verdict)] for verdict in _MEANING}
    every = [entry for own in entries.values() for entry in own]
    parts = [
        WIDE,
        "# The ledger of claims",
        f"{len(CLAIMS)} claims of papers and of public code. A program derives each of them again: "
        "`draftproof claims --check` runs these programs and compares every figure. The verdict "
        "of a claim is never stronger than those of the claims that it rests on: if an argument "
        "uses a claim that only *holds*, its conclusion only *holds*. A claim that follows from "
        "a different claim in one line is listed there as a corollary.",
        table(
            ["verdict", "claims", "meaning"],
            [
                [f"[{verdict}](#{slug(verdict)})", str(len(_of(verdict))), meaning]
                for verdict, meaning in _MEANING.items()
            ],
            align="lrl",
        ),
        form(_facets(), every),
        *(section(verdict.capitalize(), slug(verdict), entries[verdict]) for verdict in _MEANING),
    ]
    return {"ledger.md": "\n\n".join(parts) + "\n"}


def _of(verdict: Verdict) -> list[Claim]:
    """Return the claims of a verdict, the shortest first: a reader begins there."""
    found = [claim for claim in CLAIMS.values() if VERDICTS[claim.id] is verdict]
    return sorted(found, key=lambda claim: len(claim.statement))


# --- what claims can be chosen by -----------------------------------------------------------------

_OURS = "draftproof"
_SOURCE = re.compile(rf"arXiv (\d{{4}}\.\d{{5}})|github\.com/([\w.-]+/[\w.-]+)|\b({_OURS})\b")


def _facets() -> list[Facet]:
    papers = sorted({each for claim in CLAIMS.values() for each in papers_of(claim)}, key=_order)
    return [
        Facet("verdict", "Verdict", {slug(verdict): verdict for verdict in _MEANING}),
        Facet("paper", "Paper or code", {each: _named(each) for each in papers}),
        Facet("algorithm", "Algorithm", {name: each.title for name, each in ALGORITHMS.items()}),
    ]


def papers_of(claim: Claim) -> list[str]:
    """Return the sources of a claim: arXiv numbers, GitHub repositories, or "draftproof".

    Raises `ValueError` for a source that names none of them.
    """
    found = ["".join(each) for each in _SOURCE.findall(claim.source)]
    if not found:
        raise ValueError(
            f"{claim.id}: its source {claim.source!r} names neither an article of arXiv, nor a "
            f"repository of GitHub, nor {_OURS}"
        )
    return list(dict.fromkeys(found))


def _order(paper: str) -> tuple[bool, bool, str]:
    """Return the sort key of a source: arXiv numbers first, then repositories, then our own."""
    return paper == _OURS, "/" in paper, paper.casefold()


def _named(paper: str) -> str:
    if paper == _OURS:
        return "Draftproof"
    return paper if "/" in paper else f"arXiv {paper}"


@cache
def _algorithms() -> Mapping[str, Sequence[str]]:
    """Return, for each claim, the algorithms whose pages in the explanation show it."""
    found: dict[str, list[str]] = {name: [] for name in CLAIMS}
    for algorithm in ALGORITHMS:
        page = (_EXPLANATION / f"{algorithm}.md").read_text(encoding="utf-8")
        for said in re.findall(r'"computed: claims ([^"]*)"', page):
            for name in said.split():
                found[name].append(algorithm)
    return found


# --- a claim --------------------------------------------------------------------------------------


def _entry(claim: Claim) -> Entry:
    statement = flat(claim.statement)
    sentence = re.split(r"(?<=\.) (?=[A-Z])", statement, maxsplit=1)
    parts = [
        *sentence[1:],
        f"*Source:* {_cited(claim.source)} · *Shape:* {claim.shape} · *Examined:* "
        f"{_examined(claim)}",
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
    is_refuted = VERDICTS[claim.id] is Verdict.REFUTED
    return Entry(
        # Whoever sees a heading alone, as in a search, must not take it for a fact.
        title=f"Refuted: “{sentence[0]}”" if is_refuted else sentence[0],
        id=claim.id,
        standing=VERDICTS[claim.id],
        anchor=f"claim.{claim.id}",
        text="\n\n".join(parts),
        values={
            "verdict": [slug(VERDICTS[claim.id])],
            "paper": papers_of(claim),
            "algorithm": _algorithms()[claim.id],
        },
    )


def _cited(source: str) -> str:
    """Return a source with links to the articles and repositories that it names."""

    def linked(match: re.Match[str]) -> str:
        if match[1]:
            return f"[{match[0]}](https://arxiv.org/abs/{match[1]})"
        return f"[{match[0]}](https://{match[0]})" if match[2] else match[0]

    return _SOURCE.sub(linked, source)


def _examined(claim: Claim) -> str:
    """Return the examined instances and their scope; for a proof by cells, the scope alone."""
    if claim.evidence is Verdict.PROVED:
        return flat(claim.scope)
    count = claim.recorded.instances
    return f"{count} instance{'s' if count > 1 else ''}: {flat(claim.scope)}"


def _theorem(name: str) -> str:
    file, _, theorem = name.partition(".")
    anchor = f"theorem.{file}.{theorem}".replace("'", "-")
    return f"[`{name}`](#{anchor})"
