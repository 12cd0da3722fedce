"""The quality of pages, for everyone to read them: colours, headings, alternatives, few bytes."""

from __future__ import annotations

import colorsys
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import material
import pytest
from building.pages import HOUSE

SITE = HOUSE / "site"
ASSETS = HOUSE / "docs/theme/assets"
THEME = Path(material.__file__).parent / "templates/assets/stylesheets"

built = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site: make docs")

# --- colours --------------------------------------------------------------------------------------

CODE = (
    *("fg", "hl-comment", "hl-constant", "hl-function", "hl-generic", "hl-keyword", "hl-name"),
    *("hl-number", "hl-operator", "hl-punctuation", "hl-special", "hl-string", "hl-variable"),
)
PAIRS = [
    ("--md-default-fg-color", "--md-default-bg-color"),
    ("--md-default-fg-color--light", "--md-default-bg-color"),
    ("--md-default-fg-color--light", "--md-code-bg-color"),
    ("--md-typeset-a-color", "--md-default-bg-color"),
    ("--md-accent-fg-color", "--md-default-bg-color"),
    ("--md-primary-bg-color", "--md-primary-fg-color"),
    ("--md-primary-bg-color--light", "--md-primary-fg-color"),
    ("--md-footer-fg-color", "--md-footer-bg-color"),
    ("--md-footer-fg-color--light", "--md-footer-bg-color--dark"),
    ("--refuted", "--md-default-bg-color"),
    *((f"--md-code-{name}-color", "--md-code-bg-color") for name in CODE),
]
"""Text and what it stands on, by the variables of their colours."""

Colour = tuple[float, float, float, float]


def variables(scheme: str) -> dict[str, str]:
    """Return the variables of a scheme, as the theme's files have them, and ours after them."""
    files = [*THEME.glob("main.*.css"), *THEME.glob("palette.*.css"), *sorted(ASSETS.glob("*.css"))]
    found: dict[str, str] = {}
    for file in files:
        rules = re.findall(r"([^{}]+)\{([^{}]*)\}", file.read_text(encoding="utf-8"))
        for selector, body in rules:
            own = {each.strip().replace('"', "") for each in selector.split(",")}
            if own & {":root", f"[data-md-color-scheme={scheme}]"}:
                found |= dict(re.findall(r"(--[\w-]+):\s*([^;]+)", body))
    return found


def colour(name: str, known: dict[str, str]) -> Colour:
    """Return a colour from 0 to 1: red, green, blue, and how opaque it is."""
    value = known[name].strip()
    while reference := re.search(r"var\((--[\w-]+)\)", value):
        value = value.replace(reference[0], known[reference[1]].strip())
    if value.startswith("#"):
        digits = "".join(2 * d for d in value[1:]) if len(value) < 6 else value[1:]
        parts = [int(digits[at : at + 2], 16) / 255 for at in range(0, len(digits), 2)]
        return parts[0], parts[1], parts[2], parts[3] if len(parts) > 3 else 1.0
    given = re.fullmatch(r"hsla?\((\d+)(?:deg)?,\s*(\d+)%,\s*(\d+)%(?:,\s*([\d.]+))?\)", value)
    assert given, f"{name} is {value!r}, no colour that this test can read"
    hue, saturation, light = (float(given[n]) for n in (1, 2, 3))
    return *colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100), float(given[4] or 1)


