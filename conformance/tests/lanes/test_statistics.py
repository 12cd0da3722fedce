from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from math import exp, inf, log, sqrt

import numpy
import pytest
from scipy.stats import binom

from draftproof.conformance.lanes.statistics import (
    CONCENTRATIONS,
    MISSED,
    STAKES,
    Budget,
    Floats,
    Null,
    Outlook,
    Wealth,
    batch_sizes,
    bets,
    detectable,
    distance,
    hardest,
    log_evidence,
    log_evidence_above,
    log_evidence_off,
    log_mean,
    mean_outlook,
    no_evidence,
    null,
    outcomes_to_reject,
    outlook,
    shifted,
    updated,
    upper_bound,
)


def floats(*values: float) -> Floats:
    return numpy.array(values, dtype=float)


def after(hypothesis: Null, batches: Sequence[Floats]) -> Wealth:
    evidence = no_evidence(hypothesis)
    for counts in batches:
        evidence = updated(hypothesis, evidence, counts)
    return evidence


# --- budgets and looks ------------------------------------------------------------------------


def test_a_budget_is_shared_alike_and_says_so() -> None:
    budget = Budget(1e-9, 200)
    assert budget.each * 200 == pytest.approx(1e-9)
    assert budget.threshold == pytest.approx(log(200e9))
    assert str(budget) == (
        "false alarms: at most 1e-09 in all, 200 tests of 5e-12, log evidence 26.0"
    )


