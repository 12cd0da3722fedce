"""Pictures: SVG for light and for dark paper, with the same bytes for the same figures.

A picture is written once with the names of its inks in place of colours, and is then coloured
twice. It is as wide as a phone, so that its letters keep their size there, and its background is
that of the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate
from math import ceil, floor

from draftproof.conformance.report.drawing import apart, raised
from draftproof.reference.rational import Rational, total

INKS = {
    "ink": ("#23302c", "#e4ece9"),
    "muted": ("#5b6a65", "#a9b8b3"),
    "line": ("#d3d0c6", "#3a4743"),
    "green": ("#2f6f5e", "#7cc7b0"),
    "leaf": ("#8dbcaa", "#44796b"),
    "clay": ("#c8713f", "#e2986c"),
    "gold": ("#8f6a12", "#dcb75f"),
    "blue": ("#2f6297", "#8db9e8"),
    "plum": ("#7a4a86", "#cba0d6"),
}
"""Colours of every ink, on light and on dark paper."""

SHADES = ("light", "dark")

WIDTH = 360
_SHOWN = 500
"""Width at which a picture is shown if there is room, in units; it is drawn at `WIDTH`."""

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif"


def both(place: str, picture: str) -> dict[str, bytes]:
    """Return the two files of a picture, by their places."""
    return {f"{place}-{shade}.svg": shaded(picture, shade).encode() for shade in SHADES}


def shown(place: str, alt: str) -> str:
    """Return Markdown that shows the file for the page's paper."""
    told = alt.replace("[", "(").replace("]", ")")
    return "\n".join(f"![{told}]({place}-{shade}.svg#only-{shade})" for shade in SHADES)


def shaded(picture: str, shade: str) -> str:
    """Return a picture in the colours of "light" or "dark" paper."""
    for name, colors in INKS.items():
        picture = picture.replace(f'"@{name}"', f'"{colors[SHADES.index(shade)]}"')
    return picture


# --- where mass goes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flow:
    """Mass that flows from a node on the left to a node on the right; `kind` selects its ink."""

    start: str
    end: str
    kind: str
    mass: Rational


@dataclass(frozen=True)
class _Node:
    """Node: its name, its mass, and the position of its top."""

    name: str
    mass: Rational
    top: float

    @property
    def middle(self) -> float:
        return self.top + _HEIGHT * float(self.mass) / 2

    @property
    def bottom(self) -> float:
        return self.top + _HEIGHT * float(self.mass)


_HEIGHT = 250
"""Height of a mass of one, in units."""

_PITCH = 15
"""Smallest distance between the middles of two nodes, so that their names do not touch."""

_GAP = 5
_BAR = 5
_LEFT, _RIGHT, _TOP = 92, 296, 64
_LEGIBLE = 11
"""Thickness below which a flow has no room for its mass."""


def transport(
    flows: Sequence[Flow],
    inks: Mapping[str, str],
    *,
    title: str,
    told: str,
    headings: tuple[str, str],
) -> str:
    """Return flows between two columns of nodes, with heights in proportion to their masses.

    Nodes are in the order of their names, flows in the order of their nodes; `inks` has the ink of
    every kind, in the order of the legend. A mass is written exactly if there is room for it.
    """
    kinds = list(inks)
    starts, ends = _centred(
        _column(flows, [flow.start for flow in flows]), _column(flows, [flow.end for flow in flows])
    )
    low = max(node.bottom for node in (*starts.values(), *ends.values()))
    order = sorted(flows, key=lambda flow: (flow.start, flow.end, kinds.index(flow.kind)))
    into = sorted(flows, key=lambda flow: (flow.end, flow.start, kinds.index(flow.kind)))
    out_of = _places(order, starts, [flow.start for flow in order])
    comes_to = _places(into, ends, [flow.end for flow in into])
    ribbons, masses = [], []
    for flow in order:
        y, end, thick = out_of[flow], comes_to[flow], _HEIGHT * float(flow.mass)
        ribbons.append(_ribbon(y, end, thick, inks[flow.kind]))
        if thick >= _LEGIBLE:
            masses.append(_text(_LEFT + 5, y + thick / 2 + 3, str(flow.mass), size=9))
    parts = [
        *_legend(inks),
        _text(_LEFT, _TOP - 12, headings[0], anchor="end", ink="muted", size=10),
        _text(_RIGHT, _TOP - 12, headings[1], ink="muted", size=10),
        *ribbons,
        *_bars(starts, _LEFT - _BAR, anchor="end"),
        *_bars(ends, _RIGHT, anchor="start"),
        *masses,
    ]
    return _svg(parts, height=low + 12, title=title, told=told)


