"""Counterexamples in words: the rows, the drafts, and the observed and expected emissions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from draftproof.conformance.lanes.exchange import Asked, Failure, Outcome
from draftproof.conformance.lanes.observe import Observation
from draftproof.conformance.requirements.laws import (
    NotApplicable,
    OutOfReach,
    Text,
    accepted_length,
    expected_accepted,
    is_excluded,
    optimum_of,
    reference_algorithm,
    reference_expectation,
    text_law,
)
from draftproof.reference.drafting import Drafts
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path, context_key
from draftproof.reference.rational import ZERO, Rational, rational

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
) -> Iterator[str]:
    """Return the story of one instance, at the drafts that show the failure best."""
    observed = seen.observed[drafts]
    scheme = f", {nominal.scheme} drafts" if nominal.drafts > 1 else ""
    if nominal.branching:
        scheme += f" that branch {' x '.join(map(str, nominal.branching))}"
    yield (
        f"{requirement} fails at V={nominal.vocabulary}, L={nominal.length}, "
        f"K={nominal.drafts}{scheme}: distance {_number(distance)}"
    )
    yield f"target: {_rows(nominal.target, drafts, nominal.length + 1)}"
    yield f"draft: {_rows(nominal.draft, drafts, nominal.length)}"
    together = "which has" if len(drafts) == 1 else "which together have"
    yield f"drafted: {_listed(drafts)}, {together} probability {_number(seen.drafts[drafts])}"
    if expected is not None:
        yield from _lengths(observed, expected)
        yield from _emissions(observed, expected)
    else:
        yield from _said(requirement, seen.instance, observed)
    if requirement == "law.lossless":
        yield _text(seen)
    if requirement.startswith("length."):
        yield from _expectation(seen)


def of_batch(
    rows: Sequence[Asked],
    distance: Rational,
    worst: tuple[Outcome, ...],
    together: Rational,
    alone: Rational,
) -> Iterator[str]:
    """Return the story of a batch: the differences from verifying each of its rows alone."""
    yield f"batch.invariant fails in a batch of {len(rows)} rows: distance {_number(distance)}"
    for i, ((instance, drafts), outcome) in enumerate(zip(rows, worst, strict=True)):
        yield f"row {i}: target {_rows(instance.target, drafts, instance.length + 1)}"
        yield f"row {i}: draft {_rows(instance.draft, drafts, instance.length)}"
        yield f"row {i}: drafted {_listed(drafts)}, {_spoken(outcome)}"
    yield (
        f"these results together: probability {_number(together)} in a batch, "
        f"{_number(alone)} when each row is verified alone"
    )


def wrong_text(seen: Observation) -> Path:
    """Return the shortest text with a visibly wrong probability; among equals, the most wrong."""
    horizon = seen.instance.length + 1
    whole = text_law(seen, horizon)
    for length in range(1, horizon + 1):
        observed, target = _beginnings(whole, length), seen.instance.target.text(length)
        texts = {**target.weights, **observed}
        worst = max(texts, key=lambda text: abs(observed.get(text, ZERO) - target[text]))
        if abs(observed.get(worst, ZERO) - target[worst]) > _VISIBLE:
            break
    return worst


def starts_with(outcome: Outcome, text: Path) -> bool:
    """Return True if either the emission or the text starts with the other."""
    if isinstance(outcome, Failure):
        return False
    shared = min(len(outcome.tokens), len(text))
    return outcome.tokens[:shared] == text[:shared]


def _rows(model: Model, drafts: Drafts, depth: int) -> str:
    if model.context_free:
        return f"{_row(model(()))} in every context"
    contexts = dict.fromkeys(path[:i] for i in range(depth) for path in drafts)
    return ", ".join(f"{_row(model(c))} {_where(c)}" for c in contexts)


def _row(row: tuple[Rational, ...]) -> str:
    return f"({', '.join(map(_number, row))})"


def _where(context: Path) -> str:
    return f"after {context_key(context)}" if context else "at first"


def _listed(drafts: Drafts) -> str:
    *others, last = (str(list(path)) for path in drafts)
    return f"{', '.join(others)} and {last}" if others else last


def _lengths(observed: Law[Outcome], expected: Law[Outcome]) -> Iterator[str]:
    """Describe the values of the accepted length whose probability is wrong."""
    seen, should = observed.map(accepted_length), expected.map(accepted_length)
    wrong = [n for n in sorted({*seen, *should}) if abs(seen[n] - should[n]) > _VISIBLE]
    for length in wrong:
        yield (
            f"accepted length {length}: probability {_number(seen[length])}, "
            f"should be {_number(should[length])}"
        )
    if not wrong:
        yield "Accepted length: correct. Next token: wrong distribution."


def _emissions(observed: Law[Outcome], expected: Law[Outcome]) -> Iterator[str]:
    """Describe the most wrong emissions."""

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


def _said(requirement: str, instance: Instance, observed: Law[Outcome]) -> Iterator[str]:
    """Describe the most frequent emissions, of those that violate the requirement if known."""
    wrong: list[Outcome] = []
    if requirement == "law.support":
        wrong = [outcome for outcome in observed if is_excluded(instance, outcome)]
    elif requirement == "law.prefix":
        wrong = [outcome for outcome in observed if isinstance(outcome, Failure)]
    told = sorted(wrong or observed, key=lambda outcome: observed[outcome], reverse=True)
    for outcome in told[:_MOST_EMISSIONS]:
        never = (
            ", which has probability 0 under the target" if is_excluded(instance, outcome) else ""
        )
        yield f"{_spoken(outcome)}: probability {_number(observed[outcome])}{never}"


def _text(seen: Observation) -> str:
    """Describe the shortest text whose probability is visibly wrong."""
    text = wrong_text(seen)
    observed = _beginnings(text_law(seen, seen.instance.length + 1), len(text)).get(text, ZERO)
    return (
        f"over all drafts, the text {list(text)} has probability {_number(observed)}, "
        f"should be {_number(seen.instance.target.joint(text))}"
    )


def _beginnings(law: Law[Text], length: int) -> dict[Path, Rational]:
    """Return the probabilities of the first tokens, not counting failures."""
    beginnings: dict[Path, Rational] = {}
    for text, weight in law.items():
        if not isinstance(text, Failure):
            beginnings[text[:length]] = beginnings.get(text[:length], ZERO) + weight
    return beginnings


def _expectation(seen: Observation) -> Iterator[str]:
    observed = expected_accepted(seen)
    told = f"E[accepted length] over all drafts: {_number(observed)}"
    with suppress(NotApplicable):
        exact = _number(reference_expectation(seen))
        told += f", should be {exact} ({reference_algorithm(seen).name} verification)"
    yield told
    with suppress(OutOfReach):
        best = optimum_of(seen)
        if observed > best + _VISIBLE:
            yield f"no lossless verifier exceeds {_number(best)}, so this one cannot be lossless"


def _spoken(outcome: Outcome) -> str:
    if isinstance(outcome, Failure):
        return f"it {outcome.what}"
    kept = f"accepts {list(outcome.accepted)}" if outcome.accepted else "accepts nothing"
    return f"{kept}, next token {outcome.next_token}"


def _number(value: Rational) -> str:
    """Return an exact fraction if it is short, otherwise six digits."""
    exact = str(value)
    return exact if len(exact) <= 9 else f"{float(value):.6g}"
