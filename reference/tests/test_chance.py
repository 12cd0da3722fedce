from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import (
    Chance,
    NondeterministicProgram,
    distribution,
    enumerate_law,
    enumerate_rows,
    enumerate_runs,
    sample,
)
from draftproof.reference.drafting import GrowingTree
from draftproof.reference.errors import NotADistribution, NotRational
from draftproof.reference.law import Law
from draftproof.reference.model import instance_from_json
from draftproof.reference.rational import ONE, Rational, rational
from draftproof.reference.verifiers import ALGORITHMS

exact = settings.get_profile("exact")

HALF, THIRD = rational("1/2"), rational("1/3")

weights = (
    st.lists(st.integers(0, 6), min_size=1, max_size=4)
    .filter(any)
    .map(lambda counts: [rational(count) for count in counts])
)


@exact
@given(row=weights)
def test_a_draw_has_the_law_of_its_normalised_weights(row: list[Rational]) -> None:
    law = enumerate_law(lambda chance: chance.draw(row))
    assert law == Law({i: weight / sum(row) for i, weight in enumerate(row)})


@exact
@given(first=weights, others=st.lists(weights, min_size=4, max_size=4))
def test_later_questions_may_depend_on_earlier_answers(
    first: list[Rational], others: list[list[Rational]]
) -> None:
    def program(chance: Chance) -> tuple[int, int]:
        i = chance.draw(first)
        return i, chance.draw(others[i])

    assert enumerate_law(program) == enumerate_law(lambda chance: chance.draw(first)).then(
        lambda i: enumerate_law(lambda chance: (i, chance.draw(others[i])))
    )


def test_every_run_of_positive_probability_is_made_once() -> None:
    def tosses(chance: Chance) -> tuple[bool, ...]:
        return tuple(chance.coin(probability) for probability in (HALF, ONE, rational(0), THIRD))

    assert list(enumerate_runs(tosses)) == [
        ((True, True, False, True), rational("1/6")),
        ((True, True, False, False), THIRD),
        ((False, True, False, True), rational("1/6")),
        ((False, True, False, False), THIRD),
    ]


def test_a_program_without_choices_is_certain() -> None:
    assert enumerate_law(lambda _: "sure") == Law.certain("sure")


def changing(*programs: Callable[[Chance], int]) -> Callable[[Chance], int]:
    """Return a program with a hidden state: each of its runs is the next of `programs`."""
    runs = iter(programs)
    return lambda chance: next(runs)(chance)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            changing(lambda chance: chance.coin(HALF), lambda chance: chance.coin(THIRD)),
            "random choice 0 had weights [1/2, 1/2] in one run and [1/3, 2/3] in another "
            "with the same choices before it",
        ),
        (
            changing(
                lambda chance: chance.coin(HALF) + chance.draw([HALF, HALF]),
                lambda chance: chance.coin(HALF) + chance.draw([ONE, ONE, ONE]),
            ),
            "random choice 1 had weights [1/2, 1/2] in one run and [1/3, 1/3, 1/3] in another "
            "with the same choices before it",
        ),
        (
            changing(lambda chance: chance.coin(HALF), lambda chance: 0),
            "a run made 0 random choices where another with the same choices made at least 1",
        ),
    ],
)
def test_hidden_randomness_is_reported(program: Callable[[Chance], int], message: str) -> None:
    with pytest.raises(NondeterministicProgram) as refusal:
        enumerate_law(program)
    assert str(refusal.value) == message


Enumerated = Callable[[Callable[[Chance], int]], object]


