"""The states of rows of the matrix, and their words."""

from __future__ import annotations

from typing import Any

import pytest

from draftproof.conformance.report.states import STATES, asked, losslessness, share, state, told
from draftproof.spec import schema

Row = dict[str, Any]


def decision(identity: str, verdict: str, **own: Any) -> Row:
    return {"id": identity, "verdict": verdict, "distance": None, "lanes": [], **own}


def judged(outcome: str, verdict: str = "pass", distance: float | None = 1e-8, **own: Any) -> Row:
    """A line that the exact lane judged, with changes of the line or of its judgement."""
    row = {"name": "x@1", "algorithm": "token", "outcome": outcome, "design": None}
    apart = ("algorithm", "design", "certain", "unreachable")
    row |= {name: own.pop(name) for name in apart if name in own}
    lossless = decision("law.lossless", verdict, distance=distance, lanes=["exact"])
    known: Row = {"mode": "quick", "cases": [], "asked": None, "planned": None, "lengths": None}
    return {**row, "judged": {**known, "requirements": [lossless], **own}}


SOME: dict[str, Any] = {"cases": ["!wide.*"], "asked": 46, "planned": 50}
HALF: dict[str, Any] = {"lengths": {"observed": 0.5, "optimum": 1.0}}


@pytest.mark.parametrize(
    ("row", "name", "words"),
    [
        (judged("conforms"), "conforms", "conforms"),
        (judged("conforms", **SOME), "no fault found", "no fault found, 46 of 50 cases run"),
        (judged("conforms", cases=["a"]), "no fault found", "no fault found"),
        (judged("conforms", **HALF), "conforms", "conforms"),
        (
            judged("conforms", algorithm="target_first", **HALF),
            "suboptimal",
            "suboptimal: 50.0% of the optimum",
        ),
        (
            judged("conforms", algorithm="naive_tree", **HALF, **SOME),
            "suboptimal",
            "suboptimal: 50.0% of the optimum, 46 of 50 cases run",
        ),
        (judged("conforms", algorithm="target_first"), "conforms", "conforms"),
        (
            judged("conforms", algorithm="target_first", certain="It takes the likeliest.", **HALF),
            "conforms",
            "conforms",
        ),
        (judged("does not conform", "fail", 0.4351), "lossy", "lossy: distance 0.44"),
        (judged("does not conform", "fail", None), "lossy", "lossy"),
        (
            judged("does not conform", "fail", 0.4351, unreachable="Nobody calls it."),
            "lossy",
            "lossy, unreachable: distance 0.44",
        ),
        (
            judged("does not conform", "fail", 0.5, design="It says so."),
            "lossy by design",
            "lossy by design: distance 0.5",
        ),
        (judged("does not conform"), "does not conform", "does not conform"),
        (judged("inconclusive", "inconclusive"), "inconclusive", "inconclusive"),
    ],
)
def test_a_judged_row_has_a_state_and_words(row: Row, name: str, words: str) -> None:
    assert (state(row), told(row)) == (name, words)


@pytest.mark.parametrize(
    "outcome",
    ["could not be judged", "fails on every case", "cannot run here", "could not be fetched"],
)
def test_a_row_without_a_verdict_has_its_outcome_as_state(outcome: str) -> None:
    row = {"name": "x", "algorithm": "token", "outcome": outcome, "design": None, "judged": None}
    assert (state(row), told(row), share(row)) == (outcome, outcome, None)


def test_an_unknown_outcome_is_refused() -> None:
    row = {"name": "x@1", "algorithm": "token", "outcome": "not run", "design": None}
    with pytest.raises(LookupError, match=r"^x@1: no state is 'not run'; known: conforms, "):
        state({**row, "judged": None})


def test_what_has_no_law_of_its_own_is_lossless_by_its_text() -> None:
    row = judged("does not conform", "skipped", None)
    text = decision("text.lossless", "fail", distance=0.25, lanes=["exact"])
    row["judged"]["requirements"].append(text)
    assert losslessness(row) == text
    assert told(row) == "lossy: distance 0.25"


def test_cases_and_share_are_those_on_record() -> None:
    assert asked(judged("conforms", **SOME)) == "46 of 50 cases"
    assert asked(judged("conforms")) == ""
    assert share(judged("conforms", **HALF)) == 0.5
    assert share(judged("conforms", lengths={"observed": 0.0, "optimum": 0.0})) is None


def test_the_feed_knows_every_state() -> None:
    assert schema("engines")["$defs"]["row"]["properties"]["state"]["enum"] == [*STATES]