def contrast(text: Colour, ground: Colour) -> float:
    """Return the contrast of text on what it stands on, by WCAG 2.2."""

    def luminance(parts: tuple[float, ...]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    *_, opacity = text
    mixed = (opacity * t + (1 - opacity) * g for t, g in zip(text[:3], ground[:3], strict=True))
    low, high = sorted((luminance((*mixed,)), luminance(ground[:3])))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_wcag() -> None:
    black, white = (0.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0, 1.0)
    assert contrast(black, white) == pytest.approx(21)
    assert contrast((0.0, 0.0, 0.0, 0.5), white) == pytest.approx(3.98, abs=0.01)
    assert colour("--x", {"--x": "hsla(var(--h), 100%, 50%, 0.5)", "--h": "120deg"}) == (
        0,
        1,
        0,
        0.5,
    )


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_text_can_be_read_on_what_it_stands_on(scheme: str) -> None:
    known = variables(scheme)
    ratios = {pair: contrast(*(colour(name, known) for name in pair)) for pair in PAIRS}
    assert {pair: round(each, 2) for pair, each in ratios.items() if each < 4.5} == {}


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_a_wide_table_scrolls_in_its_box_and_keeps_its_first_column(
    browser: Any, *, is_wrapped: bool
) -> None:
    row = "".join(f"<td>{'word ' * 3}<code>identifier_{n}</code></td>" for n in range(9))
    table = f"<table><tr><th>name</th>{'<th>value</th>' * 9}</tr><tr><td>x</td>{row}</tr></table>"
    box = '<div class="md-typeset__scrollwrap"><div class="md-typeset__table">'
    shown = f"{box}{table}</div></div>" if is_wrapped else table
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.set_content(
        '<!doctype html><body data-md-color-scheme="default">'
        f'<div class="md-typeset md-content__inner">{shown}</div>'
    )
    for file in (*THEME.glob("main.*.css"), ASSETS / "house.css", ASSETS / "tables.css"):
        page.add_style_tag(content=file.read_text(encoding="utf-8"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    scrolled = page.locator(".md-typeset__scrollwrap" if is_wrapped else "table")
    assert scrolled.evaluate("(box) => box.scrollWidth > box.clientWidth")
    scrolled.evaluate("(box) => box.scrollTo(300, 0)")
    first, second = (page.locator("tr:last-child td").nth(n).bounding_box() for n in (0, 1))
    assert first["x"] >= 0
    assert second["x"] < first["x"]
    assert "linear-gradient" in scrolled.evaluate("(box) => getComputedStyle(box).backgroundImage")
    page.close()


# --- what a page says of itself -------------------------------------------------------------------


@dataclass
class Said(HTMLParser):
    """A page as it describes itself, its pictures and its headings."""

    attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    headings: list[int] = field(default_factory=list)
    without_alternative: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    title: str = ""
    _in_title: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.attributes[f"meta {given.get('name')}" if tag == "meta" else tag] = given
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "img" and "alt" not in given:
            self.without_alternative.append(given.get("src", ""))
        if tag == "script" and "src" in given:
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") == "stylesheet":
            self.loads.append(given["href"])
        self._in_title = tag == "title" and not self.title

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False


def said(file: Path) -> Said:
    page = Said()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def missing(page: Said) -> list[str]:
    """Return what a page lacks, in words."""
    steps = [*zip(page.headings, page.headings[1:], strict=False)]
    wrong = {
        "no language": not page.attributes.get("html", {}).get("lang"),
        "no title": not page.title.strip(),
        "no description": not page.attributes.get("meta description", {}).get("content"),
        f"{page.headings.count(1)} headings of level 1": page.headings.count(1) != 1,
        "a heading that skips a level": any(after > before + 1 for before, after in steps),
        f"no alt: {page.without_alternative}": page.without_alternative,
    }
    return [words for words, is_wrong in wrong.items() if is_wrong]


def test_what_a_page_lacks_is_found(tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("<html><h1>a</h1><h3>b</h3><h1>c</h1><img src='y.png'>")
    assert missing(said(tmp_path / "x.html")) == [
        "no language",
        "no title",
        "no description",
        "2 headings of level 1",
        "a heading that skips a level",
        "no alt: ['y.png']",
    ]


@built
def test_every_page_says_what_it_is() -> None:
    pages = [file for file in sorted(SITE.rglob("index.html")) if "vendor" not in file.parts]
    wrong = {file.relative_to(SITE).as_posix(): missing(said(file)) for file in pages}
    assert {place: words for place, words in wrong.items() if words} == {}


BUDGETS = {"": 800, "engines": 800, "ledger": 1300, "spec/02-laws": 800, "playground": 900}
"""Kilobytes of HTML, styles and scripts that a page may load, uncompressed."""


@built
@pytest.mark.parametrize("place", BUDGETS)
def test_a_page_loads_no_more_than_its_budget(place: str) -> None:
    file = SITE / place / "index.html"
    loads = [(file.parent / urlsplit(each).path).resolve() for each in said(file).loads]
    assert sum(each.stat().st_size for each in (file, *loads)) < 1000 * BUDGETS[place]
