"""Conformance matrix, on a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from draftproof.conformance.evidence.grade import OF_LANE
from draftproof.conformance.report.markdown import in_line, row_of
from draftproof.conformance.report.states import (
    BELOW_TOKEN,
    CONFORMS,
    ON_SOME,
    losslessness,
    passed,
    share,
)
from draftproof.conformance.report.terminal import ruled
from draftproof.conformance.report.words import certainty
from draftproof.conformance.requirements.finding import (
    CANNOT_RUN,
    FAILS_EVERYWHERE,
    PASS,
    UNFETCHED,
)

# What is neither a failure nor left open. Earlier versions wrote "not run" for the last three.
_PLAIN = ("conforms", FAILS_EVERYWHERE, CANNOT_RUN, UNFETCHED, "not run")

STYLES = {"conforms": "green", "does not conform": "bold red"}


def table(out: Console, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows of a matrix, `plain`, as a table for a terminal."""
    made = ruled(out, "row", "algorithm", "outcome", "lossless", "E[τ] / optimum")
    for row in rows:
        style = STYLES.get(row["outcome"], "yellow")
        made.add_row(
            escape(row["name"]),
            row["algorithm"],
            f"[{style}]{escape(_outcome(row))}[/]",
            escape(row["reason"] or _lossless(row)),
            _share(row),
        )
    return made


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of a matrix, `plain`, as a table in GitHub's Markdown."""
    columns = ("engine", "version", "algorithm", "outcome", "lossless", "E[τ] / optimum", "judged")
    ruled_off = "|---|---|---|---|---|--:|---|"
    return "\n".join((row_of(columns), ruled_off, *map(row_of, map(_cells, rows)), ""))


def _cells(row: Mapping[str, Any]) -> Sequence[str]:
    name = row["name"].partition("@")[0]
    outcome = _outcome(row)
    return (
        in_line(name),
        in_line(row["version"]),
        in_line(row["algorithm"]),
        in_line(outcome)
        if outcome.startswith((CONFORMS, ON_SOME)) or outcome in _PLAIN
        else f"**{outcome}**",
        in_line(row["reason"] or _lossless(row)),
        in_line(_share(row)),
        row["judged"]["created"].partition("T")[0] if row["judged"] else "",
    )


def _outcome(row: Mapping[str, Any]) -> str:
    if row["outcome"] == CONFORMS:
        return _conforms(row) + _suboptimal(row)
    is_made_so = row["design"] and row["outcome"] == "does not conform"
    return f"{row['outcome']}, by design" if is_made_so else str(row["outcome"])


def _conforms(row: Mapping[str, Any]) -> str:
    """Describe on which cases a row conforms, and why not on all."""
    why = row["judged"].get("why") if row["judged"]["cases"] else None
    return f"{passed(row)}: {why}" if why else passed(row)


def _suboptimal(row: Mapping[str, Any]) -> str:
    """Describe what the optimum would keep, for rules below token verification."""
    if row["algorithm"] not in BELOW_TOKEN or not (known := share(row)):
        return ""
    return f"; suboptimal: a lossless rule can keep {1 / known:.2f} times as many drafted tokens"


def _lossless(row: Mapping[str, Any]) -> str:
    """Return the verdict on losslessness, of the verifier or of the text, and who decided it."""
    own = losslessness(row)
    known = row["judged"].get("grade")
    if own["verdict"] == PASS and known is not None:
        return f"{own['verdict']}: {certainty(known)}"
    distance = "" if own["distance"] is None else f", TV {own['distance']:.2g}"
    lanes = [OF_LANE.get(each, each) for each in own["lanes"]]
    return f"{own['verdict']}{distance} ({', '.join(lanes) or 'undecided'})"


def _share(row: Mapping[str, Any]) -> str:
    known = share(row)
    return "" if known is None else f"{known:.1%}"
