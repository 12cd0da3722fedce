"""Drawings as SVG whose colours are variables of a style: matplotlib's, and shared helpers.

Text stays text: a reader can search it and have it read aloud, and it takes the surrounding font.
The same figures give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from draftproof.reference.extras import installation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"

UNIT = 72
"""Units of a drawing to matplotlib's inch."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class ReportUnavailable(RuntimeError):
    """Error of a format whose package is not installed; the message names the package."""


def require_matplotlib() -> None:
    """Raise `ReportUnavailable` unless matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401  # whether it is there is the question
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise ReportUnavailable(f"its plots need matplotlib: {installation('report')}") from None


def inks(*names: str) -> dict[str, str]:
    """Return a unique colour for each name, as a placeholder for a variable of a style."""
    return {name: f"#0102{n:02x}" for n, name in enumerate(names)}


def drawn(
    draw: Callable[[Figure], None],
    *,
    inks: Mapping[str, str],
    width: float,
    height: float,
    letters: float,
    **layout: float,
) -> ElementTree.Element:
    """Return a drawing of the given size in units, with letters of the given height in units.

    `inks` have "ink", "muted" and "line" among them, `layout` is that of matplotlib's axes. Raises
    `ReportUnavailable` without matplotlib.
    """
    require_matplotlib()
    from matplotlib import style
    from matplotlib.figure import Figure

    written = io.StringIO()
    # A style of the user's own stays out of it.
    with style.context(["default", _style(inks, letters)], after_reset=True):
        figure = Figure(figsize=(width / UNIT, height / UNIT), dpi=UNIT)
        figure.subplots_adjust(**layout)
        draw(figure)
        figure.savefig(written, format="svg")
    text = written.getvalue()
    for name, ink in inks.items():
        text = text.replace(ink, f"var(--{name})")
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(text)  # noqa: S314  # matplotlib has just written it
    # It holds the date.
    root.remove(root.find(f"{{{SVG}}}metadata"))  # type: ignore[arg-type]  # it is always written
    root.set("role", "img")
    return root


def insert(root: ElementTree.Element, tag: str, content: str, **attributes: str) -> None:
    """Insert an element of SVG before all others."""
    element = ElementTree.Element(f"{{{SVG}}}{tag}", attributes)
    element.text = content
    root.insert(0, element)


def apart(
    places: Mapping[str, float], *, gap: float, high: float, low: float = -inf
) -> dict[str, float]:
    """Return the places, in their order, moved as little as a gap between neighbours requires.

    Places without room between `low` and `high` go beyond `high` where a `low` is given.
    """
    rest = gap * (len(places) - 1)
    lowest, room = min(low, high - rest), max(high, low + rest) - rest
    moved: dict[str, float] = {}
    for n, name in enumerate(sorted(places, key=places.__getitem__)):
        # As near to its own place as those before it and those still to come leave room.
        moved[name] = max(lowest, min(places[name], room + gap * n))
        lowest = moved[name] + gap
    return moved


def raised(exponent: int) -> str:
    """Return a power of ten with a raised exponent."""
    return f"10{str(exponent).translate(_RAISED)}"


def _style(inks: Mapping[str, str], letters: float) -> dict[str, str | float | bool]:
    painted = {part: inks[ink] for ink, parts in _PAINTED.items() for part in parts}
    small = ("xtick.labelsize", "ytick.labelsize", "legend.fontsize")
    sizes = {"font.size": letters, "axes.labelsize": letters, **dict.fromkeys(small, letters - 1)}
    return {**_PLAIN, **painted, **sizes}


_PAINTED = {
    "ink": ("text.color",),
    "muted": ("axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"),
    "line": ("axes.edgecolor", "xtick.color", "ytick.color"),
}

_PLAIN: Mapping[str, str | float | bool] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "draftproof",
    "text.parse_math": False,
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
}
