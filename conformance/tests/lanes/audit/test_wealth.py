"""Wealth: no row within epsilon lets a bet grow, and logs of correct servers raise no alarm."""

from __future__ import annotations

from math import log, nan

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from draftproof.conformance.lanes.audit.wealth import EPSILONS, AuditWealth, payments

EVENT = st.floats(0, 1)


@given(EVENT, st.sampled_from(EPSILONS), st.floats(-1, 1))
def test_no_row_within_epsilon_lets_a_bet_grow(m: float, epsilon: float, moved: float) -> None:
    true = min(max(m + epsilon * moved, 0.0), 1.0)
    happens, not_so = payments(numpy.array([[m]]), numpy.array([epsilon]))
    # Payments of infinity are for what cannot happen.
    mean = (0 if true == 0 else true * numpy.exp(happens)) + (
        0 if true == 1 else (1 - true) * numpy.exp(not_so)
    )
    # Each of some ten roundings is off by 1e-16 relatively, a quotient by 1 / (1 - m) of it.
    assert numpy.all(mean <= 1 + 1e-9)


@given(EVENT, st.sampled_from(EPSILONS[:-1]))
def test_a_bet_is_fair_at_the_nearest_row(m: float, epsilon: float) -> None:
    """So no evidence is given away."""
    nearest = min(m + epsilon, 1.0)
    happens, not_so = payments(numpy.array([[m]]), numpy.array([epsilon]))
    if 1e-6 < nearest < 1 - 1e-6:
        mean = nearest * numpy.exp(happens) + (1 - nearest) * numpy.exp(not_so)
        assert mean[0, 0, 0, 0] == pytest.approx(1, abs=1e-9)


def test_the_wealth_is_what_the_bets_pay() -> None:
    wealth = AuditWealth((0.0, 0.1))
    chances = numpy.array([[0.5, nan, nan, 0.0]])
    wealth.add(chances, numpy.array([[True, False, False, False]]))
    # A bias of .1 above 1/2 pays .6 / .5, one below .4 / .5; epsilon = .1 leaves no bet on it.
    assert numpy.exp(wealth.won[0, 0, :, 2]) == pytest.approx([1.2, 0.8])
    assert numpy.exp(wealth.won[1, 0, :, 2]) == pytest.approx([1, 1])
    assert wealth.bets.tolist() == [1, 0, 0, 1]
    assert wealth.expected.tolist() == [0.5, 0, 0, 0]
    assert wealth.happened.tolist() == [1, 0, 0, 0]


def test_an_excluded_token_is_an_alarm_at_once() -> None:
    wealth = AuditWealth()
    happened = numpy.array([[False, False, False, True]])
    wealth.add(numpy.array([[nan, nan, nan, 0.0]]), happened)
    assert wealth.best[0] == numpy.inf
    assert wealth.smallest(log(1e6)) == 1e-5
    assert wealth.telling() == ("support", True)
    for _ in range(5):
        wealth.add(numpy.array([[nan, nan, nan, 0.0]]), happened)
    assert wealth.smallest(log(1e6)) > 0.02


def test_wealth_falls_as_epsilon_grows() -> None:
    random = numpy.random.default_rng(1)
    wealth = AuditWealth()
    for _ in range(20):
        chances = random.random((100, 4))
        wealth.add(chances, random.random((100, 4)) < chances**0.8)
    assert (numpy.diff(wealth.won.max((1, 2, 3))) <= 1e-9).all()
    assert (numpy.diff(wealth.best) <= 1e-9).all()
    assert 0 < wealth.smallest(log(1e6)) < 1


def alarms(logs: int, tokens: int, alpha: float) -> int:
    """Return how many logs of a correct server raise an alarm."""
    random = numpy.random.default_rng(7)
    found = 0
    for _ in range(logs):
        wealth = AuditWealth((0.0,))
        certainty = random.uniform(0.1, 4)
        for _ in range(tokens // 128):
            chances = random.random((128, 4)) ** certainty
            wealth.add(chances, random.random((128, 4)) < chances)
        found += wealth.best[0] >= -log(alpha)
    return found


# With probability below 1e-6, more than so many of the logs raise an alarm.
def most(logs: int, alpha: float) -> int:
    return int(binom.isf(1e-6, logs, alpha))


def test_logs_of_a_correct_server_raise_no_more_alarms_than_alpha() -> None:
    assert alarms(300, 512, 0.05) <= most(300, 0.05)


@pytest.mark.nightly
def test_ten_thousand_logs_raise_no_alarm_at_one_in_a_million() -> None:
    assert alarms(10_000, 1024, 0.05) <= 10_000 * 0.05 + 3 * (10_000 * 0.05 * 0.95) ** 0.5
    assert alarms(10_000, 1024, 1e-6) <= most(10_000, 1e-6)
