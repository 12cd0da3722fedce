"""Markdown of the pages: headings with anchors, links, and computed paragraphs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from draftproof.conformance.report import markdown

_FRONT = re.compile(r"\A---\n(?P<own>.*?\n)---\n", re.S)
_FENCE = re.compile(r"^ *(`{3,}|~{3,})", re.M)
_LINK = re.compile(
    r"(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))|"
    r'\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]*)(?: "(?P<title>[^"]*)")?\)',
    re.S,
)
_COMPUTED = re.compile(
    r'^\[[^\]\n]*\]\([^)\s]* "computed: (?P<form>\w+)(?: (?P<words>[^"]*))?"\)$', re.M
)
_HEADING = re.compile(r"^(?P<marks>#{1,6}) (?P<title>.+?)(?: \{ ?#(?P<anchor>[\w.-]+) ?\})?$", re.M)


WIDE = "---\nhide:\n  - toc\n---"
"""Front matter of a page without a table of contents, for wide tables and long lists."""


class Uncomputable(LookupError):
    """Error of a computed paragraph whose form is unknown."""


class UnevenTable(ValueError):
    """Error of a table whose rows or alignments do not match the columns of its heading."""


@dataclass(frozen=True)
class Link:
    """Link: its text, its title, and its target: a place, an anchor, or both."""

    text: str
    target: str
    anchor: str
    title: str

    def __str__(self) -> str:
        target = f"{self.target}#{self.anchor}" if self.anchor else self.target
        title = f' "{self.title}"' if self.title else ""
        return f"[{self.text}]({target}{title})"


@dataclass(frozen=True)
class Heading:
    """Heading: its depth, its title, and its anchor, empty if it names none."""

    depth: int
    title: str
    anchor: str
    start: int
    end: int


def fronted(text: str, key: str, value: str) -> str:
    """Return a page with a field in its front matter, unless the field is there."""
    front = _FRONT.match(text)
    own, rest = (front["own"], text[front.end() :]) if front else ("", text)
    if re.search(rf"^{key}:", own, re.M):
        return text
    return f"---\n{own}{key}: {json.dumps(value, ensure_ascii=False)}\n---\n\n{rest.lstrip()}"


def prose(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text in order, each with True for prose, False for a block of code."""
    part, fence = "", ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and not fence:
            yield part, True
            part, fence = line, mark[1]
        elif mark and line.strip() == mark[1] and mark[1].startswith(fence):
            yield part + line, False
            part, fence = "", ""
        else:
            part += line
    yield part, not fence


def headings(text: str) -> list[Heading]:
    """Return the headings of a text, from top to bottom."""
    found, start = [], 0
    for part, is_prose in prose(text):
        found += [
            Heading(
                len(each["marks"]),
                each["title"],
                each["anchor"] or "",
                start + each.start(),
                start + each.end(),
            )
            for each in (_HEADING.finditer(part) if is_prose else ())
        ]
        start += len(part)
    return found


def outlined(text: str) -> str:
    """Return the text with headings that skip no level below the one above them.

    Chapters write every requirement at the same depth, with or without a section above it; people
    who navigate by headings need every level.
    """
    above: list[int] = []
    done, last = "", 0
    for heading in headings(text):
        while above and above[-1] >= heading.depth:
            above.pop()
        above.append(heading.depth)
        marks = "#" * len(above)
        done += text[last : heading.start] + marks
        last = heading.start + heading.depth
    return done + text[last:]


def title(text: str) -> str:
    """Return the first heading's title. Raises `ValueError` if there is none."""
    first = next(iter(headings(text)), None)
    if first is None:
        raise ValueError(f"a page has no heading: {text[:60]!r}")
    return first.title


def relinked(text: str, changed: Callable[[Link], Link | str]) -> str:
    """Return the text with every link outside of code replaced by the result of `changed`."""

    def one(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        target, _, anchor = match["target"].partition("#")
        return str(changed(Link(match["text"], target, anchor, match["title"] or "")))

    return "".join(_LINK.sub(one, part) if is_prose else part for part, is_prose in prose(text))


def computed(text: str, forms: dict[str, Callable[..., str]]) -> str:
    """Return the text with every computed paragraph replaced by the result of its form.

    A computed paragraph is a single link with a title such as "computed: definition block"; in the
    source, the link leads to the code. Raises `Uncomputable` for an unknown form.
    """

    def one(match: re.Match[str]) -> str:
        form = match["form"]
        if form not in forms:
            raise Uncomputable(f"{match[0]}: no form {form!r}; known: {', '.join(sorted(forms))}")
        try:
            return forms[form](*(match["words"] or "").split())
        except LookupError as error:
            raise Uncomputable(f"{match[0]}: {error}") from error

    return "".join(_COMPUTED.sub(one, part) if is_prose else part for part, is_prose in prose(text))


def fenced(code: str, language: str, *, options: str = "") -> str:
    """Return code as a block, in a fence longer than any fence in the code."""
    return markdown.fenced(code.rstrip(), f"{language} {options}".strip())


def flat(text: str) -> str:
    """Return text on one line."""
    return " ".join(text.split())


def cell(text: str) -> str:
    """Return text as the cell of a table."""
    return text.replace("\n", " ").replace("|", "\\|")


def table(head: list[str], rows: list[list[str]], *, align: str = "") -> str:
    """Return a table. `align` has a letter per column, "r" for numbers and "l" for words.

    Columns beyond `align` hold words. Raises `UnevenTable` for more letters than columns, and for a
    row with more or fewer cells than the heading.
    """
    # Markdown shows an uneven rule as raw text, and drops or adds cells of an uneven row, silently.
    if len(align) > len(head):
        raise UnevenTable(
            f"the table of {' | '.join(head)} has {len(head)} columns, and {len(align)} sides: "
            f"{align!r}"
        )
    for number, row in enumerate(rows, 1):
        if len(row) != len(head):
            raise UnevenTable(
                f"the table of {' | '.join(head)} has {len(head)} columns, and {len(row)} cells in "
                f"row {number}: {' | '.join(row)}"
            )
    rule = ["--:" if side == "r" else "---" for side in align.ljust(len(head), "l")]
    lines = [[cell(each) for each in head], rule, *([cell(each) for each in row] for row in rows)]
    return "\n".join(map(markdown.row_of, lines))
