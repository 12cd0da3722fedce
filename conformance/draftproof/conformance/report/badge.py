"""A badge: the verdict in two words, as shields.io draws it from an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COLORS = {
    "conforms": "brightgreen",
    "does not conform": "red",
    "inconclusive": "yellow",
    "could not be judged": "lightgrey",
}


def badge(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the endpoint document of shields.io for a certificate.

    It is green where the verdict is "conforms" and nowhere else: a failure that is known is one.
    Only the mode certify makes the word "certified".
    """
    found = document["predicate"]["draftproof"]
    verdict, mode = found["verdict"], found["mode"]
    message = "certified" if mode == "certify" else f"{verdict} ({mode})"
    return {
        "schemaVersion": 1,
        "label": "draftproof",
        "message": message if verdict == "conforms" else verdict,
        "color": _COLORS[verdict],
        "isError": verdict == "could not be judged",
    }