@pytest.mark.parametrize(
    "run", [enumerate_law, lambda program: sample(program, Random(0))], ids=["enumerate", "sample"]
)
@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        (
            lambda chance: chance.draw([HALF, -THIRD]),
            NotADistribution,
            "cannot draw with a negative weight: [1/2, -1/3]",
        ),
        (
            lambda chance: chance.draw([rational(0), rational(0)]),
            NotADistribution,
            "cannot draw with no positive weight: [0, 0]",
        ),
        (
            lambda chance: chance.draw([]),
            NotADistribution,
            "cannot draw with no positive weight: []",
        ),
        (
            lambda chance: chance.coin(rational("4/3")),
            NotADistribution,
            "a coin's probability must lie in 0..1, got 4/3",
        ),
        (
            lambda chance: chance.coin(-THIRD),
            NotADistribution,
            "a coin's probability must lie in 0..1, got -1/3",
        ),
        (
            lambda chance: chance.draw([0.5, 0.5]),
            NotRational,
            'expected a rational number such as "1/10", got the float 0.5: write it as a fraction',
        ),
        (
            lambda chance: chance.coin(math.nan),
            NotRational,
            'expected a rational number such as "1/10", got the float nan: write it as a fraction',
        ),
        (
            lambda chance: chance.coin(True),
            NotRational,
            "expected a rational number, got the boolean True",
        ),
    ],
)
def test_impossible_choices_are_refused(
    run: Enumerated, program: Callable[[Chance], int], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as refusal:
        run(program)
    assert str(refusal.value) == message


class Undecided(Exception):
    """The bits ran out before the draw was decided."""


class TossedBits(Random):
    """Random bits that are themselves tossed by a `Chance`, at most `budget` of them."""

    def __init__(self, chance: Chance, budget: int) -> None:
        self.chance, self.budget = chance, budget

    def getrandbits(self, k: int, /) -> int:
        if self.budget < k:
            raise Undecided
        self.budget -= k
        return self.chance.draw([ONE] * 2**k)


INSTANCE = instance_from_json(
    {
        "vocabulary": 2,
        "length": 1,
        "target": {"": ["1/3", "2/3"], "0": ["1/4", "3/4"], "1": ["1", "0"]},
        "draft": ["3/4", "1/4"],
    }
)


def speculate(chance: Chance) -> tuple[int, ...]:
    drafts = GrowingTree(INSTANCE, chance)
    return ALGORITHMS["token"].verify(drafts, INSTANCE, chance).tokens


@pytest.mark.parametrize(
    ("program", "draws"),
    [
        (lambda _: 0, 0),
        (lambda chance: chance.draw([rational(w) for w in (1, 3, 4)]), 1),
        (lambda chance: chance.draw([rational(w) for w in (0, 3, 1, 0, 2)]), 1),
        (lambda chance: chance.coin(ONE), 1),
        (lambda chance: (chance.coin(THIRD), chance.coin(rational("2/5"))), 2),
        (speculate, 3),
    ],
)
def test_sampling_has_the_enumerated_law(program: Callable[[Chance], object], draws: int) -> None:
    """The law of the sampler itself, its bits being enumerated, so nothing here is estimated.

    Halving 0..1, a cell that decides a draw lies inside the share of its answer, so no
    outcome is more probable than it should be; each falls short by at most what is undecided. A
    draw is undecided after b bits only in a cell that has an inner edge inside it: at most `edges`
    cells of width 2^-b. Where the budget is too small, one of the `draws` was undecided after
    budget / draws bits.
    """
    budget, edges = 24, 4

    def sampled(chance: Chance) -> object:
        try:
            return sample(program, TossedBits(chance, budget))
        except Undecided:
            return Undecided

    law, true = enumerate_law(sampled), enumerate_law(program)
    assert set(law) <= {*true, Undecided}
    assert all(law[outcome] <= true[outcome] for outcome in true)
    assert law[Undecided] <= draws * edges * Fraction(1, 2 ** (budget // max(draws, 1)))


def test_dyadic_weights_are_sampled_with_no_more_bits_than_they_need() -> None:
    eighths = [rational(count) for count in (1, 2, 5)]
    law = enumerate_law(
        lambda chance: sample(lambda c: c.draw(eighths), TossedBits(chance, budget=3))
    )
    assert law == enumerate_law(lambda chance: chance.draw(eighths))


def test_the_same_seed_gives_the_same_sample() -> None:
    assert [sample(speculate, Random(seed)) for seed in range(20)] == [
        sample(speculate, Random(seed)) for seed in range(20)
    ]


def test_a_draw_that_is_returned_is_a_row() -> None:
    def program(chance: Chance) -> tuple[bool, int]:
        is_heads = chance.coin(THIRD)
        return is_heads, chance.draw([ONE, ONE + ONE] if is_heads else [ONE, ONE])

    law = enumerate_law(program)
    rows = enumerate_rows(program, 2)
    assert rows == {heads: [law[heads, 0], law[heads, 1]] for heads in (True, False)}


def test_a_token_that_is_no_draw_has_its_place_in_the_row() -> None:
    def program(chance: Chance) -> tuple[str, int]:
        return "", 2 if chance.coin(THIRD) else chance.draw([ONE, ONE, ONE])

    ninths = [rational("2/9"), rational("2/9"), rational("5/9")]
    assert enumerate_rows(program, 3) == {"": ninths}


def test_a_row_may_not_be_looked_at() -> None:
    looks: list[Callable[[int], object]] = [
        lambda token: token == 1,
        lambda token: token + 1,
        lambda token: [4, 5][token],
        hash,
        int,
    ]
    for look in looks:
        with pytest.raises(TypeError):
            enumerate_rows(lambda chance, look=look: (look(chance.draw([ONE, ONE])), 0), 2)  # type: ignore[misc]  # each its own


def test_a_distribution_is_looked_at_once() -> None:
    once = distribution([ONE, ONE + ONE])
    assert once == (THIRD, 2 * THIRD)
    assert distribution(once) is once
    with pytest.raises(NotADistribution):
        distribution([-ONE])
