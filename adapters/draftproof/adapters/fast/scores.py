"""The scores with which K drafted paths compete, as `draftproof.reference.scores` shares them out.

The paths through a prefix have their scores in *cells*; a cell spreads its mass evenly over its
scores. Everything here is relative to the prefix's mass. Serve the scores, the smallest first, to
the next tokens, the largest p / q first. After k of them, let

    X(k) be the mass that q gives to them,
    W(k) the worth of what they got: K * integral of (1 - score)^(K-1),
    P(k) what the target owes to them, `owed` times the sum of p.

The reference's aim has a short form. Let c = min(W - P), which is not positive. Then its running
sum is F, the least concave function of X above P + c with both ends of W: a straight line from 0 up
to P + c, then P + c itself, then a straight line to the end of W. So

    Q'(y) = q(y) times owed p(y)/q(y), but at most `high`, the slope of the first line,
            and at least `low`, the slope of the last one;

what the target is owed beyond Q' is (owed p - high q)+, and its mass is -c.

So have the tie classes. While an edge k is there, all that was served until time t has the sum
t W(k) at k, so what is left is F - t W there. What is left is concave, and no less than F - t W
anywhere: it is the least concave function above F - t W, and the tie classes of time t are its
straight pieces. Only the drafted token's is followed from t = 0 to 1, see `ties`. It may grow as
often as there are ranks. So there may be as many cells as there are tokens in all rows so far;
neighbours of equal density are one.

Numerics. Sums over a row are float64 in the order of the ranks. A sum that is off by a rounding
moves an edge of a class by what changes Q' as little. Tokens of equal ratios have no edge between
them: equal quotients of floats are rounded equally. Nothing is rounded that changes a weight of 1:
it is the quotient of owed p/q and the same number between `low` and `high`.

How many sweeps and cells there are depends on the rows, so the host waits for the device. The
memory is that of some twenty rows of float64 for every request, and of the cells of its paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy
import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.adapters.fast.ties import joining

_BELOW_ONE = 1 - 2.0**-53

_LEAST, _MOST = 2.0**-1000, 2.0**1000
"""Bounds of ratios, which never are 0 or infinite."""


@dataclass(frozen=True)
class Scores:
    """The scores of the paths through a prefix: C cells of every request, the smallest first."""

    low: Tensor
    """[B, C] float64: where a cell begins."""
    high: Tensor
    """[B, C] float64: where it ends."""
    upto: Tensor
    """[B, C] float64: the mass of the cells up to this one, of 1."""

    @property
    def before(self) -> Tensor:
        """The mass [B, C] of the cells before each."""
        return pad(self.upto[:, :-1], (1, 0))

    def worth(self, mass: Tensor, drafts: int) -> Tensor:
        """Return the worth [B, N] among K paths of the smallest scores of a mass [B, N]."""
        low, before = 1 - self.low, self.before
        whole = (self.upto - before) * _difference(low, 1 - self.high, drafts)
        cell = self.cell(mass)
        above, start = (each.gather(1, cell) for each in (low, before))
        beyond = 1 - self.score(mass, cell)
        worth = _difference(above, beyond, drafts).mul_(mass - start)
        return worth.add_(pad(whole.cumsum(1)[:, :-1], (1, 0)).gather(1, cell))

    def cell(self, mass: Tensor) -> Tensor:
        """Return the cell [B, N] in which a mass [B, N] of the smallest scores ends."""
        cell = torch.searchsorted(self.upto, mass.contiguous())
        return cell.clamp_(max=self.upto.shape[1] - 1)

    def score(self, mass: Tensor, cell: Tensor) -> Tensor:
        """Return the score [B, N] at which a mass [B, N] ends, of its cell [B, N]."""
        before, width = self.before, self.high - self.low
        slope = (width / (self.upto - before)).nan_to_num(0, 0, 0)
        low, slope, start = (each.gather(1, cell) for each in (self.low, slope, before))
        return (mass - start).mul_(slope).add_(low).clamp_(max=1)

    def tied(self, mass: Tensor, joining: Tensor) -> Scores:
        """Return the scores that a tie class is dealt, which ranks join at these times [B, V].

        `mass` [B, V+1] is what the first ranks are served.
        """
        time, order = joining.sort()
        width = mass.diff().gather(1, order).cumsum(1)
        # The first ranks may have no width, and join at once.
        rate = pad(time, (0, 1), value=1.0).diff().div_(width).nan_to_num_(0)
        rate = rate.flip(1).cumsum(1).flip(1)
        rate = torch.zeros_like(rate).scatter_(1, order, rate)

        upto = torch.cat([self.upto, mass[:, 1:]], 1).sort().values
        middle = (pad(upto[:, :-1], (1, 0)) + upto) / 2
        cell, rank = self.cell(middle), torch.searchsorted(mass[:, 1:].contiguous(), middle)
        rate = rate.gather(1, rank.clamp_(max=rate.shape[1] - 1))
        # Pieces of one cell that are served alike are one cell; those behind the last are void.
        is_end = pad((cell.diff() != 0) | (rate.diff() != 0), (0, 1), value=True)
        order = (~is_end).sort(stable=True).indices[:, : int(is_end.sum(1).max())]
        is_void = ~is_end.gather(1, order)
        upto, cell, rate = (each.gather(1, order) for each in (upto, cell, rate))
        before = pad(upto[:, :-1], (1, 0))
        low, high = (self.score(each, cell).masked_fill_(is_void, 1) for each in (before, upto))
        total = ((upto - before) * rate).masked_fill_(is_void, 0).cumsum(1)
        return Scores(low, high, total / total[:, -1:])

    def distribution(self, scores: Tensor) -> Tensor:
        """Return the probability [B, N] of a score of at most each of these."""
        cell = torch.searchsorted(self.low, scores.contiguous(), right=True).sub_(1)
        low, high, before, upto = (
            each.gather(1, cell.clamp(min=0))
            for each in (self.low, self.high, self.before, self.upto)
        )
        # A cell may be as narrow as a point.
        part = (scores - low).div_(high - low).nan_to_num_(1).clamp_(max=1)
        return (before + part * (upto - before)).masked_fill_(cell < 0, 0)


def everywhere(requests: int, device: torch.device) -> Scores:
    """Return the scores at the root, those of all paths: uniform on [0, 1]."""
    one = torch.ones(requests, 1, dtype=torch.float64, device=device)
    return Scores(torch.zeros_like(one), one, one)


def _difference(high: Tensor, low: Tensor, power: int) -> Tensor:
    """Return (high^power - low^power) / (high - low), a sum of products."""
    found, lower = torch.ones_like(high), low
    for n in range(1, power):
        found.mul_(high).add_(lower)
        lower = lower * low if n + 1 < power else lower
    return found


class ScoredRanks(NamedTuple):
    """The next tokens of every request, those that the target wants most first."""

    ratio: Tensor
    """[B, V]: p / q; 0 where q says nothing, which ranks last."""
    each: Tensor
    """[B, V]: what q gives to the token."""
    upto: Tensor
    """[B, V+1]: X, what q gives to the first ranks, of 1."""
    rest: Tensor
    """[B, V+1]: what it gives to the others, to the same relative precision."""
    unsaid: Tensor
    """[B]: what p gives to tokens to which q gives nothing."""

    def place(self, ratio: Tensor) -> Tensor:
        """Return X [B, 1] before the first of the tokens of this p / q [B, 1]."""
        rank = torch.searchsorted(-self.ratio, -ratio)
        # What has no width in floats is part of its neighbour.
        return self.upto.gather(1, rank).clamp_(max=_BELOW_ONE)


def ranked(p: Tensor, q: Tensor) -> ScoredRanks:
    """Return the ranks of rows p, q [B, V]."""
    q = q.double()
    ratio, order = ratios(p, q).sort(descending=True)
    each = q.gather(1, order)
    upto, rest = _sums(each), _sums(each.flip(1)).flip(1)
    total = upto[:, -1:].clone()
    unsaid = p.masked_fill(q > 0, 0).sum(1, dtype=total.dtype) / total[:, 0]
    return ScoredRanks(ratio, each.div_(total), upto.div_(total), rest.div_(total), unsaid)


def ratios(p: Tensor, q: Tensor) -> Tensor:
    """Return p / q, never infinite, and 0 where q is 0."""
    return (p / q.double()).clamp_(max=_MOST).masked_fill_(q == 0, 0)


@dataclass(frozen=True)
class DealtScores:
    """The scores behind a prefix of every request: the law Q' of the next token, and its scores."""

    owed: Tensor
    """[B]: what the prefix is owed."""
    reach: Tensor
    """[B]: the sum of Q', which is W at its end."""
    more: Tensor
    """[B]: the sum of what the target is owed beyond Q'."""
    low: Tensor
    """[B]: the least Q'/q."""
    high: Tensor
    """[B]: the largest."""
    _scores: Scores
    _rows: tuple[Tensor, Tensor, Tensor]
    """X, W and F at the edges [B, V+1]."""
    _is_edge: Tensor
    """[B, V+1]: whether the aim has an edge there."""

    @property
    def passing(self) -> Tensor:
        """The probability [B] with which the prefix passes, if no longer one does."""
        against = self.more + (self.reach - self.owed).clamp(min=0)
        return torch.where(against > 0, self.more / against, 1)

    def law(self, wanted: Tensor) -> Tensor:
        """Return Q'/q [B] of a token, of the target's share over q's [B]."""
        return (self.owed * wanted).clamp(self.low, self.high)

    def weight(self, wanted: Tensor) -> Tensor:
        """Return what is owed to a token over its Q' [B], of the target's share over q's [B]."""
        return self.owed * wanted / self.law(wanted)

    def after(self, place: Tensor) -> Scores:
        """Return the scores of the paths that go on with a token at X = `place` [B, 1]."""
        mass, worth, aim = self._rows
        edges = torch.arange(mass.shape[1], device=mass.device)
        is_left, last = mass <= place, mass.shape[1] - 1
        left = torch.where(self._is_edge & is_left, edges, 0).amax(1)
        right = torch.where(self._is_edge & ~is_left, edges, last).amin(1)
        ends = torch.stack((left, right), 1)
        return self._scores.tied(mass, joining(mass, worth, aim, self._is_edge, ends))


