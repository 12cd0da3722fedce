"""Grades: the certainty that a verifier is lossless.

A law that was *computed exactly* has a measured distance, compared with the distance that rounding
explains. A *probed* law is known up to a resolution. *Samples* bound a distance, and would have
detected a larger one with the stated power. The grade of a verdict is that of the weakest of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from draftproof.conformance.requirements.finding import PASS

EXACT, PROBED, SAMPLED = "exact", "probed", "sampled"
"""Grades, strongest first."""

OF_LANE = {"exact": EXACT, "probe": PROBED, "sample": SAMPLED, "engine": SAMPLED}
"""Grade of each lane's decisions."""

_LOSSLESS = ("law.lossless", "text.lossless", "engine.lossless")
"""Requirements whose findings are graded: of a verifier, of the texts around it, of an engine."""


def graded(decisions: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the grade of losslessness with its figures, None if no lane decided it.

    `decisions` are those of a certificate; those of a slim certificate have only their worst
    finding.
    """
    findings = [each for each in _lossless(decisions) if each["lane"] in OF_LANE]
    if not findings:
        return None
    lanes = [*OF_LANE]
    weakest = max((each["lane"] for each in findings), key=lanes.index)
    own = [each for each in findings if each["lane"] == weakest]
    if OF_LANE[weakest] == SAMPLED:
        worst = max((each["sampled"] for each in own), key=lambda each: each["bound"])
        figures = {key: worst[key] for key in ("bound", "detectable", "power")}
    else:
        # What is off most, of all that was computed.
        worst = max(findings, key=lambda each: each["distance"] or 0.0)
        figures = {key: worst[key] for key in ("distance", "allowed")}
    if weakest == "probe":
        known = [each["resolution"] for each in own if "resolution" in each]
        figures["resolution"] = max(known, default=None)
    return {"grade": OF_LANE[weakest], **figures}


def _lossless(decisions: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for decision in decisions:
        if decision["id"] in _LOSSLESS and decision["verdict"] == PASS:
            findings = decision.get("findings", [decision["worst"]])
            yield from (each for each in findings if each["verdict"] == PASS)


def contradicts(grade: Mapping[str, Any] | None, decisions: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a grade contradicts a certificate's decisions, as far as they show.

    A slim certificate leaves the figures to the evidence, and has the weakest lane of each.
    """
    if all("findings" in each for each in decisions):
        return grade != graded(decisions)
    own = (each for each in decisions if each["id"] in _LOSSLESS and each["verdict"] == PASS)
    lanes = [each["grade"] for each in own if each["grade"] in OF_LANE]
    weakest = max(lanes, key=[*OF_LANE].index, default=None)
    return (grade and grade["grade"]) != (weakest and OF_LANE[weakest])
