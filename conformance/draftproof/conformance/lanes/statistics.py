"""Statistical evidence from counts of random outcomes, valid at every look.

An *e-process* is a wealth that starts at 1 and that no law of the null hypothesis lets grow in
expectation. A test that rejects when the wealth reaches 1 / alpha, at whatever time and for
whatever reason, raises a false alarm with probability at most alpha (Ville's inequality). Here the
wealth is the gain of bets on the outcomes so far, in closed form from their counts.

The null hypothesis is never one law. A correct verifier computes in floats, so every outcome, given
all before it, may have any law within the total variation distance `tolerance` of the exact one.

**Bets on a law.** A bet pays r(k) = Q(k) / p0(k) for outcome k, where the law Q is chosen before.
If P is within the tolerance d of p0,

    E_P[r] = 1 + sum of (P - p0)(k) r(k) <= 1 + d (max r - min r),

since P - p0 moves a mass of at most d; so the product of r / (1 + d (max r - min r)) is an
e-process. Q is the prediction of a Dirichlet prior c p0 from the counts n(k) of N outcomes,

    r(k) = (c + n(k) / p0(k)) / (c + N),

and the product of these is a ratio of gamma functions of the counts, in whatever order they came.
Within a batch no c + n(k) / p0(k) is above its value at the batch's end or below that at its start;
so the sum of log(1 + d (max r - min r)) is at most d (highest - lowest) times the sum of
1 / (c + N), which is a difference of digammas. A smaller wealth is still an e-process. Outcomes
that p0 excludes are one more bin, with d in p0's place and 1/2 in the prior. If r is largest there,
the worst P moves all of d to it, which Q's own share of that bin pays for: E_P[r] is at most 1 - d
min r. If it is not, P does better elsewhere. So max and min are over the others.

**Bets on a mean.** If X >= 0 has a mean of at most b, 1 + s (X - b) with 0 <= s < 1 / b is expected
to be at most 1. Such bets are placed on the event that was most discrepant so far, {n(k) > N
p0(k)}, whose probability is at most its own under p0 plus the tolerance; so they lose almost
nothing by the tolerance. Both kinds of bets detect a bias of many cells, whatever their number. The
first kind detects a bias of few cells, up to 40 times sooner than the second; the second detects a
bias below some hundred times the tolerance.

A mean of e-processes is an e-process: the bets use all concentrations c, all stakes s and both
kinds at once, which costs a few units of log evidence and makes all choices unnecessary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf, log, sqrt

import numpy
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, logsumexp, ndtr, xlogy

Floats = NDArray[numpy.float64]


# --- how often the truth may be called a lie -----------------------------------------------


@dataclass(frozen=True)
class Budget:
    """Probability `total` of one or more false alarms, shared equally by a number of tests."""

    total: float = 1e-9
    tests: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.total < 1:
            raise ValueError(f"the probability of a false alarm lies in 0..1, got {self.total}")
        if self.tests < 1:
            raise ValueError(f"a budget is for at least one test, got {self.tests}")

    @property
    def each(self) -> float:
        """The probability of a false alarm of one test."""
        return self.total / self.tests

    @property
    def threshold(self) -> float:
        """The log evidence at which one test rejects."""
        return -log(self.each)

    def __str__(self) -> str:
        return (
            f"false alarms: at most {self.total:g} in all, {self.tests} tests of {self.each:.3g}, "
            f"log evidence {self.threshold:.1f}"
        )


SMALLEST, LARGEST = 256, 65536
"""Numbers of outcomes between two looks at the evidence, at first and later."""


def batch_sizes(budget: int, *, smallest: int = SMALLEST, largest: int = LARGEST) -> Iterator[int]:
    """Yield the sizes of batches that add up to `budget`: each is a quarter of all before it.

    With a look at the evidence after each, a test runs at most a quarter longer than it must.
    """
    seen = 0
    while seen < budget:
        size = min(max(seen // 4, smallest), largest, budget - seen)
        yield size
        seen += size


# --- evidence against a law -----------------------------------------------------------------

CONCENTRATIONS = (1e2, 1e3, 1e4, 1e5, 1e6, 1e7)
"""Concentrations c: with m bins, bets are on laws at the chi-square distance m / c from the
null."""

STAKES = tuple(0.5 / 2**i for i in range(9))
"""Shares of the wealth to bet on a mean, from far to near alternatives."""

RARE, FREQUENT = 10, 0.01
"""Size of bins: at least `RARE` times the tolerance, because smaller bins show little but the
tolerance; bins of at least `FREQUENT` stay unchanged for every tolerance."""


def tally(cells: NDArray[numpy.int64], weights: Floats, size: int) -> Floats:
    """Return the sum of the weights in each of `size` cells."""
    return numpy.bincount(cells, weights=weights, minlength=size).astype(numpy.float64)


@dataclass(frozen=True)
class Null:
    """A law and all within `tolerance` of it.

    `law` [cells] has the exact probabilities, zeros included. What falls into a cell that is
    `forbidden` [cells] rejects at once. Evidence is counted in bins, which join neighbouring cells
    as long as they are rare: `bin_of` [cells] has each cell's bin, `weights` [bins] has the
    probabilities. The last bin has all cells of probability zero; its weight is the tolerance.

    Rounding the law to float64 moves the log evidence of N outcomes by at most N 2**-53.
    """

    law: Floats
    tolerance: float
    forbidden: NDArray[numpy.bool_]
    bin_of: NDArray[numpy.int64]
    weights: Floats

    @property
    def priors(self) -> Floats:
        """The Dirichlet priors [concentrations, bins]."""
        prior = numpy.outer(CONCENTRATIONS, self.weights)
        prior[:, -1] = 0.5
        return prior


def null(law: Floats, *, tolerance: float = 0.0, forbidden: Collection[int] = ()) -> Null:
    """Return the null hypothesis of a law [cells]. Raises `ValueError` for an invalid law."""
    if law.ndim != 1 or not (law >= 0).all() or not abs(law.sum() - 1) < 1e-9:
        raise ValueError(f"a law is a row of weights that sum to 1, got {law}")
    if not 0 <= tolerance <= 1:
        raise ValueError(f"a tolerance lies in 0..1, got {tolerance}")
    barred = numpy.zeros(len(law), dtype=bool)
    barred[list(forbidden)] = True
    if law[barred].any():
        raise ValueError("a forbidden cell has probability zero, got one that is positive")
    bin_of = numpy.zeros(len(law), dtype=numpy.int64)
    bins, gathered = 0, 0.0
    for cell in numpy.flatnonzero(law):
        bin_of[cell] = bins
        gathered += law[cell]
        if gathered >= min(RARE * tolerance, FREQUENT):
            bins, gathered = bins + 1, 0.0
    # What is left at the end is too rare for a bin of its own.
    bin_of = numpy.where(law > 0, numpy.minimum(bin_of, bins - 1), bins)
    weights = tally(bin_of, law, bins + 1)
    weights[bins] = tolerance
    return Null(law, tolerance, barred, bin_of, weights)


@dataclass(frozen=True)
class Wealth:
    """Counts so far, and the gain of the bets on them."""

    counts: Floats
    """[bins]"""
    forbidden: int
    """The number of forbidden outcomes."""
    forgiven: Floats
    """[concentrations]: the most log evidence that the tolerance may have contributed."""
    learned: Floats
    """[stakes]: the log wealth of the bets on the most discrepant event."""


def no_evidence(null: Null) -> Wealth:
    """Return the evidence before the first outcome."""
    zeros = numpy.zeros
    return Wealth(zeros(len(null.weights)), 0, zeros(len(CONCENTRATIONS)), zeros(len(STAKES)))


def updated(null: Null, evidence: Wealth, counts: Floats) -> Wealth:
    """Return the evidence after one more batch, counted by cell [cells]."""
    fresh = tally(null.bin_of, counts, len(null.weights))
    before, after = evidence.counts, evidence.counts + fresh
    forgiven = evidence.forgiven
    if null.tolerance:
        priors = null.priors
        highest = ((priors + after) / null.weights)[:, :-1].max(1)
        lowest = ((priors + before) / null.weights)[:, :-1].min(1)
        forgiven = forgiven + _forgiven(null, highest - lowest, before.sum(), after.sum())
    return Wealth(
        after,
        evidence.forbidden + int(counts[null.forbidden].sum()),
        forgiven,
        evidence.learned + _learned(null, before, fresh),
    )


def _learned(null: Null, before: Floats, fresh: Floats) -> Floats:
    """Return the log wealth [stakes] that a batch adds to bets on the event chosen before it."""
    event = before > null.weights * before.sum()
    if not event.any():
        return numpy.zeros(len(STAKES))
    event[-1] = True
    hits = fresh[event].sum()
    bound = null.weights[:-1][event[:-1]].sum() + null.tolerance
    return bets(numpy.array([fresh.sum() - hits, hits]), bound)


def log_evidence(null: Null, evidence: Wealth) -> float:
    """Return the logarithm of the e-process; infinity after a forbidden outcome."""
    impossible = evidence.counts[-1] if null.tolerance == 0 else 0
    if evidence.forbidden or impossible:
        return inf
    seen = evidence.counts > 0
    counts, weights, priors = evidence.counts[seen], null.weights[seen], null.priors
    mass = priors.sum(1)
    won = (gammaln(priors[:, seen] + counts) - gammaln(priors[:, seen])).sum(1)
    won -= counts @ numpy.log(weights) + gammaln(mass + counts.sum()) - gammaln(mass)
    return log_mean([log_mean(won - evidence.forgiven), log_mean(evidence.learned)])


def log_mean(logs: Floats | list[float]) -> float:
    """Return the logarithm of the mean of numbers given as logarithms."""
    return float(logsumexp(logs) - log(len(logs)))


def _forgiven(null: Null, spread: Floats, before: float, after: float) -> Floats:
    mass = null.priors.sum(1)
    return null.tolerance * spread * (digamma(mass + after) - digamma(mass + before))  # type: ignore[no-any-return]  # scipy is untyped


# --- evidence against a mean ----------------------------------------------------------------


def bets(counts: Floats, bound: float) -> Floats:
    """Return the log wealth [stakes] of bets that X has a mean above `bound`.

    X lies in 0..len(counts) - 1, and `counts` has the number of times of each value. If `bound` is
    0, an X above it wins everything; if X cannot exceed it, nothing is staked.
    """
    values = numpy.arange(len(counts))
    if bound <= 0:
        return numpy.full(len(STAKES), inf if counts[1:].any() else 0.0)
    if bound >= values[-1]:
        return numpy.zeros(len(STAKES))
    stakes = numpy.array(STAKES) / bound
    return numpy.log1p(numpy.outer(stakes, values - bound)) @ counts


def log_evidence_above(counts: Floats, bound: float) -> float:
    """Return the log evidence that the mean of X is above `bound`."""
    return log_mean(bets(counts, bound))


def log_evidence_off(counts: Floats, mean: float, tolerance: float) -> float:
    """Return the log evidence that the mean of X is further than `tolerance` from `mean`."""
    largest = len(counts) - 1
    return log_mean(
        [
            log_evidence_above(counts, mean + tolerance),
            log_evidence_above(counts[::-1], largest - mean + tolerance),
        ]
    )


# --- how far off the truth can be -----------------------------------------------------------

MISSED = 1e-6
"""Probability that an upper bound is too low at any of its looks."""


def distance(law: Floats, counts: Floats) -> float:
    """Return the total variation distance of the frequencies from a law [cells]."""
    return float(abs(counts / counts.sum() - law).sum() / 2)


def upper_bound(observed: float, outcomes: int, *, look: int, span: float = 1.0) -> float:
    """Return a bound that a true distance exceeds at any look with probability at most `MISSED`.

    The distance P(A) - p0(A) is shown by one event A, fixed though unknown. The frequency of A is
    below P(A) by more than t with probability at most exp(-2 n t**2) (Hoeffding), and is above
    p0(A) by no more than the observed distance. So the truth is below the observed distance plus t:
    there is no term for the number of cells. The same holds for the mean of a variable in
    0..span. Look j = 1, 2, ... has the share 1 / (j (j + 1)) of the probability.
    """
    return observed + span * sqrt(log(look * (look + 1) / MISSED) / (2 * outcomes))


# --- what a test can see ----------------------------------------------------------------------


@dataclass(frozen=True)
class Outlook:
    """Forecast of the log evidence: its mean, nearly its median, and its standard deviation."""

    mean: float
    deviation: float

    def power(self, threshold: float) -> float:
        """Return the probability that the evidence is above the threshold."""
        return float(ndtr((self.mean - threshold) / max(self.deviation, 1e-9)))


def hardest(law: Floats, bias: float) -> Floats:
    """Return the law [cells] at TV `bias` that is hardest to tell from `law`.

    Moving the bias d from one event to its complement, within each in proportion to the law, makes
    the chi-square distance d**2 / (a (1 - a)), a being the event's probability, the least for that
    event; so the event is one of probability near 1/2. It is found greedily, which is exact where
    one cell has more than half. The bias of a law of one cell can only go to an impossible outcome,
    which needs a cell. Raises `ValueError` where that cell is missing.
    """
    event, first, mass = numpy.zeros(len(law), dtype=bool), 0, 0.0
    order = numpy.argsort(-law)
    while first < len(law):
        run = first + int(numpy.searchsorted(mass + law[order[first:]].cumsum(), 0.5, side="right"))
        event[order[first:run]] = True
        mass = float(law[event].sum())
        first = run + int(numpy.searchsorted(-law[order[run:]], mass - 0.5))
    if mass > 0:
        bias = min(bias, 1 - mass)
        return numpy.where(event, law * (1 + bias / mass), law * (1 - bias / (1 - mass)))
    impossible = numpy.flatnonzero(law == 0)
    if not len(impossible):
        raise ValueError("a law of one cell has no neighbour: give it a cell of probability zero")
    moved = law * (1 - bias)
    moved[impossible[0]] = bias
    return moved


def outlook(null: Null, alternative: Floats, outcomes: int, *, largest: int = LARGEST) -> Outlook:
    """Return the outlook after a number of outcomes of the law `alternative` [cells].

    Counts are taken as independent: Poisson where few are expected, else normal, to second order.
    """
    if (1 - alternative[null.forbidden].sum()) ** outcomes < 0.5:
        return Outlook(inf, 1.0)
    law = tally(null.bin_of, alternative, len(null.weights))
    forgiven, learned = numpy.zeros(len(CONCENTRATIONS)), numpy.zeros(len(STAKES))
    doublings = max(ceil(numpy.log2(outcomes / SMALLEST)), 1)
    for start, end in pairwise([0.0, *outcomes / 2.0 ** numpy.arange(doublings, -1, -1)]):
        middle = (start + end) / 2
        step = min(max(middle / 4, SMALLEST), largest)
        forgiven += _forgiven(null, _spread(null, law, middle, step), start, end)
        if start:  # of the first batch no event is known
            learned += (end - start) * _gain(null, law, middle)
    mean, deviation = _dirichlet_outlook(null, law, outcomes)
    mean = mean - forgiven
    both = [log_mean(mean), log_mean(learned)]
    won, bound = _event(null, law, outcomes)
    stakes = numpy.array(STAKES) / max(bound, 1e-300)
    payoff = numpy.log1p(stakes * (1 - bound)) - numpy.log1p(-stakes * bound)
    # What the event is varies, too; in simulations that adds up to a quarter.
    swings = 1.25 * numpy.abs(payoff) * sqrt(outcomes * won * (1 - won))
    swing = (deviation[mean.argmax()], swings[learned.argmax()])[both[1] > both[0]]
    return Outlook(log_mean(both), float(swing))


def _event(null: Null, law: Floats, seen: float) -> tuple[float, float]:
    """Return the probability of the most discrepant event under `law`, and its bound."""
    weights = null.weights
    deviation = numpy.sqrt(law * (1 - law) * seen) + 1e-9
    inside = ndtr(seen * (law - weights) / deviation)
    inside[-1] = 1.0
    return min(float(law @ inside), 1.0), float(weights[:-1] @ inside[:-1] + null.tolerance)


def _gain(null: Null, law: Floats, seen: float) -> Floats:
    won, bound = _event(null, law, seen)
    return bets(numpy.array([1 - won, won]), bound)


def _spread(null: Null, law: Floats, seen: float, step: float) -> Floats:
    """Return the expected spread of the bins' c + n(k) / p0(k)."""
    weights, kept = null.weights[:-1], law[:-1]
    ratio, noise = seen * kept / weights, numpy.sqrt(seen * kept * (1 - kept)) / weights
    # The largest of m normal deviations is about sqrt(2 log m).
    extreme = sqrt(2 * log(max(len(weights), 2))) * noise
    spread = (ratio + extreme).max() - numpy.maximum(ratio - extreme, 0).min() + step
    return numpy.full(len(CONCENTRATIONS), spread)


