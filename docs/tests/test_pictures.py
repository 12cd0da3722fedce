"""Pictures: the same bytes every time, legible on both papers, told to who does not see them."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from building import algorithms
from building.pictures import (
    INKS,
    SHADES,
    Axis,
    Flow,
    Line,
    Panel,
    bars,
    both,
    panels,
    power_of_ten,
    powers,
    shaded,
    shown,
    transport,
)

from draftproof.reference.rational import rational

SVG = "{http://www.w3.org/2000/svg}"


def example() -> str:
    flows = [
        Flow("0", "0", "kept", rational("1/3")),
        Flow("1", "0", "moved", rational("1/60")),
        Flow("1", "1", "kept", rational("39/60")),
    ]
    return transport(
        flows,
        {"kept": "green", "moved": "clay"},
        title="Less < more",
        told="what is told",
        headings=("drafted", "text"),
    )


def luminance(color: str) -> float:
    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(color[n : n + 2], 16)) for n in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


PAPER = {"light": "#fdfcfa", "dark": "#141b19"}
"""The papers of the site."""


@pytest.mark.parametrize("ink", [ink for ink in INKS if ink not in ("line", "leaf", "clay")])
@pytest.mark.parametrize("shade", SHADES)
def test_letters_and_lines_stand_out(ink: str, shade: str) -> None:
    # What letters are written in: WCAG asks for 4.5.
    assert contrast(INKS[ink][SHADES.index(shade)], PAPER[shade]) >= 4.5


@pytest.mark.parametrize("shade", SHADES)
def test_clay_stands_out_enough_for_lines(shade: str) -> None:
    assert contrast(INKS["clay"][SHADES.index(shade)], PAPER[shade]) >= 3


@pytest.mark.parametrize("place", sorted(algorithms.files()))
def test_every_picture_is_told_and_has_its_own_colours(place: str) -> None:
    picture = algorithms.files()[place].decode()
    root = ElementTree.fromstring(picture)
    assert root.get("role") == "img"
    told = {child.tag: child.text or "" for child in root}
    assert len(told[f"{SVG}title"]) > 5
    assert len(told[f"{SVG}desc"]) > 60
    assert '"@' not in picture
    other = {
        color[1 - SHADES.index("light" if "-light" in place else "dark")] for color in INKS.values()
    }
    assert not any(color in picture for color in other)


def test_light_and_dark_differ_by_colours_alone() -> None:
    files = both("there", example())
    assert list(files) == ["there-light.svg", "there-dark.svg"]
    bare = [re.sub(rb"#[0-9a-f]{6}", b"", content) for content in files.values()]
    assert bare[0] == bare[1]
    assert files["there-light.svg"] != files["there-dark.svg"]


def test_the_same_figures_give_the_same_bytes() -> None:
    assert example() == example()


def test_words_are_escaped() -> None:
    assert "<title>Less &lt; more</title>" in example()


def test_masses_are_written_where_there_is_room() -> None:
    root = ElementTree.fromstring(shaded(example(), "light"))
    inside = [text.text for text in root.iter(f"{SVG}text") if text.get("font-size") == "9"]
    assert inside == ["1/3", "13/20"]


def test_names_of_nodes_do_not_touch() -> None:
    for name in algorithms.EXAMPLES:
        root = ElementTree.fromstring(
            algorithms.files()[f"explanation/algorithms/{name}-plan-light.svg"]
        )
        columns: dict[str, list[float]] = {}
        for text in root.iter(f"{SVG}text"):
            if len(text):
                columns.setdefault(text.get("x", ""), []).append(float(text.get("y", "")))
        assert len(columns) == 2
        for heights in columns.values():
            gaps = [b - a for a, b in pairwise(heights)]
            assert all(gap >= 14.9 for gap in gaps)


def test_lines_are_named_beside_their_ends() -> None:
    lines = [Line([(0, n / 100), (1, n / 100)], "blue", name=f"line {n}") for n in range(5)]
    drawn = panels(
        [Panel("one", lines)],
        x=Axis(0, 1, {0.0: "0", 1.0: "1"}),
        y=Axis(0, 1, {0.0: "0"}),
        title="t",
        told="d",
        names=80,
    )
    root = ElementTree.fromstring(shaded(drawn, "light"))
    heights = [
        float(text.get("y", ""))
        for text in root.iter(f"{SVG}text")
        if (text.text or "").startswith("line")
    ]
    assert len(heights) == 5
    assert all(abs(a - b) >= 12.4 for a, b in pairwise(heights))


def test_powers_of_ten() -> None:
    assert power_of_ten(2) == "100"
    assert power_of_ten(-7) == "10⁻⁷"
    assert list(powers(1, 5, step=2).ticks.values()) == ["100", "10⁴"]


def test_markdown_shows_the_file_that_fits() -> None:
    assert shown("plan", "a [b] c") == (
        "![a (b) c](plan-light.svg#only-light)\n![a (b) c](plan-dark.svg#only-dark)"
    )


def test_bars_write_the_weights_that_differ() -> None:
    drawn = {
        "0": (rational("1/4"), rational("1/4")),
        "1": (rational("3/8"), rational("1/4")),
    }
    picture = bars(drawn, names=("found", "wanted"), title="Two", told="what is told")
    words = [
        "".join(each.itertext()) for each in ElementTree.fromstring(picture).iter(f"{SVG}text")
    ]
    assert words == ["found", "wanted", "0", "1", "3/8\u2002not 1/4"]
