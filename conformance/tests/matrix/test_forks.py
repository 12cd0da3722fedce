"""Tests of the processes that command lines are forked from."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from draftproof.conformance.matrix.forks import forks


def test_each_command_line_has_its_own_output_and_code() -> None:
    with forks(2, {}) as commands, ThreadPoolExecutor(4) as pool:
        asked = [["--version"], ["law"]] * 3
        found = list(pool.map(commands.run, asked))
    for told, wrong in zip(found[::2], found[1::2], strict=True):
        assert (told.code, told.stderr) == (0, "")
        assert told.stdout == f"draftproof, version {version('draftproof')}\n"
        assert (wrong.code, wrong.stdout) == (2, "")
        assert "Missing argument 'ALGORITHM'" in wrong.stderr


def test_variables_are_those_of_every_command() -> None:
    with forks(1, {"COLUMNS": "60"}) as narrow, forks(1, {"COLUMNS": "120"}) as wide:
        first, second = (each.run(["certify", "--help"]).stdout for each in (narrow, wide))
    assert max(map(len, first.splitlines())) < 61
    assert first != second


def test_where_the_process_is_gone_another_is_started() -> None:
    with forks(1, {}) as commands:
        process = commands.free.get()
        process.kill()
        process.wait()
        commands.free.put(process)
        assert commands.run(["--version"]).code == -9
        assert commands.run(["--version"]).code == 0
