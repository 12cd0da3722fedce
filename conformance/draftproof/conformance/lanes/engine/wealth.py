"""Evidence that an engine's output is not the Markov chain that it owes, valid at every look.

Every token is drawn from the row of its *context*, given everything before it: the same request's
tokens and the other requests'. So a wealth that no row lets grow in expectation is an e-process
over all tokens of a campaign, in whatever order they are counted (`statistics`). There are four
kinds of bets, and the evidence is their mean:

**All rows together.** One Dirichlet prior c p serves all contexts: the bet on the counts of each
context uses its own row p. The gain is the product over contexts, for every concentration c.

**All rows of one place**, in the same way: for example the first tokens of answers, which are all
that a fault of prefixes affects.

**Each row separately**, for a fault in a few contexts: the mean over contexts.

**Suspects.** A suspect has its own row r for every context, for example the draft's. The bet is on
the mixture (1 - s) p + s r, for shares s of 1 down to 1/500, and pays

    1 + s (r(x) / p(x) - 1),

whose mean is 1 under p. Under a row at total variation distance d of p the mean is at most
1 + s d (max - min of r / p), by which the gain is divided.

A token to which the row gives no probability is proof, and makes the evidence infinite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, log
from typing import Generic, TypeVar

import numpy
from scipy.special import digamma, gammaln, ndtr

from draftproof.conformance.lanes.statistics import (
    CONCENTRATIONS,
    Floats,
    hardest,
    log_mean,
    upper_bound,
)

SHARES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
"""Shares of a suspect's row to bet on."""


Place = TypeVar("Place")
"""Name of a row: any hashable value."""


@dataclass(frozen=True)
class Owed:
    """Row that is owed in a context, and those of suspects, over the words with mass.

    `row` [words] is positive but for excluded words; a correct engine's row is within `tolerance`.
    """

    row: Floats
    tolerance: float
    suspects: Mapping[str, Floats] = field(default_factory=dict)
    place: str = ""
    """The place in an answer at which the row is owed: each place has its own suspects."""


