from __future__ import annotations

from math import tanh

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.conformance.checkpoint.chain import (
    DENOMINATOR,
    EXCLUDED,
    SPECIAL,
    STEPS,
    InvalidChain,
    chain,
    distances,
    shift_bound,
    softmax,
    spread_out,
)
from draftproof.reference.rational import ONE, rational, total


@given(
    memory=st.integers(1, 2),
    vocabulary=st.integers(8, 3000),
    zeros=st.integers(0, 2),
    seed=st.integers(0, 50),
)
@settings(deadline=None, max_examples=20)
def test_rows_are_exact_distributions_with_their_zeros(
    memory: int, vocabulary: int, zeros: int, seed: int
) -> None:
    made = chain(memory=memory, vocabulary=vocabulary, zeros=zeros, seed=seed)
    for tables in (made.target, made.draft):
        rows = made.rows(tables)
        assert len(rows) == made.states**memory
        for row in rows.values():
            assert total(row) == ONE
            assert sum(each == 0 for each in row) == zeros
            assert all(each * DENOMINATOR == int(each * DENOMINATOR) for each in row)


def test_a_draft_has_the_distance_that_was_asked_for() -> None:
    for distance in (0.0, 0.05, 0.25, 0.5):
        made = chain(distance=distance, memory=2)
        target, draft = (made.rows(each) for each in (made.target, made.draft))
        apart = [float(distances(target[c], draft[c])) for c in target]
        assert numpy.mean(apart) == pytest.approx(distance, abs=0.02)
        assert distance or max(apart) == 0


def test_rows_of_a_longer_memory_depend_on_every_token() -> None:
    made = chain(memory=3)
    rows = made.rows(made.target)
    for place in range(3):
        others = [(2, 2, 2), tuple(4 if i == place else 2 for i in range(3))]
        assert rows[others[0]] != rows[others[1]]


def test_logits_of_a_target_are_exact_in_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    made = chain(memory=3, seed=4)
    for context in made.contexts():
        logits = made.logits(made.target, context)
        kept = logits[logits > EXCLUDED / 2] / STEPS
        said = torch.tensor(kept).to(torch.bfloat16).double().numpy()
        assert (said == kept).all()


def test_an_excluded_token_has_less_than_1e_20() -> None:
    made = chain(zeros=1)
    for context in made.contexts():
        row = softmax(made.logits(made.target, context))
        assert row[row < 1e-6].max() < 1e-20


def test_words_are_spread_from_the_first_id_to_the_last() -> None:
    assert spread_out(5, 1) == (3, 4)
    assert spread_out(16, 1) == (3, 4, 6, 8, 9, 11, 13, 15)
    assert spread_out(16, 2) == (3, 6, 9, 12, 15)
    large = spread_out(128_256, 3)
    assert (large[0], large[-1]) == (len(SPECIAL), 128_255)


def test_no_shift_of_logits_moves_a_distribution_by_more_than_its_bound() -> None:
    random = numpy.random.default_rng(0)
    worst = 0.0
    for _ in range(2000):
        row = random.dirichlet(numpy.full(5, 0.5))
        shift = random.choice([-0.3, 0.3], size=5)
        moved = row * numpy.exp(shift)
        worst = max(worst, abs(moved / moved.sum() - row).sum() / 2)
    assert 0.9 * tanh(0.15) < worst <= shift_bound(0.3) == tanh(0.15)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"memory": 4}, "a memory is 1 to 3 tokens, got 4"),
        ({"vocabulary": 4}, "a vocabulary has 5 to 1,048,576 tokens, got 4"),
        ({"zeros": 11}, "8 tokens have mass, and a row keeps 2 of them: at most 6 zeros"),
        ({"distance": 1.0}, "a distance is at least 0 and below 1, got 1.0"),
        ({"distance": 0.97}, "no draft of this shape has a distance of 0.97: at most 0"),
        ({"temperature": rational("0")}, "a temperature is positive, got 0"),
    ],
)
def test_what_no_chain_has_is_told(asked: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidChain, match=told):
        chain(**asked)  # type: ignore[arg-type]
