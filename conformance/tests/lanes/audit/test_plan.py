"""Plans: what is computed is what is needed."""

from __future__ import annotations

from math import inf, log, nan

import numpy
import pytest

from draftproof.conformance.lanes.audit.plan import (
    detectable,
    planned,
    random_rows,
    tokens_needed,
)
from draftproof.conformance.lanes.audit.wealth import BIASES, AuditWealth, Floats

THRESHOLD = log(1e6)
ROWS = random_rows(1000, count=2000, seed=3)


def median_tokens(chances: Floats, bias: float, epsilon: float, *, logs: int) -> float:
    """Return after how many tokens half of some logs raise an alarm, a favourite being biased."""
    random = numpy.random.default_rng(1)
    needed = tokens_needed(chances, bias, THRESHOLD, epsilon=epsilon)
    together, found = max(int(needed / 100), 1), []
    for _ in range(logs):
        wealth = AuditWealth((epsilon,))
        while wealth.best[0] < THRESHOLD:
            drawn = random.choice(chances, together)
            rows = numpy.full((together, 4), nan)
            rows[:, 0] = drawn
            came = numpy.zeros((together, 4), dtype=bool)
            came[:, 0] = random.random(together) < numpy.minimum(drawn + bias, 1)
            wealth.add(rows, came)
        found.append(wealth.tokens)
    return float(numpy.median(found))


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3])
@pytest.mark.parametrize("bias", [0.1, 0.05])
def test_as_many_tokens_are_needed_as_computed(column: int, epsilon: float, bias: float) -> None:
    chances = ROWS[:, column]
    needed = tokens_needed(chances, bias, THRESHOLD, epsilon=epsilon)
    # The deviation of a log's tokens is some 40 % of their mean, of the median of 101 logs 5 %.
    assert median_tokens(chances, bias, epsilon, logs=101) == pytest.approx(needed, rel=0.2)


@pytest.mark.nightly
@pytest.mark.parametrize("bias", [0.01, 0.005])
def test_as_many_tokens_are_needed_for_a_small_bias(bias: float) -> None:
    needed = tokens_needed(ROWS[:, 0], bias, THRESHOLD)
    assert median_tokens(ROWS[:, 0], bias, 0.0, logs=51) == pytest.approx(needed, rel=0.2)


def test_less_is_needed_for_more() -> None:
    table = planned(ROWS[:, 0], ROWS[:, 1], THRESHOLD, epsilon=1e-3)
    assert [bias for bias, _ in table] == [bias for bias in BIASES if bias > 1e-3]
    for name in ("draft", "target"):
        needed = [tokens[name] for _, tokens in table]
        assert needed == sorted(needed)


def test_a_favourite_that_nobody_knows_is_never_found() -> None:
    assert tokens_needed(numpy.full(9, nan), 0.1, THRESHOLD) == inf
    assert tokens_needed(numpy.ones(9), 0.1, THRESHOLD) == inf
    assert tokens_needed(ROWS[:, 0], 0.001, THRESHOLD, epsilon=0.01) == inf


def test_a_log_tells_what_it_would_show() -> None:
    needed = int(tokens_needed(ROWS[:, 0], 0.05, THRESHOLD))
    assert detectable(ROWS[:, 0], needed, THRESHOLD) == 0.05
    assert detectable(ROWS[:, 0], needed // 2, THRESHOLD) > 0.05
    assert detectable(ROWS[:, 0], 1, THRESHOLD) == inf


def test_rows_of_a_large_vocabulary_are_no_surer() -> None:
    small, large = (random_rows(vocabulary, count=200).mean(0) for vocabulary in (50, 20_000))
    assert (small > large).all()
    assert (random_rows(50, count=200)[:, 0] <= random_rows(50, count=200)[:, 1]).all()
