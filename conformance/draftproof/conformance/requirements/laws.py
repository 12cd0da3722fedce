"""Requirements on the law of one row: each measures one distance from the required law.

Ids, levels and wording are those of the specification's chapters 2, 3 and 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import Generic, TypeVar

from draftproof.conformance.cases import BatchCase, Case, cases
from draftproof.conformance.lanes.compared import noting_nothing
from draftproof.conformance.lanes.exchange import Asked, Failure, Outcome, as_given
from draftproof.conformance.lanes.observe import (
    BLINDNESS,
    EXACT,
    PROBE,
    SAMPLE,
    SERVED,
    BatchObservation,
    Observation,
    Observed,
    as_observed,
    batch_observed,
    hold_observed,
    joint_laws,
    left_behind,
    observe,
    observe_together,
    with_rows_alone,
)
from draftproof.conformance.lanes.statistics import Budget
from draftproof.conformance.lanes.unwatched import holding_nothing
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import (
    FAIL,
    SKIPPED,
    UNREFERENCED,
    Finding,
    Lengths,
    TextWeight,
    verdict_of,
)
from draftproof.conformance.requirements.sampled import (
    EFFORTS,
    TESTS,
    SequentialTest,
    TestState,
)
from draftproof.conformance.requirements.task import Task, Terms, is_asked
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum import stateful, stateless
from draftproof.reference.process import continued
from draftproof.reference.rational import ZERO, Rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, require_fit, verification_law

Text = Path | Failure


class NotApplicable(Exception):
    """Error of a requirement that does not apply to this adapter; the message says why."""


class OutOfReach(Exception):
    """Error of a requirement whose value cannot be computed for this case; the message says why."""


# --- what is required ----------------------------------------------------------------------


def lossless(seen: Observation) -> Rational:
    """`law.lossless`: TV between the first L + 1 tokens of the text and the target's."""
    horizon = seen.instance.length + 1
    return text_law(seen, horizon).total_variation(_as_text(seen.instance.target.text(horizon)))


def as_reference(seen: Observation) -> Rational:
    """`law.reference`: TV between the joint laws of paths and emission."""
    return total(
        weight * seen.observed[drafts].total_variation(reference_law(seen, drafts))
        for drafts, weight in seen.drafts.items()
    )


def within_support(seen: Observation) -> Rational:
    """`law.support`: the probability of an emission that the target never writes."""
    return seen.emitted().probability(partial(is_excluded, seen.instance))


def prefix_accepted(seen: Observation) -> Rational:
    """`law.prefix`: the probability of a result that is not a drafted prefix, path and token."""
    return seen.emitted().probability(lambda outcome: isinstance(outcome, Failure))


def expected_length(seen: Observation) -> Rational:
    """`length.expected`: |E[accepted length] - the algorithm's value|."""
    return abs(expected_accepted(seen) - reference_expectation(seen))


def bounded_length(seen: Observation) -> Rational:
    """`length.bounded`: the excess of E[accepted length] over the certified optimum."""
    return max(expected_accepted(seen) - optimum_of(seen), ZERO)


def optimal_length(seen: Observation) -> Rational:
    """`length.optimal`: |E[accepted length] - certified optimum|."""
    algorithm = reference_algorithm(seen)
    if not algorithm.optimal:
        raise NotApplicable(f"{algorithm.name} claims no optimum")
    return abs(expected_accepted(seen) - optimum_of(seen))


def fresh_noise(seen: Observation) -> Rational:
    """`random.fresh`: TV between the next token's laws given the accepted tokens, on average."""
    return total(
        weight * _given_accepted(seen.observed[drafts], reference_law(seen, drafts))
        for drafts, weight in seen.drafts.items()
    )


LAWS: Mapping[str, Callable[[Observation], Rational]] = {
    "law.lossless": lossless,
    "law.reference": as_reference,
    "law.support": within_support,
    "law.prefix": prefix_accepted,
    "length.expected": expected_length,
    "length.bounded": bounded_length,
    "length.optimal": optimal_length,
    "random.fresh": fresh_noise,
}
"""Requirements that are judged case by case, on the law of one row."""


