"""What the README shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from draftproof.conformance.cli import EXIT_CODES

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_example_fails_as_shown(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n# mine\.py\n(.*?)```", README, re.S)
    (shown,) = re.findall(r"\$ draftproof certify \./mine\.py:Mine\n\.\.\.\n(.*?)```", README, re.S)
    (tmp_path / "mine.py").write_text(code)
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "from draftproof.conformance.cli import main; main()",
            "certify",
            "./mine.py:Mine",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert ran.returncode == 1
    assert shown in ran.stdout


def test_the_exit_codes_are_those_of_the_command() -> None:
    for code, meaning in EXIT_CODES.items():
        assert str(code) in README
        assert meaning in README
