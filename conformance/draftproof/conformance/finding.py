"""Findings: what one requirement came to on one case, and the verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.conformance.tolerance import DECISIVE
from draftproof.reference.rational import Rational

PASS, FAIL, INCONCLUSIVE, SKIPPED, ERROR = "pass", "fail", "inconclusive", "skipped", "error"
"""The verdicts. Inconclusive never certifies; a skip carries its reason."""


@dataclass(frozen=True)
class Sampled:
    """What a sequential test came to: the figures behind a finding of the sample lane.

    The true distance is at most `bound`. The test fails a right verifier with probability at most
    `false_alarm`: where `log_evidence` reaches log(1 / false_alarm). Had the distance been
    `detectable`, it would have failed with probability `power`.
    """

    false_alarm: float
    log_evidence: float
    bound: float
    detectable: float
    power: float


@dataclass(frozen=True)
class Finding:
    """What one requirement came to on one case.

    `distance` is what was observed, `allowed` what rounding explains; both None where nothing was
    measured. `lane` says what decided it, `runs` how many runs or emissions that took. `detail` is
    the reason of a skip or an error, or says more about a failure. `share` is E[accepted length]
    as a share of the certified optimum.
    """

    requirement: str
    case: str
    verdict: str
    distance: Rational | None = None
    allowed: Rational | None = None
    lane: str | None = None
    runs: int = 0
    detail: str = ""
    sampled: Sampled | None = None
    share: Rational | None = None


def verdict_of(distance: Rational, allowed: Rational, slack: Rational) -> str:
    """Return pass, fail or inconclusive for a distance that is known up to `slack`."""
    if distance + slack <= min(allowed, DECISIVE):
        return PASS
    return FAIL if distance - slack > allowed else INCONCLUSIVE
