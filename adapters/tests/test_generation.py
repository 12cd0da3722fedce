"""Transformers as a whole engine: called from Python, and behind its own server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("transformers")
pytest.importorskip("gguf")

from draftproof.adapters.engines.generation import Transformers
from draftproof.conformance.checkpoint.rows import read_rows
from draftproof.conformance.checkpoint.writing import write_checkpoint
from draftproof.conformance.cli import cli
from draftproof.conformance.evidence.certificate import checked
from draftproof.conformance.lanes.engine.asking import Generation
from draftproof.conformance.lanes.engine.owed import owed_rows
from draftproof.conformance.lanes.engine.parts import Asked, asked, parts_of


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "tiny"
    write_checkpoint(folder, kind="memory-2", vocabulary=9, zeros=1)
    return folder


def written(engine: Any, folder: Path, *, tokens: int, speculation: bool = True) -> Asked:
    """Return what an engine writes to plain requests."""
    rows = read_rows(folder / "rows.json")
    plain = next(part for part in parts_of(rows) if part.case == "together")
    state = asked(replace(plain, speculation=speculation), rows, dtype=None, seed=1)
    while (left := tokens - state.written) > 0:
        requests = state.batch(left)
        state.add(requests, [engine.answer(each) for each in requests])
    state.look()
    return state


def test_assisted_generation_draws_from_the_rows(checkpoint: Path) -> None:
    state = written(Transformers(checkpoint), checkpoint, tokens=4_000)
    assert state.outside == 0
    assert state.counted.log_evidence < 5
    assert state.counted.bound < 0.2


def test_an_ensemble_of_target_and_draft_is_told(checkpoint: Path) -> None:
    engine = Transformers(checkpoint)
    # DIVERSE (arXiv 2604.07622), which is lossy on purpose.
    engine.target.generation_config.assistant_ensemble_weight = 0.3
    state = written(engine, checkpoint, tokens=3_000)
    assert state.outside == 0
    assert state.counted.log_evidence > 20
    assert state.counted.likely == "the draft's row"


def test_settings_reach_generate(checkpoint: Path) -> None:
    rows = read_rows(checkpoint / "rows.json")
    engine = Transformers(checkpoint)
    for part in parts_of(rows):
        if part.requirement != "engine.parameters":
            continue
        (sampling,) = part.samplings
        owed = owed_rows(rows, sampling)
        prompt = rows.words[:2]
        answer = engine.answer(Generation(prompt, 24, sampling))
        text = [*prompt, *answer.tokens]
        for end in range(2, len(text)):
            row = owed.get(tuple(rows.state_of[each] for each in text[end - 2 : end]))
            assert row is None or row.row[rows.state_of[text[end]] - 1] > 0, part.case


@pytest.fixture(scope="module")
def url(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of transformers' own server, which has loaded the target."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ("--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--log-level", "error")
    program = Path(sys.executable).with_name("transformers")
    log = tmp_path_factory.mktemp("log") / "server.log"
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    with log.open("wb") as out:
        server = subprocess.Popen(
            [program, "serve", checkpoint / "target", *where], stdout=out, stderr=out, env=offline
        )
    try:
        for _ in range(600):
            assert server.poll() is None, log.read_text()
            with suppress(OSError), closing(HTTPConnection("127.0.0.1", port, timeout=5)) as asking:
                asking.request("GET", "/health")
                if asking.getresponse().status == 200:
                    break
            time.sleep(0.2)
        else:
            pytest.fail(log.read_text())
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def test_a_server_of_the_world_is_judged(checkpoint: Path, url: str, tmp_path: Path) -> None:
    given = ["--url", url, "--model", str(checkpoint / "target"), "--seed", "1"]
    given += ["--rows", str(checkpoint / "rows.json"), "--output", str(tmp_path)]
    found = CliRunner().invoke(cli, ["engine", *given, "--tokens-at-most", "4000"])
    assert found.exit_code == 4, found.output
    document, _ = checked(next(tmp_path.glob("*.json")))
    decided = {each["id"]: each for each in document["predicate"]["draftproof"]["requirements"]}
    assert decided["engine.support"]["verdict"] == "pass"
    assert decided["engine.lossless"]["verdict"] == "inconclusive"
    # It takes no top-k and no min-p, and says so.
    assert document["predicate"]["draftproof"]["adapter"]["engine"]["settings"] == [
        *("temperature", "top_p", "logit_bias")
    ]
