"""`draftproof vectors`: what is written, what is found wrong, and what is never left behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from draftproof.conformance import cli
from draftproof.conformance.museum.vectors import making, written
from draftproof.conformance.museum.vectors.checking import (
    MalformedVectors,
    UnreadableVectors,
    WrongVectors,
    read,
    require_right,
)
from draftproof.spec import VECTOR_KINDS, validate, vector_files

TINY = vector_files("tiny")[0].parent


def draftproof(*arguments: str) -> Any:
    return CliRunner().invoke(cli.cli, ["vectors", *arguments])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of the tiny vectors."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(TINY, "tiny")
    return tmp_path


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> str:
    """Change the document of a file, and return the file's name."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(written.text(document), encoding="utf-8")
    return str(path)


# --- export ------------------------------------------------------------------------------------


def test_the_tiny_size_is_exported_as_it_ships(here: Path) -> None:
    ran = draftproof("export", "--size", "tiny", "--output", "out")
    assert (ran.exit_code, ran.stderr) == (0, "")
    for kind in VECTOR_KINDS:
        name = f"out/tiny/{kind}.json"
        assert f"{name}: " in ran.stdout
        assert (here / name).read_bytes() == (TINY / f"{kind}.json").read_bytes()
    again = draftproof("export", "--size", "tiny", "--output", "out", "--json")
    document = json.loads(again.stdout)
    validate(document, "vectors-outcome")
    assert [file["changed"] for file in document["files"]] == [False] * len(VECTOR_KINDS)


