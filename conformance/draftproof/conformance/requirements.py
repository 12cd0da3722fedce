"""The requirements as predicates on laws: each measures one distance from what must be.

Ids, levels and wording are the specification's; here is how each is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

from draftproof.conformance.observe import (
    BatchObservation,
    Failure,
    InputObservation,
    Observation,
    Outcome,
)
from draftproof.conformance.tolerance import DECISIVE
from draftproof.reference.drafting import Drafts
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum import stateless
from draftproof.reference.process import continued
from draftproof.reference.rational import ONE, Rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law, verification_law

PASS, FAIL, INCONCLUSIVE, SKIPPED, ERROR = "pass", "fail", "inconclusive", "skipped", "error"
"""The verdicts. Inconclusive never certifies; a skip carries its reason."""


@dataclass(frozen=True)
class Finding:
    """What one requirement came to on one case.

    `distance` is what was observed, `allowed` what rounding explains; both None where nothing was
    measured. `detail` is the reason of a skip or an error, or says more about a failure.
    """

    requirement: str
    case: str
    verdict: str
    distance: Rational | None = None
    allowed: Rational | None = None
    lane: str | None = None
    runs: int = 0
    detail: str = ""


class NotApplicable(Exception):
    """A requirement does not ask anything of this adapter; the message says why."""


Text = Path | Failure


def lossless(seen: Observation) -> Rational:
    """`law.lossless`: TV between the first L + 1 tokens of the text and the target's."""
    horizon = seen.instance.length + 1
    return text_law(seen, horizon).total_variation(_widened(seen.instance.target.text(horizon)))


def as_reference(seen: Observation) -> Rational:
    """`law.reference`: TV between the joint laws of paths and emission."""
    return total(
        weight * seen.observed[drafts].total_variation(reference_law(seen, drafts))
        for drafts, weight in seen.drafts.items()
    )


def within_support(seen: Observation) -> Rational:
    """`law.support`: the probability of emitting what the target never says."""
    target = seen.instance.target
    return seen.emitted().probability(
        lambda outcome: isinstance(outcome, Emission) and target.joint(outcome.tokens) == 0
    )


def prefix_accepted(seen: Observation) -> Rational:
    """`law.prefix`: the probability that the result is no prefix, path or token, or no result."""
    return seen.emitted().probability(lambda outcome: isinstance(outcome, Failure))


def expected_length(seen: Observation) -> Rational:
    """`length.expected`: |E[accepted length] - the algorithm's value|."""
    exact = emission_law(_known(seen), seen.instance).expectation(lambda e: len(e.accepted))
    return abs(expected_accepted(seen) - exact)


def optimal_length(seen: Observation) -> Rational:
    """`length.optimal`: |E[accepted length] - certified optimum|."""
    if not _known(seen).optimal:
        raise NotApplicable(f"{_known(seen).name} claims no optimum")
    try:
        return abs(expected_accepted(seen) - stateless(seen.instance).value)
    except Unsupported as error:
        raise NotApplicable(str(error)) from None


def batch_invariant(seen: BatchObservation) -> Rational:
    """`batch.invariant`: TV between the joint law and the product of its rows' laws."""
    return seen.joint.total_variation(independent_law(seen))


def input_rejected(seen: InputObservation) -> tuple[str, ...]:
    """`input.rejected`: the kinds of invalid input met with silence that was not declared."""
    return tuple(
        kind for kind, error in seen.errors.items() if error is None and kind not in seen.undefined
    )


LAWS: dict[str, Callable[[Observation], Rational]] = {
    "law.lossless": lossless,
    "law.reference": as_reference,
    "law.support": within_support,
    "law.prefix": prefix_accepted,
    "length.expected": expected_length,
    "length.optimal": optimal_length,
}
"""The requirements that are judged case by case, on the law of one row."""


def judge(seen: Observation) -> list[Finding]:
    """Return the finding of every requirement of `LAWS` on one observed case."""
    return [judge_requirement(requirement, seen) for requirement in LAWS]