def _column(flows: Sequence[Flow], names: Sequence[str]) -> dict[str, _Node]:
    masses = {
        name: total(flow.mass for flow, own in zip(flows, names, strict=True) if own == name)
        for name in sorted(set(names))
    }
    nodes: dict[str, _Node] = {}
    bottom, middle = float(_TOP - _GAP), -float("inf")
    for name, mass in masses.items():
        thick = _HEIGHT * float(mass)
        top = max(bottom + _GAP, middle + _PITCH - thick / 2)
        nodes[name] = _Node(name, mass, top)
        bottom, middle = top + thick, top + thick / 2
    return nodes


def _centred(*columns: Mapping[str, _Node]) -> list[dict[str, _Node]]:
    """Return columns whose middles are at the same height."""
    lows = [max(node.bottom for node in column.values()) for column in columns]
    return [
        {n: replace(node, top=node.top + (max(lows) - low) / 2) for n, node in column.items()}
        for column, low in zip(columns, lows, strict=True)
    ]


def _places(
    order: Sequence[Flow], nodes: Mapping[str, _Node], names: Sequence[str]
) -> dict[Flow, float]:
    """Return the top of each flow on its node, below the flows that precede it."""
    places: dict[Flow, float] = {}
    filled = {name: node.top for name, node in nodes.items()}
    for flow, name in zip(order, names, strict=True):
        places[flow] = filled[name]
        filled[name] += _HEIGHT * float(flow.mass)
    return places


def _ribbon(start: float, end: float, thick: float, ink: str) -> str:
    middle = (_LEFT + _RIGHT) / 2
    path = (
        f"M{_LEFT} {_n(start)}C{_n(middle)} {_n(start)} {_n(middle)} {_n(end)} {_RIGHT} {_n(end)}"
        f"V{_n(end + thick)}C{_n(middle)} {_n(end + thick)} {_n(middle)} {_n(start + thick)} "
        f"{_LEFT} {_n(start + thick)}Z"
    )
    return f'<path d="{path}" fill="@{ink}" fill-opacity="0.55"/>'


def _bars(nodes: Mapping[str, _Node], x: float, *, anchor: str) -> Iterator[str]:
    outside = x - 5 if anchor == "end" else x + _BAR + 5
    for node in nodes.values():
        thick = max(_HEIGHT * float(node.mass), 1)
        yield (
            f'<rect x="{_n(x)}" y="{_n(node.top)}" width="{_BAR}" height="{_n(thick)}" '
            f'fill="@muted"/>'
        )
        name = f'<tspan font-weight="600">{escape(node.name)}</tspan>'
        mass = f'<tspan fill="@muted" font-size="10">{node.mass}</tspan>'
        yield _text(outside, node.middle + 4, f"{name}\u2002{mass}", anchor=anchor, raw=True)


# --- lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """Line of points (x, y), in an ink; `dashes` are SVG's, empty for a solid line.

    A `name` is written beside the end of the line.
    """

    points: Sequence[tuple[float, float]]
    ink: str
    dashes: str = ""
    width: float = 1.6
    name: str = ""


@dataclass(frozen=True)
class Axis:
    """Axis from `low` to `high`, with the names of its ticks.

    A logarithmic axis and its points have logarithms as values.
    """

    low: float
    high: float
    ticks: Mapping[float, str]
    name: str = ""

    def share(self, value: float) -> float:
        """Return the position of a value along the axis, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def powers(low: float, high: float, *, step: int = 1, name: str = "") -> Axis:
    """Return an axis of powers of ten, from 10**low to 10**high."""
    ticks = {float(n): power_of_ten(n) for n in range(ceil(low), floor(high) + 1) if n % step == 0}
    return Axis(low, high, ticks, name)


