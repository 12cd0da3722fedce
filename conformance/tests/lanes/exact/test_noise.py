"""The arithmetic of noise: thresholds through chains of steps, and races."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise
from math import inf
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.conformance.lanes.exact._errors import NotUnderstood
from draftproof.conformance.lanes.exact._noise import Noise, Uniform, World
from draftproof.conformance.lanes.exact._races import ranking
from draftproof.conformance.lanes.exact._steps import (
    AT_LEAST,
    AT_MOST,
    LESS,
    MORE,
    Affine,
    Clamp,
    Exp,
    Log,
    Reciprocal,
    Rounded,
    Step,
)
from draftproof.conformance.lanes.precise import Extended, exp, extended, log
from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.rational import ONE, ZERO, Rational, exactly, rational

exact = settings(derandomize=True, deadline=None, max_examples=200)

RELATIONS = (LESS, AT_MOST, MORE, AT_LEAST)
HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    LESS: operator.lt,
    AT_MOST: operator.le,
    MORE: operator.gt,
    AT_LEAST: operator.ge,
}

fractions = st.fractions(-3, 3, max_denominator=16).map(lambda f: rational(str(f)))
rational_steps = st.one_of(
    st.builds(Affine, fractions.filter(bool), fractions),
    st.just(Reciprocal()),
    st.tuples(fractions, fractions).map(lambda ends: Clamp(min(ends), max(ends))),
)


def probability(steps: tuple[Step, ...], relation: str, edge: Extended) -> Rational:
    def program(chance: Chance) -> bool:
        return Noise(Uniform()).then(*steps).compare(relation, edge, World(chance))

    return enumerate_law(program)[True]


def apply(step: Step, value: Extended) -> Extended:
    match step:
        case Affine():
            return step.scale * value + step.shift
        case Clamp():
            return min(max(value, step.low), step.high)
        case Reciprocal():
            return 1 / value
    raise AssertionError(step)


def invert(step: Step, value: Rational) -> Rational:
    match step:
        case Affine():
            return (value - step.shift) / step.scale
        case Reciprocal() if value != 0:
            return 1 / value
    return value


def is_understood(steps: list[Step]) -> bool:
    noise = Noise(Uniform())
    for step in steps:
        if isinstance(step, Reciprocal) and noise.can_be(ZERO):
            return False
        try:
            noise = noise.then(step)
        except NotUnderstood:
            return False
    return True


@exact
@given(
    steps=st.lists(rational_steps, max_size=4), edge=fractions, relation=st.sampled_from(RELATIONS)
)
def test_a_threshold_through_steps_is_the_measure_of_what_lies_beyond(
    steps: list[Step], edge: Rational, relation: str
) -> None:
    """The relation is tried in every cell between the points of 0..1 at which it can change."""
    if not is_understood(steps):
        return
    cuts, targets = {ZERO, ONE}, {edge}
    for step in reversed(steps):
        if isinstance(step, Clamp):
            targets |= {step.low, step.high}
        targets = {invert(step, target) for target in targets}
    cuts |= {target for target in targets if 0 < target < 1}
    measure, ends = ZERO, sorted(cuts)
    for low, high in pairwise(ends):
        value = (low + high) / 2
        for step in steps:
            value = apply(step, value)
        measure += (high - low) * HOLDS[relation](value, edge)
    assert probability(tuple(steps), relation, edge) == measure


@exact
@given(edge=fractions)
def test_logarithms_are_inverted(edge: Rational) -> None:
    assert probability((Log(),), LESS, edge) == min(exp(edge), ONE)
    clock = (Log(), Affine(-ONE, ZERO))
    assert probability(clock, MORE, edge) == (exp(-edge) if edge > 0 else 1)
    gumbel = (*clock, Log(), Affine(-ONE, ZERO))
    assert probability(gumbel, AT_MOST, edge) == exp(-exp(-edge))
    power = (Log(), Affine(rational(2), ZERO), Exp())
    assert (
        abs(probability(power, LESS, edge) ** 2 - min(max(edge, ZERO), ONE)) < rational(2) ** -150
    )


@pytest.mark.parametrize(
    ("dtype", "step"),
    [(torch.bfloat16, Rounded(8, -133)), (torch.float16, Rounded(11, -24))],
    ids=["bfloat16", "float16"],
)
@exact
@given(value=st.integers(-(2**13), 2**13).map(lambda k: k / 2**12), offset=st.integers(-1, 1))
def test_rounding_is_torchs(dtype: torch.dtype, step: Rounded, value: float, offset: int) -> None:
    """Noise that is clamped to a constant, ties between two floats among them, is rounded."""
    single = torch.tensor(value)
    middle = exactly(float(single))
    rounded = single.to(dtype)
    to = torch.tensor(offset * torch.inf if offset else float(rounded), dtype=dtype)
    edge = exactly(float(torch.nextafter(rounded, to)))
    steps = (Clamp(ZERO, ZERO), Affine(ONE, middle), step)
    for relation, holds in HOLDS.items():
        assert probability(steps, relation, edge) == holds(exactly(float(rounded)), edge)


LARGEST = Rounded(11, -24, rational(65504))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("value", [65504, 65519, 65520, 65521, 1e30])
@pytest.mark.parametrize("edge", [0, 65472, 65504, 65520, 1e30, inf])
def test_rounding_is_torchs_at_the_largest_number(value: float, edge: float, *, sign: int) -> None:
    rounded = float(torch.tensor(sign * value).half())
    steps = (Clamp(ZERO, ZERO), Affine(ONE, exactly(float(sign * value))), LARGEST)
    for each in (edge, -edge):
        for relation, holds in HOLDS.items():
            found = probability(steps, relation, extended(float(each)))
            assert found == holds(extended(rounded), extended(float(each)))
    assert Noise(Uniform()).then(*steps).can_be(extended(rounded))


def test_a_logarithm_may_be_no_number() -> None:
    guarded = Noise(Uniform()).then(Affine(ONE, rational("-1/1000000")), Log())
    assert guarded.can_be_nan
    assert guarded.then(Clamp(ZERO, ONE)).can_be_nan
    assert not Noise(Uniform()).then(Log()).can_be_nan


def test_the_likely_interval_leaves_out_a_share_of_two_to_the_minus_24() -> None:
    low, high = Noise(Uniform()).then(Affine(rational(-2), ONE)).likely
    assert (low, high) == (-ONE + rational("1/16777216"), ONE - rational("1/16777216"))
    assert Noise(Uniform()).then(Log()).afresh().likely == (
        log(rational(2) ** -25),
        log(1 - rational(2) ** -25),
    )


@pytest.mark.parametrize("scale", [30_000, -30_000])
def test_an_exponential_beyond_numbers_is_refused(scale: int) -> None:
    with pytest.raises(NotUnderstood, match="an exponential that no number holds"):
        Noise(Uniform()).then(Affine(rational(scale), ZERO), Exp())


def test_infinite_thresholds() -> None:
    for steps in ((), (Log(),), (Reciprocal(),), (Log(), Affine(-ONE, ZERO), Log())):
        assert probability(steps, LESS, inf) == 1
        assert probability(steps, LESS, -inf) == 0


def test_constants_of_160_bits() -> None:
    assert exp(ZERO) == 1
    assert log(ONE) == 0
    assert abs(exp(log(rational("3/7"))) - rational("3/7")) < rational(2) ** -150
    assert exp(rational(-(10**6))) == 0
    assert exp(rational(10**6)) == inf


def test_neighbouring_affine_steps_become_one() -> None:
    noise = Noise(Uniform()).then(Affine(rational(2), ONE), Affine(rational("1/2"), ZERO))
    assert noise.steps == (Affine(ONE, rational("1/2")),)
    assert noise.then(Affine(ONE, rational("-1/2"))).steps == ()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Affine(ONE, rational("-1/2")), Log()), "logarithm of noise that can be negative"),
        ((Affine(ONE, rational("-1/2")), Reciprocal()), "either sign"),
    ],
    ids=["logarithm", "reciprocal"],
)
def test_steps_without_a_value_are_refused(steps: tuple[Step, ...], message: str) -> None:
    with pytest.raises(NotUnderstood, match=message):
        Noise(Uniform()).then(*steps)


def test_the_guarded_logarithm_may_race_but_not_be_compared() -> None:
    guarded = (Affine(ONE, rational("1/1000000")), Log(), Affine(-ONE, ZERO), Log())

    def winner(chance: Chance) -> int:
        ranked, slack = ranking([Noise(Uniform()).then(*guarded) for _ in range(2)], largest=False)
        assert slack == rational("2/1000000")
        return ranked.at(0, World(chance))

    assert enumerate_law(winner)[0] == rational("1/2")
    with pytest.raises(NotUnderstood, match="can be negative"):
        enumerate_law(
            lambda chance: Noise(Uniform()).then(*guarded).compare(LESS, ZERO, World(chance))
        )


def test_a_guard_that_is_too_large_is_refused() -> None:
    guarded = [
        Noise(Uniform()).then(
            Log(), Affine(-ONE, rational("1/1000")), Reciprocal(), Affine(rational(k), ZERO)
        )
        for k in (1, 2)
    ]
    with pytest.raises(NotUnderstood, match="neither exponential nor Gumbel"):
        ranking(guarded, largest=True)


@pytest.mark.parametrize(
    ("known", "largest"), [(0.5, True), (2.0, True), (-1.0, False), (float("nan"), True)]
)
def test_known_numbers_may_only_lose(known: float, *, largest: bool) -> None:
    with pytest.raises(NotUnderstood, match="known number"):
        ranking([Noise(Uniform()), known], largest=largest)


@exact
@given(rates=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_clocks_ring_in_proportion_to_their_rates(rates: list[int]) -> None:
    def clocks() -> list[Noise | float]:
        return [Noise(Uniform()).then(Log(), Affine(-ONE / rate, ZERO)) for rate in rates]

    def first(chance: Chance) -> int:
        return ranking(clocks(), largest=False)[0].at(0, World(chance))

    def by_reciprocal(chance: Chance) -> int:
        inverted = [c.then(Reciprocal()) for c in clocks() if isinstance(c, Noise)]
        return ranking([*inverted, 0.0], largest=True)[0].at(0, World(chance))

    law = enumerate_law(first)
    assert all(law[i] == rational(f"{rate}/{sum(rates)}") for i, rate in enumerate(rates))
    assert enumerate_law(by_reciprocal) == law
