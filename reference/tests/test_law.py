from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.errors import NotADistribution, NotRational
from draftproof.reference.law import Law
from draftproof.reference.rational import Rational, rational

exact = settings.get_profile("exact")

OUTCOMES = range(4)
Kernel = Mapping[int, Law[int]]


def weighted(counts: list[int]) -> Law[int]:
    return Law({i: rational(Fraction(count, sum(counts))) for i, count in enumerate(counts)})


laws = st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any).map(weighted)
kernels = st.fixed_dictionaries(dict.fromkeys(OUTCOMES, laws))
images = st.fixed_dictionaries(dict.fromkeys(OUTCOMES, st.sampled_from(OUTCOMES)))
values = st.fixed_dictionaries(
    dict.fromkeys(OUTCOMES, st.fractions(-5, 5, max_denominator=9).map(rational))
)


@exact
@given(law=laws)
def test_a_law_holds_its_positive_weights_and_they_sum_to_one(law: Law[int]) -> None:
    assert sum(weight for _, weight in law.items()) == 1
    assert all(weight > 0 for _, weight in law.items())
    assert len(law) == len(list(law)) == len(law.weights)
    assert all(law[outcome] == law.weights.get(outcome, 0) for outcome in OUTCOMES)


@exact
@given(law=laws, first=kernels, second=kernels, outcome=st.sampled_from(OUTCOMES))
def test_then_is_the_law_of_total_probability(
    law: Law[int], first: Kernel, second: Kernel, outcome: int
) -> None:
    assert law.then(first.__getitem__)[outcome] == sum(
        weight * first[x][outcome] for x, weight in law.items()
    )
    assert Law.certain(outcome).then(first.__getitem__) == first[outcome]
    assert law.then(Law.certain) == law
    assert law.then(first.__getitem__).then(second.__getitem__) == law.then(
        lambda x: first[x].then(second.__getitem__)
    )


@exact
@given(law=laws, first=images, second=images)
def test_map_composes(law: Law[int], first: dict[int, int], second: dict[int, int]) -> None:
    assert law.map(lambda x: x) == law
    assert law.map(first.__getitem__).map(second.__getitem__) == law.map(lambda x: second[first[x]])
    assert law.map(first.__getitem__)[0] == law.probability(lambda x: first[x] == 0)


@exact
@given(law=laws, kernel=kernels, image=images, value=values, other=values)
def test_expectation_is_linear_and_towers(
    law: Law[int],
    kernel: Kernel,
    image: dict[int, int],
    value: dict[int, Rational],
    other: dict[int, Rational],
) -> None:
    assert law.expectation(lambda x: 2 * value[x] + other[x]) == (
        2 * law.expectation(value.__getitem__) + law.expectation(other.__getitem__)
    )
    assert law.map(image.__getitem__).expectation(value.__getitem__) == law.expectation(
        lambda x: value[image[x]]
    )
    assert law.then(kernel.__getitem__).expectation(value.__getitem__) == law.expectation(
        lambda x: kernel[x].expectation(value.__getitem__)
    )
    assert law.probability(lambda x: x > 1) == law.expectation(lambda x: int(x > 1))


@exact
@given(p=laws, q=laws, r=laws, image=images)
def test_total_variation_is_the_largest_difference_on_an_event(
    p: Law[int], q: Law[int], r: Law[int], image: dict[int, int]
) -> None:
    distance = p.total_variation(q)
    events = chain.from_iterable(combinations(OUTCOMES, size) for size in range(5))
    assert distance == max(
        p.probability(event.__contains__) - q.probability(event.__contains__) for event in events
    )
    assert distance == q.total_variation(p) <= p.total_variation(r) + r.total_variation(q)
    assert (distance == 0) == (p == q)
    assert p.map(image.__getitem__).total_variation(q.map(image.__getitem__)) <= distance


def test_a_law_is_its_weights_and_not_their_order() -> None:
    half = rational("1/2")
    assert Law({"a": half, "b": half, "c": rational(0)}) == Law({"b": half, "a": half})
    assert Law({"a": half, "b": half}) != Law({"a": half, "c": half})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "probabilities must sum to 1, they sum to 0"),
        ({"a": "1/2", "b": "1/3"}, "probabilities must sum to 1, they sum to 5/6"),
        ({"a": "3/2", "b": "-1/2"}, "outcome 'b' has the negative probability -1/2"),
    ],
)
def test_other_weights_are_no_law(weights: dict[str, str], message: str) -> None:
    with pytest.raises(NotADistribution) as refusal:
        Law({outcome: rational(weight) for outcome, weight in weights.items()})
    assert str(refusal.value) == message


def test_floats_have_no_way_in() -> None:
    half: Rational = 0.5  # type: ignore[assignment]
    message = 'expected a rational number such as "1/10", got the float 0.5: write it as a fraction'
    with pytest.raises(NotRational) as refusal:
        Law({"a": half, "b": half})
    assert str(refusal.value) == message
    with pytest.raises(NotRational) as refusal:
        Law.certain("a").expectation(lambda _: half)
    assert str(refusal.value) == message