def split(
    scores: Scores, ranks: ScoredRanks, wanted: Tensor, unsaid: Tensor, weight: Tensor, drafts: int
) -> DealtScores:
    """Share out the scores at a prefix, to which `weight` [B] times its Q' is owed, among tokens.

    `wanted` [B, V] is the target's share over q's, by rank; `unsaid` [B] is the target's share of
    tokens to which q gives nothing.
    """
    mass = ranks.upto
    worth = scores.worth(mass, drafts)
    reach = worth[:, -1:]
    owed = weight[:, None] * reach
    each = (ranks.each * wanted).mul_(owed)
    due = _sums(each)
    less = (worth - due).amin(1, keepdim=True)
    is_edge = pad(wanted[:, 1:] < wanted[:, :-1], (1, 1)) & (mass > 0) & (mass < 1)

    aim = due + less
    slopes = (aim / mass).masked_fill_(~is_edge, 0)
    slopes[:, -1:] = reach
    high, first = slopes.max(1, keepdim=True)
    # Small differences of large sums would be lost, so these are sums from the other end.
    spare = (reach - due[:, -1:] - less).clamp_(min=0)
    slopes = _sums(each.flip(1)).flip(1).add_(spare).div_(ranks.rest)
    slopes.masked_fill_(~is_edge, torch.inf)
    slopes[:, :1] = reach
    low, last = slopes.min(1, keepdim=True)

    aim[:, :1], aim[:, -1:] = 0, reach
    edges = torch.arange(mass.shape[1], device=mass.device)
    is_edge &= (first <= edges) & (edges <= last)
    is_edge[:, 0] = is_edge[:, -1] = True
    more = owed * unsaid[:, None] - less
    return DealtScores(
        owed=owed[:, 0],
        reach=reach[:, 0],
        more=more[:, 0],
        low=low[:, 0].clamp(min=_LEAST),
        high=high[:, 0],
        _scores=scores,
        _rows=(mass, worth, aim),
        _is_edge=is_edge,
    )


