from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.evidence.records import (
    EditedEvidence,
    Evidence,
    MalformedEvidence,
    Record,
    StaleEvidence,
    canonical,
    parsed,
)
from draftproof.conformance.protocol.adapter import UnknownAdapter
from draftproof.conformance.run.campaign import Campaign, run
from draftproof.conformance.run.rerun import Repetition, recounted, repeat
from draftproof.conformance.run.staleness import is_of_this_suite
from draftproof.reference.model import Instance, Model, instance_to_json
from draftproof.reference.rational import rational

RIGHT = Path(__file__).parents[1] / "meta" / "right.py"
WRONG = "draftproof.conformance.museum.mutants:BonusFromDraft"
QUICK: dict[str, Any] = {"mode": "quick", "seed": 3}


def evidence(records: Sequence[Record]) -> Evidence:
    """The records as they are read from a file, all digests computed anew, as a forger does."""
    lines, digest = [], ""
    for record in records:
        body = canonical(record)
        digest = sha256(f"{digest}\n{body}".encode()).hexdigest()
        lines.append(f'{body[:-1]},"digest":"{digest}"}}\n'.encode())
    return parsed(b"".join(lines), "evidence")


def left(name: str, **terms: Any) -> list[Record]:
    records: list[Record] = []
    run(Campaign(name, **{**QUICK, **terms}), keep=records.append)
    return records


@pytest.fixture(scope="module")
def exact() -> list[Record]:
    return left(f"{RIGHT}:Batched", only=["batch.order"])


@pytest.fixture(scope="module")
def sampled() -> list[Record]:
    return left(f"{RIGHT}:Batched", only=["law.support"], lanes=["sample"])


@pytest.fixture(scope="module")
def wrong() -> list[Record]:
    return left(WRONG, only=["law.lossless"], lanes=["exact"])


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Repetition]:
    """Judges again at no cost: what was left by the first judging is left by the second one."""

    def compared(first: Sequence[Record], second: Sequence[Record]) -> Repetition:
        def run_again(campaign: Campaign, *, keep: Any, **_: Any) -> None:
            for record in copy.deepcopy(list(second)):
                keep(record)

        monkeypatch.setattr("draftproof.conformance.run.rerun.run", run_again)
        return repeat(evidence(first))

    return compared


def of(kind: str, records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record["record"] == kind]


# --- judging again ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lane", "name", "requirement"),
    [
        ("exact", "Batched", "batch.order"),
        ("probe", "NumpyInside", "batch.order"),
    ],
)
def test_the_same_comes_out_again(lane: str, name: str, requirement: str) -> None:
    records = left(f"{RIGHT}:{name}", only=[requirement])
    assert {f["lane"] for r in of("result", records) for f in r["findings"]} == {lane}
    found = repeat(evidence(records))
    parts = len(of("case", records)) + len(("the plan", "the counterexample"))
    assert (found.same, found.near, found.different, found.elsewhere) == (parts, 0, (), ())


def test_the_same_samples_come_out_again(sampled: list[Record]) -> None:
    found = repeat(evidence(sampled))
    assert found.same == len(of("case", sampled)) + 2
    assert found.different == ()


def test_the_same_counterexample_comes_out_again(wrong: list[Record]) -> None:
    assert of("counterexample", wrong)[0]["counterexample"] is not None
    assert repeat(evidence(wrong)).different == ()


def test_an_acquittal_comes_out_otherwise(wrong: list[Record]) -> None:
    forged = copy.deepcopy(wrong)
    acquit(forged)
    forged[0]["adapter"]["algorithm"] = "block"
    plan, first, *_, last = repeat(evidence(forged)).different
    assert plan == "the plan, header: adapter/algorithm was 'block', is 'token'"
    assert first.startswith("task 0, result: findings/0/verdict was 'pass', is 'fail'")
    assert last.startswith("the counterexample, counterexample: counterexample was None, is {")


Again = Callable[..., Repetition]
Edit = Callable[[list[Record]], None]


def acquit(records: list[Record]) -> None:
    for record in of("result", records):
        for finding in record["findings"]:
            finding.update(verdict="pass", distance=0.0)
    of("counterexample", records)[0]["counterexample"] = None


