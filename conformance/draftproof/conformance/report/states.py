"""State of a row of the matrix, with its figure and its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from draftproof.conformance.requirements.finding import (
    CANNOT_RUN,
    FAIL,
    FAILS_EVERYWHERE,
    SKIPPED,
    UNFETCHED,
)

CONFORMS, ON_SOME, SUBOPTIMAL = "conforms", "no fault found", "suboptimal"
LOSSY, BY_DESIGN, FAILS = "lossy", "lossy by design", "does not conform"
INCONCLUSIVE, UNJUDGED = "inconclusive", "could not be judged"

STATES: Mapping[str, str] = MappingProxyType(
    {
        CONFORMS: "passes every MUST requirement on all cases of its mode",
        ON_SOME: "passes every MUST requirement on the cases that were run, which are not all",
        SUBOPTIMAL: "conforms, and keeps fewer of the tokens that its draft model samples than "
        "token verification would; the figure is its expected accepted length as a share of the "
        "optimum",
        LOSSY: "its output distribution differs from the target's",
        BY_DESIGN: "lossy, and documented as lossy by its own project",
        FAILS: "lossless on its cases, and fails another MUST requirement",
        INCONCLUSIVE: "no requirement fails, but some could not be decided",
        UNJUDGED: "the campaign ended without a verdict",
        FAILS_EVERYWHERE: "runs, but raises an error or returns no emission on every case",
        CANNOT_RUN: "its adapter cannot be imported or made here, its process ended, or the row "
        "says why it cannot run",
        UNFETCHED: "pip or GitHub did not provide its files, or the row says that it cannot",
    }
)
"""Every state of a row and its meaning, best first."""

BELOW_TOKEN = frozenset({"target_first", "naive_tree"})
"""Algorithms that sample the target first: for all p and q, they accept with probability sum p q,
and token verification with probability sum min(p, q) (the ledger's target_first.value and
naive_tree.value). The two are equal for a draft that is certain."""


def state(row: Mapping[str, Any]) -> str:
    """Return the state of a line of a matrix. Raises `LookupError` for an unknown outcome."""
    outcome: str = row["outcome"]
    if outcome == CONFORMS:
        if row["algorithm"] in BELOW_TOKEN and share(row):
            return SUBOPTIMAL
        return ON_SOME if row["judged"]["cases"] else CONFORMS
    if outcome == FAILS and row["design"]:
        return BY_DESIGN
    if outcome == FAILS and losslessness(row)["verdict"] == FAIL:
        return LOSSY
    if outcome not in STATES:
        raise LookupError(f"{row['name']}: no state is {outcome!r}; known: {', '.join(STATES)}")
    return outcome


def told(row: Mapping[str, Any]) -> str:
    """Return the state of a line with its figure: "no fault found, 46 of 50 cases run"."""
    own = state(row)
    if own == ON_SOME:
        return passed(row)
    if own == SUBOPTIMAL:
        cases = f", {some} run" if (some := asked(row)) else ""
        return f"{SUBOPTIMAL}: {share(row):.1%} of the optimum{cases}"
    if own in (LOSSY, BY_DESIGN):
        distance = losslessness(row)["distance"]
        said = f"{own}, unreachable" if row.get("unreachable") else own
        return said if distance is None else f"{said}: distance {distance:.2g}"
    return own


def passed(row: Mapping[str, Any]) -> str:
    """Return the outcome of a line without a fault, with the number of its cases if not all."""
    if not row["judged"]["cases"]:
        return CONFORMS
    return f"{ON_SOME}, {cases} run" if (cases := asked(row)) else ON_SOME


def asked(row: Mapping[str, Any]) -> str:
    """Return the number of judged cases, "46 of 50 cases"; empty for all cases or if unknown."""
    number, planned = (row["judged"].get(name) for name in ("asked", "planned"))
    return f"{number} of {planned} cases" if number and planned else ""


def losslessness(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the decision on losslessness of a judged line: of its verifier, else of its text."""
    by_id = {each["id"]: each for each in row["judged"]["requirements"]}
    own: Mapping[str, Any] = by_id["law.lossless"]
    return by_id.get("text.lossless", own) if own["verdict"] == SKIPPED else own


def share(row: Mapping[str, Any]) -> float | None:
    """Return E[accepted length] as a share of the optimum, None where it is not known.

    The cases sample their drafts, so the share does not apply to an engine with certain drafts.
    """
    if row.get("certain"):
        return None
    lengths = row["judged"] and row["judged"]["lengths"]
    if not lengths or not lengths["optimum"]:
        return None
    return float(lengths["observed"] / lengths["optimum"])
