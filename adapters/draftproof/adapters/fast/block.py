"""Block verification: keep the longest prefix that the target can afford, then correct.

A prefix of weight w passes with probability h = m / (m + 1 - w), where m is the mass of (w p - q)+
behind it. Few of these masses matter. At w = 1, h is 1 whatever m is. And m is at most w times the
sum of p, so h is at most w: a coin of w or more refuses whatever m is. The last prefix, behind
which nothing was drafted, passes with probability w. So the ratios of tokens decide most prefixes,
and rows are read where coin < w < 1, and no longer prefix passes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import corrected, masses, ratios
from draftproof.conformance.adapter import Result


def block(batch: Batch, noise: Tensor) -> Result:
    """Test every prefix on a coin of its own, keep the longest that passes, correct after it.

    `noise` [B, L+1]: a coin for each prefix, and the mark of the next token.
    Source: arXiv 2403.10444, Algorithm 2.
    """
    path, last = batch.any_path(), batch.lengths[:, None]
    weight = weights(ratios(batch, path))
    # The prefix of no token passes.
    coins = torch.cat([noise.new_zeros(len(path), 1), noise[:, :-1]], 1)
    depth = torch.arange(batch.length + 1, device=path.device)
    is_sure = torch.where(depth == last, coins < weight, (depth < last) & (weight == 1))
    accepted = (is_sure * depth).amax(1)
    is_left = (accepted[:, None] < depth) & (depth < last) & (weight < 1)
    # What the target still wants after each prefix, against what the draft offers too much of.
    more = masses(batch, path, weight, is_left & (coins < weight * (1 + slack(batch))))
    passes = is_left & (coins < more / (more + (1 - weight)))
    accepted = torch.maximum(accepted, (passes * depth).amax(1))
    kept = weight.gather(1, accepted[:, None])[:, 0]
    return corrected(batch, path, accepted, kept, noise[:, -1])


def weights(ratio: Tensor) -> Tensor:
    """Return the weight [B, L+1] of every prefix of tokens with a ratio p / q [B, L]."""
    found = [ratio.new_ones(len(ratio))]
    for step in ratio.unbind(1):
        found.append((found[-1] * step).clamp(max=1))
    return torch.stack(found, 1)


def slack(batch: Batch) -> float:
    """Return by which part of w a coin can be above it and still be below h as it is computed.

    A row that is accepted (`inputs.checked`) sums to 1 + d with d at most V eps of float32 and one
    eps of its own dtype. The mass is a sum of V terms, of at most w p each up to two roundings; so
    it is at most (1 + V eps) (1 + d) w, however it is added. Three roundings make h of it: sum,
    difference and quotient. h rises with the mass, and of a mass of (1 + s) w it is
    (1 + s) w / (1 + s w), less than (1 + s) w. Twice what that adds up to is more than products of
    these small numbers add.
    """
    eps = torch.finfo(torch.float32).eps
    rows = batch.p.values
    return 2 * ((2 * rows.shape[1] + 8) * eps + torch.finfo(rows.dtype).eps)
