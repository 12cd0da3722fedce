from __future__ import annotations

from typing import Any

import pytest

from draftproof.conformance.evidence.grade import contradicts, graded

SAMPLED = {"bound": 0.02, "detectable": 0.03, "power": 0.9}


def finding(lane: str, distance: float = 1e-8, **changes: Any) -> dict[str, Any]:
    sampled = SAMPLED if lane == "sample" else None
    told = {"verdict": "pass", "lane": lane, "distance": distance, "allowed": 1e-5}
    return {**told, "sampled": sampled, **changes}


def decision(*findings: dict[str, Any], name: str = "law.lossless") -> dict[str, Any]:
    worst = findings[0]
    told = {"id": name, "verdict": worst["verdict"], "grade": worst["lane"], "worst": worst}
    return {**told, "findings": [*findings]}


def test_what_is_computed_has_a_distance_and_what_is_allowed() -> None:
    found = graded([decision(finding("exact"), finding("exact", 2e-8, allowed=3e-5))])
    assert found == {"grade": "exact", "distance": 2e-8, "allowed": 3e-5}


def test_what_is_probed_has_a_resolution() -> None:
    found = graded([decision(finding("exact", 3e-8), finding("probe", resolution=6e-8))])
    assert found == {"grade": "probed", "distance": 3e-8, "allowed": 1e-5, "resolution": 6e-8}


def test_what_is_sampled_has_a_bound_and_a_power() -> None:
    wide = finding("sample", sampled={**SAMPLED, "bound": 0.03})
    found = graded([decision(finding("exact"), finding("sample"), wide)])
    assert found == {"grade": "sampled", **SAMPLED, "bound": 0.03}


def test_losslessness_is_graded_and_nothing_else() -> None:
    assert graded([decision(finding("exact"), name="random.calls")]) is None
    assert graded([decision(finding("exact", verdict="fail"))]) is None


@pytest.mark.parametrize("grade", ["exact", "sampled"])
def test_a_grade_is_that_of_its_decisions(grade: str) -> None:
    decisions = [decision(finding("probe", resolution=6e-8))]
    own = graded(decisions)
    slim = [{key: each[key] for key in each if key != "findings"} for each in decisions]
    for told in (decisions, slim):
        assert not contradicts(own, told)
        assert contradicts({**(own or {}), "grade": grade}, told)
        assert contradicts(None, told)
    assert contradicts({**(own or {}), "resolution": 1e-9}, decisions)
