"""The pages of the site: written pages, the specification's chapters, and computed pages."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from building import sources
from building.markdown import Link, computed, headings, relinked

HOUSE = Path(__file__).parents[2]
"""The root of the checkout."""


class BrokenLink(LookupError):
    """Error of broken links; each line of the message has the page, the link and the reason."""


@dataclass(frozen=True)
class Page:
    """Page: its place below the site's root, its Markdown, and the start of its relative links.

    `origin` is the path of its file in the checkout, or a path in place of one; the origin of a
    part of a file ends with "#" and the anchor at which the part begins.
    """

    place: str
    text: str
    origin: str


def written() -> list[Page]:
    """Return the pages in the checkout: docs/pages, chapters, reports and some READMEs."""
    origins = {
        **{
            file: file.relative_to(HOUSE / "docs/pages") for file in _under("docs/pages", "**/*.md")
        },
        **{file: Path("spec", file.name) for file in _under("spec", "[0-9][0-9]-*.md")},
        HOUSE / "spec/vectors/README.md": Path("spec/vectors.md"),
        **{
            file: Path("trophies", file.name)
            for folder in ("adapters/matrix/reports", "adapters/whole/reports")
            for file in _under(folder, "*.md")
        },
        **{
            file: Path("harnesses", f"{file.parent.name}.md")
            for file in _under("adapters/harnesses", "*/README.md")
        },
    }
    return [
        Page(place.as_posix(), file.read_text(encoding="utf-8"), _path(file))
        for file, place in origins.items()
        if file.exists()
    ]


def generated(pages: Mapping[str, str]) -> list[Page]:
    """Return computed pages, whose links are relative to docs/pages."""
    return [Page(place, text, f"docs/pages/{place}") for place, text in pages.items()]


def filled(page: Page, forms: dict[str, Callable[..., str]]) -> Page:
    """Return the page with its computed paragraphs filled in."""
    return replace(page, text=computed(page.text, forms))


def resolved(pages: Iterable[Page]) -> tuple[list[Page], dict[str, Path]]:
    """Return the pages with links that work on the site, and the files that they lead to.

    A link may lead to another page, to a file of the checkout (by its relative path, or as
    "repo:PATH", with "#NAME" for a definition in it), or to an anchor of any page. Files of text
    become pages below source/. Raises `BrokenLink`.
    """
    site = _Site({page.place: page for page in pages})
    for page in site.pages.values():
        site.places[page.origin] = page.place
        for heading in headings(page.text):
            if heading.anchor:
                site.anchors[heading.anchor] = page.place
    done: dict[str, Page] = {}
    while missing := [page for place, page in site.pages.items() if place not in done]:
        for page in missing:
            text = relinked(page.text, lambda link, page=page: site.led(page, link))  # type: ignore[misc]
            done[page.place] = replace(page, text=text)
    if site.broken:
        raise BrokenLink("\n".join(site.broken))
    return list(done.values()), site.files


class _Site:
    """Possible targets of links; links to sources add pages and files."""

    def __init__(self, pages: dict[str, Page]) -> None:
        self.pages = pages
        self.places: dict[str, str] = {}
        self.anchors: dict[str, str] = {}
        self.files: dict[str, Path] = {}
        self.broken: list[str] = []

    def led(self, page: Page, link: Link) -> Link:
        """Return the link in the form that works on the site."""
        if "://" in link.target or link.target.startswith("mailto:"):
            return link
        if not link.target:
            return self._to_anchor(page, link)
        if link.target.startswith("repo:"):
            path = link.target.removeprefix("repo:")
        else:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page.origin), link.target))
        path = path.rstrip("/")
        for origin in (f"{path}#{link.anchor}", path):
            if origin in self.places:
                return replace(link, target=_relative(page.place, self.places[origin]))
        inside = path.removeprefix("docs/pages/")
        if path != inside and (inside in self.pages or (HOUSE / "docs/.pages" / inside).exists()):
            return replace(link, target=_relative(page.place, inside))
        if not (HOUSE / path).exists():
            self.broken.append(f"{page.origin}: {link}: there is no page and no file {path!r}")
            return link
        # A folder is what its README says; the list of its files would have the same address.
        if (HOUSE / path / "README.md").exists():
            path = f"{path}/README.md"
        return self._to_source(page, link, path)

    def _to_anchor(self, page: Page, link: Link) -> Link:
        if link.anchor in self.anchors:
            target = _relative(page.place, self.anchors[link.anchor])
            return replace(link, text=link.text or f"`{link.anchor}`", target=target)
        if not link.text:
            self.broken.append(f"{page.origin}: {link}: no page has the anchor {link.anchor!r}")
        return link

    def _to_source(self, page: Page, link: Link, path: str) -> Link:
        place = sources.place(path)
        if sources.is_text(HOUSE / path):
            if place not in self.pages:
                self.pages[place] = Page(place, sources.page(HOUSE, path), path)
            anchor = self._line(page, link, HOUSE / path)
        else:
            self.files[place] = HOUSE / path
            anchor = ""
        return replace(link, target=_relative(page.place, place), anchor=anchor)

    def _line(self, page: Page, link: Link, file: Path) -> str:
        try:
            return sources.anchor(file, link.anchor) if link.anchor else ""
        except sources.NotDefined as error:
            self.broken.append(f"{page.origin}: {link}: {error}")
            return ""


def _under(folder: str, pattern: str) -> list[Path]:
    return sorted((HOUSE / folder).glob(pattern))


def _path(file: Path) -> str:
    return file.relative_to(HOUSE).as_posix()


def _relative(start: str, place: str) -> str:
    return posixpath.relpath(place, posixpath.dirname(start) or ".")