def declare(**told: Any) -> Edit:
    return lambda records: records[0]["adapter"].update(told)


def claim(**told: Any) -> Edit:
    return lambda records: records[0]["campaign"].update(told)


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (declare(undefined={"shape": "so"}), "adapter/undefined/shape was 'so', is "),
        (claim(tests=1), "the plan, header: campaign/tests was 1, is "),
        (claim(mode="certify"), "the plan, header: campaign/mode was 'certify', is 'quick'"),
        (claim(blind={"probe": "fog"}), "the plan, header: campaign/blind was ['probe'], is []"),
        (
            lambda records: records[0]["specification"].update(version="9"),
            "the plan, header: specification/version was '9'",
        ),
        (
            lambda records: of("case", records)[0].update(lanes=["sample"]),
            "the plan, case: lanes/0 was 'sample', is 'exact'",
        ),
        (
            lambda records: of("result", records)[1]["findings"][0].update(runs=10**6),
            "task 1, result: findings/0/runs was 1000000, is ",
        ),
        (
            lambda records: of("result", records)[1]["findings"][0].update(detail="rightly so"),
            "task 1, result: findings/0/detail was 'rightly so', is ",
        ),
    ],
)
def test_what_is_forged_is_told(again: Again, wrong: list[Record], forge: Edit, said: str) -> None:
    forged = copy.deepcopy(wrong)
    forge(forged)
    found = again(forged, wrong)
    assert any(said in each for each in found.different), found.different


def test_forged_counts_are_told(again: Again, sampled: list[Record]) -> None:
    forged = copy.deepcopy(sampled)
    of("share", forged)[0]["looks"][0]["stream"] = "0" * 64
    assert "task 0, share: looks/0/stream was '000" in again(forged, sampled).different[0]


def test_what_is_missing_is_told(again: Again, sampled: list[Record]) -> None:
    second = [r for r in sampled if not (r["record"] == "share" and r["task"] == 3)]
    shares = len(sampled) - len(second)
    assert again(sampled, second).different == (f"task 3: {shares + 1} records then, 1 now",)


# --- elsewhere ----------------------------------------------------------------------------


def elsewhere(records: Sequence[Record]) -> list[Record]:
    """The records as another machine might have left them."""
    moved = copy.deepcopy(list(records))
    moved[0]["environment"]["instructions"] = "ABACUS"
    return moved


def test_elsewhere_is_said_and_what_is_the_same_is_the_same(
    again: Again, exact: list[Record]
) -> None:
    found = again(elsewhere(exact), exact)
    assert found.elsewhere[0].startswith("instructions was 'ABACUS', is ")
    assert (found.near, found.different, found.moved, found.turned) == (0, (), None, ())


def test_another_processor_of_the_same_instructions_is_elsewhere(
    again: Again, exact: list[Record]
) -> None:
    """Libraries choose their code by the processor's maker and model, too."""
    moved = copy.deepcopy(exact)
    moved[0]["environment"]["processor"] = "Abacus 2000"
    assert again(moved, exact).elsewhere[0].startswith("processor was 'Abacus 2000', is '")
    # So may be what evidence of earlier suites does not say.
    del moved[0]["environment"]["processor"]
    assert again(moved, exact).elsewhere[0].startswith("processor was not recorded, is '")


def test_other_code_that_ran_is_elsewhere(again: Again, exact: list[Record]) -> None:
    moved = copy.deepcopy(exact)
    (record,) = of("sources", moved)
    own = record["files"][0]
    was, own["sha256"] = own["sha256"], "0" * 64
    record["files"].append({**own, "file": "another.py"})
    found = again(moved, exact)
    told = f"{own['file']} was sha256 {'0' * 12}, is sha256 {was[:12]}"
    assert (found.different, found.elsewhere) == ((), (told,))
    of("sources", moved)[0]["files"] = []
    assert again(moved, exact).elsewhere == ()


