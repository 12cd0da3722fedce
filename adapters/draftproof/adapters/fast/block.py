"""Block verification: keep the longest prefix that the target can afford, then correct.

A prefix of weight w passes with probability h = m / (m + 1 - w), where m is the mass of (w p - q)+
behind it. Few of these masses matter. At w = 1, h is 1 whatever m is. And m is at most w times the
sum of p, so h is at most w: a coin of w or more refuses whatever m is. The last prefix, behind
which nothing was drafted, passes with probability w. So tokens' ratios alone decide most prefixes,
and a row is read where coin < w < 1, and no longer prefix has passed.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import corrected, masses, ratios
from draftproof.conformance.adapter import Result


def block(batch: Batch, noise: Tensor) -> Result:
    """Test every prefix on a coin of its own, keep the longest that passes, correct after it.

    `noise` [B, L+1]: a coin for each prefix, and the mark of the next token. Prefixes are tested
    from the longest to the shortest.
    Source: arXiv 2403.10444, Algorithm 2.
    """
    path, whole = batch.any_path(), batch.lengths[:, None]
    weight, coins = weights(ratios(batch, path)), pad(noise[:, :-1], (1, 0))
    depth = torch.arange(batch.length + 1, device=path.device)
    within = (depth > 0) & (depth < whole)
    sure = torch.where(within & (weight == 1), depth, 0).amax(1)
    passes = coins.gather(1, whole) < weight.gather(1, whole)
    accepted = torch.where(passes[:, 0], batch.lengths, sure)
    # Where coins decide nothing, they are not looked at.
    within &= weight < 1
    is_open = within & (coins < weight * (1 + slack(batch)))
    for i in open_depths(batch, is_open):
        w, is_shorter = weight[:, i], within[:, i] & (accepted < i)
        more = masses(batch, path, i, w, is_open[:, i] & is_shorter)
        passes = is_shorter & (coins[:, i] < more / (more + (1 - w)))
        accepted = torch.where(passes, i, accepted)
    kept = weight.gather(1, accepted[:, None])[:, 0]
    return corrected(batch, path, accepted, kept, noise[:, -1])


def weights(ratio: Tensor) -> Tensor:
    """Return the weight [B, L+1] of every prefix of tokens with a ratio p / q [B, L]."""
    found = [torch.ones_like(ratio[:, 0]) if ratio.shape[1] else ratio.new_ones(len(ratio))]
    for step in ratio.unbind(1):
        found.append((found[-1] * step).clamp(max=1))
    return torch.stack(found, 1)


def open_depths(batch: Batch, is_open: Tensor) -> Iterable[int]:
    """Return the depths, the deepest first, at which a mass is to be looked at.

    They are all between the first and the last, but where rows are read one by one.
    """
    if batch.one_by_one:
        found: list[int] = is_open.any(0).nonzero()[:, 0].tolist()
        return found[::-1]
    return range(batch.length - 1, 0, -1)


def slack(batch: Batch) -> float:
    """Return by which part of w a coin can be above it and still be below h as it is computed.

    A row that is accepted (`inputs.checked`) sums to 1 + d with d at most V eps of float32 and one
    eps of its own dtype. The mass is a sum of V terms, of at most w p each up to two roundings; so
    it is at most (1 + V eps) (1 + d) w, however it is added. Three roundings make h of it: sum,
    difference and quotient. h rises with the mass, and of a mass of (1 + s) w it is
    (1 + s) w / (1 + s w), less than (1 + s) w. What a product of two small terms adds to s is less
    than that each of them is rounded up to twice its size.
    """
    eps = torch.finfo(torch.float32).eps
    rows = batch.p.values
    return 2 * ((2 * rows.shape[1] + 8) * eps + torch.finfo(rows.dtype).eps)