@dataclass
class Counted(Generic[Place]):
    """Counts of the words that followed each context, and what the bets on them gained.

    Counts [words + 1] have a last cell for every other token.
    """

    contexts: Mapping[Place, Owed]
    counts: dict[Place, Floats] = field(default_factory=dict)
    forgiven: dict[Place, Floats] = field(default_factory=dict)
    suspected: dict[str, Floats] = field(default_factory=dict)
    """[shares]: the log wealth of the bets on each suspect."""
    looks: int = 0

    def add(self, fresh: Mapping[Place, Floats]) -> None:
        """Add the counts of a batch, and look at the evidence."""
        self.looks += 1
        for context, counts in fresh.items():
            owed = self.contexts[context]
            before = self.counts.get(context, numpy.zeros(len(owed.row) + 1))
            self.counts[context] = before + counts
            self._forgive(context, owed, before[:-1], before[:-1] + counts[:-1])
            for name, row in owed.suspects.items():
                suspect = name + owed.place
                held = self.suspected.get(suspect, numpy.zeros(len(SHARES)))
                self.suspected[suspect] = held + _gained(owed, row, counts[:-1])

    @property
    def tokens(self) -> int:
        """The number of counted tokens."""
        return int(sum(counts.sum() for counts in self.counts.values()))

    @property
    def excluded(self) -> int:
        """The number of tokens that their row excludes."""
        return int(
            sum(
                counts[-1] + counts[:-1][self.contexts[context].row == 0].sum()
                for context, counts in self.counts.items()
            )
        )

    @property
    def log_evidence(self) -> float:
        """The logarithm of the e-process; infinity after an excluded token."""
        if self.excluded:
            return inf
        if not self.counts:
            return 0.0
        won = {context: self._won(context) for context in self.counts}
        together = log_mean(numpy.sum([*won.values()], axis=0))
        # A bet that was not made yet has a wealth of 1: the number of bets is that from the start.
        apart = [log_mean(each) for each in won.values()]
        apart += [0.0] * (len(self.contexts) - len(won))
        of_places = {
            owed.place: numpy.zeros(len(CONCENTRATIONS)) for owed in self.contexts.values()
        }
        for context, each in won.items():
            of_places[self.contexts[context].place] += each
        placed = [log_mean(each) for each in of_places.values()]
        suspects = [log_mean(each) for each in self.suspected.values()]
        suspects += [0.0] * (self._suspects - len(suspects))
        means = [log_mean(each) for each in (placed, apart, suspects) if each]
        return log_mean([together, *means])

    @cached_property
    def _suspects(self) -> int:
        owed = self.contexts.values()
        return len({name + each.place for each in owed for name in each.suspects})

    @property
    def likely(self) -> str | None:
        """The suspect with the most evidence, None if no suspect has any."""
        told = {name: log_mean(each) for name, each in self.suspected.items()}
        best = max(told, key=lambda name: told[name], default=None)
        return best if best is not None and told[best] > log(20) else None

    @property
    def distance(self) -> float:
        """Mean total variation distance, over all tokens, of frequencies from rows."""
        apart = sum(
            abs(counts - numpy.append(self.contexts[context].row, 0) * counts.sum()).sum() / 2
            for context, counts in self.counts.items()
        )
        return float(apart / max(self.tokens, 1))

    @property
    def bound(self) -> float:
        """Bound on the mean distance, over tokens, of the engine's rows from those that are owed.

        The engine's row of a context is a mean over all tokens in that context. The bound is too
        low at any look with probability at most 1e-6: let A(s) be the words that this row has too
        often in context s. The number of tokens in A(s), less the number expected from the engine's
        rows, is a martingale with steps in a range of 1, so Hoeffding's inequality holds for it as
        for one event (`upper_bound`).
        """
        if not self.looks:
            return 1.0
        return min(1.0, upper_bound(self.distance, self.tokens, look=self.looks))

    def detectable(self, threshold: float, *, power: float = 0.9) -> float:
        """Return the smallest bias of all rows that would have been found with this power.

        The rows are moved in the direction that is hardest to see, by the same distance. The gain
        of all rows together is approximated as normal: for N tokens and m words, chi-square
        distance x and concentration c, its mean is (N**2 x + (m - 1) N) / (2 (N + c)) -
        (m - 1) / 2 log(1 + N / c), and its variance (m - 1) / 2 (N / (N + c))**2 +
        N**3 x / (N + c)**2.
        """
        low, high = 0.0, 1.0
        if self._power(high, threshold) < power:
            return inf
        while high - low > high / 100:
            middle = (low + high) / 2
            low, high = (low, middle) if self._power(middle, threshold) >= power else (middle, high)
        return high

    def _power(self, bias: float, threshold: float) -> float:
        mean, variance = numpy.zeros(len(CONCENTRATIONS)), numpy.zeros(len(CONCENTRATIONS))
        for context, counts in self.counts.items():
            owed = self.contexts[context]
            row = owed.row[owed.row > 0]
            if len(row) < 2:
                continue
            moved = hardest(row, bias)
            apart = float(((moved - row) ** 2 / row).sum())
            tokens, cells, c = counts.sum(), len(row) - 1, numpy.array(CONCENTRATIONS)
            share = tokens / (tokens + c)
            mean += (tokens * apart + cells) * share / 2 - cells / 2 * numpy.log1p(tokens / c)
            variance += cells / 2 * share**2 + tokens * apart * share**2
            mean -= self.forgiven[context]
        # It is one of four kinds, and one of several concentrations.
        own = mean - log(4 * len(CONCENTRATIONS)) - threshold
        return float(ndtr(own / numpy.sqrt(numpy.maximum(variance, 1e-12))).max())

    def _won(self, context: Place) -> Floats:
        """Return the log wealth [concentrations] of the bets on one context."""
        owed, counts = self.contexts[context], self.counts[context][:-1]
        seen = counts > 0
        row, counts = owed.row[seen], counts[seen]
        prior = numpy.outer(CONCENTRATIONS, row)
        mass = numpy.array(CONCENTRATIONS)
        won = (gammaln(prior + counts) - gammaln(prior)).sum(1)
        won -= counts @ numpy.log(row) + gammaln(mass + counts.sum()) - gammaln(mass)
        kept: Floats = won - self.forgiven[context]
        return kept

    def _forgive(self, context: Place, owed: Owed, before: Floats, after: Floats) -> None:
        """Add the possible effect of the tolerance on the bets on one context."""
        kept = owed.row > 0
        row = owed.row[kept]
        c = numpy.array(CONCENTRATIONS)
        highest = (c[:, None] + (after[kept] / row)[None, :]).max(1)
        lowest = (c[:, None] + (before[kept] / row)[None, :]).min(1)
        spread = owed.tolerance * (highest - lowest)
        grown = digamma(c + after.sum()) - digamma(c + before.sum())
        held = self.forgiven.get(context, numpy.zeros(len(CONCENTRATIONS)))
        self.forgiven[context] = held + spread * grown


