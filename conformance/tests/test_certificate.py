from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from draftproof.adapters.fast import token
from draftproof.conformance.campaign import certify
from draftproof.conformance.certificate import statement, write
from draftproof.conformance.loading import load_adapter
from draftproof.spec import MalformedDocument, requirements, validate

META = Path(__file__).parent / "meta"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def silent(steps: Iterable[Any], count: int, title: str) -> Iterable[Any]:
    return steps


def certificate(name: str) -> dict[str, Any]:
    report = certify(name, tier="quick", seed=1, progress=silent)
    return statement(report, load_adapter(name), created=NOON)


@pytest.fixture(scope="module")
def conforming() -> dict[str, Any]:
    return certificate("torch-token")


@pytest.fixture(scope="module")
def failing() -> dict[str, Any]:
    return certificate("draftproof.conformance.mutants.token:BonusFromDraft")


def test_it_is_an_in_toto_statement_about_the_adapters_file(conforming: dict[str, Any]) -> None:
    assert conforming["_type"] == "https://in-toto.io/Statement/v1"
    assert conforming["predicateType"].endswith("/test-result/v0.1")
    (subject,) = conforming["subject"]
    source = Path(token.__file__).read_bytes()
    assert subject["digest"] == {"sha256": sha256(source).hexdigest()}


def test_every_requirement_is_accounted_for_once(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    for document in (conforming, failing):
        predicate = document["predicate"]
        decided = {r["id"]: r["verdict"] for r in predicate["draftproof"]["requirements"]}
        assert set(decided) == set(requirements())
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


def test_what_fails_carries_its_counterexample(failing: dict[str, Any]) -> None:
    predicate = failing["predicate"]
    assert predicate["result"] == "FAILED"
    assert {"law.lossless", "law.reference", "law.support"} <= set(predicate["failedTests"])
    found = predicate["draftproof"]["counterexample"]
    validate(found["instance"], "instance")
    for law in (found["observed"], found["expected"]):
        assert sum(entry["probability"] for entry in law) == pytest.approx(1)


def test_a_missed_recommendation_warns() -> None:
    document = certificate(f"{META / 'right.py'}:Batched")
    assert document["predicate"]["result"] == "WARNED"
    assert "input.rejected" in document["predicate"]["warnedTests"]
    assert document["predicate"]["failedTests"] == []
    assert document["predicate"]["draftproof"]["verdict"] == "conforms"


def test_the_same_campaign_makes_the_same_certificate(conforming: dict[str, Any]) -> None:
    assert certificate("torch-token") == conforming


def test_a_broken_certificate_is_refused(conforming: dict[str, Any]) -> None:
    broken = json.loads(json.dumps(conforming))
    broken["predicate"]["result"] = "SPLENDID"
    with pytest.raises(MalformedDocument, match="certificate: predicate/result: 'SPLENDID'"):
        validate(broken, "certificate")


def test_it_is_written_whole_under_a_safe_name(tmp_path: Path, conforming: dict[str, Any]) -> None:
    strange = json.loads(json.dumps(conforming))
    strange["predicate"]["draftproof"]["adapter"]["name"] = "../../mine (v=1)"
    first = write(strange, tmp_path / "new")
    assert first == tmp_path / "new" / "mine--v-1.json"
    assert json.loads(first.read_text()) == strange
    assert write(strange, tmp_path / "new") == first
    assert write(strange, tmp_path / "new", taken=[first]).name == "mine--v-1-2.json"
    assert not list(tmp_path.rglob("*.part"))