def _dirichlet_outlook(null: Null, law: Floats, outcomes: int) -> tuple[Floats, Floats]:
    kept = law > 0
    law, weights, priors = law[kept], null.weights[kept], null.priors
    mass, prior = priors.sum(1), priors[:, kept]
    expected = outcomes * law
    place = prior + expected
    # The second derivative of log gamma is 1/x + 1/2x**2 + ..., and x is at least 10.
    bend = (1 / place + 1 / (2 * place**2)) * expected * (1 - law)
    counts = gammaln(place) + bend / 2
    few = expected < 10
    if few.any():
        numbers = numpy.arange(40)[:, None]
        poisson = xlogy(numbers, expected[few]) - expected[few] - gammaln(numbers + 1)
        counts[:, few] = (gammaln(prior[:, None, few] + numbers) * numpy.exp(poisson)).sum(1)
    mean = (counts - gammaln(prior)).sum(1) - expected @ numpy.log(weights)
    mean -= gammaln(mass + outcomes) - gammaln(mass)
    slope = numpy.log(place / weights)
    variance = outcomes * ((slope**2) @ law - (slope @ law) ** 2)
    return mean, numpy.sqrt(numpy.maximum(variance, 0) + (bend**2).sum(1) / 2)


def mean_outlook(law: Floats, bound: float, outcomes: int) -> Outlook:
    """Return the outlook of the bets that X has a mean above `bound`, X having `law` [values]."""
    each = numpy.array([bets(unit, bound) for unit in numpy.eye(len(law))])
    mean = law @ each
    best = mean.argmax()
    deviation = sqrt(outcomes * max(float(law @ each[:, best] ** 2 - mean[best] ** 2), 1e-300))
    return Outlook(log_mean(outcomes * mean), deviation)