def _gained(owed: Owed, suspect: Floats, counts: Floats) -> Floats:
    """Return the log wealth [shares] of the bets on a suspect's row."""
    kept = owed.row > 0
    ratio = suspect[kept] / owed.row[kept]
    shares = numpy.array(SHARES)[:, None]
    pays = 1 + shares * (ratio - 1)
    most = 1 + shares[:, 0] * owed.tolerance * (ratio.max() - ratio.min())
    with numpy.errstate(divide="ignore", invalid="ignore"):
        logs = numpy.where(counts[kept] > 0, numpy.log(pays) * counts[kept], 0.0)
    gained: Floats = logs.sum(1) - counts[kept].sum() * numpy.log(most)
    return gained


# --- two engines, whatever their rows --------------------------------------------------------

_FEW = 16
"""Minimum number of pairs of one context that share predictions."""

PRIORS = (10.0, 100.0, 1000.0)
"""Weights, in tokens, of the owed row in the predictions of `Paired`."""


@dataclass
class Paired(Generic[Place]):
    """Evidence that an engine does not write as its control does, whatever rows both have.

    Tokens are paired in the order in which each of the two has met a context: x of the engine with
    y of the control. If a and b are predictions of these tokens from earlier tokens, and m is the
    mean of a and b, the bet pays

        a(x) / m(x) * b(y) / m(y).

    If both draw from one row P, its mean is u v, with u = sum of P a / m and v = sum of P b / m.
    Since u + v = 2, that is at most 1 (Turner, Ly and Gruenwald, arXiv 2106.02693), for pairs whose
    number is fixed beforehand. The number of pairs of a context depends on both texts, which this
    ignores: it affects only the last pairs of a context, where a and b nearly agree. If the rows of
    the engine and the control differ by a total variation distance d, the mean is at most 1 + 4 d,
    since no ratio is above 2.
    """

    contexts: Mapping[Place, Owed]
    own: dict[Place, list[int]] = field(default_factory=dict)
    control: dict[Place, list[int]] = field(default_factory=dict)
    paired: dict[Place, int] = field(default_factory=dict)
    won: Floats = field(default_factory=lambda: numpy.zeros(len(PRIORS)))

    def look(self) -> None:
        """Bet on the pairs since the last look: earlier pairs predict later ones."""
        for context in self.own.keys() & self.control.keys():
            cells = [self.own[context], self.control[context]]
            start, end = self.paired.get(context, 0), min(map(len, cells))
            while start < end:
                stop = min(start + max(start // 4, _FEW), end)
                known = [_counts(each[:start], self.contexts[context]) for each in cells]
                fresh = [_counts(each[start:stop], self.contexts[context]) for each in cells]
                self.won = self.won + _told_apart(self.contexts[context], known, fresh)
                start = stop
            self.paired[context] = end

    @property
    def pairs(self) -> int:
        """The number of pairs that were bet on."""
        return sum(self.paired.values())

    @property
    def log_evidence(self) -> float:
        """The logarithm of the e-process."""
        return log_mean(self.won)


def _counts(cells: list[int], owed: Owed) -> Floats:
    return numpy.bincount(cells, minlength=len(owed.row) + 1).astype(numpy.float64)


def _told_apart(owed: Owed, known: list[Floats], fresh: list[Floats]) -> Floats:
    """Return the log wealth [priors] that the pairs of one context add."""
    c = numpy.array(PRIORS)[:, None]
    # What the row excludes may be written all the same.
    prior = (numpy.append(owed.row, 0.0) + 1e-3) / (1 + 1e-3 * (len(owed.row) + 1))
    predicted = [(counts + c * prior) / (counts.sum() + c) for counts in known]
    mean = (predicted[0] + predicted[1]) / 2
    gained = [numpy.log(a / mean) @ counts for a, counts in zip(predicted, fresh, strict=True)]
    forgiven = fresh[0].sum() * numpy.log1p(4 * 2 * owed.tolerance)
    added: Floats = gained[0] + gained[1] - forgiven
    return added
