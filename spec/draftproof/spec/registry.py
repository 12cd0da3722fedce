"""The requirements, read out of the headings of the chapters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from draftproof.spec._files import FOLDER

_HEADING = re.compile(r"^### (?P<title>.+) · (?P<level>MUST|SHOULD) \{ #(?P<id>[a-z.]+) \}$", re.M)


@dataclass(frozen=True)
class Requirement:
    """One requirement: its stable id, its level (MUST or SHOULD), its title and its chapter."""

    id: str
    level: str
    title: str
    chapter: str


def chapters() -> tuple[Path, ...]:
    """Return the files of all chapters, in order."""
    return tuple(sorted(FOLDER.glob("[0-9][0-9]-*.md")))


@cache
def requirements() -> dict[str, Requirement]:
    """Return all requirements by id, in the order of the chapters.

    Raises `ValueError` if two headings carry the same id.
    """
    found: dict[str, Requirement] = {}
    for chapter in chapters():
        for heading in _HEADING.finditer(chapter.read_text(encoding="utf-8")):
            if heading["id"] in found:
                raise ValueError(f"requirement {heading['id']!r} has two headings")
            found[heading["id"]] = Requirement(
                heading["id"], heading["level"], heading["title"], chapter.stem
            )
    return found
