"""One of K drafted paths is selected, and verified as a block against the law of the selected one.

At every position the selected path goes on to the highest-ranked token of the paths that are still
*alive*, which share all of it so far, with probability `share`; else to that of any of them. The
rank is a strict order, by p / q and then by token id, and there is one ratio that says so: a path
that was selected by another rounding than the one its law is computed from is not drawn from
that law. Ratios of rows in float32 or less are in twice their precision, where two that differ are
never rounded to one: of numbers of b bits, ratios that differ do so by 2**(-2b) of themselves.

The law. Let alive[n] be the probability that n paths are alive, given the selected prefix. A token
of draft probability q, above a mass F of lower ranks, is the highest-ranked with probability
sum over n of alive[n] ((F + q)**n - F**n) = q H; it is that of any path with probability q. So the
selected path's law is q (1 - share + share H), and the *tilt* H is a divided difference of the
polynomial C(z) = sum of alive[n] z**n. Horner's rule gives it from what is never negative: with
b = b F + alive[n] and then H = H (F + q) + b, from the largest n on, nothing is subtracted.
`multipath_block` knows this law by A, the mass of the paths that rank below the prefix, and m, the
prefix's own: C(z) is ((A + m z)**K - A**K) / ((A + m)**K - A**K) there.

What a path's length scales is divided out at every position: `alive` sums to 1. It, the weight, the
running sum of q and every tilt are float64: a running sum of 262,144 float32 drifts, and the tilt
of the lowest of K tokens is as small as q**(K - 1). F is divided by the whole sum of its row, q is
not: where target and draft are the same numbers, a tilt of 1 refuses nothing, whatever they sum
to.

At a position, a row is sorted once, and once more for a mixture; all else are sweeps. The memory is
that of some twenty rows of float32 for every request, of one position at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import draw
from draftproof.conformance.adapter import Result


@dataclass(frozen=True)
class MixtureRanking:
    """The tokens of a row by rank; [B, V] each, in the order of their ids."""

    ratio: Tensor
    """p / q, in the dtype of `precise`."""
    mass: Tensor
    """What q gives to the token, float64, of a row that sums to 1."""
    below: Tensor
    """What it gives to the lower-ranked ones."""


def multipath_block(batch: Batch, noise: Tensor) -> Result:
    """Go down to the highest-ranked sibling every time; verify the path against its skewed law.

    `noise` [B, L+1]: a coin for each prefix, and the mark of the next token.
    Source: arXiv 2602.16961.
    """
    return verified(batch, noise[:, :-1], noise[:, -1])


def mixed_multipath_block(batch: Batch, noise: Tensor) -> Result:
    """Go down to the highest-ranked sibling with a chosen probability, else to any; as a block.

    `noise` [B, 2L+1]: for each position a number that selects the path, and the coin of the prefix
    that it ends; and the mark of the next token. The probability is that of `most_kept`. Ours.
    """
    return verified(batch, noise[:, 1:-1:2], noise[:, -1], noise[:, 0:-1:2])


def verified(batch: Batch, coins: Tensor, mark: Tensor, numbers: Tensor | None = None) -> Result:
    """Follow one of the paths, keep the longest prefix that passes, and correct after it.

    `coins` [B, L] are one for each prefix, `mark` [B] is the next token's. `numbers` [B, L] select
    the path where it is `most_kept` by a mixture; without them it is always the highest-ranked.

    A token that q cannot have said is kept if p says it. Where p is the law of the path to the
    last bit, nothing is refused; where nothing is owed, or all is kept, p is drawn from.
    """
    path, nothing = batch.any_path(), torch.zeros_like(batch.lengths)
    weight = torch.ones_like(nothing, dtype=torch.float64)
    accepted, kept, share = nothing, batch.room[2], weight
    shares = batch.tokens.new_ones(batch.tokens.shape[:2], dtype=torch.bool)
    alive = torch.zeros_like(shares, dtype=torch.float64)
    alive[:, -1] = 1
    for i in range(batch.length):
        is_drafted = i < batch.lengths
        p, q = batch.p.row(path, i, batch.room[0]), batch.q.row(path, i, batch.room[1])
        ranking = ranked(p, q, precise(batch))
        tilt = of_highest(alive, ranking)
        if numbers is not None:
            share = most_kept(weight, ranking.ratio, q, tilt)
        tilt.mul_(share[:, None]).add_(1 - share[:, None])
        owed = (p * weight[:, None]).sub_(q * tilt).clamp_(min=0)
        # What the target still wants after i tokens, against what the draft offers too much of.
        more = owed.sum(-1)
        against = more + (1 - weight)
        passing = torch.where(against > 0, more / against, 1.0)
        passes = is_drafted if i == 0 else is_drafted & (coins[:, i - 1] < passing)
        accepted = torch.where(passes, i, accepted)
        torch.where(passes[:, None], owed.to(kept.dtype), kept, out=kept)

        tokens = batch.tokens[:, :, i]
        following = highest(ranking.ratio.gather(1, tokens), tokens, shares)
        if numbers is not None:
            any_of_them = (1 - share) / shares.sum(1)
            chances = shares * any_of_them[:, None]
            chances.scatter_add_(1, following[:, None], share[:, None])
            following = draw(chances, numbers[:, i])
        path = torch.where(is_drafted, following, path)
        column = batch.token(path, i)[:, None]
        rows = ranking.ratio, tilt, ranking.mass, ranking.below
        ratio, offered, mass, below = (row.gather(1, column)[:, 0] for row in rows)
        weight = (weight * (ratio / offered).nan_to_num()).clamp(max=1)
        alive = alive_after(alive, share, mass, below)
        shares = shares & (tokens == column)
        passes = (i + 1 == batch.lengths) & (coins[:, i] < weight)
        accepted = torch.where(passes, i + 1, accepted)
    p = batch.p.row(path, accepted, batch.room[0])
    is_whole = (accepted == batch.lengths) | (kept.sum(-1) == 0)
    return Result(accepted, path, draw(torch.where(is_whole[:, None], p, kept, out=kept), mark))


def precise(batch: Batch) -> torch.dtype:
    """Return the dtype of ratios: float64 for rows of float32 and float64, float32 for others.

    Of a softmax that is computed in float32, more digits than that would rank rounding errors.
    """
    is_given = batch.p.softmax is None and batch.q.softmax is None
    is_wide = batch.p.values.element_size() > 2 or batch.q.values.element_size() > 2
    is_double = batch.p.dtype == torch.float64
    return torch.float64 if is_double or (is_given and is_wide) else torch.float32


def ranked(p: Tensor, q: Tensor, dtype: torch.dtype) -> MixtureRanking:
    """Return the ranking of rows p, q [B, V] by ratios of a dtype."""
    ratio = p.to(dtype, copy=True).div_(q)
    order = ratio.sort(stable=True).indices
    mass = q.double()
    here = mass.gather(1, order)
    running = here.cumsum(1)
    total = running[:, -1:].clone()
    below = here.scatter(1, order, running.sub_(here).div_(total))
    return MixtureRanking(ratio, mass / total, below)


def of_highest(alive: Tensor, ranking: MixtureRanking) -> Tensor:
    """Return the tilt H [B, V] of the law of the highest-ranked of `alive` [B, K] paths."""
    upto = ranking.below + ranking.mass
    lower = alive[:, -1:].expand_as(upto).clone()
    tilt = lower.clone()
    for n in reversed(range(alive.shape[1] - 1)):
        lower.mul_(ranking.below).add_(alive[:, n, None])
        tilt.mul_(upto).add_(lower)
    return tilt


def highest(ratios: Tensor, tokens: Tensor, shares: Tensor) -> Tensor:
    """Return which [B] of the paths that share the prefix [B, K] has the highest-ranked token."""
    # A token that q cannot have said has no rank: any place in the order does.
    ranks = ratios.nan_to_num().masked_fill(~shares, -1)
    return torch.where(ranks == ranks.amax(1, keepdim=True), tokens, -1).argmax(1)


def most_kept(weight: Tensor, ratio: Tensor, q: Tensor, tilt: Tensor) -> Tensor:
    """Return the share [B] of the highest-ranked path that keeps most of the next token.

    The sum of min(weight p, q (1 + share (H - 1))) is concave in the share. Its slope is the sum of
    q (H - 1) where the law is less than what is owed, and falls by q |H - 1| where the two meet: at
    (weight p/q - 1) / (H - 1). So the first share at which the slope is not positive is a weighted
    quantile of these meeting points, at the slope that there is at 0.

    A mixture of any share is lossless: the law that is verified against is that of the share that
    was used, whatever it is. So rounding costs length alone. A meeting point that is off moves the
    law by the rounding of gain and tilt, in float64. A slope is known up to the rounding of its
    sums, and counts as 0 within that: of equally good shares the smallest is taken, even where its
    slope is not 0 to the last bit, and what is kept is less by no more than the slope neglected.
    """
    gain, more = weight[:, None] * ratio - 1, tilt - 1
    meeting = (gain / more).clamp_(0, 1)
    is_rising = (more > 0) & (gain > 0)
    falls = more.mul_(q).abs_().masked_fill_((tilt > 1) & ~is_rising, 0)
    slope = torch.where(is_rising, falls, 0).sum(-1)
    meeting, order = meeting.sort()
    running = falls.gather(1, order).cumsum(1)
    # V roundings in either sum, each of half an eps.
    rounding = q.shape[1] * torch.finfo(torch.float64).eps * running[:, -1]
    wanted = (slope - rounding)[:, None]
    where = torch.searchsorted(running, wanted).clamp(max=q.shape[1] - 1)
    return torch.where(wanted > 0, meeting.gather(1, where), 0)[:, 0]


def alive_after(alive: Tensor, share: Tensor, mass: Tensor, below: Tensor) -> Tensor:
    """Return `alive` [B, K] after a token of these masses [B], at and below its rank.

    If n paths are alive, the highest-ranked ones are C(n, j) mass**j below**(n - j) likely to be j;
    of any path, C(n - 1, j - 1) mass**j (1 - mass)**(n - j). Summed over n, both are polynomials in
    `lost + mass z`, by Horner's rule again.
    """
    share, mass, below = share[:, None], mass[:, None], below[:, None]
    first, rest = torch.zeros_like(alive), torch.zeros_like(alive)
    for n in reversed(range(alive.shape[1])):
        first = below * first + mass * _shifted(first, 1)
        rest = (1 - mass) * rest + mass * _shifted(rest, 1)
        first[:, 0] += alive[:, n]
        rest[:, 0] += alive[:, n]
    both = share * (mass * first + below * _shifted(first, -1)) + (1 - share) * mass * rest
    # Of a token that q cannot have said nothing is known; one path is there.
    whole = both.sum(1, keepdim=True)
    alone = torch.arange(alive.shape[1], device=alive.device) == 0
    return torch.where(whole > 0, both / whole, alone.double())


def _shifted(rows: Tensor, by: int) -> Tensor:
    """Return rows [B, K] whose entries have moved by one place, up or down; zeros come in."""
    moved = rows.roll(by, 1)
    moved[:, 0 if by > 0 else -1] = 0
    return moved
