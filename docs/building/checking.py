"""Checks of the built site: the targets of its links, and the files that its pages load."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADING = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}
_INLINE = frozenset({"a", "abbr", "br", "code", "del", "em", "img", "ins", "kbd", "span", "strong"})
_VERBATIM = frozenset({"code", "pre", "script", "style", "svg", "textarea"})
_RAW = re.compile(r"^[ \t]*\|.*\|[ \t]*$|\{:?[ \t]*[.#][a-z][\w-]*[ \t]*\}", re.M)
"""Markdown that was not rendered: a row of a table, or the class or id of a block."""

_STYLED = re.compile(r"url\(['\"]?([^'\")]+)")


@dataclass
class _Page(HTMLParser):
    """Anchors, links and loaded files of a page, and Markdown that appears as text."""

    anchors: set[str] = field(default_factory=set)
    leads: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _verbatim: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the anchors, the link and the loaded file of a tag."""
        self._turn(tag)
        if tag in _VERBATIM:
            self._verbatim.append(tag)
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])
        elif given.get("rel") != "canonical" and _LOADING.get(tag) in given:
            self.loads.append(given[_LOADING[tag]])

    def handle_endtag(self, tag: str) -> None:
        """Record the end of a block or of verbatim text."""
        self._turn(tag)
        if self._verbatim and self._verbatim[-1] == tag:
            self._verbatim.pop()

    def handle_data(self, data: str) -> None:
        """Record text, replacing verbatim text."""
        self._text.append("..." if self._verbatim else data)

    def _turn(self, tag: str) -> None:
        if tag not in _INLINE:
            self.raw += _RAW.findall("".join(self._text))
            self._text.clear()


def faults(site: Path) -> Iterator[str]:
    """Yield the faults of the pages of a site, in words.

    A fault is a link or an anchor without a target, a file that is loaded from elsewhere, or
    Markdown that appears as text: the row of a table, or the class of a block.
    """
    # The page for what is not found has links that start at the root of a server.
    pages = {
        file: _parsed(file)
        for file in sorted(site.rglob("*.html"))
        if "vendor" not in file.parts and file.name != "404.html"
    }
    for file, page in pages.items():
        where = file.relative_to(site).as_posix()
        for target in page.leads + page.loads:
            if _is_elsewhere(target):
                continue
            place, anchor = _place(file, target), unquote(urlsplit(target).fragment)
            if not place.exists():
                yield f"{where}: {target}: there is no such page"
            elif anchor and place in pages and anchor not in pages[place].anchors:
                yield f"{where}: {target}: that page has no such anchor"
        yield from _from_elsewhere(where, page.loads)
        if page.raw:
            yield f"{where}: Markdown is shown as text: {page.raw[0].strip()}"
    for style in site.rglob("*.css"):
        loads = _STYLED.findall(style.read_text(encoding="utf-8"))
        yield from _from_elsewhere(style.relative_to(site).as_posix(), loads)


def _parsed(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def _place(file: Path, target: str) -> Path:
    path = unquote(urlsplit(target).path)
    if not path:
        return file
    found = Path(posixpath.normpath(posixpath.join(file.parent.as_posix(), path)))
    return found / "index.html" if found.is_dir() else found


def _is_elsewhere(target: str) -> bool:
    return bool(urlsplit(target).scheme or urlsplit(target).netloc)


def _from_elsewhere(where: str, loads: list[str]) -> Iterator[str]:
    for target in loads:
        if _is_elsewhere(target) and not target.startswith("data:"):
            yield f"{where}: it loads {target}, which is not of this site"
