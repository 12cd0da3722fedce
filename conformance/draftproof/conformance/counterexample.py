"""The smallest rows, and the draft, on which an adapter is seen to fail: in numbers and in words.

First all the simplest instances are tried, rows in halves and quarters. If the adapter is right
on them, the instance on which it failed is made smaller, step by step, as long as it still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from draftproof.conformance import story
from draftproof.conformance.adapter import Adapter
from draftproof.conformance.cases import Batch, Case
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.observe import Observation, Outcome, observe, observe_batch
from draftproof.conformance.requirements import (
    FAIL,
    LAWS,
    independent_law,
    judge_requirement,
    reference_law,
)
from draftproof.reference.drafting import Drafts
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Row
from draftproof.reference.rational import ZERO, Rational, rational

# A counterexample should be seen with the naked eye: shrinking keeps at least this distance,
# or half of what there was.
_CLEAR = rational("1/100")

_MOST_STEPS = 400


@dataclass(frozen=True)
class Counterexample:
    """An instance on which a requirement fails, the draft that shows it best, and the story.

    `observed` and `expected` are the laws of what is emitted on that draft; `expected` is None
    where the reference does not know the algorithm.
    """

    requirement: str
    instance: Instance
    distance: Rational
    drafts: Drafts
    observed: Law[Outcome]
    expected: Law[Outcome] | None
    words: tuple[str, ...]


Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]
"""Wraps an iteration over a number of steps with a title, to show how far it is."""


def explain(
    adapter: Adapter, requirement: str, failed: Instance, *, progress: Progress
) -> Counterexample:
    """Return a small counterexample to a requirement that fails on `failed`."""
    distance = _distance(adapter, requirement, failed)
    clear = min(_CLEAR, distance / 2)

    def fails(instance: Instance) -> bool:
        return _distance(adapter, requirement, instance) >= clear

    simplest = list(_simplest())
    tried = progress(simplest, len(simplest), "simplest rows")
    small = next((instance for instance in tried if fails(instance)), None)
    if small is None:
        small = _shrunk(failed, fails, progress)
    return _account(requirement, small, observe(adapter, _as_case(small)))


def explain_batch(adapter: Adapter, batch: Batch) -> Counterexample:
    """Return the account of a batch whose rows are not independent."""
    seen = observe_batch(adapter, batch.id, batch.rows)
    independent = independent_law(seen)
    worst = max(independent, key=lambda rows: abs(seen.joint[rows] - independent[rows]))
    instance, drafts = batch.rows[0]
    return Counterexample(
        "batch.invariant",
        instance,
        seen.joint.total_variation(independent),
        drafts,
        seen.alone[0],
        None,
        story.of_batch(batch, worst, seen.joint[worst], independent[worst]),
    )


def _distance(adapter: Adapter, requirement: str, instance: Instance) -> Rational:
    """Return the distance of a requirement that fails on the instance, zero if it does not."""
    try:
        finding = judge_requirement(requirement, observe(adapter, _as_case(instance)))
    except OpaqueRandomness:
        return ZERO
    if finding.verdict != FAIL or finding.distance is None:
        return ZERO
    return finding.distance


def _as_case(instance: Instance) -> Case:
    return Case("counterexample", "", "quick", instance)


# --- small instances ---------------------------------------------------------------------


def _simplest() -> Iterator[Instance]:
    """Yield context-free instances in halves and quarters, the smallest first.

    Beyond two tokens, only drafts with falling probabilities: the others are the same up to names.
    """
    for vocabulary, length in ((2, 1), (2, 2), (3, 1)):
        rows = _simple_rows(vocabulary)
        drafts = [q for q in rows if vocabulary == 2 or list(q) == sorted(q, reverse=True)]
        pairs = product(rows, drafts)
        for p, q in sorted(pairs, key=lambda pair: _complexity(pair[0]) + _complexity(pair[1])):
            yield Instance(
                Model("target", vocabulary, {(): p}, context_free=True),
                Model("draft", vocabulary, {(): q}, context_free=True),
                length=length,
            )


def _simple_rows(vocabulary: int) -> list[Row]:
    quarters = product(range(5), repeat=vocabulary)
    rows = [tuple(rational(n) / 4 for n in shares) for shares in quarters if sum(shares) == 4]
    return sorted(rows, key=_complexity)


def _complexity(row: Row) -> int:
    return sum(int(weight.numerator + weight.denominator) for weight in row)


def _shrunk(instance: Instance, fails: Callable[[Instance], bool], progress: Progress) -> Instance:
    """Return a smaller instance that still fails, as small as single steps can make it."""
    for _ in progress(range(_MOST_STEPS), _MOST_STEPS, "smaller rows"):
        smaller = next((step for step in _steps(instance) if fails(step)), None)
        if smaller is None:
            return instance
        instance = smaller
    return instance


def _steps(instance: Instance) -> Iterator[Instance]:
    """Yield instances one step simpler: shorter, over fewer tokens, or with a simpler row."""
    if instance.length > 1:
        yield replace(instance, length=instance.length - 1)
    if instance.vocabulary > 2:
        for token in range(instance.vocabulary):
            target = _without_token(instance.target, token)
            draft = _without_token(instance.draft, token)
            if target is not None and draft is not None:
                yield replace(instance, target=target, draft=draft)
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
    """Return the model conditioned on never saying `token`, None where it must say it."""
    rows = {}
    for context, row in model.rows.items():
        if token not in context:
            if row[token] == 1:
                return None
            kept = tuple(w / (1 - row[token]) for t, w in enumerate(row) if t != token)
            rows[tuple(t - (t > token) for t in context)] = kept
    return Model(model.name, model.vocabulary - 1, rows, model.context_free)


def _account(requirement: str, nominal: Instance, seen: Observation) -> Counterexample:
    expected: dict[Drafts, Law[Outcome]] = {}
    if seen.algorithm is not None:
        expected = {drafts: reference_law(seen, drafts) for drafts in seen.drafts}

    def discrepancy(drafts: Drafts) -> Rational:
        if drafts not in expected:
            return seen.drafts[drafts]
        return seen.drafts[drafts] * seen.observed[drafts].total_variation(expected[drafts])

    drafts = max(seen.drafts, key=discrepancy)
    distance = LAWS[requirement](seen)
    return Counterexample(
        requirement,
        nominal,
        distance,
        drafts,
        seen.observed[drafts],
        expected.get(drafts),
        story.of_case(requirement, distance, nominal, seen, drafts, expected.get(drafts)),
    )
