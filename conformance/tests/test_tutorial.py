"""The tutorial is what happens: its commands run in order, its edits made, its words compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")

DRAFTPROOF = "from draftproof.conformance.cli import main; main()"
PROGRAMS = {
    "draftproof": f'-c "{DRAFTPROOF}"',
    "pytest": "-m pytest -p no:cacheprovider",
    "python": "",
}
SHOWN_ONLY = {"sh", "md"}


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of every fenced block."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", page, re.S | re.M)


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield every command of a block, with what is shown of its output."""
    yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)


def shows(shown: str, printed: str) -> bool:
    """Whether the output is what is shown, where ... is anything and every figure a figure."""
    lines = (squeezed(line) for line in shown.splitlines())
    wanted = "".join("(?:.*\n)*?" if line == "..." else f"{pattern(line)}\n" for line in lines)
    found = "".join(f"{squeezed(line)}\n" for line in printed.splitlines())
    return re.fullmatch(wanted, found) is not None


def squeezed(line: str) -> str:
    return " ".join(line.split())


def pattern(line: str) -> str:
    # What rounding leaves, and what samples come to, is another figure on another machine.
    figures = re.sub(r"\d\\\.\d\de\\-\d\d", r"\\d\\.\\d\\de-\\d\\d", re.escape(line))
    return figures.replace(r"\.\.\.", ".*?")


def edit(folder: Path, diff: str) -> None:
    """Make an edit that is shown as a diff: the name of a file, then lines out and lines in."""
    first, *lines = diff.splitlines(keepends=True)
    file = folder / first.removeprefix("--- ").strip()
    old = "".join(line[1:] for line in lines if line[0] == "-")
    new = "".join(line[1:] for line in lines if line[0] == "+")
    text = file.read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file.name}"
    file.write_text(text.replace(old, new))


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    """A folder with the programs that the page calls, as this Python has them."""
    (folder := tmp_path / "bin").mkdir()
    for name, arguments in PROGRAMS.items():
        (folder / name).write_text(f'#!/bin/bash\nexec "{sys.executable}" {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def test_the_page_happens_as_it_is_told(tmp_path: Path, bin_: Path) -> None:
    (folder := tmp_path / "new").mkdir()
    environment = {
        **os.environ,
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "PYTEST_ADDOPTS": "",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{
            f"GIT_{who}_{what}": f"me@{what}"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    code = 0
    for language, text in blocks(PAGE):
        if language == "diff":
            edit(folder, text)
        elif language == "console":
            for command, shown in commands(text):
                ran = subprocess.run(
                    ["/bin/bash", "-c", f"(exit {code})\n{command}"],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=300,
                )
                code = ran.returncode
                assert shows(shown, ran.stdout), f"$ {command}\n{ran.stdout}\nis shown as\n{shown}"
        else:
            assert language in SHOWN_ONLY
    assert code == 0


def test_all_commands_of_a_block_are_found() -> None:
    console = [text for language, text in blocks(PAGE) if language == "console"]
    found = [command for text in console for command, _ in commands(text)]
    assert found == re.findall(r"^\$ (.*)$", PAGE, re.M)
    assert PAGE.count("```") == 2 * len(list(blocks(PAGE)))


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a ... d\n", "a   b  d\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\nd\n", "a\nb\n", False),
        ("a ... d\n", "a b\nc d\n", False),
        ("", "a\n", False),
        ("0.2... should be 0\n", "0.25 should be 0.5\n", False),
        ("pass 1.12e-08 exact\n", "pass   3.45e-09  exact\n", True),
        ("pass 1.12e-08 exact\n", "pass   0         exact\n", False),
        ("pass 0 exact\n", "pass   3.45e-09  exact\n", False),
    ],
)
def test_excerpts_are_compared(shown: str, printed: str, same: bool) -> None:
    assert shows(shown, printed) is same


def test_an_edit_that_fits_nowhere_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("a = 1\nb = 1\n")
    with pytest.raises(AssertionError, match=r"'c = 1\\n' stands 0 times in mine\.py"):
        edit(tmp_path, "--- mine.py\n-c = 1\n+c = 2\n")
    edit(tmp_path, "--- mine.py\n-b = 1\n+b = 2\n")
    assert (tmp_path / "mine.py").read_text() == "a = 1\nb = 2\n"
