from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from draftproof.conformance.evidence.decision import Decision, decisions, overall, report
from draftproof.conformance.requirements.finding import (
    ERROR,
    FAIL,
    INCONCLUSIVE,
    PASS,
    SKIPPED,
    Finding,
    finding_to_json,
)
from draftproof.reference.rational import exactly
from draftproof.spec import requirements

DECLARED: dict[str, Any] = {
    "batch": True,
    "ragged": True,
    "drafts": True,
    "generates": True,
    "algorithm": "token",
}


def decided(*findings: Finding, **declared: Any) -> dict[str, Decision]:
    return {d.requirement.id: d for d in decisions(findings, {**DECLARED, **declared})}


OF_VERIFIERS = [each.id for each in requirements().values() if not each.is_of_engines]


def found(requirement: str, verdict: str, **more: Any) -> Finding:
    return Finding(requirement, "case", verdict, **more)


def test_every_requirement_is_decided_in_the_order_of_the_chapters() -> None:
    assert list(decided()) == OF_VERIFIERS
    assert {each.verdict for each in decided().values()} == {SKIPPED}


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ([SKIPPED, PASS], PASS),
        ([PASS, INCONCLUSIVE, SKIPPED], INCONCLUSIVE),
        ([INCONCLUSIVE, FAIL, PASS], FAIL),
        ([FAIL, ERROR, PASS], FAIL),
        ([SKIPPED, SKIPPED], SKIPPED),
    ],
)
def test_the_worst_verdict_decides(verdicts: list[str], worst: str) -> None:
    findings = [found("law.support", each, runs=2) for each in verdicts]
    for order in (findings, findings[::-1]):
        decision = decided(*order)["law.support"]
        assert (decision.verdict, decision.worst.verdict) == (worst, worst)
        assert decision.runs == 2 * len(verdicts)


def test_of_equal_verdicts_the_largest_distance_is_worst() -> None:
    small, large = (
        found("law.support", FAIL, distance=exactly(d), allowed=exactly(0.125)) for d in (0.25, 0.5)
    )
    unmeasured = found("law.support", FAIL)
    assert decided(small, large, unmeasured)["law.support"].worst is large
    assert decided(unmeasured, small)["law.support"].worst is small


def test_a_skip_of_what_applies_outweighs_one_of_what_does_not() -> None:
    asked, not_asked = (found("law.support", SKIPPED, applies=each) for each in (True, False))
    decision = decided(asked, not_asked)["law.support"]
    assert (decision.worst, decision.is_owed) == (asked, True)
    assert not decided(not_asked)["law.support"].is_owed
    assert not decided(asked, found("law.support", PASS))["law.support"].is_owed


@pytest.mark.parametrize(
    ("declared", "requirement", "reason", "is_owed"),
    [
        ({"batch": False}, "batch.order", "it takes one row at a time (batch = False)", False),
        ({"ragged": False}, "batch.ragged", "rows of one length only (ragged = False)", False),
        ({}, "batch.backends", "no other backend to agree with (same_as)", False),
        ({"drafts": False}, "draft.joint", "it has no drafter (draft)", False),
        ({"drafts": False}, "random.iterations", "it has no drafter (draft)", False),
        ({"generates": False}, "text.lossless", "it has no pipeline (generate)", False),
        ({}, "law.state", "only the algorithms greedy_block, ", False),
        ({"algorithm": "greedy_block"}, "law.state", "no case of this mode asks for it", True),
        ({}, "law.support", "no case of this mode asks for it", True),
    ],
)
def test_what_no_task_judges_says_why(
    declared: dict[str, Any], requirement: str, reason: str, is_owed: bool
) -> None:
    decision = decided(**declared)[requirement]
    assert decision.verdict == SKIPPED
    assert reason in decision.worst.detail
    assert decision.is_owed is is_owed


def test_evidence_that_knows_no_pipelines_says_nothing_of_texts() -> None:
    declared = {key: value for key, value in DECLARED.items() if key != "generates"}
    asked = [d.requirement.id for d in decisions([], declared)]
    assert asked == [each for each in OF_VERIFIERS if each != "text.lossless"]


@pytest.mark.parametrize(
    ("must", "should", "applies", "lenient", "strict"),
    [
        (PASS, FAIL, True, PASS, PASS),
        (PASS, ERROR, True, PASS, PASS),
        (SKIPPED, PASS, False, PASS, PASS),
        (SKIPPED, PASS, True, PASS, INCONCLUSIVE),
        (PASS, SKIPPED, True, PASS, PASS),
        (INCONCLUSIVE, PASS, True, INCONCLUSIVE, INCONCLUSIVE),
        (FAIL, PASS, True, FAIL, FAIL),
        (ERROR, PASS, True, ERROR, ERROR),
    ],
)
def test_only_what_is_binding_decides_over_all(
    must: str, should: str, applies: bool, lenient: str, strict: str
) -> None:
    levels = requirements()
    binding = next(r for r in levels.values() if r.level == "MUST")
    advised = next(r for r in levels.values() if r.level == "SHOULD")
    both = [
        Decision(
            requirement, verdict, (one := found(requirement.id, verdict, applies=applies)), (one,)
        )
        for requirement, verdict in ((binding, must), (advised, should))
    ]
    assert overall(both, strict=False) == lenient
    assert overall(both, strict=True) == strict


def test_the_gravest_of_several_is_the_verdict() -> None:
    binding = [r for r in requirements().values() if r.level == "MUST"][:4]
    verdicts = (PASS, INCONCLUSIVE, ERROR, FAIL)
    for count in range(1, 5):
        several = [
            Decision(requirement, verdict, (one := found(requirement.id, verdict)), (one,))
            for requirement, verdict in zip(binding, verdicts[:count], strict=False)
        ]
        assert overall(several[::-1], strict=False) == verdicts[count - 1]


def records(*findings: Finding, **campaign: Any) -> list[dict[str, Any]]:
    told = [{"requirement": each.requirement, **finding_to_json(each)} for each in findings]
    return [
        {
            "record": "header",
            "campaign": {"mode": "quick", "only": [], **campaign},
            "adapter": DECLARED,
        },
        {"record": "result", "task": 0, "findings": told},
        {"record": "counterexample", "counterexample": None},
    ]


def test_a_report_is_what_the_records_come_to() -> None:
    fails = found(
        "law.support", FAIL, distance=exactly(0.25), allowed=exactly(0.125), lane="exact", runs=3
    )
    said = report(records(fails, found("law.prefix", PASS)))
    assert (said.verdict, said.search, said.counterexample) == (FAIL, None, None)
    by_id = {each.requirement.id: each for each in said.decisions}
    assert [*by_id] == OF_VERIFIERS
    assert by_id["law.support"].worst == fails


def test_a_search_is_part_of_the_report() -> None:
    searched = {"record": "search", "search": {"seed": 1}, "findings": []}
    searched["findings"] = records(replace(found("law.support", FAIL), case="search"))[1][
        "findings"
    ]
    header, result, counterexample = records(found("law.support", PASS))
    said = report([header, result, searched, counterexample])
    assert (said.verdict, said.search) == (FAIL, {"seed": 1})


def test_what_was_not_asked_is_not_decided() -> None:
    said = report(records(found("law.support", PASS), only=["law.support"], mode="certify"))
    assert [each.requirement.id for each in said.decisions] == ["law.support"]
    assert said.verdict == PASS
    owed = report(records(found("law.support", SKIPPED), only=["law.support"], mode="certify"))
    assert owed.verdict == INCONCLUSIVE
