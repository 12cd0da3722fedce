from __future__ import annotations

from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from draftproof.conformance.report import rendered
from draftproof.conformance.report.badge import badge

Make = Any

# The shape that readers of JUnit's XML agree on: what may stand in what, with which attributes.
SHAPE = {
    "testsuites": ({"testsuite"}, {"name", "tests", "failures", "errors", "skipped"}),
    "testsuite": (
        {"properties", "testcase"},
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    ),
    "properties": ({"property"}, set()),
    "property": (set(), {"name", "value"}),
    "testcase": (
        {"failure", "error", "skipped", "system-out"},
        {"classname", "name", "time"},
    ),
    "failure": (set(), {"type", "message"}),
    "error": (set(), {"type", "message"}),
    "skipped": (set(), {"message"}),
    "system-out": (set(), set()),
}


def parsed(*documents: dict[str, Any]) -> Element:
    root = ElementTree.fromstring(rendered(documents, "junit"))
    assert root.tag == "testsuites"
    for element in root.iter():
        children, attributes = SHAPE[element.tag]
        assert {child.tag for child in element} <= children
        assert set(element.attrib) == attributes
    return root


def test_every_requirement_is_a_case_and_the_counts_add_up(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    root = parsed(conforming, failing)
    assert [suite.get("name") for suite in root] == ["mine 1.0", "lossy 1.0"]
    counts = ("tests", "failures", "errors", "skipped")
    assert [[suite.get(count) for count in counts] for suite in root] == [
        ["5", "0", "0", "1"],
        ["5", "3", "1", "0"],
    ]
    assert [root.get(count) for count in counts] == ["10", "3", "1", "1"]
    assert {suite.get("timestamp") for suite in root} == {"2026-01-01T12:00:00"}


def test_the_grade_is_that_of_the_badge(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    for document in (conforming, failing):
        told = {each.get("name"): each.get("value") for each in parsed(document).iter("property")}
        assert told["grade"] == badge(document)["message"]


def test_what_binds_is_red_and_a_should_says_so(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    cases = {case.get("name"): case for case in parsed(conforming, failing).iter("testcase")}
    assert cases["law.lossless"].get("classname") == "draftproof.lossy"
    red = {
        case.get("name"): (child.tag, child.get("type"))
        for case in parsed(failing).iter("testcase")
        for child in case
    }
    assert red == {
        "law.lossless": ("failure", "fail"),
        "law.support": ("failure", "fail"),
        "random.iterations": ("failure", "inconclusive"),
        "number.dtypes": ("error", "error"),
    }
    (failure,) = cases["law.lossless"]
    assert failure.get("message") == "fail on generic.v2.l1: it is lossy"
    assert failure.text == "lane: exact\nobserved: 2.50e-01\nallowed: 1.00e-05"
    (warning,) = cases["random.boundary"]
    assert (warning.tag, warning.text) == (
        "system-out",
        "warning: fail (SHOULD) on generic.v2.l1: it gives 0",
    )
    (skipped,) = cases["batch.ragged"]
    assert skipped.get("message", "").startswith("inapplicable: it takes rows of one length only")


def test_what_certify_may_not_skip_is_red(certificate: Make, decision: Make) -> None:
    skipped = decision(verdict="skipped", detail="no lane sees it")
    (case,) = parsed(certificate(skipped, mode="certify")).iter("testcase")
    assert [(child.tag, child.get("type")) for child in case] == [("failure", "inconclusive")]
    assert case[0].get("message") == "skipped on generic.v2.l1: no lane sees it"
    (case,) = parsed(certificate(skipped)).iter("testcase")
    assert [child.tag for child in case] == ["skipped"]


def test_the_properties_say_what_was_judged_by_what(failing: dict[str, Any]) -> None:
    properties = {p.get("name"): p.get("value") for p in parsed(failing).iter("property")}
    digest = failing["predicate"]["draftproof"]["digest"]
    expected = {
        "mode": "standard",
        "seed": "7",
        "suite.version": "0.1.0",
        "suite.sha256": digest,
        "specification.sha256": digest,
        "certificate.sha256": digest,
        "known_failure.law.lossless": "https://example.org/issues/1",
    }
    assert expected.items() <= properties.items()


def test_what_xml_forbids_is_replaced(hostile: dict[str, Any]) -> None:
    root = parsed(hostile)
    assert "<script>alert(1)</script>" in (root[0].get("name") or "")
    assert "�[31m�" in (root[0].get("name") or "")


@pytest.mark.parametrize("created", ["2026-02-30T00:00:00Z", "0001-01-01T00:00:00+23:00"])
def test_a_time_that_is_none_is_left_out(certificate: Make, created: str) -> None:
    (suite,) = ElementTree.fromstring(rendered([certificate(created=created)], "junit"))
    assert "timestamp" not in suite.attrib
