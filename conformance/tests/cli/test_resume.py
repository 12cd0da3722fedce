"""Runs that are killed, and go on: the same evidence and certificate, byte for byte."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from draftproof.conformance.cli import cli
from draftproof.conformance.run import campaign

RIGHT = Path(__file__).parents[1] / "meta" / "right.py"

SOURCE = f"""{RIGHT.read_text(encoding="utf-8")}

class Mine(Batched):
    name, version = "mine", "1.0"

    def __init__(self):
        pass
"""

SAME = ("--mode", "quick", "--seed", "7")
EPOCH = "1767268800"


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the adapter lies, and the time stands still."""
    made = tmp_path_factory.mktemp("resume")
    (made / "mine.py").write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(made)
        patched.setenv("SOURCE_DATE_EPOCH", EPOCH)
        yield made


def certify(*arguments: str, output: Path, name: str = "./mine.py:Mine") -> Result:
    return CliRunner().invoke(
        cli, ["certify", name, *arguments, "--output", str(output)], catch_exceptions=False
    )


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, bytes]:
    """What a run leaves that nobody kills."""
    assert certify(*SAME, output=folder / "whole").exit_code == 0
    return contents(folder / "whole")


def contents(output: Path) -> dict[str, bytes]:
    files = (each for each in output.rglob("*") if each.is_file())
    return {each.relative_to(output).as_posix(): each.read_bytes() for each in files}


def killed(output: Path, whole: dict[str, bytes], records: int, behind: bytes = b"") -> Path:
    """Leave what a run leaves that is killed behind so many records."""
    output.mkdir()
    lines = whole["mine.jsonl"].splitlines(keepends=True)
    part = output / "mine.jsonl.part"
    part.write_bytes(b"".join(lines[:records]) + behind)
    return part


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path, whole: dict[str, bytes]) -> None:
    records = whole["mine.jsonl"].count(b"\n")
    killed(tmp_path / "out", whole, records - 20, b'{"record":"result","ta')
    ran = certify(*SAME, "--resume", output=tmp_path / "out")
    assert f"Continuing after {records - 20} records of {tmp_path / 'out'}" in ran.stderr
    assert (ran.exit_code, contents(tmp_path / "out")) == (0, whole)


