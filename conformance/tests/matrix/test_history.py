"""Histories: versions with the same files are judged once, and a change is found where it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from draftproof.conformance.cli import cli
from draftproof.conformance.matrix import JudgedRow, MatrixRow, history
from draftproof.conformance.matrix.history import (
    SameFiles,
    UnreadHistory,
    document,
    texts_of,
    verdicts,
)
from draftproof.conformance.protocol import packages as engines
from draftproof.conformance.report.history import markdown
from draftproof.conformance.report.plain import plain
from draftproof.conformance.requirements.finding import CANNOT_RUN, UNFETCHED
from draftproof.spec import validate

RIGHT = (Path(__file__).parents[1] / "meta" / "right.py").read_text(encoding="utf-8")

WRONG = f"""{RIGHT}

class Batched(Batched):
    def verify(self, request):
        request.target_probs[:, :, -1] = request.draft_probs[:, :, -1]
        return super().verify(request)
"""
BROKEN = "class Batched:\n    def __init__(self):\n        raise RuntimeError('no more')\n"
GONE = """
from draftproof.conformance.protocol.adapter import Unfetched

class Batched:
    def __init__(self):
        raise Unfetched("no network")
"""


@dataclass
class Version:
    """A version that is made up, whose adapter is a file."""

    version: str
    adapter: str
    day: str = "2026-01-01"
    said: str = ""


@dataclass
class Way:
    """A method that is made up, judged on one case."""

    algorithm: str = "token"
    needs: Mapping[str, str] = field(default_factory=dict)
    versions: str = "all"
    mode: str = "quick"
    cases: tuple[str, ...] = ("generic.v2.l2",)
    why: str = "it is quick"
    note: str = ""


@dataclass
class Engine:
    """An engine that is made up, with a past."""

    was: Sequence[Version] = ()
    name: str = "mine"
    title: str = "Mine"
    extras: str = "torch"
    methods: Mapping[str, engines.Method] = field(default_factory=lambda: {"fast": Way()})

    def judged(self, source: str = "") -> Mapping[str, str]:
        raise NotImplementedError

    def place(self, method: str, where: str) -> str:
        raise NotImplementedError

    def used(self, source: str) -> Sequence[str]:
        raise NotImplementedError

    def past(self, method: str, *, since: date, source: str = "") -> Sequence[Version]:
        if source == "gone":
            raise RuntimeError(f"{method}: there is no checkout 'gone'")
        return [each for each in self.was if each.day >= str(since)]


def versions(folder: Path, *texts: str) -> list[Version]:
    """Return versions 1, 2 and so on, each with a text of its own file."""
    made = []
    for number, text in enumerate(texts, start=1):
        file = folder / f"v{number}" / "adapter.py"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        day = f"2026-01-{number:02}"
        made.append(Version(str(number), f"{file}:Batched", day, f"Version {number}"))
    return made


def test_neighbours_with_the_same_files_are_one_text(tmp_path: Path) -> None:
    past = versions(tmp_path, RIGHT, RIGHT, WRONG, BROKEN, GONE, WRONG, RIGHT)
    read = [*texts_of(past)]
    assert [
        [each.version for each in one.versions]
        if isinstance(one, SameFiles)
        else one.version.version
        for one in read
    ] == [["1", "2"], ["3"], "4", "5", ["6"], ["7"]]
    assert [(one.outcome, one.reason) for one in read if isinstance(one, UnreadHistory)] == [
        (CANNOT_RUN, "no more"),
        (UNFETCHED, "no network"),
    ]
    own = [each.digest for each in read if isinstance(each, SameFiles)]
    assert (own[0], own[1]) == (own[3], own[2])


def texts(pattern: str) -> list[SameFiles]:
    """Return texts whose digests are letters, a version each."""
    return [
        SameFiles(letter, (Version(str(number), f"x:{letter}"),))
        for number, letter in enumerate(pattern)
    ]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is judged; capitals conform, all else does not."""
    names: list[str] = []

    def judged(rows: Sequence[MatrixRow], folder: Path, *, jobs: int) -> Iterator[JudgedRow]:
        assert (folder, jobs) == (Path("here"), 2)
        for row in rows:
            names.append(row.name.partition("@")[2])
            yield JudgedRow(row, outcome="conforms" if names[-1].isupper() else "does not conform")

    monkeypatch.setattr(history, "judged", judged)
    return names


