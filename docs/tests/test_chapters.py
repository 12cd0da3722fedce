"""The chapter of algorithms on the site: all of its text, anchors and links, in parts."""

from __future__ import annotations

import re

import pytest
from building.chapters import divided
from building.pages import HOUSE, BrokenLink, Page, resolved

from draftproof.reference.verifiers import ALGORITHMS

ORIGIN = "spec/05-algorithms.md"
CHAPTER = Page(ORIGIN, (HOUSE / ORIGIN).read_text(encoding="utf-8"), ORIGIN)
OVERVIEW, *PARTS = divided(CHAPTER)

SMALL = Page(
    "spec/05-x.md",
    "# 5. All\n\nFirst.\n\n## One, alone\n\nSecond.\n\n### A { #algorithm.a }\n\n"
    "Is [b](#algorithm.b).\n\n### B { #algorithm.b }\n\nIs b.\n\n## Others\n\nLast.\n",
    "spec/05-x.md",
)


def test_a_chapter_is_an_overview_and_a_page_for_each_algorithm() -> None:
    overview, first, second = divided(SMALL)
    assert (overview.place, overview.origin) == ("spec/05-x/index.md", "spec/05-x.md")
    assert overview.text == (
        "# 5. All\n\nFirst.\n\n## One, alone\n\nSecond.\n\n"
        "- [A](05-x.md#algorithm.a){ #algorithm.a }\n- [B](05-x.md#algorithm.b){ #algorithm.b }\n\n"
        "## Others\n\nLast.\n"
    )
    assert (first.place, first.origin) == ("spec/05-x/a.md", "spec/05-x.md#algorithm.a")
    assert first.text == (
        "# A { #algorithm.a }\n\n*Part of [5. All](05-x.md), whose introduction applies here, as "
        "does [One, alone](05-x.md#one-alone).*\n\nIs [b](#algorithm.b).\n\n"
    )
    assert second.text.endswith("\n\nIs b.\n\n")


def test_links_to_the_chapter_lead_to_its_parts() -> None:
    other = Page(
        "x.md", "[1](spec/05-x.md) [2](spec/05-x.md#algorithm.b) [3](#algorithm.a)", "x.md"
    )
    pages, _ = resolved([*divided(SMALL), other])
    texts = {page.place: page.text for page in pages}
    assert texts["x.md"] == (
        "[1](spec/05-x/index.md) [2](spec/05-x/b.md#algorithm.b) [3](spec/05-x/a.md#algorithm.a)"
    )
    assert "[A](a.md#algorithm.a){ #algorithm.a }" in texts["spec/05-x/index.md"]
    assert "Is [b](b.md#algorithm.b)." in texts["spec/05-x/a.md"]
    assert "[One, alone](index.md#one-alone)" in texts["spec/05-x/a.md"]


def test_a_link_to_a_chapter_that_there_is_not_is_broken() -> None:
    other = Page("x.md", "[1](spec/05-y.md#algorithm.a)", "x.md")
    with pytest.raises(BrokenLink, match=r"there is no page and no file 'spec/05-y\.md'"):
        resolved([*divided(SMALL), other])


@pytest.mark.parametrize("origin", ["spec/06-optima.md", "docs/pages/x.md"])
def test_a_page_that_defines_no_algorithm_of_the_specification_is_left_whole(origin: str) -> None:
    text = "# X { #x }\n" if origin.startswith("spec/") else SMALL.text
    page = Page("x.md", text, origin)
    assert divided(page) == [page]


def test_every_algorithm_has_its_page() -> None:
    assert sorted(page.place for page in PARTS) == sorted(
        f"spec/05-algorithms/{name}.md" for name in ALGORITHMS
    )
    navigation = (HOUSE / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f": {page.place}\n" in navigation for page in PARTS)


def test_every_line_of_the_chapter_stands_as_it_is_on_one_of_the_pages() -> None:
    sections = re.split(r"^(### .* \{ #algorithm\.\w+ \})$", CHAPTER.text, flags=re.M)
    bodies = [re.split(r"^## ", body, flags=re.M)[0] for body in sections[2::2]]
    assert len(bodies) == len(PARTS)
    for page, heading, body in zip(PARTS, sections[1::2], bodies, strict=True):
        assert page.text.startswith(f"{heading.removeprefix('##')}\n")
        assert page.text.endswith(body)
    for text in re.split(r"^### .* \{ #algorithm\.\w+ \}$", CHAPTER.text, flags=re.M)[:1]:
        assert OVERVIEW.text.startswith(text)
    for group in re.findall(r"^## .*\n(?:(?!###).*\n)*", CHAPTER.text, re.M):
        assert group in OVERVIEW.text


def test_the_overview_keeps_every_anchor() -> None:
    anchors = re.findall(r"\{ (#[\w.]+) \}", CHAPTER.text)
    assert len(anchors) == len(ALGORITHMS)
    assert re.findall(r"\{ (#[\w.]+) \}", OVERVIEW.text) == anchors
