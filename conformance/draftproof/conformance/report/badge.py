"""A badge: the verdict in a few words, as shields.io draws it from an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftproof.conformance.report import words

_COLORS = {
    words.CONFORMS: "brightgreen",
    words.PASSES_SOME: "lightgrey",
    "does not conform": "red",
    "inconclusive": "yellow",
    "could not be judged": "lightgrey",
}


def badge(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the endpoint document of shields.io for a certificate.

    It is bright green where the verdict is "conforms" and laws were computed, paler where samples
    bound them, and not green elsewhere: a failure that is known is one. Only the mode certify makes
    the word "certified".
    """
    found = document["predicate"]["draftproof"]
    verdict, mode = found["verdict"], found["mode"]
    message, color = words.conclusion(found), _COLORS[verdict]
    if verdict == words.CONFORMS:
        bound = words.sampled_within(found)
        message = "certified" if mode == "certify" else verdict
        if bound is not None:
            message, color = f"{message} within {words.figure(bound)}", "yellowgreen"
        message = message if mode == "certify" else f"{message} ({mode})"
    return {
        "schemaVersion": 1,
        "label": "draftproof",
        "message": message,
        "color": color,
        "isError": verdict == "could not be judged",
    }