def power_of_ten(exponent: int) -> str:
    """Return 10**exponent in print."""
    small = {0: "1", 1: "10", 2: "100", 3: "1000"}
    return small.get(exponent, raised(exponent))


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes, points (x, y, ink), and words (x, y, words, anchor)."""

    title: str
    lines: Sequence[Line]
    points: Sequence[tuple[float, float, str]] = ()
    words: Sequence[tuple[float, float, str, str]] = ()


_ROOM = 40, 12
"""Free space of a panel on its left and on its right."""

_LETTER = 12.5
"""Height of a name beside a line."""


def panels(
    drawn: Sequence[Panel],
    *,
    x: Axis,
    y: Axis,
    title: str,
    told: str,
    legend: Mapping[str, Line] | None = None,
    each: float = 96,
    names: float = 0,
) -> str:
    """Return panels one above the other, all over the same axes, under one legend.

    Each panel is `each` units high, and has `names` units of space for the names of its lines.
    """
    legend = legend or {}
    parts = list(_lines_legend(legend))
    bottom = 4 + 15.0 * ceil(len(legend) / 2)
    left, right = _ROOM[0], WIDTH - _ROOM[1] - names
    for panel in drawn:
        top = bottom + 24
        bottom = top + each
        parts += _panel(panel, x=x, y=y, box=(left, right, top, bottom))
    for value, name in x.ticks.items():
        at = left + x.share(value) * (right - left)
        parts.append(_text(at, bottom + 14, name, anchor="middle", ink="muted", size=9.5))
    parts.append(
        _text((left + right) / 2, bottom + 30, x.name, anchor="middle", ink="muted", size=10)
    )
    return _svg(parts, height=bottom + 38, title=title, told=told)


def _panel(
    panel: Panel, *, x: Axis, y: Axis, box: tuple[float, float, float, float]
) -> Iterator[str]:
    left, right, top, bottom = box

    def place(a: float, b: float) -> tuple[float, float]:
        return left + x.share(a) * (right - left), bottom - y.share(b) * (bottom - top)

    yield _text(left, top - 8, panel.title, size=11, weight=600)
    for value, name in y.ticks.items():
        _, height = place(x.low, value)
        yield _rule(left, height, right, height)
        yield _text(left - 5, height + 3.5, name, anchor="end", ink="muted", size=9.5)
    for value in x.ticks:
        at, _ = place(value, y.low)
        yield _rule(at, bottom, at, bottom + 3)
    for line in panel.lines:
        yield _line([place(*point) for point in line.points], line)
    for a, b, ink in panel.points:
        at, height = place(a, b)
        yield f'<circle cx="{_n(at)}" cy="{_n(height)}" r="3" fill="@{ink}"/>'
    for a, b, words, anchor in panel.words:
        at, height = place(a, b)
        yield _text(at, height, words, anchor=anchor, ink="muted", size=9.5)
    ends = {line.name: place(*line.points[-1])[1] for line in panel.lines if line.name}
    inks = {line.name: line.ink for line in panel.lines}
    for name, height in apart(ends, gap=_LETTER, low=top, high=bottom).items():
        bent = f"M{_n(right + 2)} {_n(ends[name])}L{_n(right + 10)} {_n(height)}"
        yield f'<path d="{bent}" stroke="@line" stroke-width="0.8" fill="none"/>'
        yield _text(right + 13, height + 3.5, name, ink=inks[name], size=10)


def _line(points: Sequence[tuple[float, float]], line: Line) -> str:
    path = "M" + "L".join(f"{_n(a)} {_n(b)}" for a, b in points)
    dashes = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
    return (
        f'<path d="{path}" fill="none" stroke="@{line.ink}" stroke-width="{line.width:g}"'
        f'{dashes} stroke-linejoin="round" stroke-linecap="round"/>'
    )


def _lines_legend(legend: Mapping[str, Line]) -> Iterator[str]:
    for index, (name, line) in enumerate(legend.items()):
        x, y = (6, WIDTH / 2 + 4)[index % 2], 14 + 15 * (index // 2)
        yield _line([(x, y - 3.5), (x + 18, y - 3.5)], line)
        yield _text(x + 24, y, name, size=10)


# --- bars -----------------------------------------------------------------------------------------

_PER_BAR = 22
_BARS = 46, 262
"""Start of all bars, and end of the longest bar."""


def bars(
    drawn: Mapping[str, tuple[Rational, Rational]], *, names: tuple[str, str], title: str, told: str
) -> str:
    """Return a bar for each name: the first weight is filled, the second is an outline.

    `names` are those of the two kinds of weights, for the legend. Weights that differ are written.
    """
    left, right = _BARS
    longest = float(max(max(pair) for pair in drawn.values()))
    middle = WIDTH / 2 + 4
    parts = [
        _bar(6, 8, 11, fill="clay"),
        _text(22, 17.5, names[0], size=10.5),
        _outline(middle, 8, 11),
        _text(middle + 16, 17.5, names[1], size=10.5),
    ]
    for number, (name, (found, wanted)) in enumerate(drawn.items()):
        top = 32 + _PER_BAR * number
        scale = (right - left) / longest
        parts += [
            _text(left - 8, top + 10, name, anchor="end", weight=600),
            _bar(left, top, float(found) * scale, fill="green" if found == wanted else "clay"),
            _outline(left, top, float(wanted) * scale),
        ]
        if found != wanted:
            said = f'{found}\u2002<tspan fill="@muted">not {wanted}</tspan>'
            parts.append(_text(right + 8, top + 10, said, size=10.5, raw=True))
    return _svg(parts, height=34 + _PER_BAR * len(drawn), title=title, told=told)


def _bar(x: float, y: float, width: float, *, fill: str) -> str:
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="12" rx="1.5" fill="@{fill}" '
        f'fill-opacity="0.75"/>'
    )


def _outline(x: float, y: float, width: float) -> str:
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="12" rx="1.5" fill="none" '
        f'stroke="@ink" stroke-width="1.2"/>'
    )


# --- what pictures are made of --------------------------------------------------------------------


def _legend(inks: Mapping[str, str]) -> Iterator[str]:
    widths = [16 + 5.6 * len(name) + 14 for name in inks]
    starts = accumulate(widths, initial=6.0)
    for (name, ink), x in zip(inks.items(), starts, strict=False):
        yield (
            f'<rect x="{_n(x)}" y="8" width="11" height="11" rx="2" fill="@{ink}" '
            f'fill-opacity="0.75"/>'
        )
        yield _text(x + 16, 17.5, name, size=10.5)


def _text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    ink: str = "ink",
    size: float = 11,
    weight: int = 400,
    raw: bool = False,
) -> str:
    heavy = "" if weight == 400 else f' font-weight="{weight}"'
    content = words if raw else escape(words)
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" fill="@{ink}" font-size="{size:g}" '
        f'text-anchor="{anchor}"{heavy}>{content}</text>'
    )


def _rule(x: float, y: float, to_x: float, to_y: float) -> str:
    return (
        f'<path d="M{_n(x)} {_n(y)}L{_n(to_x)} {_n(to_y)}" stroke="@line" stroke-width="0.8" '
        f'fill="none"/>'
    )


def _svg(parts: Sequence[str], *, height: float, title: str, told: str) -> str:
    tall = ceil(height)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" '
            f'width="{_SHOWN}" height="{ceil(tall * _SHOWN / WIDTH)}" role="img" '
            f'font-family="{_FONT}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(told)}</desc>",
            *parts,
            "</svg>\n",
        )
    )


def _n(value: float) -> str:
    """Return a coordinate in hundredths, which is the same on all machines."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
