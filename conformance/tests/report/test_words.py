from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from draftproof.conformance.lanes.exact import OpaqueRandomness, exact_law
from draftproof.conformance.report import words
from draftproof.conformance.report.plain import json_text, plain, plain_lines

Make = Any


def found(document: dict[str, Any]) -> Any:
    return document["predicate"]["draftproof"]


def test_plain_text_has_nothing_that_acts_on_who_shows_it() -> None:
    given = {"\x1b[2J": ["a\tb\nc", 1, None, "\u202e\ud800\x00\ufffe"], "é×": True}
    shown = plain(given)
    assert shown == {"�[2J": ["a b c", 1, None, "����"], "é×": True}
    # Every form can be written to a file.
    assert str(shown).encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::a", ": :error: :a"),
        (":::", ": : :"),
        ("a ##[group]", "a ## [group]"),
        ("a:b #[c] ## [d]", "a:b #[c] ## [d]"),
    ],
)
def test_plain_text_is_no_command_of_a_workflow(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain_lines(f"{text}\n\x1b{text}") == f"{shown}\n�{shown}"


def test_json_says_all_and_is_no_command_of_a_workflow() -> None:
    document = {"##[a]": "::b ##[c] \x1b é"}
    text = json_text(document)
    assert "##[" not in text
    assert text.isascii()
    assert json.loads(text) == document
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text(float("nan"))


def test_the_worst_comes_first_and_what_is_not_asked_last(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    shown = [each["id"] for each in words.worst_first(found(failing)["requirements"])]
    assert shown == [
        "law.lossless",
        "law.support",
        "number.dtypes",
        "random.iterations",
        "law.prefix",
    ]
    shown = [each["id"] for each in words.worst_first(found(conforming)["requirements"])]
    assert shown[0] == "random.boundary"
    assert shown[-1] == "batch.ragged"
    told = words.counted(found(conforming)["requirements"])
    assert told == "1 fail (SHOULD), 3 pass, 1 inapplicable"


def test_what_binds_and_is_missed_is_worse_than_any_should(decision: Make) -> None:
    should = decision("a", verdict="error", level="SHOULD")
    must = decision("b", verdict="inconclusive")
    assert words.worst_first([should, must]) == [must, should]


def test_a_skip_is_told_from_what_is_not_asked(decision: Make) -> None:
    assert words.verdict(decision(verdict="skipped", applies=True)) == "skipped"
    assert words.verdict(decision(verdict="skipped", applies=False)) == "inapplicable"


def test_the_speed_is_told_where_an_optimum_is_known(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    (told,) = words.speed(found(conforming))
    assert "95.0% of the optimum on average over 2 cases, at worst 90.0% on case case.0" in told
    assert not list(words.speed(found(failing)))


def test_an_optimum_of_zero_has_no_share(certificate: Make, decision: Make) -> None:
    document = certificate(decision(lengths={"observed": 0.0, "optimum": 0.0}))
    assert words.shares(found(document)) == {}


def test_chance_is_told_with_what_would_have_been_seen(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    budget, told = words.chance(found(conforming))
    assert budget == (
        "A correct verifier would fail this run with probability at most 1e-09 (100 tests, seed 7)."
    )
    assert told.endswith("below 2.00e-02; one of 3.00e-02 would be caught 90% of the time")
    # No bound is told of what fails.
    _, told = words.chance(found(failing))
    assert told.startswith("random.iterations, sampled: ")
    (support,) = (each for each in found(failing)["requirements"] if each["id"] == "law.support")
    support["verdict"] = "inconclusive"
    _, told, _ = words.chance(found(failing))
    assert told.startswith("law.support, sampled: ")
    assert told.endswith("; none would be caught 90% of the time")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://example.org/a?b=c#d", True),
        ("http://localhost:8000", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("https://", False),
        ("https://x.org/ y", False),
        ('https://x.org/"onclick="', False),
        ("see https://x.org", False),
        ("https://[x", False),
        ("", False),
    ],
)
def test_only_addresses_of_the_web_become_links(text: str, expected: bool) -> None:
    assert words.is_link(text) is expected


def test_what_certify_may_not_skip_is_told(certificate: Make, decision: Make) -> None:
    skips = [
        decision("law.lossless", verdict="skipped"),
        decision("law.prefix", verdict="skipped", level="SHOULD"),
        decision("batch.ragged", verdict="skipped", applies=False),
    ]
    (told,) = words.owing(found(certificate(*skips, mode="certify", verdict="inconclusive")))
    assert told == "mode certify needs a verdict on every MUST; skipped: law.lossless"
    assert not list(words.owing(found(certificate(*skips))))


def test_failures_of_one_distribution_are_one_group(decision: Make) -> None:
    wrong = [
        decision(each, verdict="fail", distance=0.25) for each in ("law.lossless", "random.fresh")
    ]
    raised = decision("law.prefix", verdict="fail", distance=None, detail="it raised IndexError")
    should = decision("random.one", verdict="fail", level="SHOULD", detail="it gives 1")
    first, second, third = words.groups([decision(), should, *wrong, raised])
    assert (first.reason, first.decisions) == ("wrong distribution", tuple(wrong))
    assert (second.reason, second.decisions) == ("it raised IndexError", (raised,))
    assert (third.reason, third.decisions) == ("it gives 1", (should,))
    batch = [
        decision(each, verdict="fail", distance=0.25) for each in ("batch.order", "batch.large")
    ]
    case = "case generic.v2.l1, distance 0.25"
    assert [each.reason for each in words.groups(batch)] == [case] * 2
    invariant, ragged = (
        decision(each, verdict="fail", distance=0.5) for each in ("batch.invariant", "batch.ragged")
    )
    (group,) = words.groups([*batch, invariant])
    assert group.reason == "dependence between rows of a batch"
    assert group.decisions == (*batch, invariant)
    assert words.groups([ragged, *wrong])[0].reason == "wrong distribution"
    assert words.failing([should, *wrong]) == "2 requirements fail"
    assert words.folded([should, *wrong, decision()]) == "1 pass"


@pytest.mark.parametrize(
    ("missed", "title"),
    [
        ([("fail", "SHOULD"), ("fail", "MUST"), ("error", "MUST")], "Failed requirements"),
        ([("fail", "SHOULD"), ("error", "MUST")], "Requirements without a verdict"),
        ([("inconclusive", "MUST"), ("pass", "MUST")], "Requirements without a verdict"),
        ([("fail", "SHOULD"), ("error", "SHOULD"), ("pass", "MUST")], "Failed recommendations"),
    ],
)
def test_the_heading_says_no_more_than_what_failed(
    decision: Make, missed: list[tuple[str, str]], title: str
) -> None:
    decisions = [
        decision(f"law.{place}", verdict=verdict, level=level)
        for place, (verdict, level) in enumerate(missed)
    ]
    assert words.groups_title(decisions) == title


def test_a_lane_has_a_name_that_says_what_was_run() -> None:
    assert [words.lane(each) for each in ("exact", "run", None)] == ["exact", "calls", ""]


def test_a_likely_cause_says_what_to_check_and_where_it_was_seen() -> None:
    seen = ["https://github.com/vllm-project/vllm/pull/8320", "xLLM, found by running it"]
    match = {"fault": "x", "identical": 2, "check": "the residual", "seen_in": seen}
    told = {"cases": ["a", "b"], "compared": 5, "left_out": [], "matches": [match]}
    assert [*words.likely_cause({"likeness": told})] == [
        "Looks like `x` (identical on 2 of 2 cases): check the residual.",
        "Seen in vllm-project/vllm#8320, xLLM.",
    ]
    told["matches"] = [{"fault": name, "identical": 1} for name in "abcde"]
    assert [*words.likely_cause({"likeness": told})] == [
        "Looks like `a` (identical on 1 of 2 cases).",
        "or like `b` (identical on 1 of 2 cases).",
        "or like `c` (identical on 1 of 2 cases).",
        "2 more known faults are identical on as many cases.",
    ]
    assert [*words.likely_cause({"likeness": {**told, "matches": []}})] == [
        "Matches no known fault: differs from 5 known faults on 2 cases."
    ]
    alike = {"cases": ["a"], "matches": [{"fault": name, "identical": 1} for name in "abcd"]}
    assert [*words.likely_cause({"likeness": {**told, **alike}})] == [
        "Unknown: only one case shows the fault clearly, and 4 known faults behave the same there: "
        "`a`, `b`, `c` and 1 more."
    ]
    for left, said in (
        (["v"], "1 known fault was not compared: `v`."),
        ([*"vwxyz"], "5 known faults were not compared: `v`, `w`, `x` and 2 more."),
    ):
        *_, last = words.likely_cause({"likeness": {**told, "left_out": left}})
        assert last == said
    assert [*words.likely_cause({"verdict": "conforms"})] == []


def test_noise_that_two_draws_share_is_a_likely_cause() -> None:
    def race() -> tuple[int, ...]:
        noise = torch.empty(2).exponential_()
        drawn = (torch.tensor([[0.5, 0.5], [0.3, 0.7]]) / noise).argmax(-1)
        return tuple(drawn.tolist())

    with pytest.raises(OpaqueRandomness) as seen:
        exact_law(race)
    worst = {"case": "batch.all-rejected", "detail": f"exact lane: {seen.value}"}
    error = {"id": "batch.invariant", "verdict": "error", "worst": worst}
    (told,) = words.likely_cause({"verdict": "does not conform", "requirements": [error]})
    assert told == (
        "Two draws race the same noise, as the exact lane saw on batch.all-rejected: check the "
        "shape of the noise: one number for each row, position and token."
    )
    compared = {"cases": ["a"], "compared": 5, "left_out": [], "matches": []}
    failures = [{"id": "batch.invariant", "verdict": "error", **worst}]
    *_, last = words.likely_cause({"likeness": compared, "failures": failures})
    assert last == told
    assert [*words.likely_cause({"verdict": "conforms", "requirements": [error]})] == []


def test_what_was_not_judged_of_an_engine_is_named() -> None:
    decisions = [
        {"id": "engine.lossless", "verdict": "pass"},
        {"id": "engine.concurrent", "verdict": "skipped"},
        {"id": "engine.length", "verdict": "skipped"},
    ]
    engine = {"adapter": {"engine": {}}, "requirements": decisions}
    assert [*words.unjudged(engine)] == ["not judged: engine.concurrent, engine.length"]
    assert [*words.unjudged({**engine, "requirements": decisions[:1]})] == []
    assert [*words.unjudged({**engine, "adapter": {}})] == []


def test_what_is_emitted_is_spoken() -> None:
    assert words.spoken((0, 1, 2)) == "[0, 1] then 2"
    assert words.spoken((2,)) == "nothing, then 2"
    assert words.spoken(((0, 1), "raised x")) == "[0] then 1 | raised x"


# --- how sure, and inside of what ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("grade", "told", "badge"),
    [
        (
            {"grade": "exact", "distance": 1e-8, "allowed": 1e-5},
            "exact, off by at most 1.00e-08 where 1.00e-05 is allowed",
            "exact",
        ),
        (
            {"grade": "probed", "distance": 0.0, "allowed": 1e-5, "resolution": 6e-8},
            "probed to within 6.00e-08, off by at most 0 where 1.00e-05 is allowed",
            "probed",
        ),
        (
            {"grade": "probed", "distance": 1e-8, "allowed": 1e-5, "resolution": 0.0},
            "probed to the last bit, off by at most 1.00e-08 where 1.00e-05 is allowed",
            "probed",
        ),
        (
            {"grade": "sampled", "bound": 0.03, "detectable": 0.02, "power": 0.9},
            "sampled, off by at most 3.00e-02 (2.00e-02 would be caught 90% of the time)",
            "sampled within 3.00e-02",
        ),
        (
            {"grade": "sampled", "bound": 0.03, "detectable": None, "power": 0.9},
            "sampled, off by at most 3.00e-02 (no bias would be caught 90% of the time)",
            "sampled within 3.00e-02",
        ),
    ],
)
def test_a_verdict_says_how_sure_it_is(
    certificate: Make, grade: dict[str, Any], told: str, badge: str
) -> None:
    document = found(certificate(grade=grade))
    assert words.conclusion(document) == f"conforms (standard): {told}"
    assert words.grade(document) == f"conforms, {badge} (standard)"
    some = {**document, "verdict": "passes some cases", "asked": 2, "planned": 95}
    assert words.conclusion(some) == f"passes 2 of 95 cases: {told}"
    assert words.grade(some) == f"passes 2 of 95 cases, {badge}"
    failing = {**document, "verdict": "does not conform"}
    assert words.conclusion(failing) == words.grade(failing) == "does not conform"


def test_an_envelope_is_told_with_what_is_outside(certificate: Make, envelope: Any) -> None:
    inside, outside, hidden = words.envelope(found(certificate(envelope=envelope)))
    assert inside == (
        "distributions compared at L 2 and 33; B 1 and 1,024; K 1; V 3 and 262,144; float32; "
        "contiguous, strided; with a generator; call 1; rows of 3 tokens with mass, "
        "TV(p, q) 0 to 0.5, q from 1e-07 on"
    )
    assert outside == (
        "outside: rows of different lengths; K above 1; logits; float64, float16, bfloat16; "
        "devices other than cpu"
    )
    assert inside in [*words.sentences(found(certificate(envelope=envelope)))]
    assert hidden == "a fault at other sizes, or at token ids that no case drafts, stays hidden"
    assert not [*words.envelope(found(certificate()))]


def test_pairs_of_ranges_are_a_triangle(certificate: Make, envelope: Any) -> None:
    columns, lines = words.covered(found(certificate(envelope=envelope)))
    table = {
        (line, column): cell
        for line, cells in lines
        for column, cell in zip(columns, cells, strict=True)
    }
    assert table["B 257+", "L 1-4"] is True
    assert table["B 257+", "L 33+"] is False
    assert table["B 257+", "V 1-4"] is None
    assert table["V 1-4", "B 257+"] is True
    assert table["lane sample", "V 65,537+"] is True