def test_elsewhere_laws_are_near_as_far_as_rounding_goes(again: Again, exact: list[Record]) -> None:
    moved = elsewhere(exact)
    (measured, *_) = (
        finding
        for record in of("result", moved)
        for finding in record["findings"]
        if finding["distance"] is not None
    )
    distance, allowed = measured["distance"], measured["allowed"]
    measured["distance"] = distance + 1.99 * allowed
    found = again(moved, exact)
    assert (found.near, found.different) == (1, ())
    assert found.moved is not None
    assert found.moved.bound == 2 * allowed
    # A sum and a difference of two floats, none above the bound, are off by half an ulp each.
    assert abs(found.moved.by - 1.99 * allowed) <= 2**-52 * 2 * allowed
    measured["distance"] = distance + 2.01 * allowed
    assert len(again(moved, exact).different) == 1
    # What was allowed is not the forger's to say.
    measured["allowed"] = 10**6
    assert len(again(moved, exact).different) == 1
    here = [exact[0], *moved[1:]]
    measured["distance"] = distance + allowed
    assert again(here, exact).near == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("verdict", "pass"),
        ("lane", "probe"),
        ("case", "another"),
        ("applies", False),
        ("distance", None),
    ],
)
def test_elsewhere_verdicts_are_the_same(
    again: Again, wrong: list[Record], key: str, value: Any
) -> None:
    moved = elsewhere(wrong)
    of("result", moved)[0]["findings"][0][key] = value
    found = again(moved, wrong)
    assert f"findings/0/{key} was {value!r}" in found.different[0]


def test_elsewhere_a_counterexample_may_look_otherwise(again: Again, wrong: list[Record]) -> None:
    moved = elsewhere(wrong)
    told = of("counterexample", moved)[0]["counterexample"]
    told["words"] = ["elsewhere", "in other words"]
    found = again(moved, wrong)
    assert (found.near, found.different) == (1, ())
    told["requirement"] = "law.support"
    assert "counterexample/requirement was 'law.support'" in again(moved, wrong).different[0]


# --- elsewhere, on the edge ---------------------------------------------------------------


Told = dict[str, Any]


def with_findings(records: Sequence[Record], number: int, **told: Any) -> list[Record]:
    """The records with something else in the first finding of a task."""
    edited = copy.deepcopy(list(records))
    of("result", edited)[number]["findings"][0].update(told)
    return edited


ALLOWED = 1e-6
JUST_IN: Told = {"verdict": "pass", "distance": 0.9 * ALLOWED, "allowed": ALLOWED}
JUST_OUT: Told = {"verdict": "fail", "distance": 1.1 * ALLOWED, "allowed": ALLOWED}
FAR_OUT: Told = {"verdict": "fail", "distance": 3.0 * ALLOWED, "allowed": ALLOWED}
COARSE: Told = {"verdict": "pass", "distance": 0.9e-3, "allowed": 0.2}
OPEN: Told = {"verdict": "inconclusive", "distance": 1.1e-3, "allowed": 0.2}


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (JUST_IN, JUST_OUT, "was pass, is fail: 9.00e-07 then, 1.10e-06 now, 1.00e-06 decides"),
        (JUST_OUT, JUST_IN, "was fail, is pass: 1.10e-06 then, 9.00e-07 now, 1.00e-06 decides"),
        (JUST_IN, {**JUST_OUT, "verdict": "inconclusive"}, "was pass, is inconclusive: "),
        (COARSE, OPEN, "was pass, is inconclusive: 9.00e-04 then, 1.10e-03 now, 1.00e-03 decides"),
    ],
)
def test_elsewhere_a_verdict_on_the_edge_may_turn(
    again: Again, exact: list[Record], then: Told, now: Told, said: str
) -> None:
    first, second = with_findings(exact, 0, **then), with_findings(exact, 0, **now)
    finding = of("result", exact)[0]["findings"][0]
    found = again(elsewhere(first), second)
    assert (found.near, found.different) == (1, ())
    assert f"{finding['requirement']} on {finding['case']} {said}" in found.turned[0]
    # On the same platform nothing is rounded otherwise.
    assert len(again(first, second).different) == 1


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (JUST_IN, FAR_OUT),  # farther apart than rounding explains
        ({**JUST_OUT, "verdict": "pass"}, JUST_OUT),  # no pass has this distance
        ({**JUST_IN, "verdict": "fail"}, JUST_IN),  # no failure has this one
        ({**OPEN, "verdict": "pass"}, OPEN),
        ({**JUST_IN, "verdict": "error"}, JUST_IN),
        ({**JUST_IN, "verdict": "skipped"}, JUST_IN),
        ({"verdict": "skipped", "distance": None, "allowed": None}, JUST_IN),
    ],
)
def test_elsewhere_no_other_verdict_turns(
    again: Again, exact: list[Record], then: Told, now: Told
) -> None:
    first, second = with_findings(exact, 0, **then), with_findings(exact, 0, **now)
    found = again(elsewhere(first), second)
    assert (found.near, found.turned) == (0, ())
    assert found.different[0].startswith("task 0, result: findings/0/verdict was ")


