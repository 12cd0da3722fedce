"""What the README shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from draftproof.conformance.cli import EXIT_CODES, cli

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def draftproof(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    main = "from draftproof.conformance.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", main, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
    )


def test_the_example_fails_as_shown_and_again_when_it_is_judged_again(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n# mine\.py\n(.*?)```", README, re.S)
    (shown,) = re.findall(r"\$ draftproof certify \./mine\.py:Mine\n\.\.\.\n(.*?)```", README, re.S)
    (tmp_path / "mine.py").write_text(code)
    ran = draftproof("certify", "./mine.py:Mine", cwd=tmp_path)
    assert ran.returncode == 1
    assert shown in ran.stdout
    again = re.findall(r"\$ draftproof (check-certificate .*?)\n(.*?)```", README, re.S)
    ((command, shown),) = again
    ran = draftproof(*command.split(), cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, shown)


def test_the_comparison_and_the_theorem_are_as_shown() -> None:
    (instance, compared, proved) = re.findall(
        r"\$ echo '(.*?)' \| draftproof compare -\n(.*?)\$ draftproof prove block .*?\n(.*?)```",
        README,
        re.S,
    )[0]
    printed = CliRunner().invoke(cli, ["compare", "-"], input=instance).stdout.splitlines()
    lines = [line.rstrip() for line in printed]
    assert all(line in lines for line in compared.splitlines() if line != "...")
    arguments = ["prove", "block", "--vocabulary", "2", "--length", "2"]
    # How many cells there are depends on the certificates that a solver finds.
    told = CliRunner().invoke(cli, arguments).stdout
    assert re.sub(r"\d+ cells", "cells", told) == re.sub(r"\d+ cells", "cells", proved)


def test_the_exit_codes_are_those_of_the_command() -> None:
    for code, meaning in EXIT_CODES.items():
        assert str(code) in README
        assert meaning in README
