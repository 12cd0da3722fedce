from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from draftproof.conformance.report import words
from draftproof.conformance.report.badge import _PAINT, badge, drawn, row_badge
from draftproof.conformance.requirements.finding import UNREFERENCED

Make = Any

MODES = ("quick", "standard", "certify")


@pytest.mark.parametrize("mode", MODES)
def test_only_what_conforms_is_green_and_only_certify_certifies(
    certificate: Make, mode: str
) -> None:
    shown = badge(certificate(mode=mode))
    assert shown == {
        "schemaVersion": 1,
        "label": "draftproof",
        "message": "certified, exact" if mode == "certify" else f"conforms, exact ({mode})",
        "color": "brightgreen",
        "isError": False,
    }


@pytest.mark.parametrize(
    ("mode", "message", "last"),
    [
        ("quick", "conforms, exact, no reference (quick)", "conforms (quick)"),
        ("certify", "certified, exact, no reference", "conforms"),
    ],
)
def test_what_no_reference_judged_says_so_and_is_paler(
    certificate: Make, decision: Make, mode: str, message: str, last: str
) -> None:
    unjudged = decision(
        "law.reference", verdict="skipped", applies=False, detail=f"{UNREFERENCED}, but token"
    )
    document = certificate(decision("law.lossless"), unjudged, mode=mode)
    shown = badge(document)
    assert (shown["message"], shown["color"]) == (message, "yellowgreen")
    told = words.conclusion(document["predicate"]["draftproof"])
    assert told.partition(":")[0] == last
    assert told.endswith("; not judged, without a reference: law.reference")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verdict", ["does not conform", "inconclusive", "could not be judged"])
def test_nothing_else_is_green_known_or_not(certificate: Make, verdict: str, mode: str) -> None:
    known = {"law.lossless": "https://example.org/issues/1"}
    for document in (certificate(verdict=verdict, mode=mode, known=known),):
        shown = badge(document)
        assert shown["message"] == verdict
        assert "green" not in shown["color"]
        assert shown["isError"] is (verdict == "could not be judged")


# --- rows of the matrix ---------------------------------------------------------------------------


def row(outcome: str = "conforms", verdict: str = "pass", lane: str = "exact", **own: Any) -> Any:
    lossless = {"id": "law.lossless", "verdict": verdict, "distance": 0.25, "lanes": [lane]}
    judged = {"mode": "quick", "cases": [], "lengths": {"observed": 1.0, "optimum": 2.0}}
    line = {"name": "x@1", "outcome": outcome, "algorithm": "token", "design": None}
    return {**line, "judged": {**judged, "requirements": [lossless]}, **own}


SOME = row()["judged"] | {"cases": ["a"], "asked": 1, "planned": 66}


@pytest.mark.parametrize(
    ("line", "message", "color"),
    [
        (row(), "conforms, exact (quick)", "brightgreen"),
        (row(lane="probe"), "conforms, probed (quick)", "brightgreen"),
        (row(lane="sample"), "conforms, sampled (quick)", "yellowgreen"),
        (row(judged=SOME), "no fault found, 1 of 66 cases run", "lightgrey"),
        (row(algorithm="target_first"), "suboptimal: 50.0% of the optimum", "yellow"),
        (row("does not conform", "fail"), "lossy: distance 0.25", "red"),
        (
            row("does not conform", "fail", design="So."),
            "lossy by design: distance 0.25",
            "orange",
        ),
        (row("does not conform"), "does not conform", "red"),
        (row("inconclusive"), "inconclusive", "yellow"),
        (row("fails on every case", judged=None), "fails on every case", "red"),
        (row("cannot run here", judged=None), "cannot run here", "lightgrey"),
    ],
)
def test_a_row_has_a_badge_that_is_green_only_where_all_cases_pass(
    line: Any, message: str, color: str
) -> None:
    assert row_badge(line) == {
        "schemaVersion": 1,
        "label": "draftproof",
        "message": message,
        "color": color,
        "isError": False,
    }


def test_a_row_that_could_not_be_judged_is_an_error() -> None:
    shown = row_badge(row("could not be judged", judged=None))
    assert (shown["isError"], shown["color"]) == (True, "lightgrey")


def test_a_badge_is_drawn_with_its_words() -> None:
    shown = {**row_badge(row()), "message": "<1 & more>"}
    picture = ElementTree.fromstring(drawn(shown))
    assert picture.get("aria-label") == "draftproof: <1 & more>"
    assert [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")] == [
        "draftproof",
        "<1 & more>",
    ]
    # Ten letters of 6.6, ten more, and a margin of 6 around both.
    assert float(picture.get("width", "0")) == pytest.approx(156)


@pytest.mark.parametrize("color", [*_PAINT])
def test_white_letters_are_read_on_every_colour(color: str) -> None:
    drawing = drawn({"label": "draftproof", "message": "x", "color": color})
    (paint,) = {part[:6] for part in drawing.split('fill="#')[1:]} - {"3d4643", 'fff" f'}
    assert 1.05 / (luminance(paint) + 0.05) >= 4.5


def luminance(paint: str) -> float:
    """Of a colour in six hexadecimal digits, by WCAG 2.2."""
    parts = [int(paint[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