def test_only_the_vectors_of_an_algorithm_are_exported(here: Path) -> None:
    ran = draftproof("export", "--size", "tiny", "--algorithm", "block", "--output", "out")
    assert ran.exit_code == 0
    files = sorted((here / "out").rglob("*.json"))
    assert [file.name for file in files] == ["decisions.json", "laws.json", "values.json"]
    for file in files:
        document = read(file)
        assert {vector["algorithm"] for vector in document["vectors"]} == {"block"}
        require_right(document, str(file))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "--algorithm", "blok"), "unknown algorithm 'blok', did you mean 'block'?"),
        (("export", "--size", "huge"), "'huge' is not one of 'tiny', 'small', 'standard'"),
        (("export", "--size", "tiny", "--output", "tiny/laws.json"), "is a file"),
        (("check", "none.json"), "Path 'none.json' does not exist"),
        (("check", "empty"), "there is no file of vectors (*.json) in 'empty'"),
        (("fmt", "empty"), "there is no file of vectors (*.json) in 'empty'"),
        (("unknown",), "No such command 'unknown'"),
    ],
)
def test_wrong_usage_exits_with_2(here: Path, arguments: tuple[str, ...], message: str) -> None:
    (here / "empty").mkdir()
    ran = draftproof(*arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert message in " ".join(ran.stderr.split())


def test_what_cannot_be_written_is_named(here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "tiny").write_text("")
    ran = draftproof("export", "--size", "tiny", "--output", "out")
    assert ran.exit_code == 2
    assert "cannot write 'out/tiny/laws.json': File exists" in ran.stderr


def test_an_interrupted_export_leaves_no_half_file(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(making, "value", interrupted)
        assert draftproof("export", "--size", "tiny", "--output", "out").exit_code == 1
    assert not (here / "out").exists()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupted)
        assert draftproof("export", "--size", "tiny", "--output", "out").exit_code == 1
    assert [file for file in (here / "out").rglob("*") if file.is_file()] == []


# --- check -------------------------------------------------------------------------------------


def test_right_vectors_are_said_to_be_so(here: Path) -> None:
    ran = draftproof("check", "tiny", "--json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    document = json.loads(ran.stdout)
    validate(document, "vectors-outcome")
    found = {
        file["file"]: (file["kind"], file["size"], file["error"]) for file in document["files"]
    }
    assert found == {f"tiny/{kind}.json": (kind, "tiny", None) for kind in VECTOR_KINDS}
    ran = draftproof("check", "tiny/errors.json")
    assert ran.stdout == "tiny/errors.json: 30 vectors\n"


def test_every_file_is_looked_at(here: Path) -> None:
    for kind, change in (("laws", swapped), ("values", lambda d: d.update(size="small"))):
        changed(here / "tiny" / f"{kind}.json", change)
    (here / "tiny" / "errors.json").write_text("{")
    ran = draftproof("check", "tiny")
    assert ran.exit_code == 5
    assert [line.split(":")[1] for line in ran.stderr.splitlines()] == [
        " tiny/errors.json",
        " tiny/laws.json",
    ]
    assert ran.stdout == "tiny/decisions.json: 78 vectors\ntiny/values.json: 44 vectors\n"


def test_order_and_spaces_do_not_matter_to_what_is_said(here: Path) -> None:
    document = json.loads((here / "tiny" / "laws.json").read_text(encoding="utf-8"))
    document["vectors"].reverse()
    (here / "other.json").write_text(json.dumps(document, indent=8))
    assert draftproof("check", "other.json").exit_code == 0


def law(document: dict[str, Any]) -> Any:
    (vector,) = (v for v in document["vectors"] if v["id"] == "law.token.generic.v2.l1")
    return vector


def decision(document: dict[str, Any]) -> Any:
    (vector,) = (v for v in document["vectors"] if v["id"] == "decision.token.generic.v2.l1.1")
    return vector


def value(document: dict[str, Any], name: str) -> Any:
    (vector,) = (v for v in document["vectors"] if v["id"] == f"value.{name}")
    return vector


def swapped(document: dict[str, Any]) -> None:
    entries = law(document)["drafts"][0]["law"]
    entries[0][3], entries[1][3] = entries[1][3], entries[0][3]


WRONG: dict[str, tuple[str, Callable[[dict[str, Any]], Any], str]] = {
    "a probability": (
        "laws",
        swapped,
        'law.token.generic.v2.l1: drafts/0/law/0/3 is "7/16", the reference says "9/16"',
    ),
    "an outcome that is missing": (
        "laws",
        lambda d: law(d)["drafts"][0]["law"].pop(),
        'law.token.generic.v2.l1: drafts/0/law is [[0, 1, 0, "9/16"]], the reference says [[0, 1',
    ),
    "a draft's probability": (
        "laws",
        lambda d: law(d)["drafts"][0].update(probability="1/2"),
        'law.token.generic.v2.l1: drafts/0/probability is "1/2", the reference says "7/16"',
    ),
    "another algorithm": (
        "laws",
        lambda d: law(d).update(algorithm="block"),
        'law.token.generic.v2.l1: id is "law.token.generic.v2.l1", the reference says "law.block.',
    ),
    "an unknown algorithm": (
        "laws",
        lambda d: law(d).update(algorithm="blok"),
        "law.token.generic.v2.l1: unknown algorithm 'blok'",
    ),
    "an algorithm that does not take the drafts": (
        "decisions",
        lambda d: decision(d).update(algorithm="block", instance="several.iid.v2.l1.k2"),
        "decision.token.generic.v2.l1.1: block verifies at most 1 path, got 2",
    ),
    "a flag": (
        "laws",
        lambda d: law(d)["flags"].remove("bonus"),
        'law.token.generic.v2.l1: flags is ["acceptance", "contexts", "correction", "drafting"], ',
    ),
    "a requirement": (
        "laws",
        lambda d: law(d).update(requirements=["law.lossless"]),
        'law.token.generic.v2.l1: requirements is ["law.lossless"], the reference says',
    ),
    "a source": (
        "laws",
        lambda d: d["flags"]["bonus"].update(sources=["hearsay"]),
        'flags: bonus/sources is ["hearsay"], the reference says ["draftproof", ',
    ),
    "an instance": (
        "laws",
        lambda d: d["instances"]["generic.v2.l1"]["target"].update({"0": ["7/16", "9/16"]}),
        'law.block.generic.v2.l1: drafts/0/law/0/3 is "9/16", the reference says "7/16"',
    ),
    "an instance that is none": (
        "laws",
        lambda d: d["instances"]["generic.v2.l1"]["target"].update({"0": ["1", "1"]}),
        "instance 'generic.v2.l1': the target's row at context '0' must sum to 1, it sums to 2",
    ),
    "an emission": (
        "decisions",
        lambda d: decision(d)["runs"][0].update(emits=[0, 0, 0]),
        "decision.token.generic.v2.l1.1: runs/0/emits/1 is 0, the reference says 1",
    ),
    "a threshold": (
        "decisions",
        lambda d: decision(d)["runs"][0]["asked"][0].__setitem__(1, "1"),
        'decision.token.generic.v2.l1.1: runs/0/asked/0/1 is "1", the reference says "7/9"',
    ),
    "too many numbers": (
        "decisions",
        lambda d: decision(d)["runs"][0].update(numbers=["0", "0", "0"]),
        "decision.token.generic.v2.l1.1: 3 numbers are given, 2 are asked for",
    ),
    "too few numbers": (
        "decisions",
        lambda d: decision(d)["runs"][0].update(numbers=["0"]),
        "decision.token.generic.v2.l1.1: question 2 has no number: 1 are given",
    ),
    "paths that cannot be drafted": (
        "decisions",
        lambda d: decision(d).update(paths=[[1], [1]]),
        "decision.token.generic.v2.l1.1: the instance has 1 drafts, got 2 paths",
    ),
    "a value": (
        "values",
        lambda d: value(d, "token.motivating").update(expected_accepted="11/9"),
        'value.token.motivating: expected_accepted is "11/9", the reference says "10/9"',
    ),
    "an optimum": (
        "values",
        lambda d: value(d, "optimum.motivating")["optimum"]["stateless"].update(value="10/9"),
        "value.optimum.motivating: optimum/stateless/",
    ),
    "a budget": (
        "values",
        lambda d: value(d, "optimum.motivating")["optimum"]["stateless"]["certificate"][
            "budget"
        ].update({"0": "1/2"}),
        "value.optimum.motivating: the budget 1/2 at (0,) exceeds its bounds",
    ),
    "a coupling": (
        "values",
        lambda d: value(d, "optimum.generic.v2.l1")["optimum"]["acceptance_rate"]["certificate"][
            "coupling"
        ].pop(),
        "value.optimum.generic.v2.l1: coupling ",
    ),
    "input that is valid": (
        "errors",
        lambda d: d["vectors"][0].update(paths=[[0]], instance=d["vectors"][-1]["instance"]),
        ": the reference takes this input",
    ),
    "another reason": (
        "errors",
        lambda d: d["vectors"][0].update(reason="because"),
        'reason is "because", the reference says "the draft\'s row at the empty context',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_first_difference_is_told_by_its_id(here: Path, name: str) -> None:
    kind, change, message = WRONG[name]
    file = changed(here / "tiny" / f"{kind}.json", change)
    ran = draftproof("check", f"tiny/{kind}.json")
    assert (ran.exit_code, ran.stdout) == (5, "")
    assert ran.stderr.startswith(f"Error: tiny/{kind}.json: ")
    assert message in ran.stderr
    assert ran.stderr.count("Error") == 1
    document = read(Path(file))
    with pytest.raises((WrongVectors, MalformedVectors)):
        require_right(document, file)


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another format": (lambda d: d.update(format=2), "vectors: format: 1 was expected"),
    "another kind": (lambda d: d.update(kind="values"), "vectors: vectors/0: "),
    "a key too many": (lambda d: law(d).update(note="n"), "'note' was unexpected"),
    "no instance": (lambda d: law(d).pop("instance"), "'instance' is a required property"),
    "a float": (lambda d: law(d)["drafts"][0].update(probability=0.5), "0.5 is not of type"),
    "an id that is none": (lambda d: law(d).update(id="Law.1"), "'Law.1' does not match"),
    "a number of 1": (lambda d: d.update(size="large"), "'large' is not one of"),
    "an id that comes twice": (
        lambda d: d["vectors"].append(d["vectors"][0]),
        "the id 'law.block.generic.v2.l1' appears 2 times",
    ),
    "an instance that is missing": (
        lambda d: d["instances"].pop("motivating"),
        "law.block.motivating: there is no instance 'motivating'",
    ),
    "an instance too many": (
        lambda d: d["instances"].update(other=d["instances"]["motivating"]),
        "no vector is of the instance 'other'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_its_schema_exits_with_5(here: Path, name: str) -> None:
    change, message = BROKEN[name]
    file = changed(here / "tiny" / "laws.json", change)
    for command in ("check", "fmt"):
        ran = draftproof(command, file, "--json")
        assert ran.exit_code == 5
        document = json.loads(ran.stdout)
        validate(document, "vectors-outcome")
        assert document["exit_code"] == 5
        assert message in document["files"][0]["error"]
        assert message in ran.stderr
    with pytest.raises(MalformedVectors):
        read(Path(file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": it is not JSON: Expecting value: line 1 column 1"),
        (b"{", ": it is not JSON: Expecting property name"),
        (b'{"format": 1, "format": 1}', ": the key 'format' appears twice"),
        (b"[" * 100_000, ": it has more than 64 lists and objects in each other, the most"),
        (b"\xff\xfe\x00", " is not UTF-8 text"),
    ],
)
def test_what_is_no_json_exits_with_5(here: Path, content: bytes, message: str) -> None:
    (here / "bad.json").write_bytes(content)
    for command in ("check", "fmt"):
        ran = draftproof(command, "bad.json")
        assert (ran.exit_code, ran.stdout) == (5, "")
        assert f"Error: bad.json{message}" in ran.stderr
    with pytest.raises(UnreadableVectors):
        read(here / "bad.json")
    with pytest.raises(UnreadableVectors, match=r"cannot read .*: Is a directory"):
        read(here)


def test_vectors_need_no_torch(here: Path) -> None:
    hidden = (
        "import sys; sys.modules['torch'] = None;"
        "from draftproof.conformance.cli import main; main()"
    )
    for arguments in (("check", "tiny"), ("export", "--size", "tiny"), ("fmt", "--check", "tiny")):
        ran = subprocess.run(
            [sys.executable, "-c", hidden, "vectors", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (ran.returncode, ran.stderr) == (0, "")


# --- fmt ---------------------------------------------------------------------------------------


def test_there_is_one_form(here: Path) -> None:
    file = here / "tiny" / "laws.json"
    right = file.read_text(encoding="utf-8")
    document = json.loads(right)
    document["vectors"].reverse()
    document = {key: document[key] for key in reversed(document)}
    law(document)["drafts"][0]["probability"] = "14/32"
    file.write_text(json.dumps(document))
    ran = draftproof("fmt", "--check", "tiny")
    assert ran.exit_code == 5
    message = "tiny/laws.json is not in canonical form; run `draftproof vectors fmt`"
    assert ran.stderr == f"Error: {message}\n"
    ran = draftproof("fmt", "tiny")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert "tiny/laws.json: 37 vectors, written\n" in ran.stdout
    assert "tiny/values.json: 44 vectors\n" in ran.stdout
    assert file.read_text(encoding="utf-8") == right
    assert draftproof("fmt", "--check", "tiny").exit_code == 0


def test_lines_are_short_where_they_can_be() -> None:
    for path in vector_files("small"):
        for line in path.read_text(encoding="utf-8").splitlines():
            # Only a word, or a fraction, that is longer than a line makes one longer.
            assert len(line) <= 100 or len(max(line.split(", "), key=len)) > 60, (path, line)
