"""Badges with a verdict, as an endpoint document for shields.io or as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from draftproof.conformance.evidence.grade import OF_LANE, SAMPLED
from draftproof.conformance.report import states, words
from draftproof.conformance.requirements.finding import FAILS_EVERYWHERE

_COLORS = {
    words.CONFORMS: "brightgreen",
    words.PASSES_SOME: "lightgrey",
    "does not conform": "red",
    "inconclusive": "yellow",
    "could not be judged": "lightgrey",
}


def badge(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the endpoint document of shields.io for a certificate.

    The badge is bright green if the verdict is "conforms", laws were computed, and a reference was
    available; paler if samples bound the distances or there was no reference; otherwise it is not
    green: a known failure is a failure.
    """
    found = document["predicate"]["draftproof"]
    verdict, color = found["verdict"], _COLORS[found["verdict"]]
    known = words.graded(found)
    is_sampled = known is not None and known["grade"] == SAMPLED
    is_less = is_sampled or words.unreferenced(found)
    if verdict == words.CONFORMS and is_less:
        color = "yellowgreen"
    return _endpoint(words.grade(found), color, is_error=verdict == "could not be judged")


_ROW_COLORS = {
    states.CONFORMS: "brightgreen",
    states.SUBOPTIMAL: "yellow",
    states.LOSSY: "red",
    states.BY_DESIGN: "orange",
    states.FAILS: "red",
    states.INCONCLUSIVE: "yellow",
    FAILS_EVERYWHERE: "red",
}
"""Colours of the states; every other state is grey, as is a certificate of some cases."""


def row_badge(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the endpoint document of shields.io for a line of a matrix.

    The badge is bright green only if the row conforms on all cases of its mode, and paler if
    samples bound the distances.
    """
    own, message = states.state(row), states.told(row)
    color = _ROW_COLORS.get(own, "lightgrey")
    if own == states.CONFORMS:
        grades = {OF_LANE[lane] for lane in states.losslessness(row)["lanes"]}
        message = ", ".join((message, *sorted(grades))) + f" ({row['judged']['mode']})"
        color = "yellowgreen" if SAMPLED in grades else color
    return _endpoint(message, color, is_error=own == states.UNJUDGED)


def _endpoint(message: str, color: str, *, is_error: bool) -> dict[str, Any]:
    return {
        "schemaVersion": 1,
        "label": "draftproof",
        "message": message,
        "color": color,
        "isError": is_error,
    }


_PAINT = {
    "brightgreen": "#1d7a3a",
    "yellowgreen": "#5d7411",
    "yellow": "#856404",
    "orange": "#a34a0b",
    "red": "#b3261e",
    "lightgrey": "#5f6763",
}
"""Colours of shields.io, darkened so that white letters have a contrast of at least 4.5:1."""


def drawn(shown: Mapping[str, Any]) -> str:
    """Return an endpoint document of `badge` as an SVG picture."""
    label, message = shown["label"], shown["message"]
    left, right = (_LETTER * len(text) + 12 for text in (label, message))
    texts = "".join(
        f'<text x="{x + 6:g}" y="14" textLength="{width - 12:g}">{escape(text)}</text>'
        for text, x, width in ((label, 0, left), (message, left, right))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right:g}" height="20" role="img" '
        f'aria-label="{escape(f"{label}: {message}")}">'
        f'<rect width="{left + right:g}" height="20" rx="3" fill="#3d4643"/>'
        f'<path d="M{left:g} 0h{right - 3:g}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right - 3:g}z" '
        f'fill="{_PAINT[shown["color"]]}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g>'
        "</svg>\n"
    )


_LETTER = 6.6
"""Mean width of a letter; the SVG scales the text to the width given."""
