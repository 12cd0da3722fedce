"""The requirements, parsed from the headings of the chapters and the lines below them.

A requirement is a heading with its level and its id, and the text up to the next heading. The text
contains, each at the start of a line,

*Lanes:* exact, probe, sample (a remark on the lane before it).
    *Decided by:* single runs, and how.
    *Implied by:* [](#another.id) and [](#more.than.one).

One of the first two lines is present, and names the lanes or runs that decide the requirement; the
third names the requirements that imply it. A withdrawn requirement has the level "withdrawn" and
neither line; it keeps its id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from draftproof.spec._files import FOLDER

LEVELS = ("MUST", "SHOULD")
"""The levels of requirements: binding, and recommended."""

LANES = ("exact", "probe", "sample", "run", "engine")
"""The ways to decide a requirement: lanes, strongest first, single runs, and an engine's tokens."""

_ANY_HEADING = re.compile(r"^#+ .*$", re.M)
_HEADING = re.compile(
    r"### (?P<title>.+) · (?P<level>MUST|SHOULD|withdrawn) \{ #(?P<id>[a-z.]+) \}"
)
_LANES = re.compile(r"^\*Lanes:\* (?P<lanes>[^.]+)\.", re.M)
_RUNS = re.compile(r"^\*Decided by:\* (?P<what>single runs)?", re.M)
_IMPLIED_BY = re.compile(r"^\*Implied by:\* (?P<ids>.+)$", re.M)
_VERSION = re.compile(r"^This is version (\d+\.\d+\.\d+) of the specification\.$", re.M)
_LINK = re.compile(r"\[\]\(#([a-z.]+)\)")


@dataclass(frozen=True)
class Requirement:
    """Requirement as its chapter states it.

    `level` is MUST or SHOULD; `lanes` are the members of `LANES` that can decide the requirement.
    `implied_by` has the ids of the requirements that together imply it in exact arithmetic. `text`
    is the Markdown between its heading and the next heading.
    """

    id: str
    level: str
    title: str
    chapter: str
    text: str
    lanes: tuple[str, ...]
    implied_by: tuple[str, ...]

    @property
    def is_of_engines(self) -> bool:
        """True if the requirement is about a whole engine, and asks nothing of a verifier."""
        return self.lanes == ("engine",)


def chapters() -> tuple[Path, ...]:
    """Return the files of all chapters, in order."""
    return tuple(sorted(FOLDER.glob("[0-9][0-9]-*.md")))


@cache
def version() -> str:
    """Return the version of the specification, which differs from that of the suite.

    Raises `ValueError` unless exactly one chapter states the version, once.
    """
    found = [v for file in chapters() for v in _VERSION.findall(file.read_text(encoding="utf-8"))]
    if len(found) != 1:
        raise ValueError(f"one chapter states the version of the specification, found {found}")
    return str(found[0])


@cache
def requirements() -> dict[str, Requirement]:
    """Return all requirements by id, in the order of the chapters.

    Raises `ValueError` for an id with two headings, for a requirement without *Lanes* or *Decided
    by*, and for a requirement that is implied by an unknown requirement, or by itself through a
    chain.
    """
    found: dict[str, Requirement] = {}
    taken: set[str] = set()
    for chapter in chapters():
        for stated, text in _stated(chapter.read_text(encoding="utf-8")):
            identity = stated["id"]
            if identity in taken:
                raise ValueError(f"requirement {identity!r} has two headings")
            taken.add(identity)
            if stated["level"] in LEVELS:
                found[identity] = Requirement(
                    id=identity,
                    level=stated["level"],
                    title=stated["title"],
                    chapter=chapter.stem,
                    text=text,
                    lanes=_lanes(identity, text),
                    implied_by=_implied_by(identity, text),
                )
    _require_order(found)
    return found


@cache
def withdrawn() -> tuple[str, ...]:
    """Return the ids of all withdrawn requirements, in the order of the chapters.

    Documents written before a withdrawal may name them.
    """
    return tuple(
        stated["id"]
        for chapter in chapters()
        for stated, _ in _stated(chapter.read_text(encoding="utf-8"))
        if stated["level"] not in LEVELS
    )


def _stated(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the headings of requirements, each with the text up to the next heading."""
    headings = list(_ANY_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=True):
        if stated := _HEADING.fullmatch(heading[0]):
            yield stated, text[heading.end() : end].strip()


def _lanes(identity: str, text: str) -> tuple[str, ...]:
    named: list[str] = []
    for line in _LANES.finditer(text):
        # What is said of a lane stands behind it in parentheses.
        bare = re.sub(r"\s*\([^)]*\)", "", line["lanes"])
        named += (name.strip() for name in bare.split(","))
    for line in _RUNS.finditer(text):
        if line["what"] is None:
            raise ValueError(f"requirement {identity!r} is decided by what is not 'single runs'")
        named.append("run")
    for name in named:
        if name not in LANES:
            raise ValueError(
                f"requirement {identity!r} names the lane {name!r}; known: {', '.join(LANES)}"
            )
    if not named:
        raise ValueError(
            f"requirement {identity!r} says by nothing how it is decided: it needs a line "
            f"'*Lanes:* exact, probe.' or '*Decided by:* single runs.'"
        )
    return tuple(sorted(set(named), key=LANES.index))


def _implied_by(identity: str, text: str) -> tuple[str, ...]:
    lines = [line["ids"] for line in _IMPLIED_BY.finditer(text)]
    ids = tuple(each for line in lines for each in _LINK.findall(line))
    if lines and not ids:
        raise ValueError(f"requirement {identity!r} is implied by nothing: it needs [](#an.id)")
    return ids


def _require_order(found: Mapping[str, Requirement]) -> None:
    """Raise `ValueError` for implications that lead to no requirement, or back to their start."""
    for requirement in found.values():
        for other in requirement.implied_by:
            if other not in found:
                raise ValueError(
                    f"requirement {requirement.id!r} is implied by {other!r}, which is none"
                )
    try:
        TopologicalSorter({each.id: each.implied_by for each in found.values()}).prepare()
    except CycleError as error:
        circle = ", ".join(map(repr, error.args[1]))
        raise ValueError(f"requirements imply each other in a circle: {circle}") from None