# --- how it is judged ----------------------------------------------------------------------


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on the laws of one row: one for every case that fits the adapter."""
    fitting = [case for case in cases(mode) if fits(case, declared)]
    for case in fitting:
        alike = tuple(other for other in fitting if shape_of(other) == shape_of(case))
        yield Task(
            case.id,
            tuple(LAWS),
            (EXACT, PROBE, SAMPLE),
            partial(judge_case, case, alike),
            partial(sequential_test, case),
            partial(findings_of, case),
            partial(asked, case),
            ("laws", *shape_of(case)),
        )


def asked(case: Case, declared: Declaration) -> Iterator[tuple[list[Asked], Declaration]]:
    """Yield the requests for all possible drafts of a case."""
    for drafts in draft_law(as_given(case.instance, declared)):
        yield [(case.instance, drafts)], declared


def shape_of(case: Case) -> tuple[object, ...]:
    """Return the form that requests must share to be rows of one batch."""
    instance = case.instance
    return instance.vocabulary, instance.drafts, instance.length, instance.branching


def fits(case: Case, declared: Declaration) -> bool:
    """Return True if the adapter declares to take the case's drafts."""
    instance = case.instance
    drawn = instance.scheme == declared.scheme and instance.drafts <= declared.max_drafts
    shaped = declared.trees or not instance.branching
    return shaped and (instance.drafts == 1 or drawn)


def judge_case(
    case: Case, alike: tuple[Case, ...], program: Program, terms: Terms
) -> list[Finding]:
    """Return the finding of every requirement of `LAWS` on one case.

    On the probe lane the case is observed together with all asked cases in `alike`, which include
    it.
    """
    if terms.lane == SAMPLE:
        test = sequential_test(case, program.declared, terms)
        return findings_of(case, test, test.run(program.adapter))
    if terms.lane == PROBE and program.declared.batch:
        alike = tuple(other for other in alike if is_asked(other.id, terms.cases))
        seen = probed([case], alike, program)
        if seen is not None:
            return judge(seen[0])
    return judge(observe(program, case, lane=terms.lane))


def probed(
    cases: Sequence[Case], alike: Sequence[Case], program: Program
) -> list[Observation] | None:
    """Return the probed observation of each case, None where cases cannot share calls.

    All in `alike`, which include them, are observed together, once in a process.
    """
    observed = partial(observe_together, program, alike, lane=PROBE)
    together = _together.of(program, [case.id for case in alike], observed)
    if together is None:
        return None
    seen = [together[alike.index(case)] for case in cases]
    for case, own in zip(cases, seen, strict=True):
        hold_observed(program, case, own)
    return seen


def probed_batch(
    batch: BatchCase, alike: Sequence[BatchCase], program: Program
) -> BatchObservation | None:
    """Return the probed observation of a batch, None where batches cannot share calls.

    All in `alike`, which include it, are observed together, once in a process.
    """
    requests = [with_rows_alone(each.rows) for each in alike]

    def observed() -> list[list[Observed]]:
        every = [rows for own in requests for rows in own]
        laws = iter(joint_laws(program, every, lane=PROBE, shares=[SERVED] * len(every)))
        return [[*islice(laws, len(own))] for own in requests]

    together = _batches.of(program, [each.id for each in alike], observed)
    if together is None:
        return None
    return batch_observed(program, batch.id, batch.rows, together[alike.index(batch)])


Found = TypeVar("Found")


class _Together(Generic[Found]):
    """Findings of one adapter on cases that are alike, shared by their tasks."""

    def __init__(self) -> None:
        self._adapter: Adapter | None = None
        self._seen: dict[tuple[str, ...], list[Found] | None] = {}

    def of(
        self, program: Program, cases: Sequence[str], observed: Callable[[], list[Found]]
    ) -> list[Found] | None:
        """Return the observation of each case, None if they cannot be rows of one batch."""
        if program.adapter is not self._adapter:
            self._adapter, self._seen = program.adapter, {}
        key = tuple(cases)
        if key not in self._seen:
            try:
                # Whose task comes first is chance; each holds and notes its own laws.
                with holding_nothing(), noting_nothing():
                    self._seen[key] = observed()
            except BLINDNESS:
                self._seen[key] = None
        return self._seen[key]


_together = _Together[Observation]()
_batches = _Together[list[Observed]]()


def judge(seen: Observation) -> list[Finding]:
    """Return the finding of every requirement of `LAWS` on one observed case."""
    return [judge_requirement(requirement, seen) for requirement in LAWS]


def judge_requirement(requirement: str, seen: Observation) -> Finding:
    """Return the finding of one requirement of `LAWS` on one observed case."""
    try:
        distance = LAWS[requirement](seen)
    except (NotApplicable, OutOfReach) as reason:
        applies = isinstance(reason, OutOfReach)
        return Finding(requirement, seen.case, SKIPPED, detail=str(reason), applies=applies)
    moved = _moved_by_law(requirement, seen.instance)
    verdict = verdict_of(distance, moved * seen.allowed, moved * seen.slack)
    return Finding(
        requirement,
        seen.case,
        verdict,
        distance,
        moved * seen.allowed,
        seen.lane,
        seen.runs,
        _detail(requirement, seen) if verdict == FAIL else "",
        lengths=lengths_of(seen) if requirement == "length.bounded" else None,
        law=_shown_text(seen) if requirement == "law.lossless" else None,
    )


