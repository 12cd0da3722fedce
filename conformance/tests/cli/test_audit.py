"""The command `audit`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from click.testing import CliRunner, Result

from draftproof.conformance.cli import cli
from draftproof.spec import validate

VOCABULARY = 6


def run(*given: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["audit", *given], input=stdin)


def lines(count: int, *, lossy: bool, speculation: bool = True, seed: int = 1) -> str:
    """Return a log. A lossy server takes the draft's favourite where it draws the same twice."""
    random = numpy.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    for _ in range(count):
        p, q = random.dirichlet(numpy.ones(VOCABULARY), size=2)
        favourite, token = int(q.argmax()), int(random.choice(VOCABULARY, p=p))
        if lossy and random.random() < 0.2:
            token = favourite
        found.append(
            {"token": token, "row": p.tolist(), "favourite": favourite, "speculation": speculation}
        )
    return "".join(f"{json.dumps(each)}\n" for each in found)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text(lines(1500, lossy=True) + lines(1500, lossy=False, speculation=False, seed=2))
    return path


def test_a_lossy_log_is_an_alarm(log: Path) -> None:
    found = run(str(log))
    assert found.exit_code == 1
    told = found.output
    assert "speculation on: the draft's favourite too often" in told
    assert "alarm: with speculation the tokens are not drawn from these rows; without it" in told


def test_a_correct_log_is_none() -> None:
    found = run("-", "--json", stdin=lines(1500, lossy=False))
    assert found.exit_code == 0
    document = json.loads(found.output)
    validate(document, "audit")
    assert document["verdict"] == "no alarm"


def test_a_stripped_log_is_judged_the_same(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "stripped.jsonl"
    whole = run(str(log), "--json", "--strip", str(out))
    assert whole.exit_code == 1
    assert "token" not in out.read_text()
    assert "row" not in out.read_text()
    again = run(str(out), "--json")
    assert json.loads(again.output) == json.loads(whole.stdout)
    found = run(str(log), "--strip", str(out))
    assert found.exit_code == 2
    assert "File exists" in found.output


def test_a_plan_needs_no_log() -> None:
    found = run("--plan", "--vocabulary", "1000", "--rate", "20")
    assert found.exit_code == 0
    assert "on the draft's favourite" in found.output
    assert "random, over 1,000 tokens" in found.output
    assert " min " in found.output
    document = json.loads(run("--plan", "--vocabulary", "50", "--json").output)
    validate(document, "audit-plan")
    assert document["rate"] is None


def test_a_plan_is_for_the_rows_of_a_log(log: Path) -> None:
    document = json.loads(run("--plan", str(log), "--json").output)
    assert document["rows"].startswith("the first 3,000 of")
    assert document["biases"][0]["draft"] < document["biases"][1]["draft"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), 'name a LOG.jsonl ("-" for standard input), or use --plan'),
        (("nowhere.jsonl",), "cannot read 'nowhere.jsonl': No such file or directory"),
        ((".",), "cannot read '.': Is a directory"),
        (("-",), "- has no tokens"),
        (("--plan", "-"), "- has no tokens"),
        (("--plan", "--strip", "x"), "--strip cannot be combined with --plan"),
        (("-", "--rate", "3"), "--rate needs --plan"),
        (("-", "--alpha", "1"), "is not in the range 0<x<1"),
        (("-", "--tolerance", "1"), "is not in the range 0<=x<1"),
        (("-", "--alpha", "nan"), "nan is not a finite number"),
        (("--plan", "--rate", "nan"), "nan is not a finite number"),
        (("-", "--strip", "-"), "--strip writes a file: name one"),
    ],
)
def test_what_cannot_be_judged_is_told(given: tuple[str, ...], message: str) -> None:
    found = run(*given, stdin="")
    assert found.exit_code == 2
    assert message in found.output


def test_a_line_that_is_wrong_is_named() -> None:
    found = run("-", stdin='{"token": 1}\n')
    assert found.exit_code == 2
    assert "-, line 1: it has neither row nor top" in found.output


def test_a_log_that_cannot_be_read_leaves_no_stripped_one(tmp_path: Path) -> None:
    out = tmp_path / "stripped.jsonl"
    found = run("-", "--strip", str(out), stdin=lines(5, lossy=False) + "{}\n")
    assert found.exit_code == 2
    assert not out.exists()
    assert run("-", "--strip", str(out), stdin=lines(5, lossy=False)).exit_code == 4
    assert out.exists()
