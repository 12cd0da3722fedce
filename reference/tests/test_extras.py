"""Extras are installed as the command says, wherever it is said."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from draftproof.reference.extras import installation

HOUSE = Path(__file__).parents[2]


def told() -> dict[str, str]:
    """Return the programs and pages that people read, by their place in the checkout."""
    rooms = ("spec", "reference", "conformance", "adapters", "docs/pages", "docs/building")
    files = [
        *HOUSE.glob("*.md"),
        *HOUSE.glob("*.yml"),
        *(
            file
            for room in rooms
            for kind in ("py", "md", "template")
            for file in (HOUSE / room).rglob(f"*.{kind}")
            if file.parent.name != "tests"
        ),
    ]
    return {str(file.relative_to(HOUSE)): file.read_text(encoding="utf-8") for file in files}


def test_the_command_is_the_one_that_the_locks_tell() -> None:
    assert installation("torch") == (
        "in a checkout of draftproof, run: pip install --constraint constraints.txt '.[torch]'"
    )
    page = (HOUSE / "locks/README.md").read_text(encoding="utf-8")
    assert installation("torch").partition("run: ")[2] in page


def test_nobody_is_sent_to_an_index_that_does_not_have_draftproof() -> None:
    for place, text in told().items():
        assert not re.search(r"pip install [^\n]*\bdraftproof\b(?!['/.])", text), place


def test_every_extra_that_is_named_is_declared() -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = set(project["optional-dependencies"])
    named = set()
    for text in told().values():
        named |= set(re.findall(r"installation\([\"'](\w+)[\"']\)", text))
        for extras in re.findall(r"pip install [^\n]*'\.\[([\w,]+)\]'", text):
            named |= set(extras.split(","))
        for extras in re.findall(r"locks/install\.sh ([\w,]+)", text):
            named |= set(extras.split(","))
    assert named >= {"torch", "report", "search", "prove", "engines", "dask", "ray"}
    assert named <= declared
