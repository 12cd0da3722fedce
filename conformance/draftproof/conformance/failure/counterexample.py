"""Small counterexamples: the smallest rows, and the drafts, on which an adapter fails.

The search first tries all of the simplest instances, with rows in halves and quarters, of one draft
and then of more. If the adapter is correct on them, the search shrinks the failing instance step by
step as long as the adapter still fails on it. Batches are shrunk in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol, TypeVar

from draftproof.conformance.cases import BatchCase, Case
from draftproof.conformance.cases.rows import context_free
from draftproof.conformance.failure import story
from draftproof.conformance.lanes.exchange import Asked, Failure, Outcome
from draftproof.conformance.lanes.observe import (
    BLINDNESS,
    COMPUTING,
    EXACT,
    PROBE,
    Observation,
    observe,
    observe_batch,
)
from draftproof.conformance.protocol.adapter import Program
from draftproof.conformance.requirements.batches import independent_law, judge_batch
from draftproof.conformance.requirements.finding import FAIL, Finding
from draftproof.conformance.requirements.laws import (
    LAWS,
    NotApplicable,
    accepted_length,
    is_excluded,
    judge_requirement,
    reference_law,
)
from draftproof.conformance.requirements.settings import (
    PLAIN,
    Setting,
    in_setting,
    setting_to_json,
    smaller_settings,
    told_setting,
)
from draftproof.reference.drafting import Drafts
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path, Row, instance_to_json
from draftproof.reference.rational import ZERO, Rational, rational

# A counterexample should be seen with the naked eye: shrinking keeps at least this distance,
# or half of what there was.
_CLEAR = rational("1/100")

_MOST_STEPS = 400

Rows = tuple[Asked, ...]
Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class Counterexample:
    """An instance on which a requirement fails, the drafts that show it best, and the story.

    `observed` and `expected` are the laws of the emission on those drafts; `expected` is None where
    the reference does not know the algorithm.
    """

    requirement: str
    instance: Instance
    distance: Rational
    drafts: Drafts
    observed: Law[Outcome]
    expected: Law[Outcome] | None
    words: tuple[str, ...]
    setting: Setting = PLAIN


@dataclass(frozen=True)
class BatchCounterexample:
    """A batch on which a requirement fails, and the story.

    `observed` is the joint law of the emissions on its rows, `expected` the joint law that they
    would have if each row were verified alone.
    """

    requirement: str
    rows: Rows
    distance: Rational
    observed: Law[tuple[Outcome, ...]]
    expected: Law[tuple[Outcome, ...]]
    words: tuple[str, ...]


class Progress(Protocol):
    """Function that wraps an iteration over a number of steps, to display its progress."""

    def __call__(
        self, steps: Iterable[Any], count: int, title: str, names: Sequence[str] = (), /
    ) -> Iterable[Any]:
        """Iterate over the steps; they can have names."""


def silently(
    steps: Iterable[Any], _count: int, _title: str, _names: Sequence[str] = (), /
) -> Iterable[Any]:
    """Show no progress."""
    return steps


def explain(
    program: Program,
    requirement: str,
    failed: Instance,
    *,
    setting: Setting = PLAIN,
    lane: str = EXACT,
    progress: Progress = silently,
) -> Counterexample | None:
    """Return a small counterexample to a requirement of `LAWS` that fails on `failed`.

    Its `setting`, the surroundings in the call, is reduced first. Returns None if the failure does
    not show on the lane, which must compute laws.
    """
    _require_laws(lane)

    def seen_in(around: Setting, instance: Instance) -> Observation:
        return observe(in_setting(program, around), _as_case(instance), lane=lane)

    def judged(instance: Instance) -> Finding:
        return judge_requirement(requirement, seen_in(least, instance))

    def judged_around(around: Setting) -> Finding:
        return judge_requirement(requirement, seen_in(around, failed))

    least = setting
    if setting != PLAIN:
        least = _smallest(setting, judged_around, [PLAIN], smaller_settings, progress) or setting
    small = _smallest(failed, judged, list(_simplest(failed)), _steps, progress)
    if small is None:
        return None
    found = _account(requirement, small, seen_in(least, small))
    if least == PLAIN:
        return found
    first, *others = found.words
    words = (first, f"asked {told_setting(least)}", *others)
    return replace(found, words=words, setting=least)


def explain_batch(
    program: Program, batch: BatchCase, *, lane: str = EXACT, progress: Progress = silently
) -> BatchCounterexample | None:
    """Return a small counterexample to `batch.invariant`, which fails on `batch`.

    Returns None if the failure does not show on the lane, which must compute laws.
    """
    _require_laws(lane)

    def judged(rows: Rows) -> Finding:
        return judge_batch(observe_batch(program, "counterexample", rows, lane=lane))

    rows = _smallest(batch.rows, judged, list(_simplest_pairs()), _batch_steps, progress)
    if rows is None:
        return None
    seen = observe_batch(program, "counterexample", rows, lane=lane)
    independent = independent_law(seen)
    outcomes = {**seen.joint.weights, **independent.weights}
    worst = max(outcomes, key=lambda each: abs(seen.joint[each] - independent[each]))
    away = seen.joint.total_variation(independent)
    words = story.of_batch(rows, away, worst, seen.joint[worst], independent[worst])
    return BatchCounterexample("batch.invariant", rows, away, seen.joint, independent, tuple(words))


def _smallest(
    failed: Candidate,
    judged: Callable[[Candidate], Finding],
    simplest: list[Candidate],
    steps: Callable[[Candidate], Iterator[Candidate]],
    progress: Progress,
) -> Candidate | None:
    """Return the first of the simplest cases that clearly fails, else `failed` shrunk by steps."""

    def distance(candidate: Candidate) -> Rational:
        """Return the distance of a requirement that fails, zero if it does not."""
        try:
            finding = judged(candidate)
        except BLINDNESS:
            return ZERO
        return finding.distance if finding.distance and finding.verdict == FAIL else ZERO

    clear = min(_CLEAR, distance(failed) / 2)
    if clear == 0:
        return None
    tried: Iterable[Candidate] = progress(simplest, len(simplest), "simplest rows")
    first = next((candidate for candidate in tried if distance(candidate) >= clear), None)
    if first is not None:
        return first
    for _ in progress(range(_MOST_STEPS), _MOST_STEPS, "smaller rows"):
        smaller = next((step for step in steps(failed) if distance(step) >= clear), None)
        if smaller is None:
            break
        failed = smaller
    return failed


def _require_laws(lane: str) -> None:
    if lane not in COMPUTING:
        raise ValueError(f"a counterexample needs the lane {EXACT!r} or {PROBE!r}, got {lane!r}")


def _as_case(instance: Instance) -> Case:
    return Case("counterexample", "", "quick", instance)


# --- what is simplest ----------------------------------------------------------------------


def _simplest(failed: Instance) -> Iterator[Instance]:
    """Yield context-free instances in halves and quarters, the smallest first, up to its K.

    Beyond two tokens, only drafts with falling probabilities are included: the others are the same
    up to renaming. A tree is tried with two instances, because some failures show only on trees.
    """
    most = min(failed.drafts, 2) if failed.branching else failed.drafts
    for drafts, (vocabulary, length) in product(range(1, most + 1), ((2, 1), (3, 1), (2, 2))):
        for instance in _simplest_of(vocabulary, length):
            q = list(instance.draft(()))
            several = replace(instance, drafts=drafts, scheme=failed.scheme)
            if (vocabulary == 2 or q == sorted(q, reverse=True)) and _draws_all(several):
                yield several


def _simplest_pairs() -> Iterator[Rows]:
    """Yield two rows of one draft of one token, from one instance, the simplest first."""
    for instance in _simplest_of(2, 1):
        drawn = [((token,),) for token, q in enumerate(instance.draft(())) if q != 0]
        yield from (((instance, one), (instance, other)) for one, other in product(drawn, drawn))


def _simplest_of(vocabulary: int, length: int) -> Iterator[Instance]:
    """Yield instances of one draft in halves and quarters, the simplest rows first."""
    pairs = product(_simple_rows(vocabulary), repeat=2)
    for p, q in sorted(pairs, key=lambda pair: _complexity(pair[0]) + _complexity(pair[1])):
        yield context_free(p, q, length=length)


def _draws_all(instance: Instance) -> bool:
    """Return True if K paths are always drawn: the scheme never runs out of first tokens."""
    support = sum(q != 0 for q in instance.draft(()))
    return instance.scheme == "iid" or support >= instance.drafts


def _simple_rows(vocabulary: int) -> list[Row]:
    quarters = product(range(5), repeat=vocabulary)
    rows = [tuple(rational(n) / 4 for n in shares) for shares in quarters if sum(shares) == 4]
    return sorted(rows, key=_complexity)


def _complexity(row: Row) -> int:
    return sum(int(weight.numerator + weight.denominator) for weight in row)


# --- what is one step simpler --------------------------------------------------------------


def _steps(instance: Instance) -> Iterator[Instance]:
    """Yield instances one step simpler: fewer drafts, shorter paths, fewer tokens, simpler rows."""
    return filter(_draws_all, _all_steps(instance))


def _all_steps(instance: Instance) -> Iterator[Instance]:
    if instance.branching:
        # A tree keeps its shape.
        yield from _with_simpler_rows(instance)
        return
    if instance.drafts > 1:
        yield replace(instance, drafts=instance.drafts - 1)
    if instance.length > 1:
        yield replace(instance, length=instance.length - 1)
    if instance.vocabulary > 2:
        for token in range(instance.vocabulary):
            target = _without_token(instance.target, token)
            draft = _without_token(instance.draft, token)
            if target is not None and draft is not None:
                yield replace(instance, target=target, draft=draft)
    yield from _with_simpler_rows(instance)


def _with_simpler_rows(instance: Instance) -> Iterator[Instance]:
    for simpler in _simpler(instance.target):
        yield replace(instance, target=simpler)
    for simpler in _simpler(instance.draft):
        yield replace(instance, draft=simpler)


def _simpler(model: Model) -> Iterator[Model]:
    """Yield the model with one row for all contexts, or with one row made simpler."""
    if not model.context_free:
        yield Model(model.name, model.vocabulary, {(): model(())}, context_free=True)
    for context, row in model.rows.items():
        for simpler in _simple_rows(model.vocabulary):
            if _complexity(simpler) < _complexity(row):
                yield replace(model, rows={**model.rows, context: simpler})


def _without_token(model: Model, token: int) -> Model | None:
    """Return the model conditioned on not writing `token`; None where it always writes `token`."""
    rows = {}
    for context, row in model.rows.items():
        if token not in context:
            if row[token] == 1:
                return None
            kept = tuple(w / (1 - row[token]) for t, w in enumerate(row) if t != token)
            rows[tuple(t - (t > token) for t in context)] = kept
    return Model(model.name, model.vocabulary - 1, rows, model.context_free)


def _batch_steps(rows: Rows) -> Iterator[Rows]:
    """Yield batches one step simpler: fewer rows, shorter paths, equal or simpler rows."""
    places = range(len(rows))
    if len(rows) > 2:
        yield from ((*rows[:i], *rows[i + 1 :]) for i in places)
    if all(instance.length > 1 and not instance.branching for instance, _ in rows):
        yield tuple(map(_shorter, rows))
    for i, j in product(places, places):
        if j < i and rows[i] != rows[j]:
            yield (*rows[:i], rows[j], *rows[i + 1 :])
    for i in places:
        instance, drafts = rows[i]
        for simpler in _with_simpler_rows(instance):
            if all(simpler.draft.joint(path) != 0 for path in drafts):
                yield (*rows[:i], (simpler, drafts), *rows[i + 1 :])


def _shorter(asked: Asked) -> Asked:
    instance, drafts = asked
    return replace(instance, length=instance.length - 1), tuple(path[:-1] for path in drafts)


# --- what is told --------------------------------------------------------------------------


def _account(requirement: str, nominal: Instance, seen: Observation) -> Counterexample:
    wrong = story.wrong_text(seen)

    def blame(drafts: Drafts) -> Rational:
        return seen.drafts[drafts] * _blame(requirement, seen, drafts, wrong)

    drafts = max(seen.drafts, key=blame)
    distance, expected = LAWS[requirement](seen), _expected(seen, drafts)
    return Counterexample(
        requirement,
        nominal,
        distance,
        drafts,
        seen.observed[drafts],
        expected,
        tuple(story.of_case(requirement, distance, nominal, seen, drafts, expected)),
    )


def _blame(requirement: str, seen: Observation, drafts: Drafts, wrong: Path) -> Rational:
    """Return the part of the failure on these drafts; `wrong` is a text of wrong probability."""
    observed, expected = seen.observed[drafts], _expected(seen, drafts)
    if requirement == "law.support":
        return observed.probability(lambda outcome: is_excluded(seen.instance, outcome))
    if requirement == "law.prefix":
        return observed.probability(lambda outcome: isinstance(outcome, Failure))
    if expected is not None:
        return observed.total_variation(expected)
    if requirement.startswith("length."):
        return observed.expectation(accepted_length)
    return observed.probability(lambda outcome: story.starts_with(outcome, wrong))


def _expected(seen: Observation, drafts: Drafts) -> Law[Outcome] | None:
    try:
        return reference_law(seen, drafts)
    except NotApplicable:
        return None


# --- as documents ------------------------------------------------------------------------


def counterexample_to_json(
    found: Counterexample | BatchCounterexample | None,
) -> dict[str, Any] | None:
    """Return the `counterexample` part of a certificate."""
    if found is None:
        return None
    if isinstance(found, BatchCounterexample):
        asked: dict[str, Any] = {"rows": [_asked_to_json(*row) for row in found.rows]}
    else:
        asked = _asked_to_json(found.instance, found.drafts)
        if told := setting_to_json(found.setting):
            asked["setting"] = told
    return {
        "requirement": found.requirement,
        "distance": float(found.distance),
        "words": list(found.words),
        **asked,
        "observed": _law_to_json(found.observed),
        "expected": None if found.expected is None else _law_to_json(found.expected),
    }


def _asked_to_json(instance: Instance, drafts: Drafts) -> dict[str, Any]:
    return {"instance": instance_to_json(instance), "draft": [list(path) for path in drafts]}


def _law_to_json(law: Law[Any]) -> list[dict[str, Any]]:
    return [
        {**_outcome_to_json(outcome), "probability": float(weight)}
        for outcome, weight in law.items()
    ]


def _outcome_to_json(outcome: Outcome | tuple[Outcome, ...]) -> dict[str, Any]:
    if isinstance(outcome, tuple):
        return {"rows": [_outcome_to_json(row) for row in outcome]}
    if isinstance(outcome, Failure):
        return {"failure": outcome.what}
    return {
        "path": outcome.path,
        "accepted": list(outcome.accepted),
        "next": outcome.next_token,
    }
