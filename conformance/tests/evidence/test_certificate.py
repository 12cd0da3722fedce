from __future__ import annotations

import copy
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.evidence.certificate import (
    _outcome,
    checked,
    exit_code,
    gravest,
    no_longer_known,
    parsed_certificate,
    place_for,
    read_certificate,
    sealed,
    statement,
    write,
)
from draftproof.conformance.evidence.records import (
    EditedEvidence,
    EmptyEvidence,
    MalformedEvidence,
    MissingEvidence,
    NoCertificate,
    Record,
    written,
)
from draftproof.conformance.museum.mutants.verifiers import Checked
from draftproof.conformance.protocol.loading import source_digest
from draftproof.conformance.run.campaign import Campaign, run
from draftproof.spec import MalformedDocument, requirements, validate

META = Path(__file__).parents[1] / "meta"
RIGHT = "draftproof.conformance.museum.mutants.verifiers:Checked"
BONUS = "draftproof.conformance.museum.mutants:BonusFromDraft"
NOON = "2026-01-01T12:00:00+00:00"
TERMS: dict[str, Any] = {
    "mode": "quick",
    "seed": 1,
    "cases": ("generic.v2.*", "zeros.both", "disjoint", "inputs"),
    "created": NOON,
}


def judged(name: str, **terms: Any) -> list[Record]:
    records: list[Record] = []
    run(Campaign(name, **TERMS, **terms), keep=records.append)
    return records


def certificate(name: str, **terms: Any) -> dict[str, Any]:
    return stated(judged(name, **terms))


def stated(records: list[Record]) -> dict[str, Any]:
    return statement(records, evidence="mine.jsonl", digest="0" * 64)


def as_all_cases(records: list[Record]) -> list[Record]:
    """Return the records of a campaign as though there were no cases but those it was asked."""
    header, *rest = records
    campaign = {**header["campaign"], "planned": len(asked(records))}
    return [{**header, "campaign": campaign}, *rest]


def asked(records: list[Record]) -> set[str]:
    return {record["case"] for record in records if record["record"] == "case"}


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return judged(RIGHT)


@pytest.fixture(scope="module")
def conforming(records: list[Record]) -> dict[str, Any]:
    return stated(as_all_cases(records))


@pytest.fixture(scope="module")
def failed() -> list[Record]:
    return judged(BONUS)


@pytest.fixture(scope="module")
def failing(failed: list[Record]) -> dict[str, Any]:
    return stated(failed)


def test_it_is_an_in_toto_statement_about_the_adapters_files(conforming: dict[str, Any]) -> None:
    assert conforming["_type"] == "https://in-toto.io/Statement/v1"
    assert conforming["predicateType"].endswith("/test-result/v0.1")
    (subject,) = conforming["subject"]
    assert subject["name"] == "checked"
    assert subject["annotations"] == {"version": Checked.version}
    assert subject["digest"] == {"sha256": source_digest(Checked())}


def test_it_says_what_it_was_judged_by(conforming: dict[str, Any]) -> None:
    specification, suite, evidence = conforming["predicate"]["configuration"]
    assert (specification["name"], suite["name"]) == ("specification", "suite")
    assert specification["digest"] != suite["digest"]
    assert (evidence["name"], evidence["digest"]["sha256"]) == ("mine.jsonl", "0" * 64)
    assert evidence["annotations"]["records"] > 10


