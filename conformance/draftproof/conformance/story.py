"""A counterexample in words: which rows, which draft, what is emitted, and what should be."""

from __future__ import annotations

from collections.abc import Iterator

from draftproof.conformance.cases import Batch
from draftproof.conformance.observe import Failure, Observation, Outcome
from draftproof.conformance.requirements import (
    Text,
    accepted_length,
    expected_accepted,
    text_law,
)
from draftproof.reference.drafting import Drafts
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path, context_key
from draftproof.reference.optimum import stateless
from draftproof.reference.process import expected_accepted as exact_expectation
from draftproof.reference.rational import ZERO, Rational, rational
from draftproof.reference.verifiers import emission_law

# Rounding is not part of the story.
_VISIBLE = rational("1/100000")

_MOST_EMISSIONS = 3


def of_case(
    requirement: str,
    distance: Rational,
    nominal: Instance,
    seen: Observation,
    drafts: Drafts,
    expected: Law[Outcome] | None,
) -> tuple[str, ...]:
    """Return the story of one instance, told at the drafts that show the failure best."""
    (path,) = drafts
    observed = seen.observed[drafts]
    lines = [
        f"{requirement} fails at V={nominal.vocabulary}, L={nominal.length}, "
        f"K={nominal.drafts}: distance {_number(distance)}",
        f"target: {_rows(nominal.target, path, nominal.length + 1)}",
        f"draft: {_rows(nominal.draft, path, nominal.length)}",
        f"drafted: {list(path)}, which has probability {nominal.draft.joint(path)}",
    ]
    if expected is not None:
        lines += _lengths(observed, expected)
        lines += _emissions(observed, expected)
    if requirement == "law.lossless":
        lines.append(_text(seen))
    if requirement.startswith("length."):
        lines += _expectation(seen)
    return tuple(lines)


def of_batch(
    batch: Batch, worst: tuple[Outcome, ...], together: Rational, alone: Rational
) -> tuple[str, ...]:
    """Return the story of a batch: what its rows do together that they would not do alone."""
    return (
        f"batch.invariant fails in the batch {batch.id} of {len(batch.rows)} rows",
        *(
            f"row {i}: drafted {list(path)}, {_spoken(outcome)}"
            for i, ((_, (path,)), outcome) in enumerate(zip(batch.rows, worst, strict=True))
        ),
        f"all this together has probability {_number(together)}, "
        f"but {_number(alone)} if the rows are verified one by one",
    )


def _rows(model: Model, path: Path, depth: int) -> str:
    if model.context_free:
        return f"{_row(model(()))} in every context"
    contexts = [path[:i] for i in range(depth)]
    return ", ".join(f"{_row(model(c))} {_where(c)}" for c in contexts)


def _row(row: tuple[Rational, ...]) -> str:
    return f"({', '.join(map(str, row))})"


def _where(context: Path) -> str:
    return f"after {context_key(context)}" if context else "at first"


def _lengths(observed: Law[Outcome], expected: Law[Outcome]) -> Iterator[str]:
    """Tell where the law of the accepted length is wrong."""
    seen, should = observed.map(accepted_length), expected.map(accepted_length)
    wrong = [n for n in sorted({*seen, *should}) if abs(seen[n] - should[n]) > _VISIBLE]
    for length in wrong:
        yield (
            f"accepted length {length}: probability {_number(seen[length])}, "
            f"should be {_number(should[length])}"
        )
    if not wrong:
        yield "the accepted length has the right law, what follows it has not"


def _emissions(observed: Law[Outcome], expected: Law[Outcome]) -> Iterator[str]:
    """Tell which emissions are most wrong."""

    def gap(outcome: Outcome) -> Rational:
        return abs(observed[outcome] - expected[outcome])

    wrong = [
        outcome for outcome in {**observed.weights, **expected.weights} if gap(outcome) > _VISIBLE
    ]
    for outcome in sorted(wrong, key=gap, reverse=True)[:_MOST_EMISSIONS]:
        yield (
            f"{_spoken(outcome)}: probability {_number(observed[outcome])}, "
            f"should be {_number(expected[outcome])}"
        )


def _text(seen: Observation) -> str:
    """Tell the shortest text whose probability is visibly wrong."""
    horizon = seen.instance.length + 1
    whole = text_law(seen, horizon)
    for length in range(1, horizon + 1):
        observed, target = _beginnings(whole, length), seen.instance.target.text(length)
        texts = {**target.weights, **observed}
        worst = max(texts, key=lambda text: abs(observed.get(text, ZERO) - target[text]))
        if abs(observed.get(worst, ZERO) - target[worst]) > _VISIBLE:
            break
    probability = _number(observed.get(worst, ZERO))
    return (
        f"over all drafts, the text {list(worst)} has probability {probability}, "
        f"the target says {_number(target[worst])}"
    )


def _beginnings(law: Law[Text], length: int) -> dict[Path, Rational]:
    """Return the probabilities of the first tokens; failures have none."""
    beginnings: dict[Path, Rational] = {}
    for text, weight in law.items():
        if not isinstance(text, Failure):
            beginnings[text[:length]] = beginnings.get(text[:length], ZERO) + weight
    return beginnings


def _expectation(seen: Observation) -> Iterator[str]:
    observed = expected_accepted(seen)
    if seen.algorithm is not None:
        exact = exact_expectation(emission_law(seen.algorithm, seen.instance))
        yield (
            f"E[accepted length] over all drafts: {_number(observed)}, "
            f"{seen.algorithm.name} verification has {_number(exact)}"
        )
    optimum = stateless(seen.instance).value
    if observed > optimum + _VISIBLE:
        yield f"no lossless verifier exceeds {_number(optimum)}, so this one cannot be lossless"


def _spoken(outcome: Outcome) -> str:
    if isinstance(outcome, Failure):
        return f"it {outcome.what}"
    kept = f"accepts {list(outcome.accepted)}" if outcome.accepted else "accepts nothing"
    return f"{kept}, next token {outcome.next_token}"


def _number(value: Rational) -> str:
    """Return an exact fraction if it is a short one, six digits otherwise."""
    exact = str(value)
    return exact if len(exact) <= 9 else f"{float(value):.6g}"
