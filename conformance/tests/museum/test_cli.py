"""`draftproof mutants`: the kill matrix on a terminal, in a pipe, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from draftproof.conformance.cli.mutants import mutants
from draftproof.conformance.museum.mutants import EXHIBITS, Mutant
from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.spec import MalformedDocument, validate


def run(*arguments: str) -> Any:
    return CliRunner().invoke(mutants, [*arguments, "--mode", "quick", "--seed", "0"])


@pytest.fixture
def survivor(monkeypatch: pytest.MonkeyPatch) -> str:
    survives = Mutant(
        "survives", "Is right.", "it is not", ("draftproof",), ("law.lossless",), Token
    )
    monkeypatch.setitem(EXHIBITS, "survives", survives)
    return "survives"


def test_one_is_told_in_words() -> None:
    ran = run("accepts-everything")
    assert (ran.exit_code, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0] == "accepts-everything: Accepts every drafted token."
    assert "  https://github.com/huggingface/transformers/issues/28508" in lines
    assert "  breaks: law.lossless, length.bounded" in lines
    assert "  law.lossless on exact generic.v2.l1 by 0.12" in lines
    assert lines[-1] == "1 mutants, 0 controls, mode quick, lanes exact: all as required"


def test_without_arguments_the_record_is_printed_at_once() -> None:
    ran = CliRunner().invoke(mutants, [])
    assert (ran.exit_code, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert any(line.split()[0] == "corrects-from-target" for line in lines if line.strip())
    assert "mode standard, lanes exact: all as required" in lines[-2]
    assert lines[-1].startswith("Recorded for this version.")
    document = json.loads(CliRunner().invoke(mutants, ["--json"]).stdout)
    assert [each["id"] for each in document["exhibits"]] == list(EXHIBITS)


def test_json_follows_its_schema() -> None:
    ran = run("accepts-everything", "one-hot-under-the-name-token", "--json")
    assert ran.exit_code == 0
    document = json.loads(ran.stdout)
    validate(document, "mutants")
    mutant, control = document["exhibits"]
    assert (mutant["kind"], control["kind"]) == ("mutant", "control")
    assert mutant["must_fail"][0] == "law.lossless"
    assert control["must_fail"] == ["law.reference", "length.expected"]
    assert {c["verdict"] for c in control["cells"] if c["requirement"] == "law.lossless"} == {
        "survived"
    }
    assert document["seed"] == 0
    del mutant["cells"][0]["lane"]
    with pytest.raises(MalformedDocument, match="mutants: exhibits/0/cells/0: 'lane' is a"):
        validate(document, "mutants")


def test_a_survivor_is_told_and_exits_with_1(survivor: str) -> None:
    ran = run(survivor)
    assert ran.exit_code == 1
    assert "  law.lossless survived on exact generic.v2.l1" in ran.stdout.splitlines()
    assert ran.stdout.splitlines()[-1].endswith("wrong results: survives")
    assert json.loads(run(survivor, "--json").stdout)["exhibits"][0]["as_it_must"] is False


def test_all_are_tabled(monkeypatch: pytest.MonkeyPatch, survivor: str) -> None:
    kept = ("corrects-from-target", "sample-match", survivor)
    for name in list(EXHIBITS):
        if name not in kept:
            monkeypatch.delitem(EXHIBITS, name)
    ran = run()
    assert ran.exit_code == 1
    header, *rows = (line.split() for line in ran.stdout.splitlines() if line.strip())
    assert header == ["mutant", "breaks", "killed", "by", "source"]
    assert rows[0][:4] == ["corrects-from-target", "law.lossless,", "random.fresh", "law.lossless"]
    assert ["control", "must", "fail", "fails", "source"] in rows
    assert any(row[:3] == ["sample-match", "nothing", "nothing"] for row in rows)


def test_an_unknown_name_is_a_usage_error() -> None:
    ran = run("nobody")
    assert ran.exit_code == 2
    assert "there is no mutant or control 'nobody'" in ran.stderr


def test_a_record_keeps_all_rows_but_those_that_are_judged(tmp_path: Path) -> None:
    record = tmp_path / "kills.json"
    first, second = "accepts-everything", "rejects-everything"
    whole = run(first, second, "--json")
    record.write_text(whole.output)
    stale = json.loads(whole.output)
    stale["exhibits"][0]["cells"] = []
    record.write_text(json.dumps(stale))
    ran = CliRunner().invoke(mutants, [first, "--record", str(record)])
    assert ran.exit_code == 0, ran.output
    kept, rows = (json.loads(text)["exhibits"] for text in (record.read_text(), whole.output))
    assert {each["id"]: each for each in kept} == {each["id"]: each for each in rows}
    assert len(record.read_text().splitlines()) == 4
    refused = run(first, "--record", str(record))
    assert refused.exit_code == 2
    assert "--record sets the lanes, mode and seed" in refused.output
