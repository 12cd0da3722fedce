from __future__ import annotations

from typing import Any

import pytest

from draftproof.conformance.report import words
from draftproof.conformance.report.badge import badge
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
