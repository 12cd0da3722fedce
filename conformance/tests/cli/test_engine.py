"""The commands `checkpoint` and `engine`, as a user runs them: a program, and a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("transformers")
pytest.importorskip("gguf")

from draftproof.conformance.checkpoint.rows import read_rows
from draftproof.conformance.cli import cli
from draftproof.conformance.lanes.engine.asking import Generation
from draftproof.conformance.museum.engines.engine import MuseumEngine
from draftproof.conformance.museum.engines.mutants import ForcedAcceptance
from draftproof.conformance.museum.engines.serving import served

MUSEUM = "draftproof.conformance.museum.engines"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("engine") / "tiny"
    told = CliRunner().invoke(cli, ["checkpoint", str(out), "--vocabulary", "9", "--zeros", "1"])
    assert told.exit_code == 0, told.output
    return out


def judged(checkpoint: Path, folder: Path, *given: str) -> tuple[int, str]:
    asked = ["engine", *given, "--rows", str(checkpoint / "rows.json"), "--output", str(folder)]
    found = CliRunner().invoke(cli, [*asked, "--seed", "1"])
    return found.exit_code, found.output


def test_a_checkpoint_says_what_it_wrote(tmp_path: Path) -> None:
    found = CliRunner().invoke(cli, ["checkpoint", str(tmp_path / "out"), "--json"])
    assert found.exit_code == 0
    document = json.loads(found.stdout)
    assert document["files"] == ["draft", "draft.gguf", "rows.json", "target", "target.gguf"]
    again = CliRunner().invoke(cli, ["checkpoint", str(tmp_path / "out")])
    assert again.exit_code == 2
    assert "exists already, and is not an empty folder; name a new folder" in again.output


def test_a_program_is_judged_and_its_certificate_checks(checkpoint: Path, tmp_path: Path) -> None:
    code, told = judged(
        *(checkpoint, tmp_path, f"{MUSEUM}.mutants:ForcedAcceptance"),
        *("--tokens-at-most", "8000"),
    )
    assert code == 1
    assert "forced-acceptance does not conform" in told
    assert "they look like the draft's row" in told
    path = tmp_path / "forced-acceptance.json"
    checked = CliRunner().invoke(cli, ["check-certificate", str(path)])
    assert checked.exit_code == 0
    assert "verdicts on samples follow from their counts" in checked.output
    page = CliRunner().invoke(cli, ["report", str(path), "--format", "html"])
    assert page.exit_code == 0, page.output
    assert "tokens of an engine, memory-1, float32" in page.output
    shown = CliRunner().invoke(cli, ["report", str(path)])
    assert "engine.lossless" in shown.output


def test_a_server_is_judged_beside_one_that_does_not_draft(
    checkpoint: Path, tmp_path: Path
) -> None:
    rows = read_rows(checkpoint / "rows.json")
    with (
        served(ForcedAcceptance(checkpoint, seed=1), rows, refuses=frozenset({"typical_p"})) as url,
        served(MuseumEngine(checkpoint, seed=2), rows, speculation=False) as control,
    ):
        code, told = judged(
            *(checkpoint, tmp_path, "--url", url, "--control-url", control),
            *("--tokens-at-most", "16000"),
        )
    assert code == 1
    said = " ".join(told.split())
    assert "; with and without speculation, its tokens differ" in said, told
    assert "Likely cause Its tokens do not show which step is wrong. Judge its verifier" in said


def test_a_server_with_filters_of_its_own_is_undecided(checkpoint: Path, tmp_path: Path) -> None:
    rows = read_rows(checkpoint / "rows.json")
    with (
        served(MuseumEngine(checkpoint, seed=1), rows, defaults={"top_k": 4}) as url,
        served(
            MuseumEngine(checkpoint, seed=2), rows, defaults={"top_k": 4}, speculation=False
        ) as other,
    ):
        code, told = judged(
            *(checkpoint, tmp_path, "--url", url, "--control-url", other),
            *("--tokens-at-most", "16000"),
        )
    assert code == 4
    assert "filters unknown" in told


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        ((), 2, "name exactly one: an ADAPTER, a server with --url, or a file with"),
        (("a:b", "--url", "http://127.0.0.1:9"), 2, "name exactly one"),
        (("a:b", "--control-url", "http://127.0.0.1:9"), 2, "--control-url needs --url"),
        (("--url", "127.0.0.1:9"), 2, "an address such as http://127.0.0.1:8000"),
        (("--url", "http://127.0.0.1:9"), 3, "is the server running there"),
        (("nothing",), 2, "package.module:attribute or ./file.py:attribute, got 'nothing'"),
        ((f"{MUSEUM}.engine:Nothing",), 2, "has no attribute 'Nothing'"),
        ((f"{MUSEUM}.engine:draw",), 2, "is not an engine: it has no name, version, generate"),
    ],
)
def test_what_cannot_be_judged_is_told(
    checkpoint: Path, tmp_path: Path, given: tuple[str, ...], code: int, told: str
) -> None:
    found = judged(checkpoint, tmp_path, *given)
    assert found[0] == code
    assert told in " ".join(found[1].split())


def test_what_an_engine_has_written_is_judged(checkpoint: Path, tmp_path: Path) -> None:
    rows = read_rows(checkpoint / "rows.json")
    engine = ForcedAcceptance(checkpoint, seed=4)
    file = tmp_path / "mine.jsonl"
    asked = [
        Generation((rows.words[number % len(rows.words)],), 48, speculation=speculation)
        for speculation in (True, False)
        for number in range(100)
    ]
    lines = [
        {"prompt_ids": each.prompt, "token_ids": answer.tokens, "speculation": each.speculation}
        for each, answer in zip(asked, engine.generate(asked), strict=True)
    ]
    file.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    code, told = judged(checkpoint, tmp_path, "--tokens", str(file))
    assert code == 1
    assert "mine does not conform" in told
    checked = CliRunner().invoke(cli, ["check-certificate", str(tmp_path / "mine.json")])
    assert checked.exit_code == 0, checked.output
    file.write_text('{"prompt_ids": [], "token_ids": []}')
    code, told = judged(checkpoint, tmp_path, "--tokens", str(file))
    assert code == 2
    assert "mine.jsonl, line 1: a prompt has at least 1 tokens" in " ".join(told.split())


def test_an_engine_that_leaves_while_it_is_made_is_no_success(
    checkpoint: Path, tmp_path: Path
) -> None:
    program = tmp_path / "leaving.py"
    program.write_text(
        "class Leaving:\n    def __init__(self, folder):\n        raise SystemExit(0)\n"
    )
    code, told = judged(checkpoint, tmp_path, f"{program}:Leaving")
    assert code == 3
    assert "raised SystemExit: 0" in told
