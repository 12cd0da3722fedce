"""Pages of the requirements: an index, and the evidence below each requirement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from building.entries import Entry, Facet, form, section, slug
from building.markdown import WIDE, flat, headings, title
from building.pages import Page
from building.traceability import evidence_of, page, trace_of
from draftproof.spec import requirements
from draftproof.spec.registry import LANES, LEVELS, Requirement, chapters


def pages() -> Mapping[str, str]:
    """Return the index of requirements, and the page with the evidence of each."""
    every = requirements().values()
    titles = {each.chapter: _title(each.chapter) for each in every}
    entries = {each.id: _entry(each) for each in every}
    parts = [
        WIDE,
        "# The requirements",
        f"{len(entries)} requirements. Ids are stable: never used again, never renumbered. "
        "Each links to its chapter, which lists the evidence below it: tests, vectors, mutants and "
        "proofs. [Traceability](traceability.md) has the evidence of all requirements.",
        form(_facets(titles), [*entries.values()]),
        *(
            section(
                title,
                f"chapter.{chapter}",
                [entries[each.id] for each in every if each.chapter == chapter],
            )
            for chapter, title in titles.items()
        ),
    ]
    return {"spec/requirements.md": "\n\n".join(parts) + "\n", "spec/traceability.md": page()}


def _facets(titles: Mapping[str, str]) -> list[Facet]:
    states = dict.fromkeys(trace_of(each).state for each in requirements())
    return [
        Facet("level", "Level", {slug(level): level for level in LEVELS}),
        Facet("lane", "Decided by", {lane: _LANES.get(lane, lane) for lane in LANES}),
        Facet("evidence", "Evidence", {slug(state): state for state in states}),
        Facet("chapter", "Chapter", titles),
    ]


_LANES = {"run": "single runs", "engine": "an engine's tokens"}
"""Names of lanes that are unclear on their own, in words."""


def _title(chapter: str) -> str:
    """Return the title of a chapter with its number, as "2. Laws"."""
    (file,) = (file for file in chapters() if file.stem == chapter)
    return title(file.read_text(encoding="utf-8"))


def _entry(requirement: Requirement) -> Entry:
    trace = trace_of(requirement.id)
    lanes = ", ".join(_LANES.get(lane, lane) for lane in requirement.lanes)
    return Entry(
        title=f"[{requirement.title}](#{requirement.id})",
        id=requirement.id,
        standing=requirement.level,
        anchor=f"listed.{requirement.id}",
        text=f"{flat(requirement.text.split(_PARAGRAPH)[0])}\n\n*Decided by:* {lanes} · "
        f"*Evidence:* [{trace.state}](#trace.{requirement.id})",
        values={
            "level": [slug(requirement.level)],
            "lane": requirement.lanes,
            "evidence": [slug(trace.state)],
            "chapter": [requirement.chapter],
        },
    )


_PARAGRAPH = "\n\n"

_TOLD = re.compile(r"\n(?=\*(?:Decided by|Distance|Implied by|Lanes|Source):\*)")
"""Line break before each line on how a requirement is decided; pages keep these breaks."""


def evidenced(chapter: Page) -> Page:
    """Return a chapter with ids below its requirements' titles, and evidence after their texts."""
    if not chapter.origin.startswith("spec/"):
        return chapter
    found, text = headings(chapter.text), chapter.text
    ends = [each.start for each in found[1:]] + [len(text)]
    for heading, end in reversed(list(zip(found, ends, strict=True))):
        if heading.anchor in requirements():
            said = _TOLD.sub("  \n", text[heading.end : end].strip())
            section = (
                f"`{heading.anchor}`{{ .requirement }}\n\n{said}\n\n{evidence_of(heading.anchor)}"
            )
            text = f"{text[: heading.end]}\n\n{section}\n\n{text[end:]}"
    return replace(chapter, text=text)
