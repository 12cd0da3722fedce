"""Findings: what one requirement came to on one case, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

from draftproof.conformance.protocol.tolerance import DECISIVE
from draftproof.reference.model import Path
from draftproof.reference.rational import Rational, exactly, readable

PASS, FAIL, INCONCLUSIVE, SKIPPED, ERROR = "pass", "fail", "inconclusive", "skipped", "error"
"""The verdicts. Inconclusive never certifies; a skip carries its reason."""

UNREFERENCED = "the reference does not have its algorithm"
"""How the reason of a skip begins where there is nothing to hold an adapter against."""

OF_MANY_CASES = "batch.backends"
"""The requirement whose one task has a finding for each of many cases."""

PARTIAL = "partial"
"""The verdict of a campaign that passes, and was not asked all cases."""

FAILS_EVERYWHERE, CANNOT_RUN = "fails on every case", "cannot run here"
UNFETCHED = "could not be fetched"
"""In which way an adapter has no verdict: it raises on every case, or is not there to be asked."""


@dataclass(frozen=True)
class SampleFigures:
    """The figures behind a finding of the sample lane.

    The true distance is at most `bound`. The test fails a right verifier with probability at most
    `false_alarm`: where `log_evidence` reaches log(1 / false_alarm). Had the distance been
    `detectable`, it would have failed with probability `power`. `path` has the emissions and the
    log evidence after every batch; `stream` is the SHA-256 of all that was emitted, in order.
    """

    false_alarm: float
    log_evidence: float
    bound: float
    detectable: float
    power: float
    path: tuple[tuple[int, float], ...]
    stream: str


@dataclass(frozen=True)
class Lengths:
    """E[accepted length] as observed, and its certified optimum."""

    observed: float
    optimum: float


@dataclass(frozen=True)
class TextWeight:
    """The probability of a text, as observed and as the target has it."""

    text: Path
    """Its first L + 1 tokens; what cannot be continued is shorter, a failure is empty."""
    observed: float
    expected: float


@dataclass(frozen=True)
class Finding:
    """What one requirement came to on one case.

    `distance` is what was observed, `allowed` what rounding explains; both None where nothing was
    measured. `lane` says what decided it, `runs` how many runs or emissions that took. `detail` is
    the reason of a skip or an error, or says more about a failure. `applies` is False where the
    requirement asks nothing of this adapter, by what it declares. `lengths` and `law` show what a
    length or a law looked like.
    """

    __repr__ = readable

    requirement: str
    case: str
    verdict: str
    distance: Rational | None = None
    allowed: Rational | None = None
    lane: str | None = None
    runs: int = 0
    detail: str = ""
    applies: bool = True
    sampled: SampleFigures | None = None
    lengths: Lengths | None = None
    law: tuple[TextWeight, ...] | None = None


def verdict_of(distance: Rational, allowed: Rational, slack: Rational) -> str:
    """Return pass, fail or inconclusive for a distance that is known up to `slack`."""
    if distance + slack <= min(allowed, DECISIVE):
        return PASS
    return FAIL if distance - slack > allowed else INCONCLUSIVE


def contradiction(finding: Finding) -> str:
    """Return in what a finding contradicts its own figures, empty if it does not."""
    if told := _off_its_law(finding):
        return told
    if finding.distance is None or finding.allowed is None or finding.sampled is not None:
        return ""
    measured = (
        f"is {finding.verdict!r} at a distance of {float(finding.distance):.3g}, where "
        f"{float(finding.allowed):.3g} is allowed"
    )
    if finding.verdict == PASS and finding.distance > min(finding.allowed, DECISIVE):
        return measured
    if finding.verdict == FAIL and finding.distance <= finding.allowed:
        return measured
    return ""


def _off_its_law(finding: Finding) -> str:
    """Return in what the distance is not that of the law beside it, empty where that is not whole.

    Every number is written to the bit, so it is off by its own rounding alone, and the sum of n of
    them, whatever the order, by n roundings more: of at most 2, the total of both laws.
    """
    if finding.law is None or finding.distance is None:
        return ""
    rounding = Fraction(len(finding.law) + 2, 2**52)
    observed, expected = (
        [Fraction(getattr(each, column)) for each in finding.law]
        for column in ("observed", "expected")
    )
    if any(abs(sum(each, Fraction()) - 1) > rounding for each in (observed, expected)):
        return ""
    apart = (abs(o - e) for o, e in zip(observed, expected, strict=True))
    distance = sum(apart, Fraction()) / 2
    if abs(distance - Fraction(float(finding.distance))) <= rounding:
        return ""
    return (
        f"has a distance of {float(finding.distance):.6g}, where the law beside it has one of "
        f"{float(distance):.6g}"
    )


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """Return the finding as certificates and evidence have it; its requirement is not in it."""
    return {
        "case": finding.case,
        "verdict": finding.verdict,
        "distance": None if finding.distance is None else float(finding.distance),
        "allowed": None if finding.allowed is None else float(finding.allowed),
        "lane": finding.lane,
        "runs": finding.runs,
        "detail": finding.detail,
        "applies": finding.applies,
        "sampled": None if finding.sampled is None else _sampled_to_json(finding.sampled),
        "lengths": None if finding.lengths is None else vars(finding.lengths),
        "law": finding.law and [{**vars(each), "text": list(each.text)} for each in finding.law],
    }


def finding_from_json(requirement: str, document: Mapping[str, Any]) -> Finding:
    """Return the finding that stands in a document; distances are as near as floats are."""
    distance, allowed, law = (document[key] for key in ("distance", "allowed", "law"))
    sampled, lengths = document["sampled"], document["lengths"]
    return Finding(
        requirement,
        document["case"],
        document["verdict"],
        None if distance is None else exactly(float(distance)),
        None if allowed is None else exactly(float(allowed)),
        document["lane"],
        document["runs"],
        document["detail"],
        document["applies"],
        None if sampled is None else _sampled_from_json(sampled),
        None if lengths is None else Lengths(**lengths),
        law and tuple(TextWeight(**{**each, "text": tuple(each["text"])}) for each in law),
    )


def findings_to_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as evidence has them, each with its requirement."""
    return [{"requirement": each.requirement, **finding_to_json(each)} for each in findings]


def findings_from_json(documents: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return the findings that evidence has."""
    return [finding_from_json(each["requirement"], each) for each in documents]


def _sampled_to_json(sampled: SampleFigures) -> dict[str, Any]:
    return {
        **vars(sampled),
        "log_evidence": _finite(sampled.log_evidence),
        "detectable": _finite(sampled.detectable),
        "path": [[emissions, _finite(won)] for emissions, won in sampled.path],
    }


def _sampled_from_json(document: Mapping[str, Any]) -> SampleFigures:
    return SampleFigures(
        **{
            **document,
            "log_evidence": _number(document["log_evidence"]),
            "detectable": _number(document["detectable"]),
            "path": tuple((emissions, _number(won)) for emissions, won in document["path"]),
        }
    )


def _finite(number: float) -> float | None:
    """Return the number as JSON has it, which knows no infinity."""
    return None if number == inf else number


def _number(written: float | None) -> float:
    return inf if written is None else written
