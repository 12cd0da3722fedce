from __future__ import annotations

from typing import Any

import pytest

from draftproof.conformance.report.badge import badge

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
        "message": "certified" if mode == "certify" else f"conforms ({mode})",
        "color": "brightgreen",
        "isError": False,
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verdict", ["does not conform", "inconclusive", "could not be judged"])
def test_nothing_else_is_green_known_or_not(certificate: Make, verdict: str, mode: str) -> None:
    known = {"law.lossless": "https://example.org/issues/1"}
    for document in (certificate(verdict=verdict, mode=mode, known=known),):
        shown = badge(document)
        assert shown["message"] == verdict
        assert "green" not in shown["color"]
        assert shown["isError"] is (verdict == "could not be judged")
