"""The requirements as the site shows them: an index, and the evidence under each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from building.markdown import headings, table
from building.pages import Page
from building.traceability import evidence_of, page
from draftproof.spec import requirements


def pages() -> Mapping[str, str]:
    """Return the index of requirements, and the page of what stands behind each."""
    rows = [
        [f"[`{each.id}`](#{each.id})", each.level, each.title, ", ".join(each.lanes)]
        for each in requirements().values()
    ]
    parts = [
        "# The requirements",
        f"{len(rows)} requirements. Ids are stable: never used again, never renumbered. "
        "What stands behind each, tests, vectors, mutants and proofs, is told below it in its "
        "chapter, and in the [traceability](traceability.md).",
        table(["id", "level", "requirement", "lanes"], rows),
    ]
    return {"spec/requirements.md": "\n\n".join(parts) + "\n", "spec/traceability.md": page()}


_TOLD = re.compile(r"\n(?=\*(?:Decided by|Distance|Implied by|Lanes|Source):\*)")
"""Before each line that says what decides a requirement; on a page, every one is its own line."""


def evidenced(chapter: Page) -> Page:
    """Return a chapter whose requirements have their ids below, and their evidence behind them."""
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
