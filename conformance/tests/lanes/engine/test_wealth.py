from __future__ import annotations

from itertools import product
from math import inf, log, log1p

import numpy
import pytest

from draftproof.conformance.lanes.engine.wealth import PRIORS, SHARES, Counted, Owed, Paired
from draftproof.conformance.lanes.statistics import MISSED, Floats, upper_bound


def floats(*values: float) -> Floats:
    return numpy.array(values, dtype=float)


P = floats(0.5, 0.3, 0.2, 0.0)
Q = floats(0.2, 0.3, 0.5, 0.0)


def counted(tolerance: float = 0.0) -> Counted[str]:
    return Counted({s: Owed(P, tolerance, {"draft": Q}) for s in ("a", "b")})


def one(cell: int) -> Floats:
    return floats(*numpy.eye(5)[cell])


# --- an e-process -----------------------------------------------------------------------------


def test_no_bet_gains_on_average_over_all_texts_of_a_correct_engine() -> None:
    """The expectation of the wealth after four tokens, each looked at, is exactly at most 1."""
    expected = 0.0
    for words in product(range(3), repeat=4):
        own = counted()
        for place, word in enumerate(words):
            own.add({"ab"[place % 2]: one(word)})
        expected += float(numpy.prod(P[list(words)])) * numpy.exp(own.log_evidence)
    # Gamma functions of 1e7 are known to 1e-9 only.
    assert expected == pytest.approx(1, abs=1e-7)


def test_no_bet_gains_from_an_error_that_the_tolerance_covers() -> None:
    tolerance = 0.05
    for off in (floats(0.55, 0.25, 0.2, 0), floats(0.45, 0.3, 0.25, 0), floats(0.5, 0.35, 0.15, 0)):
        expected = 0.0
        for words in product(range(3), repeat=4):
            own = counted(tolerance)
            for word in words:
                own.add({"a": one(word)})
            expected += float(numpy.prod(off[list(words)])) * numpy.exp(own.log_evidence)
        assert expected <= 1 + 1e-7


def test_an_excluded_token_ends_it() -> None:
    own = counted()
    own.add({"a": floats(10, 5, 3, 0, 0)})
    assert own.log_evidence < inf
    own.add({"b": one(3)})
    assert own.excluded == 1
    assert own.log_evidence == inf
    other = counted()
    other.add({"a": one(4)})
    assert other.log_evidence == inf


def test_a_suspect_is_found_first_and_named() -> None:
    own = counted()
    for _ in range(4):
        own.add({"a": floats(*(250 * (0.8 * P + 0.2 * Q)), 0)})
    assert own.likely == "draft"
    assert own.log_evidence > 5
    shares = 1 + numpy.array(SHARES)[:, None] * ((Q / numpy.where(P > 0, P, 1))[:3] - 1)
    due = numpy.log(shares) @ (1000 * (0.8 * P + 0.2 * Q)[:3])
    assert own.suspected["draft"] == pytest.approx(due)


def test_a_fault_of_one_context_is_seen_among_many() -> None:
    own = Counted({s: Owed(P, 0.0) for s in range(100)})
    own.add({s: floats(500, 300, 200, 0, 0) for s in range(1, 100)})
    own.add({0: floats(350, 300, 350, 0, 0)})
    assert own.log_evidence > 30


# --- what is bounded --------------------------------------------------------------------------


def test_distance_is_a_mean_over_tokens_and_its_bound_is_hoeffdings() -> None:
    own = counted()
    own.add({"a": floats(50, 30, 20, 0, 0), "b": floats(20, 30, 50, 0, 0)})
    assert own.tokens == 200
    assert own.distance == pytest.approx(0.15)
    assert own.bound == pytest.approx(upper_bound(0.15, 200, look=1))
    assert counted().bound == 1.0


def test_the_bound_is_rarely_too_low() -> None:
    """The true distance is above the bound with probability 1e-6; here it never is."""
    random = numpy.random.default_rng(3)
    off = floats(0.45, 0.3, 0.25, 0.0, 0.0)
    for _ in range(300):
        own = counted()
        for _ in range(3):
            own.add({"a": random.multinomial(40, off).astype(float)})
        assert own.bound > 0.05
    assert MISSED == 1e-6


def test_what_is_detectable_is_detected_with_the_power_that_is_stated() -> None:
    """100 campaigns at that distance: fewer than 80 found would be seven standard errors off."""
    random = numpy.random.default_rng(5)
    even = floats(0.25, 0.25, 0.25, 0.25)
    contexts = {s: Owed(even, 1e-5) for s in range(8)}

    def campaign(row: Floats) -> Counted[int]:
        own = Counted(contexts)
        for _ in range(4):
            drawn = {s: random.multinomial(1000, row).astype(float) for s in contexts}
            own.add({s: numpy.append(counts, 0.0) for s, counts in drawn.items()})
        return own

    threshold = log(1e6)
    bias = campaign(even).detectable(threshold)
    assert 0.005 < bias < 0.1
    moved = even + bias * floats(0.5, 0.5, -0.5, -0.5)
    found = sum(campaign(moved).log_evidence >= threshold for _ in range(100))
    assert found >= 80


# --- two engines ------------------------------------------------------------------------------


def test_pairs_of_one_unknown_row_gain_nothing_on_average() -> None:
    """Whatever row both have, the expected wealth after two pairs is at most 1."""
    for row in (floats(0.7, 0.2, 0.1), floats(0.1, 0.1, 0.8), floats(0.3, 0.3, 0.4)):
        expected = 0.0
        for cells in product(range(3), repeat=4):
            pairs = Paired({"a": Owed(P, 0.0)}, {"a": []}, {"a": []})
            for x, y in (cells[:2], cells[2:]):
                pairs.own["a"].append(x)
                pairs.control["a"].append(y)
                pairs.look()
            expected += float(numpy.prod(row[list(cells)])) * numpy.exp(pairs.log_evidence)
        assert expected <= 1 + 1e-9


def test_two_rows_are_told_apart_and_two_samples_of_one_are_not() -> None:
    random = numpy.random.default_rng(1)
    filtered = floats(0.6, 0.4, 0.0)
    for other, is_apart in ((filtered, False), (floats(0.5, 0.3, 0.2), True)):
        pairs = Paired({"a": Owed(P, 0.0)}, {"a": []}, {"a": []})
        for _ in range(10):
            pairs.own["a"] += random.choice(3, p=other, size=200).tolist()
            pairs.control["a"] += random.choice(3, p=filtered, size=200).tolist()
            pairs.look()
        assert pairs.pairs == 2000
        assert (pairs.log_evidence > 20) == is_apart


def test_tolerance_is_forgiven_pair_by_pair() -> None:
    free, strict = (Paired({"a": Owed(P, t)}, {"a": [0]}, {"a": [1]}) for t in (0.0, 0.01))
    for each in (free, strict):
        each.look()
    assert free.won - strict.won == pytest.approx([log1p(0.08)] * len(PRIORS))
