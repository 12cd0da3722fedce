"""Evidence that tokens are not drawn from the rows of a log, valid at every look.

Given everything before it, the token at a place is an event with the probability m that its row
states. The null hypothesis for epsilon is that each row is within total variation distance epsilon
of the distribution from which the token is drawn: then the event's probability is at most
m + epsilon. A bet that the event has a probability a above that pays

    a / (m + epsilon) if it happens, (1 - a) / (1 - m - epsilon) if it does not,

which is 1 + lambda (s - (m + epsilon)) for the indicator s of the event: its mean grows with the
event's probability and is 1 at m + epsilon, so no row of the null hypothesis lets it grow. Bets
that the event happens too seldom are the same for the complement. If a is within epsilon of m there
is no bet. The evidence is the mean of such bets over events, directions and biases a - m; by
Ville's inequality it ever reaches 1 / alpha with probability at most alpha.

The smallest epsilon that is not rejected is a lower bound on the largest distance of a row, with
probability 1 - alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy
from numpy.typing import NDArray

from draftproof.conformance.lanes.audit.log import EVENTS
from draftproof.conformance.lanes.statistics import log_mean

Floats = NDArray[numpy.float64]

BIASES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)
"""Amounts by which an event may be more, or less, probable than its row states."""

EPSILONS = (0.0, *(digit * 10.0**power for power in range(-5, 0) for digit in (1, 2, 5)), 1.0)
"""Distances of rows that the audit distinguishes."""

_TINY = numpy.finfo(numpy.float64).tiny

_KEPT = 4096
"""Number of tokens whose chances are kept, to report the detectable bias."""


@dataclass
class AuditWealth:
    """Log wealth of bets on the tokens of a log, for every epsilon."""

    epsilons: Sequence[float] = EPSILONS
    tokens: int = 0
    won: Floats = field(init=False)
    """[epsilons, events, directions, biases], logarithms."""
    best: Floats = field(init=False)
    """[epsilons], the logarithm of the largest evidence at any look."""
    bets: Floats = field(default_factory=lambda: numpy.zeros(len(EVENTS)))
    """[events], the number of tokens whose row names the event."""
    expected: Floats = field(default_factory=lambda: numpy.zeros(len(EVENTS)))
    """[events], the expected number of occurrences of each event."""
    happened: Floats = field(default_factory=lambda: numpy.zeros(len(EVENTS)))
    """[events], the number of occurrences of each event."""
    kept: Floats = field(default_factory=lambda: numpy.zeros((0, len(EVENTS))))
    """[tokens, events], chances of the first tokens."""

    def __post_init__(self) -> None:
        self.won = numpy.zeros((len(self.epsilons), len(EVENTS), 2, len(BIASES)))
        self.best = numpy.zeros(len(self.epsilons))

    def add(self, chances: Floats, happened: NDArray[numpy.bool_]) -> None:
        """Bet on the events [tokens, events] of some tokens, and look at the evidence.

        Chances are nan if there is nothing to bet on.
        """
        self.tokens += len(chances)
        self.bets += (~numpy.isnan(chances)).sum(0)
        self.expected += numpy.nansum(chances, 0)
        self.happened += (happened & ~numpy.isnan(chances)).sum(0)
        if len(self.kept) < _KEPT:
            self.kept = numpy.concatenate([self.kept, chances])[:_KEPT]
        pays = payments(chances, numpy.array(self.epsilons))
        chosen = numpy.where(happened[:, None, :, None, None], *pays)
        self.won += chosen.sum(0)
        self.best = numpy.maximum(self.best, self._evidence())

    def _evidence(self) -> Floats:
        """Return the logarithm of the mean of all bets, for every epsilon."""
        flat = self.won.reshape(len(self.epsilons), -1)
        return numpy.array([inf if (each == inf).any() else log_mean(each) for each in flat])

    def smallest(self, threshold: float) -> float:
        """Return the smallest epsilon that has not been rejected at a threshold."""
        kept = [
            epsilon
            for epsilon, log_evidence in zip(self.epsilons, self.best, strict=True)
            if log_evidence < threshold
        ]
        return min(kept, default=1.0)

    def telling(self) -> tuple[str, bool]:
        """Return the event with the most evidence, and whether it happens too often."""
        at_zero = self.won[0].max(-1)
        event, direction = numpy.unravel_index(at_zero.argmax(), at_zero.shape)
        return EVENTS[event], direction == 0


def payments(chances: Floats, epsilons: Floats) -> tuple[Floats, Floats]:
    """Return the logarithms that bets pay if events happen, and if they do not.

    `chances` is [tokens, events] with nan where there is no bet, and each result [tokens, epsilons,
    events, directions, biases].
    """
    m = chances[:, None, :, None, None]
    epsilon, bias = epsilons[:, None, None, None], numpy.array(BIASES)
    # Too seldom is too often for the complement. A bet is never on all or nothing.
    m = numpy.concatenate([m, 1 - m], axis=3)
    a = numpy.minimum(m + bias, (1 + m) / 2)
    # A chance so small that nothing can be divided by it is taken for a larger one.
    nearest = numpy.minimum(numpy.where(m > 0, numpy.maximum(m, _TINY), 0.0) + epsilon, 1.0)
    is_bet = a > nearest
    with numpy.errstate(divide="ignore", invalid="ignore"):
        more = numpy.where(is_bet, numpy.log(a / nearest), 0.0)
        less = numpy.where(is_bet, numpy.log((1 - a) / (1 - nearest)), 0.0)
    often, seldom = [0], [1]
    happens = numpy.concatenate([more[..., often, :], less[..., seldom, :]], axis=3)
    not_so = numpy.concatenate([less[..., often, :], more[..., seldom, :]], axis=3)
    return happens, not_so