def _sums(row: Tensor) -> Tensor:
    """Return the running sums [B, V+1] of rows [B, V], from 0 on."""
    return pad(row.cumsum(1), (1, 0))


def smallest(paths: Sequence[Scores]) -> Tensor:
    """Return the probability [B, K] with which each of K paths has the smallest score.

    Between two neighbouring edges of cells every score is spread evenly: so it is an integral over
    a product of K - 1 linear functions, which a Gauss-Legendre rule of (K + 1) // 2 nodes is equal
    to.
    """
    edges = torch.cat([each for path in paths for each in (path.low, path.high)], 1).sort().values
    reached = torch.stack([path.distribution(edges) for path in paths], 1)
    here, beyond = reached.diff(dim=2), 1 - reached[:, :, 1:]
    chances = torch.zeros_like(here[:, :, 0])
    for node, weight in _nodes((len(paths) + 1) // 2):
        larger = beyond + node * here
        for i in range(len(paths)):
            others = [larger[:, j] for j in range(len(paths)) if j != i]
            product = here[:, i].clone()
            for each in others:
                product.mul_(each)
            chances[:, i].add_(product.sum(1), alpha=weight)
    return chances


@cache
def _nodes(count: int) -> list[tuple[float, float]]:
    """Return the nodes of a Gauss-Legendre rule on [0, 1], and their weights."""
    nodes, weights = numpy.polynomial.legendre.leggauss(count)
    return [*zip(((nodes + 1) / 2).tolist(), (weights / 2).tolist(), strict=True)]
