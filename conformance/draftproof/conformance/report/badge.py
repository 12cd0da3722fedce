"""A badge: the verdict in a few words, which shields.io draws from an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftproof.conformance.evidence.grade import SAMPLED
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
    return {
        "schemaVersion": 1,
        "label": "draftproof",
        "message": words.grade(found),
        "color": color,
        "isError": verdict == "could not be judged",
    }