def test_every_requirement_is_accounted_for_once(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    for document in (conforming, failing):
        predicate = document["predicate"]
        decided = {r["id"]: r["verdict"] for r in predicate["draftproof"]["requirements"]}
        assert set(decided) == {
            each.id for each in requirements().values() if not each.is_of_engines
        }
        lists = [predicate[f"{kind}Tests"] for kind in ("passed", "warned", "failed")]
        listed = [identity for each in lists for identity in each]
        skipped = [identity for identity, verdict in decided.items() if verdict == "skipped"]
        assert sorted([*listed, *skipped]) == sorted(decided)


def test_what_conforms_passes(conforming: dict[str, Any]) -> None:
    assert conforming["predicate"]["result"] == "PASSED"
    found = conforming["predicate"]["draftproof"]
    assert found["verdict"] == "conforms"
    assert found["created"] == "2026-01-01T12:00:00+00:00"
    assert found["counterexample"] is None
    assert "says nothing about other inputs" in found["limits"]


def test_what_passes_some_cases_warns(records: list[Record]) -> None:
    document = stated(records)
    assert document["predicate"]["result"] == "WARNED"
    found = document["predicate"]["draftproof"]
    assert found["verdict"] == "passes some cases"
    assert len(asked(records)) < records[0]["campaign"]["planned"]
    assert exit_code(document) == 6


def test_what_fails_carries_its_counterexample(failing: dict[str, Any]) -> None:
    predicate = failing["predicate"]
    assert predicate["result"] == "FAILED"
    assert {"law.lossless", "law.reference", "law.support"} <= set(predicate["failedTests"])
    found = predicate["draftproof"]["counterexample"]
    validate(found["instance"], "instance")
    for law in (found["observed"], found["expected"]):
        assert sum(entry["probability"] for entry in law) == pytest.approx(1)


def test_a_missed_recommendation_warns() -> None:
    document = stated(as_all_cases(judged(f"{META / 'right.py'}:Batched")))
    assert document["predicate"]["result"] == "WARNED"
    assert "input.rejected" in document["predicate"]["warnedTests"]
    assert document["predicate"]["failedTests"] == []
    assert document["predicate"]["draftproof"]["verdict"] == "conforms"


def test_the_same_campaign_makes_the_same_certificate(records: list[Record]) -> None:
    assert certificate(RIGHT) == stated(records)


def test_a_broken_certificate_is_refused(conforming: dict[str, Any]) -> None:
    broken = json.loads(json.dumps(conforming))
    broken["predicate"]["result"] = "SPLENDID"
    with pytest.raises(MalformedDocument, match="certificate: predicate/result: 'SPLENDID'"):
        sealed(broken)


def test_it_goes_by_the_adapters_name(tmp_path: Path) -> None:
    first = place_for("../../mine (v=1)", tmp_path)
    assert first == tmp_path / "mine--v-1.json"
    assert place_for("../../mine (v=1)", tmp_path, taken=[first]) == tmp_path / "mine--v-1-2.json"
    assert place_for("...", tmp_path) == tmp_path / "adapter.json"


def test_it_is_written_whole_and_read_again(tmp_path: Path, failing: dict[str, Any]) -> None:
    write(failing, tmp_path / "mine.json")
    assert [file.name for file in tmp_path.iterdir()] == ["mine.json"]
    assert read_certificate(tmp_path / "mine.json") == failing


def test_no_byte_of_it_can_be_changed(tmp_path: Path, conforming: dict[str, Any]) -> None:
    """Every 97th byte, which meets every kind of character that a certificate is made of."""
    write(conforming, tmp_path / "mine.json")
    content = bytearray((tmp_path / "mine.json").read_bytes())
    for place in range(0, len(content), 97):
        changed = content.copy()
        changed[place] ^= 1
        with pytest.raises((EditedEvidence, MalformedEvidence)):
            parsed_certificate(bytes(changed), "mine.json")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", EmptyEvidence, "mine.json: the file is empty"),
        (
            b'{"_type"',
            EditedEvidence,
            "mine.json is not the JSON that was written: it is not JSON: Exp",
        ),
        (
            b'"_type"\xff',
            EditedEvidence,
            "mine.json is not the JSON that was written: 'utf-8' codec",
        ),
        (b'{"predicate": 1}', MalformedEvidence, "mine.json: certificate: the document"),
        (b"\xff", NoCertificate, "mine.json is no certificate; `draftproof certify ADAPTER`"),
        (b"class Mine:", NoCertificate, "mine.json is no certificate; "),
        (b"[]", NoCertificate, "mine.json is no certificate; "),
        (b'{"name": "x"}', NoCertificate, "mine.json is no certificate; "),
        (b"[" * 100_000, MalformedEvidence, "mine.json: it has more than 64 lists and objects"),
        (b'{"_type": 1e999}', EditedEvidence, "the number 1e999 is larger than floats are"),
        (b'{"_type": NaN}', EditedEvidence, "NaN is no number in JSON"),
        (b"9" * 101, MalformedEvidence, "mine.json: a number of it has 101 digits, the most that"),
        (b"[" + b"0," * 500_000 + b"0]", MalformedEvidence, "mine.json: it has more than 500,000"),
    ],
)
def test_what_is_no_certificate_is_refused(content: bytes, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        parsed_certificate(content, "mine.json")


@pytest.mark.parametrize("indent", [1, 2])
def test_it_is_read_as_it_was_first_indented_too(conforming: dict[str, Any], indent: int) -> None:
    text = json.dumps(conforming, indent=indent) + "\n"
    assert parsed_certificate(text.encode(), "mine.json") == conforming
    for edited in (text.replace('"seed": 1', '"seed": 2'), text + " ", text.replace("\n ", "\n\t")):
        with pytest.raises(EditedEvidence, match="its digest does not follow from it"):
            parsed_certificate(edited.encode(), "mine.json")


def test_it_follows_from_its_evidence(tmp_path: Path, records: list[Record]) -> None:
    path, evidence = tmp_path / "mine.json", tmp_path / "mine.jsonl"
    made = stated(records)
    write(made, path)
    with pytest.raises(MissingEvidence, match=r"mine.jsonl': No such file"):
        checked(path)
    with written(evidence) as sink:
        run(Campaign(RIGHT, **TERMS), keep=sink.keep)
    with pytest.raises(EditedEvidence, match=r"is not the evidence of .*: its digest is another"):
        checked(path)
    digest = sha256(evidence.read_bytes()).hexdigest()
    mine = json.loads(json.dumps(made))
    mine["predicate"]["configuration"][2]["digest"]["sha256"] = digest
    write(sealed(mine), path)
    document, kept = checked(path)
    assert document["predicate"]["draftproof"] != made["predicate"]["draftproof"]
    assert kept is not None
    assert kept.is_finished
    mine["predicate"]["draftproof"]["limits"] = "none"
    write(sealed(mine), path)
    with pytest.raises(EditedEvidence, match="does not follow from its evidence"):
        checked(path)


@pytest.mark.parametrize(
    ("part", "edit", "told"),
    [
        ("verdict", {"verdict": "conforms"}, "its verdict does not follow from its requirements"),
        ("result", {"result": "PASSED"}, "its verdict does not follow from its requirements"),
        ("list", {"failedTests": []}, "its verdict does not follow from its requirements"),
        ("requirement", {"verdict": "pass"}, "the verdict on [a-z.]+ is not that of its counts"),
        ("requirement", {"level": "SHOULD"}, "[a-z.]+ is a MUST"),
    ],
)
def test_a_slim_certificate_says_what_follows_from_its_requirements(
    tmp_path: Path, failed: list[Record], part: str, edit: dict[str, Any], told: str
) -> None:
    slim = statement(failed, evidence="mine.jsonl", digest="0" * 64, is_slim=True)
    write(slim, tmp_path / "mine.json")
    assert checked(tmp_path / "mine.json") == (slim, None)
    predicate = slim["predicate"]
    if part == "verdict":
        predicate["draftproof"] |= edit
    elif part == "requirement":
        # All that follows is edited as well.
        for each in predicate["draftproof"]["requirements"]:
            if each["verdict"] == "fail":
                each |= edit
        outcome, verdict = _outcome(predicate["draftproof"])
        predicate |= outcome
        predicate["draftproof"]["verdict"] = verdict
    else:
        predicate |= edit
    write(sealed(slim), tmp_path / "mine.json")
    with pytest.raises(EditedEvidence, match=told):
        checked(tmp_path / "mine.json")


def test_an_envelope_follows_from_what_was_compared(conforming: dict[str, Any]) -> None:
    found = conforming["predicate"]["draftproof"]
    envelope = found["envelope"]
    assert [*map(int, envelope["values"]["length"])] == [1, 2]
    assert [*map(int, envelope["values"]["vocabulary"])] == [2, 4, 8]
    assert envelope["values"]["lane"] == {"exact": envelope["laws"]}
    assert "K above 1" in envelope["outside"]
    assert (found["grade"]["grade"], found["grade"]["allowed"] > 0) == ("exact", True)


def longer(records: list[Record]) -> None:
    """Claim a length that was never asked."""
    result = next(each for each in records if each.get("compared"))
    result["compared"][0]["length"] = 33


@pytest.mark.parametrize("is_slim", [False, True])
def test_an_envelope_claims_no_more_than_was_compared(
    tmp_path: Path, records: list[Record], is_slim: bool
) -> None:
    """However well it fits itself, it is not what the evidence adds up to."""
    path, evidence = tmp_path / "mine.json", tmp_path / "mine.jsonl"
    with written(evidence) as sink:
        sink.keep(*records)
    digest = sha256(evidence.read_bytes()).hexdigest()
    claimed = copy.deepcopy(records)
    longer(claimed)
    for told in (records, claimed):
        made = statement(told, evidence=evidence.name, digest=digest, is_slim=is_slim)
        write(made, path)
        if told is records:
            assert checked(path)[1] is not None
    with pytest.raises(EditedEvidence, match="does not follow from its evidence"):
        checked(path)
    made["predicate"]["draftproof"]["envelope"]["values"]["rows"]["1024"] = 1
    write(sealed(made), path)
    with pytest.raises(EditedEvidence, match="its envelope has other numbers of laws by rows"):
        checked(path)


def test_a_grade_claims_no_more_than_its_requirements(
    tmp_path: Path, conforming: dict[str, Any]
) -> None:
    mine = copy.deepcopy(conforming)
    mine["predicate"]["draftproof"]["grade"]["distance"] = 0.0
    write(sealed(mine), tmp_path / "mine.json")
    with pytest.raises(EditedEvidence, match="its grade does not follow from its requirements"):
        checked(tmp_path / "mine.json")


def test_a_failure_is_final_whatever_could_not_be_judged(failing: dict[str, Any]) -> None:
    mine = copy.deepcopy(failing)
    decided = mine["predicate"]["draftproof"]["requirements"]
    next(each for each in decided if each["verdict"] == "pass")["verdict"] = "error"
    assert (exit_code(failing), exit_code(mine), gravest({1, 3})) == (1, 1, 3)
    for each in decided:
        each["verdict"] = each["verdict"].replace("fail", "pass")
    assert exit_code(mine) == 3


def test_a_known_failure_is_excused_and_stays_one(failing: dict[str, Any]) -> None:
    failed = failing["predicate"]["failedTests"]
    issues = dict.fromkeys(failed, "https://example.org/1")
    document = certificate(BONUS, known_failures=issues)
    assert (exit_code(failing), exit_code(document)) == (1, 6)
    assert document["predicate"]["failedTests"] == failed
    assert document["predicate"]["result"] == "FAILED"
    assert document["predicate"]["draftproof"]["verdict"] == "does not conform"
    assert no_longer_known([document]) == []
    one = certificate(BONUS, known_failures={failed[0]: "https://example.org/1"})
    assert exit_code(one) == 1


def test_a_known_failure_that_does_not_fail_matches_nothing(failing: dict[str, Any]) -> None:
    document = certificate(RIGHT, known_failures={"law.support": "https://example.org/1"})
    assert no_longer_known([document]) == ["law.support"]
