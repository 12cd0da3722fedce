"""Whole engines of the world: rows, the conversation with their programs, and the record."""

from __future__ import annotations

import json
import sys
import tomllib
from contextlib import closing
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from draftproof.conformance.adapter import Generation
from draftproof.conformance.lanes.engine.asking import SETTINGS, SamplingParams

HERE = Path(__file__).parents[1] / "whole"
ROWS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "rows.toml").read_text("utf-8"))
RECORD: dict[str, dict[str, Any]] = json.loads((HERE / "record.json").read_text("utf-8"))

PROGRAM = """
import sys
sys.path.insert(0, {programs!r})
from answering import answer

def start(folder, speculation):
    if speculation == "broken":
        raise ValueError("no such speculation")
    print("an engine prints this")
    def generate(requests):
        return [[len(each["prompt"]), len(speculation)][: each["max_tokens"]] for each in requests]
    return "1.0", generate

answer(start)
"""


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, with a program of our own in the place of the released ones."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.delitem(sys.modules, "driven", raising=False)
    module = import_module("driven")
    (tmp_path / "programs").mkdir()
    (tmp_path / "rows.toml").write_text("")
    program = PROGRAM.format(programs=str(HERE / "programs"))
    (tmp_path / "programs" / "mine.py").write_text(program)
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "ENVIRONMENTS", tmp_path)
    return module


def row(speculation: str) -> dict[str, Any]:
    return {
        "environment": "none-such",
        "program": "mine",
        "speculation": speculation,
        "settings": ["temperature"],
    }


def test_a_program_answers_and_its_control_is_another_process(driven: Any, tmp_path: Path) -> None:
    told = ("my-engine", "1.0", ("temperature",))
    sampling = SamplingParams(temperature=0.5)
    asked = [
        Generation((3,) * length, 2, sampling, speculation=length % 2 == 0)
        for length in range(1, 5)
    ]
    with closing(driven.Driven("my_engine", row("draft"), tmp_path)) as engine:
        assert (engine.name, engine.version, engine.settings) == told
        answers = [each.tokens for each in engine.generate(asked)]
    assert answers == [(1, len("none")), (2, len("draft")), (3, len("none")), (4, len("draft"))]


def test_a_program_that_ends_is_told_with_its_error(driven: Any, tmp_path: Path) -> None:
    told = r"mine.py broken ended with 1: ValueError: no such"
    with (
        closing(driven.Driven("mine", row("broken"), tmp_path)) as engine,
        pytest.raises(RuntimeError, match=told),
    ):
        engine.generate([Generation((3,), 1)])


def test_a_row_has_a_name(driven: Any) -> None:
    with pytest.raises(AttributeError):
        driven.nothing  # noqa: B018  # looked up by `draftproof engine`


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_all_that_runs_it(name: str) -> None:
    told = ROWS[name]
    assert set(told["settings"]) <= set(SETTINGS)
    assert set(told["checkpoints"]) <= {"memory-1", "memory-2", "heads"}
    if "skipped" not in told:
        assert (HERE / "programs" / f"{told['program']}.py").exists()
        locks = [HERE / "locks" / f"{told['environment']}{end}" for end in (".txt", ".sh")]
        assert any(each.exists() for each in locks)


@pytest.mark.parametrize("name", RECORD)
def test_what_is_on_record_is_a_row_with_its_figures(name: str) -> None:
    told = RECORD[name]
    assert (told["engine"], told["method"]) == (ROWS[name]["engine"], ROWS[name]["method"])
    assert set(told["checkpoints"]) == set(ROWS[name]["checkpoints"])
    for found in told["checkpoints"].values():
        if found["verdict"] == "not run":
            assert found["reason"]
        else:
            assert found["version"]
            assert date.fromisoformat(found["judged"]) >= date(2026, 11, 27)
            assert 0 <= found["distance"] <= found["bound"] <= 1
            assert (found["verdict"] == "conforms") == (not found["told"])


def test_every_report_has_its_script() -> None:
    reports = {each.stem for each in (HERE / "reports").glob("*.md")}
    assert reports == {each.stem for each in (HERE / "reproductions").glob("*")}


@pytest.fixture
def judge(driven: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that judges, with a row of our own and a record of it."""
    monkeypatch.delitem(sys.modules, "judge", raising=False)
    module = import_module("judge")
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in OWN.items())
    (tmp_path / "rows.toml").write_text(f"[mine]\n{text}\n")
    (tmp_path / "record.json").write_text(json.dumps({"mine": {**OWN_NAMES, **SEEN}}))
    monkeypatch.setattr(module, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(module, "CERTIFICATES", tmp_path / "certificates")
    monkeypatch.setattr(module, "lock_of", lambda _: tmp_path / "rows.toml")
    monkeypatch.setattr(module, "environment", lambda _: None)
    return module


OWN_NAMES = {"engine": "Mine", "method": "none"}
OWN = {**OWN_NAMES, **row("none"), "checkpoints": ["memory-1"]}
SEEN = {"checkpoints": {"memory-1": {"verdict": "conforms", "judged": "2026-11-27"}}}


@pytest.mark.parametrize("options", [[], ["--check"]])
def test_what_cannot_run_leaves_the_record(
    judge: Any, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    def unavailable(_: str) -> None:
        raise judge.Unavailable("pip: no network")

    monkeypatch.setattr(judge, "environment", unavailable)
    run = CliRunner().invoke(judge.main, options)
    assert run.exit_code == 3
    assert "mine, memory-1: not run: pip: no network" in run.output
    assert judge.recorded() == {"mine": {**OWN_NAMES, **SEEN}}


def test_another_verdict_is_told(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "judged", lambda *_: {"verdict": "inconclusive"})
    run = CliRunner().invoke(judge.main, ["--check"])
    assert run.exit_code == 1
    assert "mine, memory-1: inconclusive, on record: conforms" in run.output
    assert CliRunner().invoke(judge.main, []).exit_code == 0
    assert judge.recorded()["mine"]["checkpoints"]["memory-1"] == {"verdict": "inconclusive"}


def test_a_certificate_of_another_lock_is_not_read(
    judge: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = tmp_path / "certificates/memory-1/mine.json"
    asked: list[Any] = []

    def write(command: list[str]) -> tuple[int, str]:
        asked.append(command)
        certificate.write_text("{}")
        return 0, ""

    monkeypatch.setattr(judge, "asked", write)
    monkeypatch.setattr(judge, "checkpoint", lambda _: tmp_path)
    monkeypatch.setattr(judge, "told", lambda _, tokens: {"asked": tokens})
    for terms, times in (("a", 1), ("a", 1), ("b", 2), ("b", 2)):
        judge.judged("mine", "memory-1", {"asked": 5, "lock": terms})
        assert len(asked) == times


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("record.json", "[", "record.json: Expecting value"),
        ("rows.toml", "[x", "rows.toml: Expected ']'"),
        ("rows.toml", "[mine]\nengine = 'Mine'", "rows.toml, [mine]: checkpoints is missing"),
    ],
)
def test_what_cannot_be_read_is_told(
    judge: Any, tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    run = CliRunner().invoke(judge.main, [])
    assert run.exit_code == 2
    assert message in run.output
