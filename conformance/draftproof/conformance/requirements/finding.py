"""Findings: verdict and distance of one requirement on one case."""

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
"""Verdicts. Inconclusive never certifies; a skip carries its reason."""

UNREFERENCED = "the reference does not have its algorithm"
"""Beginning of a skip's reason if there is no reference to compare an adapter with."""

OF_MANY_CASES = "batch.backends"
"""Requirement whose one task has a finding for each of many cases."""

PARTIAL = "partial"
"""Verdict of a campaign that passes without having judged all cases."""

FAILS_EVERYWHERE, CANNOT_RUN = "fails on every case", "cannot run here"
UNFETCHED = "could not be fetched"
"""Kinds of outcome without a verdict: the adapter fails on every case, or is unavailable."""


@dataclass(frozen=True)
class SampleFigures:
    """Figures behind a finding of the sample lane.

    The true distance is at most `bound`. The test fails if `log_evidence` reaches log(1 /
    false_alarm): for a correct verifier with probability at most `false_alarm`. At a distance of
    `detectable`, it would have failed with probability `power`. `path` has the number of emissions
    and the log evidence after every batch; `stream` is the SHA-256 of all emissions, in order.
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
    """Probability of a text, as observed and under the target."""

    text: Path
    """Its first L + 1 tokens; a text that cannot be continued is shorter, a failure is empty."""
    observed: float
    expected: float


@dataclass(frozen=True)
class Finding:
    """Verdict and distance of one requirement on one case.

    `distance` is the observed distance, `allowed` the distance that rounding explains; both are
    None if nothing was measured. `lane` is the lane that decided, `runs` its number of runs or
    emissions. `detail` is the reason of a skip or an error, or gives the details of a failure.
    `applies` is False if the requirement does not apply to this adapter, by the adapter's
    declaration. `lengths` and `law` show the observed lengths or law. On the probe lane every law
    is within `resolution` of the true law.
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
    resolution: float | None = None


def verdict_of(distance: Rational, allowed: Rational, slack: Rational) -> str:
    """Return pass, fail or inconclusive for a distance known up to `slack`."""
    if distance + slack <= min(allowed, DECISIVE):
        return PASS
    return FAIL if distance - slack > allowed else INCONCLUSIVE


def contradiction(finding: Finding) -> str:
    """Describe the contradiction between a finding and its figures, empty if there is none."""
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
    """Describe the difference of the distance from that of a whole law; empty where there is none.

    Every number is written to the bit, so its only error is its own rounding; the sum of n numbers,
    in any order, adds n roundings of at most 2, the total of both laws.
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
    """Return the finding in the form of certificates and evidence, without its requirement."""
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
        **({} if finding.resolution is None else {"resolution": finding.resolution}),
    }


def finding_from_json(requirement: str, document: Mapping[str, Any]) -> Finding:
    """Return the finding in a document; distances are as exact as floats."""
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
        document.get("resolution"),
    )


def findings_to_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings in the form of evidence, each with its requirement."""
    return [{"requirement": each.requirement, **finding_to_json(each)} for each in findings]


def findings_from_json(documents: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return the findings in evidence."""
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
    """Return the number in JSON's form; JSON has no infinity."""
    return None if number == inf else number


def _number(written: float | None) -> float:
    return inf if written is None else written
