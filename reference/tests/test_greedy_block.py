from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.process import after, expected_accepted
from draftproof.reference.rational import ZERO, Rational, positive_part, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law

exact = settings.get_profile("exact")

GREEDY, BLOCK = ALGORITHMS["greedy_block"], ALGORITHMS["block"]


def shared(instance: Instance, prefix: Path) -> Rational:
    return min(instance.target.joint(prefix), instance.draft.joint(prefix))


def owed(instance: Instance, prefix: Path) -> Rational:
    return positive_part(instance.target.joint(prefix) - instance.draft.joint(prefix))


@pytest.mark.requirement("length.expected")
@exact
@given(instance=...)
def test_every_prefix_is_accepted_as_often_as_both_models_say_it(instance: Instance) -> None:
    emitted = emission_law(GREEDY, instance)
    prefixes = list(instance.draft.reachable(instance.length))
    for prefix in prefixes:
        kept = emitted.probability(lambda e, prefix=prefix: e.accepted[: len(prefix)] == prefix)  # type: ignore[misc]
        assert kept == shared(instance, prefix)
    assert expected_accepted(emitted) == total(shared(instance, x) for x in prefixes) - 1


@pytest.mark.requirement("law.reference", "law.state")
@exact
@given(instance=...)
def test_the_law_of_what_is_emitted_and_left_behind(instance: Instance) -> None:
    """Where it stops, and everywhere later in the block, the target becomes what is owed."""
    tokens = range(instance.vocabulary)

    def residual(context: Path) -> Row:
        masses = [owed(instance, (*context, token)) for token in tokens]
        return tuple(x / total(masses) for x in masses)

    def left(text: Path) -> tuple[tuple[Path, Row], ...]:
        rows: dict[Path, Row] = {}
        level = [text]
        while level and len(level[0]) < instance.length:
            rows |= {z[len(text) :]: residual(z) for z in level}
            level = [(*z, t) for z in level for t in tokens if residual(z)[t] != 0]
        return tuple(sorted(rows.items()))

    emitted: dict[Emission, Rational] = {}
    for accepted in instance.draft.reachable(instance.length):
        mass = shared(instance, accepted)
        if len(accepted) == instance.length:
            for token, p in enumerate(instance.target(accepted)):
                emitted[Emission(0, accepted, token)] = mass * p
            continue
        stops = mass - total(shared(instance, (*accepted, token)) for token in tokens)
        if stops:
            for token, p in enumerate(residual(accepted)):
                if p:
                    text = (*accepted, token)
                    emitted[Emission(0, accepted, token, left(text))] = stops * p
    assert emission_law(GREEDY, instance) == Law(emitted)


@exact
@given(instance=...)
def test_one_iteration_accepts_at_least_what_block_verification_accepts(
    instance: Instance,
) -> None:
    greedy, block = emission_law(GREEDY, instance), emission_law(BLOCK, instance)
    assert expected_accepted(greedy) >= expected_accepted(block)
    one = replace(instance, length=1)
    assert emission_law(GREEDY, one) == emission_law(BLOCK, one)


def emitted_by(algorithm: Algorithm, instance: Instance, iterations: int) -> Rational:
    """E[number of tokens after so many iterations]."""
    if iterations == 0:
        return ZERO
    return total(
        weight
        * (
            len(emission.tokens)
            + emitted_by(
                algorithm,
                replace(instance, target=after(instance.target, emission)),
                iterations - 1,
            )
        )
        for emission, weight in emission_law(algorithm, instance).items()
    )


@pytest.mark.parametrize(
    ("length", "iterations", "greedy", "block"),
    [(2, 1, "7/3", "20/9"), (2, 2, "40/9", "40/9"), (2, 3, "59/9", "60/9"), (3, 1, "77/27", "8/3")],
)
def test_what_is_gained_at_once_is_paid_back(
    motivating: Instance, length: int, iterations: int, greedy: str, block: str
) -> None:
    """Ahead after one iteration, level after two, behind after three."""
    instance = replace(motivating, length=length)
    assert emitted_by(GREEDY, instance, iterations) == rational(greedy)
    assert emitted_by(BLOCK, instance, iterations) == rational(block)


def test_the_motivating_example(motivating: Instance) -> None:
    assert expected_accepted(emission_law(GREEDY, motivating)) == rational("12/9")
