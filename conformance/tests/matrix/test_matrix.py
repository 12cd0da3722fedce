"""The matrix: rows in a file, each judged in a process of its own, and what has changed."""

from __future__ import annotations

import json
import os
import sys
import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from draftproof.conformance.cli import cli
from draftproof.conformance.matrix import (
    InvalidRows,
    JudgedRow,
    MatrixRow,
    changes,
    judged,
    not_judged,
    read_rows,
)
from draftproof.conformance.report.matrix import markdown
from draftproof.reference.extras import installation
from draftproof.spec import validate

RIGHT = Path(__file__).parents[1] / "meta" / "right.py"

ADAPTERS = f"""{RIGHT.read_text(encoding="utf-8")}

class BonusFromDraft(Batched):
    def verify(self, request):
        request.target_probs[:, :, -1] = request.draft_probs[:, :, -1]
        return super().verify(request)


class Broken(Batched):
    def __init__(self):
        raise RuntimeError("it needs another processor")


class Unreachable(Batched):
    def __init__(self):
        from draftproof.conformance.protocol.adapter import Unfetched

        raise Unfetched("pip could not fetch it")


class Raising(Batched):
    def verify(self, request):
        raise RuntimeError("two dimensions")


class Quitting(Batched):
    def verify(self, request):
        import os

        os._exit(0)
"""

ROWS = """
[[row]]
name = "right@1"
engine = "Ours"
version = "1"
algorithm = "token"
adapter = "{folder}/adapters.py:Batched"
cases = ["generic.v2.*"]
why = "[red]the others[/] are slow"
note = "Nothing stands for anything."

[[row]]
name = "wrong@1"
engine = "Theirs"
version = "1"
algorithm = "token"
adapter = "{folder}/adapters.py:BonusFromDraft"
cases = ["generic.v2.*"]
design = "It says so."
cause = "The bonus comes from the draft."
report = "wrong_bonus"

[[row]]
name = "broken@1"
engine = "Theirs"
version = "1"
algorithm = "token"
adapter = "{folder}/adapters.py:Broken"

[[row]]
name = "kernel"
engine = "Theirs"
version = "1"
algorithm = "block"
missing = "It needs a GPU."

[[row]]
name = "secret"
engine = "Secret"
version = "none"
algorithm = "block"
unfetched = "It was never released."

[[row]]
name = "unreachable"
engine = "Far"
version = "1"
algorithm = "token"
adapter = "{folder}/adapters.py:Unreachable"

[[row]]
name = "raising"
engine = "Raising"
version = "1"
algorithm = "token"
adapter = "{folder}/adapters.py:Raising"
cases = ["generic.v2.l1"]

[[row]]
name = "quitting"
engine = "Quitting"
version = "1"
algorithm = "token"
adapter = "{folder}/adapters.py:Quitting"
cases = ["generic.v2.l1"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("matrix")
    (made / "adapters.py").write_text(ADAPTERS)
    (made / "rows.toml").write_text(ROWS.format(folder=made))
    return made


def run(folder: Path, *options: str) -> Result:
    arguments = ["matrix", str(folder / "rows.toml"), "--output", str(folder / "out"), *options]
    return CliRunner().invoke(cli, arguments)


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, Any]:
    ran = run(folder, "--json")
    # Some rows with an adapter have no verdict.
    assert ran.exit_code == 3, ran.output
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def test_every_row_says_what_it_came_to(whole: dict[str, Any], folder: Path) -> None:
    validate(whole, "matrix")
    assert json.loads((folder / "out" / "matrix.json").read_text()) == whole
    right, wrong, broken, kernel, secret, unreachable, raising, quitting = whole["rows"]
    assert [row["outcome"] for row in whole["rows"]] == [
        "conforms",
        "does not conform",
        "cannot run here",
        "cannot run here",
        "could not be fetched",
        "could not be fetched",
        "fails on every case",
        "cannot run here",
    ]
    assert "it needs another processor" in broken["reason"]
    assert "pip could not fetch it" in unreachable["reason"]
    assert secret["reason"] == "It was never released."
    assert "it raised RuntimeError: two dimensions" in raising["reason"]
    assert "it ended the process with exit code 0" in quitting["reason"]
    assert kernel["reason"] == "It needs a GPU."
    assert right["judged"]["counterexample"] is None
    assert wrong["judged"]["counterexample"]["requirement"].startswith("law.")
    assert (right["note"], wrong["design"]) == ("Nothing stands for anything.", "It says so.")
    assert (wrong["cause"], wrong["report"]) == ("The bonus comes from the draft.", "wrong_bonus")
    assert right["cause"] is right["report"] is None
    asked = {key: right["judged"][key] for key in ("why", "asked", "planned")}
    assert asked == {"why": "[red]the others[/] are slow", "asked": 4, "planned": 77}
    assert wrong["judged"]["why"] is None


def test_the_table_is_written_in_markdown(whole: dict[str, Any], folder: Path) -> None:
    told = (folder / "out" / "matrix.md").read_text().splitlines()
    right, wrong, broken, kernel, *_ = told[2:]
    some = r"no fault found, 4 of 77 cases run: \[red\]the others\[/\] are slow"
    assert right.startswith(f"| right | 1 | token | {some} | pass: exact, off by ")
    assert "| **does not conform, by design** | fail, TV " in wrong
    assert "| cannot run here | " in broken
    assert kernel == "| kernel | 1 | block | cannot run here | It needs a GPU. |  |  |"


def test_requirements_have_their_lane_and_distance(whole: dict[str, Any]) -> None:
    right, wrong = (
        {each["id"]: each for each in row["judged"]["requirements"]} for row in whole["rows"][:2]
    )
    assert right["law.lossless"]["lanes"] == ["exact"]
    assert right["law.lossless"]["distance"] <= right["law.lossless"]["allowed"]
    assert wrong["law.lossless"]["verdict"] == "fail"
    assert wrong["law.lossless"]["distance"] > 0.01
    assert right["number.masked"]["verdict"] == "skipped"
    lengths = whole["rows"][0]["judged"]["lengths"]
    assert 0 < lengths["observed"] <= lengths["optimum"]


def test_what_was_judged_is_not_judged_again(whole: dict[str, Any], folder: Path) -> None:
    assert json.loads(run(folder, "--json").stdout) == whole


def test_the_table_tells_why(whole: dict[str, Any], folder: Path) -> None:
    told = run(folder, "--only", "Theirs").stdout
    assert "does not conform, by design" in told
    assert "It needs a GPU." in told
    assert "right@1" not in told


def test_a_change_is_an_exit_code(whole: dict[str, Any], folder: Path) -> None:
    expected = deepcopy(whole)
    by_id = {each["id"]: each for each in expected["rows"][0]["judged"]["requirements"]}
    by_id["law.lossless"]["verdict"] = "fail"
    (folder / "expected.json").write_text(json.dumps(expected))
    ran = run(folder, "--only", "right@1", "--check", str(folder / "expected.json"))
    assert ran.exit_code == 1
    assert "Changed: right@1: law.lossless was fail, is now pass" in ran.stderr
    (folder / "same.json").write_text(json.dumps(whole))
    assert run(folder, "--check", str(folder / "same.json"), "--only", "right@1").exit_code == 0


def test_a_row_that_is_left_without_a_verdict_names_the_error_and_its_case(tmp_path: Path) -> None:
    (tmp_path / "adapters.py").write_text(
        f"""{RIGHT.read_text(encoding="utf-8")}

