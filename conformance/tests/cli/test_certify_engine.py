"""`certify ENGINE`: the methods of what is installed or checked out, each on cases of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from draftproof.conformance.cli import cli
from draftproof.conformance.protocol import packages as engines

RIGHT = (Path(__file__).parents[1] / "meta" / "right.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Way:
    """A method that is made up."""

    cases: tuple[str, ...] = ()
    algorithm: str = "token"
    needs: Mapping[str, str] = field(default_factory=lambda: {"mine/rules/fast.py": "verify"})
    versions: str = "2 and later"
    mode: str = "quick"
    why: str = "the others are slow"
    note: str = ""


@dataclass(frozen=True)
class Engine:
    """An engine that is made up: a source is a folder with an adapter."""

    name: str = "mine"
    title: str = "Mine"
    extras: str = "torch"
    methods: Mapping[str, Way] = field(default_factory=lambda: {"fast": Way(("generic.v2.l2",))})

    def judged(self, source: str = "") -> Mapping[str, str]:
        if not source:
            raise RuntimeError("mine is not installed here")
        own = [each for each in self.methods if (Path(source) / f"{each}.py").exists()]
        return {each: self.place(each, f"@{source}") for each in own}

    def place(self, method: str, where: str) -> str:
        return f"{where.removeprefix('@')}/{method}.py:Batched"

    def used(self, source: str) -> Sequence[str]:
        return ["mine/rules/fast.py", "mine/noise/coins.py"] if self.judged(source) else []

    def past(self, method: str, *, since: date, source: str = "") -> Sequence[engines.Past]:
        raise NotImplementedError


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engines, "packages", lambda: {"mine": Engine()})
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "fast.py").write_text(RIGHT, encoding="utf-8")
    return folder


def certify(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        cli, ["certify", "--json", "--output", str(folder / "out"), *arguments]
    )


def test_the_methods_of_a_source_are_judged_on_their_own_cases(
    source: Path, tmp_path: Path
) -> None:
    ran = certify(tmp_path, "mine", "--source", str(source))
    assert ran.exit_code == 6, ran.stderr
    (document,) = json.loads(ran.stdout)["certificates"]
    said = document["predicate"]["draftproof"]
    assert (said["mode"], said["asked"]) == ("quick", 1)
    assert said["adapter"]["place"] == f"{source}/fast.py:Batched"
    told = f"{source}/fast.py:Batched: judging only the cases generic.v2.l2: the others are slow"
    assert told in ran.stderr


def test_a_method_that_a_source_does_not_have_is_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Engine(methods={"fast": Way(("generic.v2.l2",)), "slow": Way(versions="3 and later")})
    monkeypatch.setattr(engines, "packages", lambda: {"mine": own})
    told = "mine: not found in this version, and not judged: slow (3 and later)"
    assert told in certify(tmp_path, "mine", "--source", str(source)).stderr
    assert "not judged" not in certify(tmp_path, "mine:fast", "--source", str(source)).stderr


def test_whoever_names_the_cases_has_them(source: Path, tmp_path: Path) -> None:
    ran = certify(tmp_path, "mine:fast", "--source", str(source), "--case", "generic.v3.l2")
    (document,) = json.loads(ran.stdout)["certificates"]
    said = document["predicate"]["draftproof"]
    findings = [one for each in said["requirements"] for one in each["findings"]]
    assert {"generic.v3.l2"} <= {each["case"] for each in findings}
    assert said["mode"] == "standard"
    assert "only the cases" not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("mine",), 3, "Error: mine: RuntimeError: mine is not installed here"),
        (("mine", "--source", "{}/none"), 3, "this version has none of the methods fast (2 and"),
        (("mine:slow", "--source", "{}"), 2, "mine has no method 'slow': it has fast"),
        (
            ("torch-token", "--source", "{}"),
            2,
            "--source needs an ENGINE, and 'torch-token' is none: the engines are mine",
        ),
        (("minr", "--source", "{}"), 2, "and 'minr' is none: did you mean mine?"),
    ],
)
def test_what_is_no_engine_or_no_source_is_told(
    source: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    ran = certify(tmp_path, *(each.format(source) for each in arguments))
    assert ran.exit_code == code
    assert told in " ".join(ran.stderr.split())


def test_an_engine_gets_a_workflow_for_pull_requests(source: Path, tmp_path: Path) -> None:
    own = tmp_path / "checkout"
    own.mkdir()
    ran = CliRunner().invoke(cli, ["init", "--engine", "mine", "--folder", str(own), "--json"])
    assert ran.exit_code == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["commands"] == [f"draftproof certify mine --source {own}"]
    (file,) = said["files"]
    text = Path(file).read_text()
    assert '    paths:\n      - "**/mine/rules/**"\n' in text
    assert "args: --source .#HEAD^1 --seed 0" in text
    assert "coins" not in text
    (file_of_source,) = json.loads(
        CliRunner()
        .invoke(cli, ["init", "--engine", "mine", "--folder", str(source), "--json"])
        .stdout
    )["files"]
    both = '    paths:\n      - "**/mine/rules/**"\n      - "**/mine/noise/**"\n'
    assert both in Path(file_of_source).read_text()
    again = CliRunner().invoke(cli, ["init", "--engine", "mine", "--folder", str(own)])
    assert again.exit_code == 2
    assert "already exists" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--engine", "yours"), "no engine 'yours'; the engines are mine"),
        ((), "give a NAME for an adapter, or an --engine"),
        (("my-verifier", "--engine", "mine"), "give a NAME for an adapter, or an --engine"),
    ],
)
def test_a_start_for_nothing_is_told(
    source: Path, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    ran = CliRunner().invoke(cli, ["init", *arguments, "--folder", str(tmp_path)])
    assert ran.exit_code == 2
    assert told in ran.stderr
    assert [*tmp_path.iterdir()] == [source]