def test_a_run_that_was_killed_before_its_certificate_is_finished(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    for left in (1, 2):
        output = tmp_path / str(left)
        output.mkdir()
        (output / "mine.jsonl").write_bytes(whole["mine.jsonl"])
        if left == 2:
            old = whole["mine.json"].replace(b'"sha256": "', b'"sha256": "0', 1)
            (output / "mine.json").write_bytes(old)
        assert certify(*SAME, "--resume", output=output).exit_code == 0
        assert contents(output) == whole


def test_what_is_finished_is_not_judged_again(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """Of several adapters, the first may be done when the run is killed."""
    output = tmp_path / "out"
    output.mkdir()
    for name in ("mine.json", "mine.jsonl"):
        (output / name).write_bytes(whole[name])
    ran = certify("--mode", "quick", "--resume", output=output)
    assert f"Continuing after {whole['mine.jsonl'].count(bytes([10]))} records" in ran.stderr
    assert (ran.exit_code, contents(output)) == (0, whole)


def test_the_footer_without_the_name_is_enough(tmp_path: Path, whole: dict[str, bytes]) -> None:
    killed(tmp_path / "out", whole, 10**6)
    assert certify(*SAME, "--resume", output=tmp_path / "out").exit_code == 0
    assert contents(tmp_path / "out") == whole


def test_a_seed_that_was_drawn_is_kept(tmp_path: Path, whole: dict[str, bytes]) -> None:
    killed(tmp_path / "out", whole, whole["mine.jsonl"].count(b"\n") - 5)
    assert certify("--mode", "quick", "--resume", output=tmp_path / "out").exit_code == 0
    assert contents(tmp_path / "out") == whole


def test_what_is_stale_is_refused_and_left_alone(tmp_path: Path, whole: dict[str, bytes]) -> None:
    part = killed(tmp_path / "out", whole, 60)
    before = part.read_bytes()
    for arguments, said in (
        (("--mode", "quick", "--seed", "8"), "campaign/seed was 7, and is 8 now"),
        (("--mode", "standard", "--seed", "7"), "campaign/mode was quick, and is standard now"),
        ((*SAME, "--lane", "sample"), "campaign/lanes was ['exact', 'probe', 'sample'], and is"),
        ((*SAME, "--search", "5"), "campaign/examples was 0, and is 5 now"),
    ):
        ran = certify(*arguments, "--resume", output=tmp_path / "out")
        assert ran.exit_code == 5
        assert "StaleEvidence" in ran.stderr
        assert said in ran.stderr
        assert "start anew without --resume" in ran.stderr
        assert contents(tmp_path / "out") == {"mine.jsonl.part": before}


def test_what_was_edited_is_refused_and_left_alone(tmp_path: Path, whole: dict[str, bytes]) -> None:
    part = killed(tmp_path / "out", whole, 60)
    edited = part.read_bytes().replace(b'"seed":7', b'"seed":9')
    part.write_bytes(edited)
    ran = certify(*SAME, "--resume", output=tmp_path / "out")
    assert (ran.exit_code, part.read_bytes()) == (5, edited)
    assert f"EditedEvidence: {part}, line 1: its digest does not follow" in ran.stderr


def test_it_is_said_what_becomes_of_unfinished_evidence(
    tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Enough(Exception):
        pass

    def stop(*_: Any, **__: Any) -> None:
        raise Enough

    part = killed(tmp_path / "out", whole, 60)
    monkeypatch.setattr(campaign, "run", stop)
    runner = CliRunner()
    arguments = ["certify", "./mine.py:Mine", *SAME, "--output", str(tmp_path / "out")]
    ran = runner.invoke(cli, arguments)
    assert isinstance(ran.exception, Enough)
    told = " ".join(ran.stderr.split())
    assert f"interrupted run at {part}; use --resume to continue such a run" in told
    assert not part.exists()
    ran = runner.invoke(cli, [*arguments, "--resume"])
    records = tmp_path / "out" / "mine.jsonl"
    assert f"No interrupted run at {records}; starting a new one" in ran.stderr


def test_evidence_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl.part").mkdir()
    ran = certify(*SAME, output=tmp_path)
    assert ran.exit_code == 2
    assert "Is a directory" in ran.stderr
    assert "mine.jsonl.part" in ran.stderr


# --- in a process of its own --------------------------------------------------------------


def started(*arguments: str, output: Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-c", "from draftproof.conformance.cli import main; main()"),
            *("certify", "./mine.py:Mine", *SAME, *arguments, "--output", str(output)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def wait_until(size: int, part: Path, process: subprocess.Popen[str]) -> None:
    """Wait until so many bytes of evidence are there."""
    deadline = time.monotonic() + 120
    while not (part.exists() and part.stat().st_size > size):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_run_and_its_processes_that_are_killed_go_on(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    output = tmp_path / "out"
    part, size = output / "mine.jsonl.part", len(whole["mine.jsonl"])
    for share in (0.1, 0.8):
        process = started("--resume", "--jobs", "2", output=output)
        wait_until(int(share * size), part, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert certify(*SAME, "--resume", output=output).exit_code == 0
    assert contents(output) == whole


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, whole: dict[str, bytes]) -> None:
    # Where the tests run in the background, interruptions are ignored, and so they would be here.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = started(output=tmp_path, preexec_fn=heed)
    part = tmp_path / "mine.jsonl.part"
    wait_until(len(whole["mine.jsonl"]) // 2, part, process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The evidence so far is kept; continue with --resume." in told
    assert "Traceback" not in told
    assert whole["mine.jsonl"].startswith(part.read_bytes())


def test_a_disk_that_is_full_is_no_end(tmp_path: Path, whole: dict[str, bytes]) -> None:
    limit = 3 * len(whole["mine.jsonl"]) // 4

    def cramp() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = started(output=tmp_path, preexec_fn=cramp)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "cannot write the certificate: [Errno 27] File too large" in told
    fits = whole["mine.jsonl"][: whole["mine.jsonl"].rindex(b"\n", 0, limit) + 1]
    assert (tmp_path / "mine.jsonl.part").read_bytes() == fits
    assert certify(*SAME, "--resume", output=tmp_path).exit_code == 0
    assert contents(tmp_path) == whole


def test_what_is_written_says_nothing_of_the_time(whole: dict[str, bytes]) -> None:
    document = json.loads(whole["mine.json"])
    assert document["predicate"]["draftproof"]["created"] == "2026-01-01T12:00:00+00:00"
    assert not [name for name in whole if name.endswith(".part")]