def told(pattern: str, *, is_halved: bool = False) -> dict[str, Any]:
    own = texts(pattern)
    found = dict(verdicts(Engine(), "fast", own, Path("here"), is_halved=is_halved, jobs=2))
    said = document(Engine(), "fast", own, found)
    validate({"histories": [said]}, "histories")
    return said


def test_every_text_is_judged_once(asked: list[str]) -> None:
    found = told("ABcbAAD")
    assert sorted(asked) == ["A", "B", "D", "b", "c"]
    assert [each["outcome"] == "conforms" for each in found["versions"]] == [
        *(True, True, False, False, True, True, True)
    ]
    assert [(each["after"], each["version"]) for each in found["changes"]] == [
        ("1", "2"),
        ("3", "4"),
    ]
    assert not any(each["presumed"] for each in found["versions"])


@pytest.mark.parametrize("place", range(1, 12))
def test_a_change_among_twelve_is_found_by_halving(asked: list[str], place: int) -> None:
    letters = "abcdefghijkl"
    found = told(letters[:place].upper() + letters[place:], is_halved=True)
    (change,) = found["changes"]
    assert (change["after"], change["version"]) == (str(place - 1), str(place))
    assert len(asked) <= 6
    presumed = [each["version"] for each in found["versions"] if each["presumed"]]
    assert len(presumed) == 12 - len(asked)


def test_what_is_between_two_of_one_verdict_is_presumed(asked: list[str]) -> None:
    found = told("AbC", is_halved=True)
    assert (asked, found["changes"]) == (["A", "C"], [])
    assert [each["presumed"] for each in found["versions"]] == [False, True, False]
    line = "| conforms, presumed | not judged: a change within that was taken back stays hidden |"
    assert line in markdown(plain(found))


def test_nothing_to_judge_is_no_error(asked: list[str]) -> None:
    assert told("", is_halved=True)["versions"] == []
    assert not asked


def run(engine: Engine, folder: Path, *arguments: str) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "packages", lambda: {"mine": engine})
        command = ["matrix", "--since", "2026-01-01", "--output", str(folder / "out"), *arguments]
        ran = CliRunner().invoke(cli, command)
    return ran.exit_code, ran.stdout, ran.stderr


def test_a_history_names_the_version_with_the_fault(tmp_path: Path) -> None:
    past = versions(tmp_path, RIGHT, f"{RIGHT}\n# the same\n", WRONG, BROKEN)
    code, out, err = run(Engine(past), tmp_path, "--history", "mine:fast", "--json")
    assert code == 0
    # The fourth cannot be read.
    outcomes = ["1: conforms", "2: conforms", "3: does not conform"]
    # A slow machine prints its progress, too.
    judged = [each for each in err.splitlines() if " after " not in each]
    assert sorted(judged) == [f"mine:fast {each}" for each in outcomes]
    (found,) = json.loads(out)["histories"]
    outcomes = [each["outcome"] for each in found["versions"]]
    assert outcomes == ["conforms", "conforms", "does not conform", CANNOT_RUN]
    (change,) = found["changes"]
    assert (change["after"], change["version"], change["said"]) == ("2", "3", "Version 3")
    assert {"law.lossless"} <= {*change["failed"]}
    assert found["versions"][2]["distance"] > 0.01
    written = (tmp_path / "out" / "histories.md").read_text()
    assert "| 1 to 2 (2, 2 texts) | 2026-01-01 to 2026-01-02 | conforms |" in written
    assert json.loads((tmp_path / "out" / "histories.json").read_text()) == json.loads(out)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--history", "yours"), 2, "no engine 'yours'; the engines are mine"),
        (("--history", "mine:slow"), 2, "mine has no method 'slow': it has fast"),
        (("--history", "mine", "--source", "gone"), 3, "there is no checkout 'gone'"),
        (("--history", "mine", "--only", "x"), 2, "--history cannot be combined with FILE"),
        (("--history", "mine"), 3, "mine:fast: no version since 2026-01-01"),
        ((), 2, "--since, --source and --halve need --history"),
    ],
)
def test_what_cannot_be_told_says_why(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    found, _, err = run(Engine(), tmp_path, *arguments)
    assert found == code
    assert said in " ".join(err.split())


def test_a_history_without_a_verdict_exits_with_3(tmp_path: Path) -> None:
    code, out, _ = run(Engine(versions(tmp_path, BROKEN)), tmp_path, "--history", "mine", "--json")
    assert code == 3
    assert json.loads(out)["histories"][0]["versions"][0]["reason"] == "no more"
