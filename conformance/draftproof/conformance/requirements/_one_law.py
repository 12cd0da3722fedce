"""Findings on one law, for requirements that ask for the correct law under other conditions.

Long drafts, other dtypes, large vocabularies: the requirement is always the law of the algorithm,
or of the text if the algorithm is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from draftproof.conformance.cases.long import drafted, uncertain
from draftproof.conformance.lanes.compared import Between, noting_nothing
from draftproof.conformance.lanes.exchange import Failure
from draftproof.conformance.lanes.observe import Observation, joint_laws
from draftproof.conformance.lanes.opaque import TooManyRuns
from draftproof.conformance.lanes.statistics import Budget
from draftproof.conformance.protocol.adapter import Adapter, Program, Request, Result
from draftproof.conformance.protocol.loading import twin_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.batches import judge_pairs
from draftproof.conformance.requirements.finding import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    Finding,
    verdict_of,
)
from draftproof.conformance.requirements.laws import as_reference, lossless
from draftproof.conformance.requirements.sampled import EFFORTS, TESTS, Effort, sample
from draftproof.conformance.requirements.task import Terms
from draftproof.reference.model import Instance
from draftproof.reference.rational import ZERO, Rational
from draftproof.reference.verifiers import ALGORITHMS


class AskedOtherwise(Between):
    """Adapter that gets changed requests: with a different layout, other logits, and so on."""

    def __init__(self, adapter: Adapter, change: Callable[[Request], Request]) -> None:
        super().__init__(adapter)
        self._change = change
        other = twin_of(adapter)
        self.same_as = None if other is None else AskedOtherwise(other, change)

    def verify(self, request: Request) -> Result:
        """Verify the changed request."""
        # Every run meets the adapter as it was loaded.
        return copy(self._adapter).verify(self.passed_on(request))

    def passed_on(self, request: Request) -> Request:
        """Return the changed request."""
        return self._change(request)


def judged_law(requirement: str, seen: Observation) -> Finding:
    """Return the finding of a requirement on an observed law."""
    distance, failure = law_distance(seen), likeliest_failure(seen)
    verdict = verdict_of(distance, seen.allowed, seen.slack)
    detail = failure.what if verdict == FAIL and failure is not None else ""
    return Finding(
        requirement, seen.case, verdict, distance, seen.allowed, seen.lane, seen.runs, detail
    )


def law_distance(seen: Observation) -> Rational:
    """Return the TV to the law of the algorithm, or of the text if the algorithm is unknown.

    An invalid result counts with its probability given the drafts, however unlikely they are,
    because one error loses a whole batch.
    """
    law = lossless(seen) if seen.algorithm is None else as_reference(seen)
    return max(law, *(of.probability(_is_failure) for of in seen.observed.values()))


def likeliest_failure(seen: Observation) -> Failure | None:
    """Return the most frequent failure, None if there is always a result."""
    found = {o: w for law in seen.observed.values() for o, w in law.items() if _is_failure(o)}
    return max(found, key=lambda failure: found[failure], default=None)  # type: ignore[return-value]


def _is_failure(outcome: object) -> bool:
    return isinstance(outcome, Failure)


def sampled_law(
    requirement: str,
    case: str,
    program: Program,
    instance: Instance,
    terms: Terms,
    effort: Effort | None = None,
) -> Finding:
    """Return the finding of a requirement on samples from the law of one instance."""
    results = sample(
        program,
        instance,
        seed=terms.seed_of(case),
        effort=effort or EFFORTS[terms.mode],
        budget=Budget(terms.false_alarm, TESTS),
        alone=terms.alone,
    )
    law = "law.reference" if "law.reference" in results else "law.lossless"
    # The first that fails decides; where none does, the law of what is emitted.
    asked = ("law.prefix", "law.support", law, "law.lossless")
    failed = (results[each] for each in asked if results[each].verdict == FAIL)
    result = next(failed, results[law])
    allowed = allowed_distance(program.declared, instance.vocabulary, instance.length)
    return result.finding(requirement, case, allowed=allowed, false_alarm=terms.false_alarm)


def sampled_calls(
    requirement: str, case: str, program: Program, instance: Instance, terms: Terms
) -> Finding:
    """Return the finding of a requirement on samples from pairs of consecutive calls.

    A result that is the same in every call looks random in one call of many rows. If there is no
    law to compare pairs with, single emissions decide.
    """
    if program.declared.algorithm not in ALGORITHMS:
        return sampled_law(requirement, case, program, instance, terms, EFFORTS["quick"])
    found = judge_pairs("random.calls", case, instance, program, terms)
    return replace(found, requirement=requirement)


def require_certain(program: Program, lane: str) -> None:
    """Raise `TooManyRuns` for a verifier that draws random numbers for certain rows.

    Its runs double with every certain row and position of the cases of serving.
    """
    row = drafted(uncertain("certain", 3, set()))
    with noting_nothing():
        (alone,) = joint_laws(program, [[row]], lane=lane)
    likeliest = max(weight for _, weight in alone.law.items())
    if 1 - likeliest > allowed_distance(program.declared, row[0].vocabulary, row[0].length):
        raise TooManyRuns(
            "the verifier is random where target and draft are certain, so its outcomes double "
            "with every row and position"
        )


def worst_of(case: str, findings: Sequence[Finding]) -> Finding:
    """Return the worst of the findings on cases that are judged together, in their name."""
    worst = max(findings, key=_badness)
    runs = sum(each.runs for each in findings)
    if worst.verdict == PASS:
        return replace(worst, case=case, runs=runs)
    told = f": {worst.detail}" if worst.detail else ""
    return replace(worst, case=case, runs=runs, detail=f"on {worst.case}{told}")


def _badness(finding: Finding) -> tuple[int, Rational]:
    return _GRAVEST_LAST.index(finding.verdict), finding.distance or ZERO


_GRAVEST_LAST = (PASS, INCONCLUSIVE, FAIL)