def test_elsewhere_a_counterexample_turns_with_its_verdict(
    again: Again, wrong: list[Record]
) -> None:
    first, second = (with_findings(wrong, 0, **told) for told in (JUST_OUT, JUST_IN))
    of("counterexample", second)[0]["counterexample"] = None
    found = again(elsewhere(first), second)
    assert (found.near, found.different, len(found.turned)) == (2, (), 1)
    # Without it, a failure that is gone is a difference.
    gone = copy.deepcopy(wrong)
    of("counterexample", gone)[0]["counterexample"] = None
    assert again(elsewhere(wrong), gone).different[0].startswith("the counterexample, ")


def test_elsewhere_runs_and_words_may_be_others(again: Again, exact: list[Record]) -> None:
    """Branches of less weight than rounding has come and go."""
    found = again(elsewhere(with_findings(exact, 0, runs=10**6, detail="in other words")), exact)
    assert (found.near, found.different, found.turned) == (1, (), ())


@pytest.mark.parametrize(
    ("then", "now", "is_near"),
    [
        ("pass", "pass", True),
        ("inconclusive", "pass", True),
        ("pass", "inconclusive", True),
        ("inconclusive", "fail", True),
        ("pass", "fail", False),
        ("fail", "pass", False),
        ("pass", "error", False),
    ],
)
def test_elsewhere_only_what_samples_leave_open_turns(
    again: Again, sampled: list[Record], then: str, now: str, is_near: bool
) -> None:
    """A draw that is rounded otherwise, or another generator's, changes all that comes after."""
    first = with_findings(sampled, 0, verdict=then)
    second = with_findings(sampled, 0, verdict=now, distance=0.02, runs=10**6)
    of("share", second)[0]["looks"][0]["stream"] = "0" * 64
    # There may be more shares, and less.
    second.insert(second.index(of("share", second)[0]), of("share", second)[0])
    found = again(elsewhere(first), second)
    assert (found.near, len(found.different)) == ((1, 0) if is_near else (0, 1))
    assert len(found.turned) == (is_near and then != now)


# --- elsewhere, the search ----------------------------------------------------------------


@pytest.fixture(scope="module")
def sought() -> list[Record]:
    return left(WRONG, only=["law.lossless"], lanes=["exact"], examples=12)


def test_elsewhere_a_search_may_end_on_other_rows(again: Again, sought: list[Record]) -> None:
    """What it found first is judged again, there."""
    second = copy.deepcopy(sought)
    (record,) = of("search", second)
    finding = next(f for f in record["findings"] if f["requirement"] == "law.lossless")
    worst = next(w for w in record["search"]["worst"] if w["requirement"] == "law.lossless")
    assert finding["verdict"] == "fail"
    # The same rows are no other ones.
    finding["distance"] /= 2
    (told,) = again(elsewhere(sought), second).different
    assert told.startswith("the search, search: findings/0/distance was ")
    worst["instance"] = smallest()
    found = again(elsewhere(sought), second)
    assert (found.near, found.different, found.turned) == (1, (), ())
    # It may even have missed those that fail.
    finding.update(verdict="pass", distance=0.0)
    found = again(elsewhere(sought), second)
    assert (found.near, found.different) == (1, ())
    assert "law.lossless in the search was fail, is pass: on other rows" in found.turned[0]
    # What is found now for the first time is a difference, and so is what was never there.
    assert again(elsewhere(second), sought).different[0].startswith("the search, ")
    forged = copy.deepcopy(sought)
    (record,) = of("search", forged)
    next(f for f in record["findings"] if f["requirement"] == "law.lossless")["distance"] *= 1.5
    assert again(elsewhere(forged), second).different[0].startswith("the search, ")