def judge_requirement(requirement: str, seen: Observation) -> Finding:
    """Return the finding of one requirement of `LAWS` on one observed case."""
    # E[accepted length] moves by at most L times the distance of the laws.
    scale = seen.instance.length if requirement.startswith("length.") else 1
    allowed, slack = scale * seen.allowed, scale * seen.slack
    try:
        distance = LAWS[requirement](seen)
    except NotApplicable as reason:
        return Finding(requirement, seen.case, SKIPPED, detail=str(reason))
    verdict = verdict_of(distance, allowed, slack)
    detail = _detail(requirement, seen) if verdict == FAIL else ""
    return Finding(requirement, seen.case, verdict, distance, allowed, "exact", seen.runs, detail)


def judge_batch(seen: BatchObservation) -> Finding:
    """Return the finding of `batch.invariant` on one observed batch."""
    distance = batch_invariant(seen)
    verdict = verdict_of(distance, seen.allowed, seen.slack)
    return Finding(
        "batch.invariant", seen.case, verdict, distance, seen.allowed, "exact", seen.runs
    )


def judge_inputs(seen: InputObservation) -> Finding:
    """Return the finding of `input.rejected`."""
    silent = input_rejected(seen)
    detail = ", ".join(silent)
    if silent:
        return Finding("input.rejected", "inputs", FAIL, detail=f"accepted in silence: {detail}")
    declared = [kind for kind, error in seen.errors.items() if error is None]
    detail = f"declared undefined: {', '.join(declared)}" if declared else ""
    return Finding("input.rejected", "inputs", PASS, detail=detail)


def verdict_of(distance: Rational, allowed: Rational, slack: Rational) -> str:
    """Return pass, fail or inconclusive for a distance that is known up to `slack`."""
    if distance + slack <= min(allowed, DECISIVE):
        return PASS
    return FAIL if distance - slack > allowed else INCONCLUSIVE


def accepted_length(outcome: Outcome) -> int:
    """Return the accepted length; a failure accepts nothing."""
    return len(outcome.accepted) if isinstance(outcome, Emission) else 0


def expected_accepted(seen: Observation) -> Rational:
    """Return the observed E[accepted length]."""
    return seen.emitted().expectation(accepted_length)


def independent_law(seen: BatchObservation) -> Law[tuple[Outcome, ...]]:
    """Return the joint law that the rows of a batch would have if each were verified alone."""
    return Law(
        {
            rows: prod((law[row] for law, row in zip(seen.alone, rows, strict=True)), start=ONE)
            for rows in product(*seen.alone)
        }
    )


def reference_law(seen: Observation, drafts: Drafts) -> Law[Outcome]:
    """Return the law that the adapter's algorithm has on the drafts."""
    law = verification_law(_known(seen), seen.instance, drafts)
    return law.map(_as_outcome)


def text_law(seen: Observation, horizon: int) -> Law[Text]:
    """Return the law of the first `horizon` tokens, emitted and then continued by the target.

    What the target never says cannot be continued by it and stays as it is.
    """
    return seen.emitted().then(lambda outcome: _text(outcome, seen.instance, horizon))


def _text(outcome: Outcome, instance: Instance, horizon: int) -> Law[Text]:
    if isinstance(outcome, Failure):
        return Law.certain(outcome)
    if instance.target.joint(outcome.tokens) == 0:
        return Law.certain(outcome.tokens)
    return _widened(continued(Law.certain(outcome), instance, horizon))


def _widened(law: Law[Path]) -> Law[Text]:
    return law.map(lambda text: text)


def _detail(requirement: str, seen: Observation) -> str:
    if requirement == "law.prefix":
        failures = {o: w for o, w in seen.emitted().items() if isinstance(o, Failure)}
        return max(failures, key=lambda failure: failures[failure]).what
    if requirement == "length.optimal":
        above = expected_accepted(seen) > stateless(seen.instance).value
        return "above the optimum, so it cannot be lossless" if above else "below the optimum"
    return ""


def _known(seen: Observation) -> Algorithm:
    if seen.algorithm is None:
        raise NotApplicable(f"the reference knows the algorithms {', '.join(ALGORITHMS)} only")
    return seen.algorithm


def _as_outcome(emission: Emission) -> Outcome:
    return emission
