"""The how-to pages are what happens, and what they list is all that there is."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from building.pages import HOUSE
from telling import blocks, happens

from draftproof.conformance import pytest_plugin
from draftproof.conformance.museum.mutants import MUTANTS
from draftproof.reference.proof import CLAIMS
from draftproof.spec import requirements

HOW_TO = HOUSE / "docs" / "pages" / "how-to"


def page(name: str) -> str:
    return (HOW_TO / f"{name}.md").read_text(encoding="utf-8")


@pytest.fixture
def broken(first_certificate: Path, tmp_path: Path) -> Path:
    """A copy of the folder where the first page ends, whose adapter is broken."""
    return Path(shutil.copytree(first_certificate, tmp_path / "new"))


@pytest.fixture
def right(broken: Path) -> Path:
    """The same with the adapter that `draftproof init` wrote."""
    file, wrong = broken / "mine.py", "residual = p[:, :-1]\n"
    text = file.read_text()
    assert text.count(wrong) == 1
    file.write_text(text.replace(wrong, "residual = (p[:, :-1] - q).clamp(min=0)\n"))
    return broken


def test_reading_a_failure(broken: Path, programs: Path) -> None:
    assert happens(page("reading-a-failure"), broken, programs) == 0


def test_pytest(broken: Path, programs: Path) -> None:
    assert happens(page("pytest"), broken, programs) == 0


def test_continuous_integration(broken: Path, programs: Path) -> None:
    assert happens(page("continuous-integration"), broken, programs) == 0
    assert "<title>" in (broken / "draftproof.html").read_text()
    assert "<testsuites" in (broken / "draftproof.xml").read_text()


def test_known_findings(broken: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAFTPROOF_STORE")
    assert happens(page("known-findings"), broken, programs) == 1
    assert (broken / ".draftproof" / "findings").is_dir()


def test_certify_your_engine(programs: Path, tmp_path: Path) -> None:
    assert happens(page("certify-your-engine"), tmp_path, programs) == 0
    assert (tmp_path / ".git").is_dir()


def test_bring_an_algorithm(programs: Path, tmp_path: Path) -> None:
    assert happens(page("bring-an-algorithm"), tmp_path, programs) == 0


def test_every_claim_that_can_be_proved_is_explained() -> None:
    told = re.findall(r"^\| `(\w+)` \| ", page("bring-an-algorithm"), re.M)
    assert told == [*CLAIMS]


def test_is_my_server_lossless(programs: Path, tmp_path: Path) -> None:
    assert happens(page("lossless"), tmp_path, programs) == 0


@pytest.mark.skipif(find_spec("distributed") is None, reason="needs distributed")
def test_cluster(right: Path, programs: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    told = page("cluster").replace("8786", port)
    try:
        assert happens(told, right, programs) == 6
    finally:
        for file in right.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)


def test_gpu(right: Path, programs: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("the page tells what happens where there is no GPU")
    assert happens(page("gpu"), right, programs) == 0


@pytest.mark.skipif(shutil.which("rustc") is None, reason="there is no Rust compiler (rustc)")
def test_other_languages(programs: Path, tmp_path: Path) -> None:
    shutil.copy(HOUSE / "adapters" / "harnesses" / "rust" / "token.rs", tmp_path)
    (tmp_path / "vectors").symlink_to(HOUSE / "spec" / "vectors")
    assert happens(page("other-languages"), tmp_path, programs) == 0


# --- what pages list ------------------------------------------------------------------------


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table whose first column has this heading."""
    lines = text[text.index(f"| {heading} |") :].splitlines()[2:]
    table = lines[: next((i for i, line in enumerate(lines) if not line.startswith("|")), None)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


def ids(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_workflow_is_the_one_that_is_written(first_certificate: Path) -> None:
    written = (first_certificate / ".github/workflows/draftproof.yml").read_text()
    shown, _cache = (
        block.text for block in blocks(page("continuous-integration")) if block.language == "yaml"
    )
    assert shown == written


def test_all_inputs_and_outputs_of_the_action_are_listed() -> None:
    action: dict[str, Any] = yaml.safe_load((HOUSE / "action.yml").read_text())
    listed = {
        ids(name)[0]: (ids(default), told)
        for name, default, told in rows(page("continuous-integration"), "input")
    }
    assert listed == {
        name: ([each["default"]] if each["default"] else [], each["description"])
        for name, each in action["inputs"].items()
    }
    (sentence,) = re.findall(r"^Its outputs are .*$", page("continuous-integration"), re.M)
    assert set(ids(sentence)) == action["outputs"].keys()


def test_every_fault_that_is_named_breaks_what_it_is_named_for() -> None:
    mutants = {mutant.id: mutant for mutant in MUTANTS}
    listed = rows(page("reading-a-failure"), "what fails")
    assert len(listed) > 10
    for what, _, examples in listed:
        identity = re.findall(r"^\[\]\(#([\w.]+)\)", what)[0]
        assert identity in requirements()
        for name in ids(examples):
            assert identity in mutants[name].must_fail, name


def test_what_transformers_misses_is_what_the_record_says() -> None:
    said = json.loads((HOUSE / "adapters" / "matrix" / "matrix.json").read_text())
    (row,) = (each for each in said["rows"] if each["name"].startswith("transformers@"))
    missed = [
        f"{each['id']} fail ({each['level']}): {each['detail']}\n"
        for each in row["judged"]["requirements"]
        if each["verdict"] == "fail"
    ]
    (shown,) = (
        block.text for block in blocks(page("reading-a-failure")) if block.language == "text"
    )
    assert row["outcome"] == "conforms"
    assert shown == "".join(missed)


def test_all_options_of_the_plugin_are_listed() -> None:
    source = Path(pytest_plugin.__file__).read_text()
    listed = rows(page("pytest"), "option")
    options = [ids(name)[0].split()[0] for name, *_ in listed]
    settings = [setting for _, name, _ in listed for setting in ids(name)]
    assert options == re.findall(r'addoption\(\s*"(--draftproof[\w-]*)"', source)
    assert {*settings} == {*re.findall(r'addini\(\s*"(draftproof_\w+)"', source)}


def test_the_rust_that_is_shown_is_in_the_file() -> None:
    source = (HOUSE / "adapters/harnesses/rust/token.rs").read_text()
    shown = [block.text for block in blocks(page("other-languages")) if block.language == "rust"]
    assert shown
    for text in shown:
        assert text.rstrip("\n") in source
    (lines,) = re.findall(r"which has (\d+) lines", page("other-languages"))
    assert abs(len(source.splitlines()) - int(lines)) < 10