class Stumbling(Batched):
    def verify(self, request):
        if request.draft_tokens.shape[2] == 2:
            torch.rand(1).data_ptr()
        return super().verify(request)
"""
    )
    row = MatrixRow(
        *("stumbling", "Ours", "1", "token"),
        adapter=f"{tmp_path}/adapters.py:Stumbling",
        cases=("generic.v2.*",),
        lanes=("exact",),
    )
    (found,) = judged([row], tmp_path / "out")
    assert (found.outcome, found.certificate) == ("could not be judged", None)
    assert found.reason.startswith("law.lossless, case generic.v2.l2: ")
    assert "OpaqueRandomness: data_ptr takes noise out of torch" in found.reason
    assert not_judged([found], named=False) == [row]


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("broken@1", "cannot run here"),
        ("kernel", "cannot run here"),
        ("secret", "could not be fetched"),
        ("unreachable", "could not be fetched"),
        ("raising", "fails on every case"),
    ],
)
def test_a_named_row_without_a_verdict_exits_with_3(
    whole: dict[str, Any], folder: Path, name: str, outcome: str
) -> None:
    ran = run(folder, "--only", name)
    assert ran.exit_code == 3
    assert f"Error: {name}: {outcome}: " in ran.stderr


def test_rows_without_a_verdict_exit_with_3_unless_that_is_all_there_is() -> None:
    row = MatrixRow("a", "b", "1", "token")
    own = replace(row, adapter="a:b")
    for outcome in ("cannot run here", "could not be fetched"):
        assert not_judged([JudgedRow(own, outcome=outcome)], named=False) == [own]
        assert not_judged([JudgedRow(row, outcome=outcome)], named=False) == []
        assert not_judged([JudgedRow(row, outcome=outcome)], named=True) == [row]
    assert not_judged([JudgedRow(own, outcome="fails on every case")], named=False) == []
    assert not_judged([JudgedRow(own, certificate={})], named=True) == []


def test_a_matrix_of_an_earlier_version_is_read(whole: dict[str, Any], folder: Path) -> None:
    earlier = deepcopy(whole)
    for row in earlier["rows"]:
        row["outcome"] = row["outcome"] if row["judged"] else "not run"
    (folder / "earlier.json").write_text(json.dumps(earlier))
    assert run(folder, "--check", str(folder / "earlier.json"), "--only", "right@1").exit_code == 0
    assert "| not run | It needs a GPU. |" in markdown(earlier["rows"])


def test_changes_are_of_rows_that_were_judged_both_times(whole: dict[str, Any]) -> None:
    right, _, _, kernel, *_ = whole["rows"]
    assert changes([right, kernel], [right, kernel]) == []
    assert changes([right], [{**right, "judged": None}]) == []
    assert changes([right], [kernel]) == ["right@1: row removed"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no valid rows: .*'row' is a required property"),
        (b"[[row]\n", "has no valid rows: .*"),
        (b"\xff", "has no valid rows: .*utf-8"),
        (
            b'[[row]]\nname = "a"\nengine = "b"\nversion = "1"\nalgorithm = "token"\n',
            "has no valid rows",
        ),
    ],
)
def test_a_file_without_rows_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(InvalidRows, match=f"^mine.toml {message}"):
        read_rows(content, "mine.toml")


def test_an_adapter_is_no_option(tmp_path: Path) -> None:
    row = MatrixRow("a@1", "a", "1", "token", adapter="--help", cases=("--json",))
    (found,) = judged([row], tmp_path)
    assert found.certificate is None
    assert "no built-in adapter is called '--help'" in found.reason


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"a" + b".a" * 50_000 + b" = 1",
            "has a key of more than 16 parts, which is the limit",
        ),
        (b"[" + b"'a' . " * 17 + b"a]", "has a key of more than 16 parts"),
        (b"a = " + b"[" * 50_000, "it nests lists and tables more than 64 deep"),
        (b"a = " + b"[" * 70 + b"]" * 70, "it has more than 64 lists and objects in each other"),
        (b"#" * (2**18 + 1), "exceeds the limit of 262,144 bytes"),
        (b"[[row]]\n" * 30_000, "'name' is a required property"),
        (b"a = " + b"9" * 5000, "it has a number of more than 100 digits, which is the limit"),
        (b"a = " + b"9" * 101, "it has a number of more than 100 digits, which is the limit"),
        (b"a = [0x" + b"f" * 9000 + b"]", "it has a number of more than 100 digits"),
    ],
)
def test_hostile_rows_are_refused_at_once(content: bytes, message: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidRows, match=message):
        read_rows(content, "rows.toml")
    assert time.process_time() - started < 10


def test_names_are_their_own() -> None:
    with pytest.raises(InvalidRows, match="more than one row called kernel"):
        read_rows((ROWS + ROWS[ROWS.index('[[row]]\nname = "kernel') :]).encode(), "mine.toml")


def test_where_there_is_no_torch_each_row_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = folder / "without"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text("import sys; sys.modules['torch'] = None")
    monkeypatch.setenv("PYTHONPATH", f"{hook}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setitem(sys.modules, "torch", None)
    row = MatrixRow("a@1", "a", "1", "token", adapter="torch-token")
    (found,) = judged([row], folder / "judged")
    assert found.outcome == "cannot run here"
    assert found.reason == f"torch-token could not run: it needs PyTorch: {installation('torch')}"


@pytest.mark.parametrize("option", [(), ("--check",)])
def test_a_pipe_is_refused_at_once(tmp_path: Path, option: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = CliRunner().invoke(cli, ["matrix", *option, str(tmp_path / "pipe")])
    assert ran.exit_code == 2
    assert "it is a pipe, not a file" in " ".join(ran.stderr.split())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nobody", "; the engines are Ours, Theirs"),
        ("rigth@1", ", did you mean 'right@1'?"),
        ("theirs", ", did you mean 'Theirs'?"),
    ],
)
def test_an_unknown_row_is_refused(folder: Path, name: str, meant: str) -> None:
    ran = run(folder, "--only", name)
    assert ran.exit_code == 2
    assert f"there is no row or engine {name!r}{meant}" in " ".join(ran.stderr.split())


def test_a_file_that_is_no_matrix_is_refused(folder: Path) -> None:
    ran = run(folder, "--check", str(folder / "rows.toml"))
    assert ran.exit_code == 2
    assert "is not a matrix" in ran.stderr


def test_the_rows_that_it_has_by_default_are_rows() -> None:
    from importlib import resources

    from draftproof.conformance.cli.matrix import ROWS as PLACE

    content = resources.files(PLACE[0]).joinpath(PLACE[1]).read_bytes()
    rows = read_rows(content, "rows.toml")
    assert all(
        [bool(row.adapter), bool(row.missing), bool(row.unfetched)].count(True) == 1 for row in rows
    )