def smallest() -> dict[str, Any]:
    """Rows on which everything is right."""
    row = (rational(1),)
    model = Model("certain", 1, {(): row}, context_free=True)
    return instance_to_json(Instance(model, model, length=1))


# --- what cannot be judged again ----------------------------------------------------------


def test_another_suite_judges_the_same_by_the_same_code(exact: list[Record]) -> None:
    old = copy.deepcopy(exact)
    old[0]["suite"] = {"version": "0.2.0", "sha256": "0" * 64}
    assert is_of_this_suite(evidence(old))


def test_another_suite_judges_otherwise(exact: list[Record]) -> None:
    old = copy.deepcopy(exact)
    old[0]["suite"] = {"version": "0.0.1", "sha256": "0" * 64}
    of("result", old)[0]["key"] = "0" * 64
    with pytest.raises(StaleEvidence, match=r"judged by suite 0\.0\.1 \(000000000000\), this is "):
        repeat(evidence(old))
    assert recounted(evidence(old)) == 0


def test_another_adapter_is_not_the_one_that_was_judged(tmp_path: Path) -> None:
    source = RIGHT.read_text()
    file, moved = tmp_path / "mine.py", tmp_path / "moved.py"
    file.write_text(source)
    records = left(f"{file}:Batched", only=["input.unchanged"])
    file.rename(moved)
    with pytest.raises(UnknownAdapter, match="there is no file"):
        repeat(evidence(records), name=str(tmp_path / "none.py:Batched"))
    assert repeat(evidence(records), name=f"{moved}:Batched").different == ()
    edited = tmp_path / "edited.py"
    edited.write_text(source + "\n")
    with pytest.raises(StaleEvidence, match="is another one than was judged: sha256 was "):
        repeat(evidence(records), name=f"{edited}:Batched")
    with pytest.raises(StaleEvidence, match="name was 'Batched', is 'GumbelRace'"):
        repeat(evidence(records), name=f"{moved}:GumbelRace")


# --- counting again -----------------------------------------------------------------------


def test_verdicts_on_samples_follow_from_their_counts(
    sampled: list[Record], exact: list[Record]
) -> None:
    assert recounted(evidence(sampled)) == len(of("case", sampled))
    assert recounted(evidence(exact)) == 0


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (
            lambda records: of("result", records)[0]["findings"][0].update(verdict="fail"),
            "the verdicts on task 0 do not follow from its counts",
        ),
        (
            lambda records: of("result", records)[3]["findings"][2].update(runs=1),
            "the verdicts on task 3 do not follow from its counts",
        ),
        (claim(seed=4), "the verdicts on task 0 do not follow from its counts"),
        (claim(false_alarm=0.1), "the verdicts on task 0 do not follow from its counts"),
        (claim(only=[]), "its cases are not those that its header asks for"),
        (claim(only=["story"]), "its cases are not those that its header asks for"),
        (claim(lanes=["exact"]), "its cases are not those that its header asks for"),
        (claim(mode="certify"), "its cases are not those that its header asks for"),
        (claim(false_alarm=0), "it cannot be judged again: the probability of a false alarm"),
        (declare(algorithm="story"), "do not follow from its counts"),
        (
            lambda records: of("case", records)[0].update(case="story"),
            "its cases are not those that its header asks for",
        ),
        (
            lambda records: of("share", records)[0]["looks"][0].update(counts=["a"]),
            "share 0 has no counts of 256 in",
        ),
    ],
)
def test_what_does_not_follow_is_named(sampled: list[Record], forge: Edit, message: str) -> None:
    forged = copy.deepcopy(sampled)
    forge(forged)
    with pytest.raises((EditedEvidence, MalformedEvidence), match=message):
        recounted(evidence(forged))


def test_the_same_campaign_elsewhere_counts_the_same(sampled: list[Record]) -> None:
    told = evidence(elsewhere(sampled))
    assert recounted(told) == len(of("case", sampled))