def sequential_test(case: Case, declared: Declaration, terms: Terms) -> SequentialTest:
    """Return the test that judges a case by samples: the same emissions decide all of `LAWS`."""
    return SequentialTest(
        declared,
        case.instance,
        seed=terms.seed_of(case.id),
        effort=EFFORTS[terms.mode],
        budget=Budget(TESTS * terms.false_alarm, TESTS),
        alone=terms.alone,
    )


def findings_of(case: Case, test: SequentialTest, state: TestState) -> list[Finding]:
    """Return the finding of every requirement of `LAWS` on one case, from the state of its test."""
    declared, instance = test.declared, case.instance
    allowed = allowed_distance(declared, instance.vocabulary, instance.length)
    results = test.results(state)

    def judged(requirement: str) -> Finding:
        if requirement not in results:
            return _not_sampled(requirement, case.id, declared.algorithm)
        found = results[requirement].finding(
            requirement,
            case.id,
            allowed=_moved_by_law(requirement, instance) * allowed,
            false_alarm=test.budget.each,
        )
        if requirement == "length.bounded":
            return replace(found, lengths=test.lengths(state))
        if requirement == "law.lossless":
            return replace(found, law=test.texts(state))
        return found

    return [judged(requirement) for requirement in LAWS]


def _not_sampled(requirement: str, case: str, algorithm: str) -> Finding:
    """Return the finding with the reason why the sample lane does not judge a requirement."""
    reason, applies = f"{algorithm} claims no optimum", False
    if requirement == "length.bounded":
        reason, applies = "the optimum is out of reach for an instance of this size", True
    elif algorithm not in ALGORITHMS:
        reason = _UNKNOWN
    elif requirement in ("law.reference", "length.expected"):
        reason = f"{algorithm} does not take the drafts of this case"
    elif requirement == "random.fresh":
        reason = "on the sample lane it follows from law.reference"
    return Finding(requirement, case, SKIPPED, detail=reason, applies=applies)


_UNKNOWN = f"{UNREFERENCED}, but {', '.join(ALGORITHMS)}"


def _moved_by_law(requirement: str, instance: Instance) -> int:
    """Return the most by which the distance moves when the law moves by one in TV.

    An accepted length is in 0..L. In `random.fresh` the law of the emission is divided by that of
    the accepted tokens, which moves by as much again.
    """
    if requirement.startswith("length."):
        return instance.length
    return 2 if requirement == "random.fresh" else 1


def _detail(requirement: str, seen: Observation) -> str:
    """Describe a failure in more detail, if there is more to report."""
    if requirement == "law.prefix":
        failures = {o: w for o, w in seen.emitted().items() if isinstance(o, Failure)}
        return max(failures, key=lambda failure: failures[failure]).what
    if requirement in ("length.bounded", "length.optimal"):
        above = expected_accepted(seen) > optimum_of(seen)
        return "above the optimum, so it cannot be lossless" if above else "below the optimum"
    return ""


# --- what was observed ---------------------------------------------------------------------


def text_law(seen: Observation, horizon: int) -> Law[Text]:
    """Return the law of the first `horizon` tokens, emitted and then continued by the target.

    After a stateful algorithm the modified target that it leaves continues, if the algorithm has
    that emission. An emission that the target never writes cannot be continued and stays unchanged.
    """

    def text(drafts: Drafts) -> Law[Text]:
        left = _left(seen, drafts)
        return seen.observed[drafts].then(
            lambda outcome: _continued(outcome, seen.instance, horizon, left.get(outcome))
        )

    return seen.drafts.then(text)


def is_excluded(instance: Instance, outcome: Outcome) -> bool:
    """Return True if the outcome is an emission that the target never writes."""
    return isinstance(outcome, Emission) and instance.target.joint(outcome.tokens) == 0


def accepted_length(outcome: Outcome) -> int:
    """Return the accepted length; a failure accepts nothing."""
    return len(outcome.accepted) if isinstance(outcome, Emission) else 0


def expected_accepted(seen: Observation) -> Rational:
    """Return the observed E[accepted length]."""
    return seen.emitted().expectation(accepted_length)


def lengths_of(seen: Observation) -> Lengths:
    """Return the observed E[accepted length] beside the certified optimum.

    A lossless verifier reaches at most the optimum; a shortfall costs speed only. Raises
    `OutOfReach`.
    """
    return Lengths(float(expected_accepted(seen)), float(optimum_of(seen)))


def _shown_text(seen: Observation) -> tuple[TextWeight, ...]:
    """Return the observed law of the first L + 1 tokens of the text beside the target's."""
    horizon = seen.instance.length + 1
    observed, target = text_law(seen, horizon), _as_text(seen.instance.target.text(horizon))
    return tuple(
        TextWeight(
            () if isinstance(text, Failure) else text, float(observed[text]), float(target[text])
        )
        for text in sorted(
            {**target.weights, **observed.weights},
            key=lambda text: (isinstance(text, Failure), str(text)),
        )
    )


