"""Duels find the rates of clocks, whatever the noise that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from draftproof.conformance.lanes.probe._race import (
    DOUBT,
    Clocks,
    Reading,
    Search,
    clocks,
    readings,
)
from draftproof.conformance.lanes.probe._tape import Point, RandomTensor
from draftproof.reference.rational import rational, total

exact = settings(derandomize=True, deadline=None, max_examples=60)

EXPONENTIAL = Reading("exponential", 2**53, rising=True)
FALLING, RISING = (Reading("uniform", 2**24, rising=r) for r in (False, True))
READINGS = (EXPONENTIAL, FALLING, RISING)


def found(search: Search[Clocks | None], outcome: Callable[[Point], object]) -> Clocks | None:
    """Return what a search finds of a program, given by its outcome at a point."""
    try:
        points = next(search)
        while True:
            points = search.send([outcome(point) for point in points])
    except StopIteration as end:
        result: Clocks | None = end.value
        return result


def race(weights: Sequence[float], reading: Reading) -> Callable[[Point], int]:
    def winner(point: Point) -> int:
        with numpy.errstate(divide="ignore"):
            return int(numpy.argmax(numpy.array(weights) / reading.times(point)))

    return winner


def measured(
    weights: Sequence[float],
    reading: Reading,
    outcome: Callable[[Point], object] | None = None,
) -> Clocks | None:
    context = numpy.zeros(len(weights), dtype=numpy.int64)
    return found(clocks(context, 0, len(weights), reading), outcome or race(weights, reading))


def distance(seen: Clocks, weights: Sequence[float]) -> float:
    exactly = [rational(int(w * 2**20)) for w in weights]
    shares = [w / total(exactly) for w in exactly]
    return float(total(abs(a - b) for a, b in zip(seen.shares, shares, strict=True)) / 2)


@pytest.mark.parametrize("reading", READINGS)
@exact
@given(st.lists(st.integers(0, 256), min_size=2, max_size=6))
def test_rates_are_found_within_the_stated_error(reading: Reading, sixteenths: list[int]) -> None:
    assume(sum(w > 0 for w in sixteenths) > 1)
    weights = [w / 16 for w in sixteenths]
    seen = measured(weights, reading)
    assert seen is not None
    assert sum(seen.shares) == 1
    assert [share > 0 for share in seen.shares] == [w > 0 for w in weights]
    assert distance(seen, weights) <= float(seen.error)
    assert seen.error < rational("1/200000")


@pytest.mark.parametrize("reading", READINGS)
def test_contenders_of_one_outcome_are_told_apart_by_the_others(reading: Reading) -> None:
    weights = [0.5, 1.0, 8.0, 0.0, 4.0, 0.25]
    winner = race(weights, reading)
    seen = measured(weights, reading, lambda point: winner(point) in (2, 4, 5))
    assert seen is not None
    assert distance(seen, weights) <= float(seen.error)


def test_a_winner_that_nobody_sees_is_no_race() -> None:
    assert measured([1, 2, 3], EXPONENTIAL, lambda point: "always") is None
    assert measured([0, 2, 0], EXPONENTIAL) is None


def test_uniform_noise_can_be_read_in_two_ways() -> None:
    uniform = RandomTensor(0, "uniform", torch.float32, 0, 3, 2**24, True, "rand", "here")
    assert readings(uniform) == (FALLING, RISING)
    clock = RandomTensor(0, "exponential", torch.float32, 0, 3, 2**53, True, "exponential_", "here")
    assert readings(clock) == (EXPONENTIAL,)


def test_a_close_race_is_left_in_doubt() -> None:
    seen = measured([1.0, 1.0], EXPONENTIAL)
    assert seen is not None
    apart = [EXPONENTIAL.index(0.5), EXPONENTIAL.index(0.5 * (1 + 4 * float(DOUBT)))]
    close = [EXPONENTIAL.index(0.5), EXPONENTIAL.index(0.5 * (1 + float(DOUBT) / 4))]
    assert seen.winner(numpy.array(apart)) == (0, True)
    assert seen.winner(numpy.array(close))[1] is False
    assert seen.winner(seen.settled(numpy.array(close), 1)) == (1, True)


@pytest.mark.parametrize("reading", READINGS)
def test_a_time_is_found_again(reading: Reading) -> None:
    for time in (2.0**-12, 0.25, 1.0, 4.0):
        found_again = reading.times(numpy.array([reading.index(time)]))[0]
        # A cell of 2**-24 in probability is exp(time) as wide in time.
        assert found_again == pytest.approx(time, abs=2.0**-23 * numpy.exp(time))