def outcomes_to_reject(
    after: Callable[[int], Outlook], threshold: float, *, most: int = 2**40
) -> float:
    """Return the median number of outcomes until rejection; infinity beyond `most`."""
    low, high = 1, 256
    while after(high).mean < threshold:
        low, high = high, 2 * high
        if high > most:
            return inf
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if after(middle).mean >= threshold else (middle, high)
    return high


def shifted(law: Floats, shift: float) -> Floats:
    """Return the law [values] whose mean is larger by `shift` and that is hardest to tell from it.

    That is the exponential tilt p(x) e**(t x). A law that has nothing above its mean cannot be
    tilted; the shift then moves mass to the next value.
    """
    values = numpy.arange(len(law))
    mean, highest = float(law @ values), int(numpy.flatnonzero(law)[-1])
    if mean + shift >= highest:
        moved = (1 - shift / (values[-1] - mean)) * law
        moved[-1] += shift / (values[-1] - mean)
        return numpy.maximum(moved, 0)  # type: ignore[no-any-return]  # numpy forgets the shape
    low, high = 0.0, 60.0
    for _ in range(40):
        middle = (low + high) / 2
        tilted = law * numpy.exp(middle * (values - highest))
        too_far = tilted @ values / tilted.sum() > mean + shift
        low, high = (low, middle) if too_far else (middle, high)
    return tilted / tilted.sum()  # type: ignore[no-any-return]


def detectable(
    after: Callable[[float], Outlook], threshold: float, *, power: float = 0.9, largest: float = 1.0
) -> float:
    """Return the smallest bias up to `largest` that is found with the power, or infinity."""
    low, high = 0.0, largest
    if after(high).power(threshold) < power:
        return inf
    while high - low > high / 100:
        middle = (low + high) / 2
        low, high = (low, middle) if after(middle).power(threshold) >= power else (middle, high)
    return high