def _continued(
    outcome: Outcome, instance: Instance, horizon: int, left: Law[Emission] | None
) -> Law[Text]:
    if isinstance(outcome, Failure):
        return Law.certain(outcome)
    if is_excluded(instance, outcome):
        return Law.certain(outcome.tokens)
    return _as_text(continued(left or Law.certain(outcome), instance, horizon))


def _given_accepted(observed: Law[Outcome], expected: Law[Outcome]) -> Rational:
    """Return the mean TV of the next token's laws, given the accepted tokens.

    A prefix that the algorithm never accepts has no law of a next token, and is not counted.
    """
    seen, should = observed.map(_accepted), expected.map(_accepted)
    return total(
        abs(observed[outcome] / seen[kept] - expected[outcome] / should[kept]) * seen[kept] / 2
        for outcome in {**observed.weights, **expected.weights}
        if (kept := _accepted(outcome)) is not None and seen[kept] > 0 and should[kept] > 0
    )


def _accepted(outcome: Outcome) -> tuple[int, Path] | None:
    return (outcome.path, outcome.accepted) if isinstance(outcome, Emission) else None


# --- what it is compared with --------------------------------------------------------------


def reference_law(seen: Observation, drafts: Drafts) -> Law[Outcome]:
    """Return the law of the adapter's algorithm on the drafts. Raises `NotApplicable`."""
    return _reference_law(reference_algorithm(seen), seen.instance, drafts)


def _left(seen: Observation, drafts: Drafts) -> Mapping[Outcome, Law[Emission]]:
    """Return, by its visible part, the emission of a stateful algorithm with its modified rows."""
    with suppress(NotApplicable):
        if reference_algorithm(seen).stateful:
            return left_behind(_emissions(reference_algorithm(seen), seen.instance, drafts))
    return {}


def reference_expectation(seen: Observation) -> Rational:
    """Return E[accepted length] of the adapter's algorithm. Raises `NotApplicable`."""
    return total(
        weight * reference_law(seen, drafts).expectation(accepted_length)
        for drafts, weight in seen.drafts.items()
    )


@lru_cache(maxsize=4096)
def _reference_law(algorithm: Algorithm, instance: Instance, drafts: Drafts) -> Law[Outcome]:
    return _emissions(algorithm, instance, drafts).map(as_observed)


@lru_cache(maxsize=4096)
def _emissions(algorithm: Algorithm, instance: Instance, drafts: Drafts) -> Law[Emission]:
    return verification_law(algorithm, instance, drafts)


def optimum_of(seen: Observation) -> Rational:
    """Return the optimum of stateless verifiers, or of all if the adapter's algorithm is stateful.

    Raises as `optimum` does.
    """
    return optimum(
        seen.instance, is_stateful=seen.algorithm is not None and seen.algorithm.stateful
    )


@lru_cache(maxsize=256)
def optimum(instance: Instance, *, is_stateful: bool = False) -> Rational:
    """Return the certified optimum of stateless verifiers, or of all verifiers.

    Raises `OutOfReach` for more drafts or paths than can be solved.
    """
    if instance.drafts > 1:
        _require_solvable(instance)
    try:
        return (stateful if is_stateful else stateless)(instance).value
    except Unsupported as error:
        raise OutOfReach(str(error)) from None


# A linear program over the paths, solved exactly: 64 paths of which 2 are drawn take 3 s.
_MOST_PATHS = 64
_MOST_SIBLINGS = 10_000


def _require_solvable(instance: Instance) -> None:
    paths = sum(len(z) == instance.length for z in instance.draft.reachable(instance.length))
    siblings = sum(q != 0 for q in instance.draft(())) ** instance.widths[0]
    for count, most, what in (
        (paths, _MOST_PATHS, "paths that can be drafted"),
        (siblings, _MOST_SIBLINGS, "ways to draw the first tokens"),
    ):
        if count > most:
            raise OutOfReach(f"no optimum is computed for {count} {what}, more than {most}")


def reference_algorithm(seen: Observation) -> Algorithm:
    """Return the algorithm that the adapter names.

    Raises `NotApplicable` where the reference does not have that algorithm, or not for these
    drafts.
    """
    if seen.algorithm is None:
        raise NotApplicable(_UNKNOWN)
    try:
        require_fit(seen.algorithm, seen.instance)
    except Unsupported as error:
        raise NotApplicable(str(error)) from None
    return seen.algorithm


def _as_text(law: Law[Path]) -> Law[Text]:
    return law.map(lambda text: text)