@pytest.mark.parametrize(
    ("total", "tests", "message"),
    [
        (0.0, 1, "the probability of a false alarm lies in 0..1, got 0.0"),
        (1.0, 1, "the probability of a false alarm lies in 0..1, got 1.0"),
        (1e-9, 0, "a budget is for at least one test, got 0"),
    ],
)
def test_a_budget_that_is_none(total: float, tests: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Budget(total, tests)


@pytest.mark.parametrize("budget", [1, 255, 256, 257, 100_000, 2**20])
def test_batches_grow_by_a_quarter_and_add_up(budget: int) -> None:
    sizes = list(batch_sizes(budget, smallest=256, largest=5000))
    assert sum(sizes) == budget
    for seen, size in zip(numpy.cumsum([0, *sizes]), sizes, strict=False):
        assert 0 < size <= min(max(seen / 4, 256), 5000)


# --- the null hypothesis ----------------------------------------------------------------------


def test_rare_cells_are_put_together_with_their_neighbours() -> None:
    law = floats(0.5, 0.0, 0.004, 0.004, 0.004, 0.488, 0.0)
    assert null(law, tolerance=0.0).bin_of.tolist() == [0, 5, 1, 2, 3, 4, 5]
    merged = null(law, tolerance=0.001)
    assert merged.bin_of.tolist() == [0, 3, 1, 1, 1, 2, 3]
    assert merged.weights.tolist() == pytest.approx([0.5, 0.012, 0.488, 0.001])
    # What is left at the end joins the last bin.
    assert null(law[::-1].copy(), tolerance=0.001).bin_of.tolist() == [3, 0, 1, 1, 1, 3, 2]
    last = null(floats(0.5, 0.496, 0.004), tolerance=0.001)
    assert last.bin_of.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("law", "tolerance", "forbidden", "message"),
    [
        (floats(0.5, 0.6), 0.0, (), "a law is a row of weights that sum to 1, got"),
        (floats(1.5, -0.5), 0.0, (), "a law is a row of weights that sum to 1, got"),
        (floats(numpy.nan, 1.0), 0.0, (), "a law is a row of weights that sum to 1, got"),
        (floats(), 0.0, (), "a law is a row of weights that sum to 1, got"),
        (floats(0.5, 0.5), -0.1, (), "a tolerance lies in 0..1, got -0.1"),
        (floats(0.5, 0.5), 1.1, (), "a tolerance lies in 0..1, got 1.1"),
        (floats(0.5, 0.5), 0.0, (1,), "a forbidden cell has probability zero, got one that is"),
    ],
)
def test_a_hypothesis_that_is_none(
    law: Floats, tolerance: float, forbidden: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        null(law, tolerance=tolerance, forbidden=forbidden)


# --- the evidence is what the bets have won ---------------------------------------------------

LAW = floats(0.5, 0.3, 0.2, 0.0)


def won_step_by_step(hypothesis: Null, outcomes: Sequence[int]) -> float:
    """Play every bet on one outcome after another, as the derivation writes it."""
    weights, d = hypothesis.weights, hypothesis.tolerance
    dirichlet = []
    for prior in hypothesis.priors:
        wealth, counts = 0.0, prior.copy()
        for outcome in outcomes:
            ratio = counts / counts.sum() / weights
            spread = ratio[:-1].max() - ratio[:-1].min()
            wealth += log(ratio[outcome]) - log(1 + d * spread)
            counts[outcome] += 1
        dirichlet.append(wealth)
    learned = numpy.zeros(len(STAKES))
    counts = numpy.zeros(len(weights))
    for outcome in outcomes:
        event = counts > weights * counts.sum()
        event[-1] = event.any()
        bound = weights[:-1][event[:-1]].sum() + d
        if event.any() and bound < 1:
            learned += numpy.log1p(numpy.array(STAKES) / bound * (event[outcome] - bound))
        counts[outcome] += 1
    return log_mean([log_mean(dirichlet), log_mean(learned)])


@pytest.mark.parametrize("outcomes", [(0, 1, 0, 0, 2, 0), (2, 2, 2, 1, 2), (3, 0, 3, 3), (1,)])
def test_the_closed_form_is_what_is_won_step_by_step(outcomes: tuple[int, ...]) -> None:
    hypothesis = null(LAW, tolerance=1e-3)
    evidence = after(hypothesis, [numpy.eye(4)[outcome] for outcome in outcomes])
    exact = won_step_by_step(hypothesis, outcomes)
    # The bound within a batch, log(1 + x) <= x included, may only lose: here a hundredth.
    assert exact - 0.01 < log_evidence(hypothesis, evidence) <= exact + 1e-9


def test_the_order_within_a_batch_does_not_matter() -> None:
    hypothesis = null(LAW)
    counts = floats(3, 1, 2, 0)
    together = after(hypothesis, [floats(1, 1, 0, 0), counts])
    for order in set(permutations([0, 0, 0, 1, 2, 2])):
        last = [numpy.eye(4)[outcome] for outcome in order]
        alone = after(hypothesis, [floats(1, 1, 0, 0), *last])
        assert (alone.counts == together.counts).all()
    # The Dirichlet part alone: what is learned within a batch is used after it.
    unlearned = replace(alone, learned=together.learned)
    assert log_evidence(hypothesis, unlearned) == pytest.approx(log_evidence(hypothesis, together))


def test_rounding_of_millions_of_outcomes_is_nothing() -> None:
    """One ulp on every weight: N 2**-53 = 1e-9 for ten million, and gammaln's own rounding."""
    law = numpy.full(64, 1 / 64)
    nudged = law * (1 + 2**-52 * numpy.where(numpy.arange(64) % 2, 1, -1))
    counts = numpy.random.default_rng(1).multinomial(10**7, law).astype(float)
    first, second = (
        log_evidence(hypothesis, after(hypothesis, [counts]))
        for hypothesis in (null(law), null(nudged))
    )
    assert first == pytest.approx(second, abs=1e-5)


# --- no law within the tolerance is expected to win ---------------------------------------------


def extremes(law: Floats, tolerance: float) -> list[Floats]:
    """Return the corners of the ball: as much as allowed taken from some cells, given to one."""
    corners = [law]
    for order in permutations(range(len(law))):
        *givers, taker = order
        moved, left = law.copy(), tolerance
        for cell in givers:
            taken = min(left, law[cell])
            moved[cell] -= taken
            moved[taker] += taken
            left -= taken
        corners.append(moved)
    return corners


def most_expected(hypothesis: Null, law: Floats, tolerance: float, steps: int) -> float:
    """Return the largest expected wealth after some steps, over a worst law at every one."""
    corners = extremes(law, tolerance)

    @cache
    def best(outcomes: tuple[int, ...]) -> float:
        if len(outcomes) == steps:
            batches = [numpy.eye(len(law))[outcome] for outcome in outcomes]
            return exp(log_evidence(hypothesis, after(hypothesis, batches)))
        following = [best((*outcomes, outcome)) for outcome in range(len(law))]
        return max(float(corner @ following) for corner in corners)

    return best(())


@pytest.mark.parametrize("tolerance", [1e-4, 0.01, 0.05, 0.2])
@pytest.mark.parametrize("law", [LAW, floats(0.98, 0.02, 0.0), floats(1.0, 0.0)])
def test_no_law_within_the_tolerance_is_expected_to_win(law: Floats, tolerance: float) -> None:
    """Exactly, over all outcomes, against an adversary that chooses a law at every step."""
    hypothesis = null(law, tolerance=tolerance)
    assert most_expected(hypothesis, law, tolerance, 4) <= 1 + 1e-9


def test_a_law_beyond_the_tolerance_is_expected_to_win() -> None:
    hypothesis = null(LAW, tolerance=0.01)
    assert most_expected(hypothesis, LAW, 0.05, 4) > 1.01


def test_a_batch_is_paid_less_than_its_outcomes_one_by_one() -> None:
    hypothesis = null(LAW, tolerance=0.02)
    together = after(hypothesis, [floats(30, 10, 10, 0), floats(5, 4, 3, 0)])
    alone = after(hypothesis, [numpy.eye(4)[o] for o in [0] * 30 + [1] * 10 + [2] * 10])
    alone = after_more(hypothesis, alone, [0] * 5 + [1] * 4 + [2] * 3)
    assert (together.forgiven >= alone.forgiven).all()


def after_more(hypothesis: Null, evidence: Wealth, outcomes: Sequence[int]) -> Wealth:
    for outcome in outcomes:
        evidence = updated(hypothesis, evidence, numpy.eye(len(hypothesis.law))[outcome])
    return evidence


def test_what_never_happens_is_excused_up_to_the_tolerance_and_forbidden_cells_are_not() -> None:
    happened = [floats(50, 30, 20, 1)]
    assert log_evidence(null(LAW), after(null(LAW), happened)) == inf
    tolerant = null(LAW, tolerance=0.02)
    assert log_evidence(tolerant, after(tolerant, happened)) < 3
    forbidding = null(LAW, tolerance=0.02, forbidden=(3,))
    evidence = after(forbidding, happened)
    assert evidence.forbidden == 1
    assert log_evidence(forbidding, evidence) == inf


def test_false_alarms_stay_within_their_budget() -> None:
    """1,000 runs at a level of 1/100 under the hardest law of the ball, looking after each batch.

    This test fails by chance once in a million times if alarms are as frequent as they may be. A
    hypothesis without the tolerance that this law needs raises alarms without end.
    """
    law, tolerance = numpy.full(6, 1 / 6), 0.06
    truth = hardest(law, tolerance)
    random = numpy.random.default_rng(20)
    runs = [
        [random.multinomial(size, truth).astype(float) for size in batch_sizes(1800)]
        for _ in range(1000)
    ]
    tolerant, strict = null(law, tolerance=tolerance), null(law)
    alarms = sum(rejects(tolerant, batches, log(100)) for batches in runs)
    assert alarms <= binom.isf(1e-6, 1000, 0.01)
    assert sum(rejects(strict, batches, log(100)) for batches in runs[:100]) > 50


def rejects(hypothesis: Null, batches: Sequence[Floats], threshold: float) -> bool:
    evidence = no_evidence(hypothesis)
    for counts in batches:
        evidence = updated(hypothesis, evidence, counts)
        if log_evidence(hypothesis, evidence) >= threshold:
            return True
    return False


# --- means -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [0.001, 0.5, 1.0, 1.999])
def test_a_bet_on_a_mean_is_fair_at_the_bound(bound: float) -> None:
    """Exactly: one outcome multiplies the wealth by 1 on average, whatever law has this mean."""
    payoffs = numpy.exp([bets(unit, bound) for unit in numpy.eye(3)])
    for middle in (0.0, min(bound, 2 - bound) / 2):
        law = floats(1 - middle - (bound - middle) / 2, middle, (bound - middle) / 2)
        assert law @ numpy.arange(3) == pytest.approx(bound)
        assert law @ payoffs == pytest.approx(numpy.ones(len(STAKES)))


def test_a_bound_that_nothing_is_below_or_above() -> None:
    assert log_evidence_above(floats(5, 0, 1), 0.0) == inf
    assert log_evidence_above(floats(5, 0, 0), 0.0) == 0
    assert log_evidence_above(floats(0, 0, 9), 2.0) == 0
    assert log_evidence_above(floats(0, 0, 9), 2.5) == 0


def test_a_mean_is_missed_on_either_side() -> None:
    high, low, right = floats(100, 0, 300), floats(300, 0, 100), floats(200, 0, 200)
    assert log_evidence_above(high, 1.0) > 40
    assert log_evidence_above(low, 1.0) < 0
    assert log_evidence_off(high, 1.0, 0.0) == pytest.approx(log_evidence_off(low, 1.0, 0.0))
    assert log_evidence_off(high, 1.0, 0.0) > 40
    assert log_evidence_off(high, 1.0, 0.6) < 0
    assert log_evidence_off(right, 1.0, 0.0) < 0


# --- bounds --------------------------------------------------------------------------------------


def test_the_distance_of_counts() -> None:
    assert distance(floats(0.5, 0.5, 0.0), floats(2, 1, 1)) == pytest.approx(0.25)


@pytest.mark.parametrize("outcomes", [10, 300, 5000])
@pytest.mark.parametrize("truth", [0.001, 0.3, 0.5, 0.97])
def test_an_upper_bound_is_missed_as_seldom_as_it_says(truth: float, outcomes: int) -> None:
    """Exactly, from the binomial: the law is (1/2, 1/2), the truth one of these."""
    for look in (1, 7):
        heads = numpy.arange(outcomes + 1)
        observed = abs(heads / outcomes - 0.5)
        bounds = numpy.array([upper_bound(d, outcomes, look=look) for d in observed])
        missed = binom.pmf(heads, outcomes, truth)[bounds < abs(truth - 0.5)].sum()
        assert missed <= MISSED / (look * (look + 1))


def test_a_bound_by_hand() -> None:
    assert upper_bound(0.25, 800, look=1, span=2) == 0.25 + 2 * sqrt(log(2e6) / 1600)


# --- what can be seen ----------------------------------------------------------------------------

TOLERANCE, THRESHOLD = 1e-5, 26.0


def sized(cells: int) -> Floats:
    """Return a law of so many cells, uneven as emission laws are."""
    return numpy.random.default_rng(7).dirichlet(numpy.ones(cells))


def diffuse(law: Floats, bias: float) -> Floats:
    """Return a law at TV `bias` from `law`, off in every cell, up or down at random."""
    change = law * numpy.random.default_rng(8).choice([-1, 1], len(law))
    change -= law * change.sum()
    away: Floats = law + change * bias / (abs(change).sum() / 2)
    return away


def median_to_reject(hypothesis: Null, truth: Floats, runs: int) -> float:
    random = numpy.random.default_rng(9)
    return float(numpy.median([one_run(hypothesis, truth, random) for _ in range(runs)]))


def one_run(hypothesis: Null, truth: Floats, random: numpy.random.Generator) -> int:
    evidence, seen = no_evidence(hypothesis), 0
    while log_evidence(hypothesis, evidence) < THRESHOLD:
        size = min(max(seen // 24, 32), 16384)
        seen += size
        evidence = updated(hypothesis, evidence, random.multinomial(size, truth).astype(float))
    return seen


@pytest.mark.parametrize(
    ("cells", "bias", "runs"),
    [(39, 0.1, 41), (39, 0.03, 21), (4680, 0.1, 7)],
)
@pytest.mark.parametrize("direction", [hardest, diffuse])
def test_emissions_to_reject_are_as_computed(
    direction: type, cells: int, bias: float, runs: int
) -> None:
    """The cells of V = 3, L = 2 and of V = 8, L = 3.

    One run varies by about a quarter among few cells and a tenth among many, so the medians do by
    some 5 %: more than 20 % off is a wrong formula.
    """
    law = sized(cells)
    hypothesis = null(law, tolerance=TOLERANCE)
    truth = direction(law, bias)
    assert abs(truth - law).sum() / 2 == pytest.approx(bias)

    def seen_after(outcomes: int) -> Outlook:
        return outlook(hypothesis, truth, outcomes, largest=16384)

    computed = outcomes_to_reject(seen_after, THRESHOLD)
    assert median_to_reject(hypothesis, truth, runs) == pytest.approx(computed, rel=0.2)


def test_the_power_of_what_is_detectable() -> None:
    """At the smallest bias with a power of 9/10, 100 runs reject 90 times give or take 5 sigma."""
    law, outcomes = sized(39), 20_000
    hypothesis = null(law, tolerance=TOLERANCE)

    def biased(bias: float) -> Outlook:
        return outlook(hypothesis, hardest(law, bias), outcomes)

    smallest = detectable(biased, THRESHOLD)
    assert biased(smallest).power(THRESHOLD) >= 0.9 > biased(0.98 * smallest).power(THRESHOLD)
    random = numpy.random.default_rng(10)
    truth = hardest(law, smallest)
    rejected = 0
    for _ in range(100):
        batches = [random.multinomial(size, truth).astype(float) for size in batch_sizes(outcomes)]
        rejected += rejects(hypothesis, batches, THRESHOLD)
    assert 75 <= rejected < 100


def test_half_precision_sees_what_is_beyond_its_tolerance() -> None:
    law = floats(0.25, 0.25, 0.25, 0.25)
    hypothesis = null(law, tolerance=0.2)
    within, beyond = hardest(law, 0.19), hardest(law, 0.45)
    assert (
        outcomes_to_reject(lambda n: outlook(hypothesis, within, n), THRESHOLD, most=2**30) == inf
    )
    assert outcomes_to_reject(lambda n: outlook(hypothesis, beyond, n), THRESHOLD) < 1000
    assert median_to_reject(hypothesis, beyond, 11) < 1000


def test_forbidden_outcomes_are_seen_as_soon_as_they_happen() -> None:
    hypothesis = null(LAW, tolerance=1e-5, forbidden=(3,))
    truth = LAW * 0.999 + floats(0, 0, 0, 0.001)
    needed = outcomes_to_reject(lambda n: outlook(hypothesis, truth, n), THRESHOLD)
    assert needed == pytest.approx(log(2) / 0.001, rel=0.02)


def test_the_hardest_law_is_harder_than_others_at_its_distance() -> None:
    law = sized(12)
    random = numpy.random.default_rng(11)
    bias = 0.02

    def chi_square(other: Floats) -> float:
        return float(((other - law) ** 2 / law).sum())

    hard = hardest(law, bias)
    assert hard.sum() == pytest.approx(1)
    assert abs(hard - law).sum() / 2 == pytest.approx(bias)
    for _ in range(200):
        change = random.normal(size=12) * law
        change -= change.mean()
        other = law + change * bias / (abs(change).sum() / 2)
        assert chi_square(other) > 0.99 * chi_square(hard)


def test_a_law_of_one_cell_loses_to_what_never_happens() -> None:
    assert hardest(floats(1.0, 0.0), 0.1).tolist() == [0.9, 0.1]
    with pytest.raises(ValueError, match=r"^a law of one cell has no neighbour"):
        hardest(floats(1.0), 0.1)


@pytest.mark.parametrize("shift", [0.01, 0.3, 0.9])
def test_a_shifted_law_has_its_mean(shift: float) -> None:
    for law in (floats(0.2, 0.3, 0.5), floats(0.6, 0.4, 0.0), floats(1.0, 0.0, 0.0)):
        mean = float(law @ numpy.arange(3))
        moved = shifted(law, min(shift, 2 - mean))
        assert moved.sum() == pytest.approx(1)
        assert moved @ numpy.arange(3) == pytest.approx(min(mean + shift, 2))
        assert (moved >= 0).all()


def test_a_mean_above_its_bound_needs_as_many_outcomes_as_computed() -> None:
    law = shifted(floats(0.3, 0.3, 0.4), 0.1)
    computed = outcomes_to_reject(lambda n: mean_outlook(law, 1.1, n), THRESHOLD)
    random = numpy.random.default_rng(12)
    needed = []
    for _ in range(41):
        counts = numpy.zeros(3)
        while log_evidence_above(counts, 1.1) < THRESHOLD:
            counts += random.multinomial(64, law)
        needed.append(counts.sum())
    assert float(numpy.median(needed)) == pytest.approx(computed, rel=0.2)


def test_nothing_is_detectable_below_the_tolerance() -> None:
    hypothesis = null(floats(0.5, 0.5), tolerance=1.0)
    assert detectable(lambda b: outlook(hypothesis, hardest(LAW, b)[:2], 1000), 26.0) == inf


def test_every_kind_of_bet_is_played() -> None:
    evidence = no_evidence(null(LAW, tolerance=1e-5))
    assert evidence.forgiven.shape == (len(CONCENTRATIONS),)
    assert evidence.learned.shape == (len(STAKES),)
    assert log_evidence(null(LAW, tolerance=1e-5), evidence) == 0
