"""The chapter of algorithms in parts: an overview, and a page for each algorithm.

The chapter is one file, which is authoritative; as one page it would be too long to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from building.markdown import Heading, headings
from building.pages import Page

_PREFIX = "algorithm."


def divided(page: Page) -> list[Page]:
    """Return a chapter that defines algorithms in parts, and any other page unchanged.

    The overview comes first. It keeps the page's address and every anchor: the anchor of an
    algorithm is on the link to the algorithm's page. The origin of a part is "ORIGIN#ANCHOR", so
    links in other pages to an anchor of the chapter's file lead to the part.
    """
    if not page.origin.startswith("spec/"):
        return [page]
    found = headings(page.text)
    ends = [each.start for each in found[1:]] + [len(page.text)]
    algorithms = [
        (number, heading, end)
        for number, (heading, end) in enumerate(zip(found, ends, strict=True))
        if heading.anchor.startswith(_PREFIX)
    ]
    if not algorithms:
        return [page]
    folder = page.place.removesuffix(".md")
    file = PurePosixPath(page.origin).name
    overview, parts = page.text, []
    for number, heading, end in reversed(algorithms):
        name = heading.anchor.removeprefix(_PREFIX)
        target = f"{file}#{heading.anchor}"
        # A list ends with an empty line.
        last = "" if page.text.startswith("### ", end) else "\n"
        entry = f"- [{heading.title}]({target}){{ #{heading.anchor} }}\n{last}"
        overview = f"{overview[: heading.start]}{entry}{overview[end:]}"
        text = (
            f"# {heading.title} {{ #{heading.anchor} }}\n\n"
            f"{_above(found[: number + 1], file)}{page.text[heading.end : end]}"
        )
        parts.append(Page(f"{folder}/{name}.md", text, f"{page.origin}#{heading.anchor}"))
    return [replace(page, place=f"{folder}/index.md", text=overview), *reversed(parts)]


def _above(found: Sequence[Heading], file: str) -> str:
    """Return a line with links to the sections that also apply to the last of some headings."""
    *before, own = found
    group = next(each for each in reversed(before) if each.depth < own.depth)
    slug = group.title.lower().replace(",", "").replace(" ", "-")
    return (
        f"*Part of [{before[0].title}]({file}), whose introduction applies here, as does "
        f"[{group.title}]({file}#{slug}).*"
    )
