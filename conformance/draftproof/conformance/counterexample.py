"""The smallest rows, and the draft, on which an adapter is seen to fail: in numbers and in words.

First all the simplest instances are tried, rows in halves and quarters. If the adapter is right
on them, the instance on which it failed is made smaller, step by step, as long as it still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from draftproof.conformance.adapter import Adapter
from draftproof.conformance.cases import Batch, Case
from draftproof.conformance.observe import (
    Failure,
    Observation,
    Outcome,
    observe,
    observe_batch,
)
from draftproof.conformance.requirements import (
    FAIL,
    LAWS,
    NotApplicable,
    text_law,
    verdict_of,
)
from draftproof.reference.drafting import Drafts
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path, Row, context_key
from draftproof.reference.optimum import stateless
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import Rational, rational, total
from draftproof.reference.verifiers import emission_law, verification_law

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
    expected: Law[Emission] | None
    words: tuple[str, ...]


def explain(adapter: Adapter, requirement: str, failed: Instance) -> Counterexample:
    """Return a small counterexample to a requirement that fails on `failed`."""
    distance = _distance(adapter, requirement, failed)
    clear = min(_CLEAR, distance / 2)

    def fails(instance: Instance) -> bool:
        found = _distance(adapter, requirement, instance)
        return found >= clear

    small = next((instance for instance in _simplest() if fails(instance)), None)
    if small is None:
        small = _shrunk(failed, fails)
    return _told(requirement, small, observe(adapter, _as_case(small)))


def explain_batch(adapter: Adapter, batch: Batch) -> Counterexample:
    """Return the account of a batch whose rows are not independent."""
    seen = observe_batch(adapter, batch.id, batch.rows)
    rows = max(
        product(*seen.alone),
        key=lambda outcome: abs(seen.joint[outcome] - _independent(seen.alone, outcome)),
    )
    listed = "; ".join(f"row {i}: {_spoken(outcome)}" for i, outcome in enumerate(rows))
    instance, drafts = batch.rows[0]
    words = (
        f"batch.invariant fails in a batch of {len(batch.rows)} rows: {listed}",
        f"happens with probability {_number(seen.joint[rows])}; "
        f"the rows verified alone give {_number(_independent(seen.alone, rows))}",
    )
    single = seen.alone[0]
    return Counterexample(
        "batch.invariant",
        instance,
        abs(seen.joint[rows] - _independent(seen.alone, rows)),
        drafts,
        single,
        None,
        words,
    )


def _independent(alone: tuple[Law[Outcome], ...], rows: tuple[Outcome, ...]) -> Rational:
    probability = rational(1)
    for law, row in zip(alone, rows, strict=True):
        probability *= law[row]
    return probability


def _distance(adapter: Adapter, requirement: str, instance: Instance) -> Rational:
    """Return the distance of a requirement that fails on the instance, zero if it does not."""
    seen = observe(adapter, _as_case(instance))
    try:
        distance = LAWS[requirement](seen)
    except NotApplicable:
        return rational(0)
    scale = instance.length if requirement.startswith("length.") else 1
    failed = verdict_of(distance, scale * seen.allowed, scale * seen.slack) == FAIL
    return distance if failed else rational(0)


def _as_case(instance: Instance) -> Case:
    return Case("counterexample", "", "quick", instance)


# --- small instances ---------------------------------------------------------------------


def _simplest() -> Iterator[Instance]:
    """Yield context-free instances in halves and quarters, the smallest first."""
    for vocabulary, length in ((2, 1), (2, 2), (3, 1)):
        rows = _simple_rows(vocabulary)
        for p, q in sorted(product(rows, rows), key=lambda pair: sum(map(_complexity, pair))):
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


def _shrunk(instance: Instance, fails: Callable[[Instance], bool]) -> Instance:
    """Return a smaller instance that still fails, as small as single steps can make it."""
    for _ in range(_MOST_STEPS):
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
            fewer = [_without_token(model, token) for model in (instance.target, instance.draft)]
            if None not in fewer:
                yield replace(instance, target=fewer[0], draft=fewer[1])
    for name in ("target", "draft"):
        model: Model = getattr(instance, name)
        if not model.context_free:
            free = Model(name, model.vocabulary, {(): model(())}, context_free=True)
            yield replace(instance, **{name: free})
        for context, row in model.rows.items():
            for simpler in _simple_rows(model.vocabulary):
                if _complexity(simpler) < _complexity(row):
                    rows = {**model.rows, context: simpler}
                    yield replace(instance, **{name: replace(model, rows=rows)})


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


# --- words -------------------------------------------------------------------------------


def _told(requirement: str, nominal: Instance, seen: Observation) -> Counterexample:
    expected = _expected(seen)
    drafts = max(seen.drafts, key=lambda d: seen.drafts[d] * _discrepancy(seen, expected, d))
    observed, due = seen.observed[drafts], expected.get(drafts)
    return Counterexample(
        requirement,
        nominal,
        LAWS[requirement](seen),
        drafts,
        observed,
        due,
        tuple(_sentences(requirement, nominal, seen, drafts, due)),
    )


def _expected(seen: Observation) -> dict[Drafts, Law[Emission]]:
    if seen.algorithm is None:
        return {}
    return {d: verification_law(seen.algorithm, seen.instance, d) for d in seen.drafts}


def _discrepancy(
    seen: Observation, expected: dict[Drafts, Law[Emission]], drafts: Drafts
) -> Rational:
    if drafts not in expected:
        return rational(1)
    return seen.observed[drafts].total_variation(expected[drafts].map(_as_outcome))


def _as_outcome(emission: Emission) -> Outcome:
    return emission


def _sentences(
    requirement: str,
    nominal: Instance,
    seen: Observation,
    drafts: Drafts,
    expected: Law[Emission] | None,
) -> Iterator[str]:
    yield (
        f"{requirement} fails at V={nominal.vocabulary}, L={nominal.length}, "
        f"K={nominal.drafts}, at distance {_number(LAWS[requirement](seen))}."
    )
    path = drafts[0]
    for model, depth in ((nominal.target, nominal.length + 1), (nominal.draft, nominal.length)):
        contexts = [()] if model.context_free else [path[:i] for i in range(depth)]
        rows = "; ".join(f"{_context(c, model)} {_row(model(c))}" for c in contexts)
        yield f"The {model.name} says {rows}."
    observed = seen.observed[drafts]
    yield f"The draft is {list(path)}, which comes with probability {seen.drafts[drafts]}."
    if expected is not None:
        yield from _differences(observed, expected, seen.algorithm.name)  # type: ignore[union-attr]  # expected only of a known algorithm
    if requirement == "law.lossless":
        yield _worst_text(seen)
    if requirement.startswith("length."):
        yield from _lengths(seen)


def _differences(
    observed: Law[Outcome], expected: Law[Emission], algorithm: str
) -> Iterator[str]:
    due = expected.map(_as_outcome)
    crashes = [outcome for outcome in observed if isinstance(outcome, Failure)]
    for crash in crashes:
        yield f"It {_spoken(crash)}, with probability {_number(observed[crash])}."
    lengths = {_length(o) for o in (*observed, *due) if isinstance(o, Emission)}
    wrong = False
    for length in sorted(lengths):
        seen, should = (
            law.probability(lambda o, n=length: _length(o) == n) for law in (observed, due)
        )
        if abs(seen - should) > _VISIBLE:
            wrong = True
            yield (
                f"It accepts {length} of them with probability {_number(seen)}; "
                f"{algorithm} verification with {_number(should)}."
            )
    if not wrong and not crashes:
        yield "The accepted length has the right law; the next token has not:"
    worst = max({*observed, *due}, key=lambda o: abs(observed[o] - due[o]))
    yield (
        f"It {_spoken(worst)} with probability {_number(observed[worst])}; "
        f"{algorithm} verification with {_number(due[worst])}."
    )


_VISIBLE = rational("1/100000")


def _length(outcome: Outcome) -> int:
    return len(outcome.accepted) if isinstance(outcome, Emission) else -1


def _worst_text(seen: Observation) -> str:
    horizon = seen.instance.length + 1
    observed = text_law(seen, horizon)
    target = seen.instance.target.text(horizon)
    longest = [text for text in observed if isinstance(text, tuple) and len(text) == horizon]
    # A short prefix that differs says more than a long text.
    for length in range(1, horizon + 1):
        prefixes = {text[:length] for text in (*longest, *target)}

        def mass(law: Law[Path], prefix: Path) -> Rational:
            return total(
                w
                for text, w in law.items()
                if isinstance(text, tuple) and text[: len(prefix)] == prefix
            )

        def gap(prefix: Path) -> Rational:
            return abs(mass(observed, prefix) - mass(target, prefix))  # type: ignore[arg-type]  # failures are passed over

        worst = max(sorted(prefixes), key=gap)
        if gap(worst) > _VISIBLE or length == horizon:
            break
    return (
        f"Over all drafts, the text {list(worst)} comes with probability "
        f"{_number(mass(observed, worst))}; the target says {_number(mass(target, worst))}."  # type: ignore[arg-type]  # as above
    )


def _lengths(seen: Observation) -> Iterator[str]:
    observed = seen.emitted().expectation(lambda o: max(_length(o), 0))
    if seen.algorithm is not None:
        exact = expected_accepted(emission_law(seen.algorithm, seen.instance))
        yield f"E[accepted length] is {_number(observed)}; {seen.algorithm.name} has {exact}."
    optimum = stateless(seen.instance).value
    if observed > optimum + _VISIBLE:
        yield f"No lossless verifier exceeds {optimum}: this one cannot be lossless."


def _spoken(outcome: Outcome) -> str:
    if isinstance(outcome, Failure):
        return outcome.what
    kept = f"accepts {list(outcome.accepted)}" if outcome.accepted else "accepts nothing"
    return f"{kept} and says {outcome.next_token}"


def _context(context: Path, model: Model) -> str:
    if model.context_free:
        return "in every context"
    return f"after {context_key(context)}" if context else "at first"


def _row(row: Row) -> str:
    return "(" + ", ".join(map(str, row)) + ")"


def _number(value: Rational) -> str:
    """Return an exact fraction if it is a short one, six digits otherwise."""
    exact = str(value)
    return exact if len(exact) <= 9 else f"{float(value):.6f}"
