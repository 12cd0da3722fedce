"""K-SEQ: try the siblings in turn, each against the target divided by one factor.

With n siblings and a factor rho, one is refused with probability miss = sum of (q - p / rho)+, an
excess like any other, and S = 1 + miss + ... + miss**(n-1) of them are tried on average. The
factor is valid where rho >= S, and the least of them, rho*, is where both are equal.

S grows with rho, so it never crosses rho*: at a valid factor S is valid too, at one that is too
small it is too small. So each sweep moves one end of a bracket, which begins as 1..n, to S at the
point that it tries: to the middle at least. After `SWEEPS` sweeps it is n - 1 divided by
2**(SWEEPS - 1) at most, and its upper end is taken.

That end rho is valid, and K-SEQ with it is lossless: what is owed is p - S min(p / rho, q), which
is ((1 - b) p - S q)+ + b p with b = 1 - S / rho, and b = 0 at rho*. Over all drafts, its law at one
position is within 2 (rho - S) of that of rho* in total variation: as a factor grows from rho* on,
what it accepts of tokens with p > rho q grows no faster than rho - S does, nor does what it accepts
of the others shrink faster. So where the factor is ill-conditioned, as for p = q, that law is not.

The law given a draft is: with it p / (rho q) is accepted, whatever S is. And where p < rho q for
all tokens, S = rho (1 - (1 - 1 / rho)**n) may be less than rho by less than a rounding, which would
choose among all of these factors. So a factor is held to be valid where S is above it by no more
than `ROUNDINGS`: a valid one is not taken for too small, and what is owed lacks no more than that.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.descent import SiblingChoice, Siblings, descend
from draftproof.adapters.fast.excess import mass
from draftproof.conformance.adapter import Result

SWEEPS = 22
"""Sweeps over the rows of a node for its factor: the first at 1, each other halves the bracket."""

ROUNDINGS = 4
"""How far above a valid factor S may seem, in eps of the dtype.

S moves by dm / (1 - m)**2 with m = miss, a sum that is off by a rounding or two; and where that
decides, the last power m**n is a rounding, so that m is below 1/5 for n <= 8.
"""


def k_seq(batch: Batch, noise: Tensor) -> Result:
    """Accept a sibling with probability min(1, p / (rho q)); correct by what is left of p.

    `noise` [B, KL+1]: a coin for each drafted token, and the mark of the next token.
    Source: arXiv 2310.15141 (SpecTr), Algorithm 2; arXiv 2602.16994, appendix B.3.
    """

    def rule(siblings: Siblings, p: Tensor, q: Tensor) -> SiblingChoice:
        rho, tried = least_factor(p, q, siblings, batch.room[2])
        wanted, drawn = (row.gather(1, siblings.tokens).double() for row in (p, q))
        coins = noise.gather(1, siblings.place)
        token = torch.full_like(siblings.count, -1)
        for j in range(siblings.most):
            tries = (token < 0) & (j < siblings.count)
            accepts = coins[:, j] * (rho * drawn[:, j]) < wanted[:, j].where(tries, 0)
            token = torch.where(accepts, siblings.tokens[:, j], token)
        return SiblingChoice(token, c=tried, b=(1 - tried / rho).clamp(min=0))

    return descend(batch, rule, noise[:, -1], scheme="iid")


def least_factor(p: Tensor, q: Tensor, siblings: Siblings, out: Tensor) -> tuple[Tensor, Tensor]:
    """Return a valid factor rho [B] next to rho*, and S [B] there. Sweeps are done in `out`."""
    one = torch.ones_like(siblings.count, dtype=p.dtype)
    if siblings.most == 1:
        return one, one
    count, before = siblings.count.clamp(min=1), torch.arange(siblings.most, device=p.device)
    are = before < count[:, None]

    def tried(rho: Tensor) -> Tensor:
        miss = mass(q, p, one, 1 / rho, out=out)
        return (miss[:, None] ** before * are).sum(1)

    low, rho, high = one, one, count.to(p.dtype)
    slack = ROUNDINGS * torch.finfo(p.dtype).eps
    for _ in range(SWEEPS):
        reached = tried(rho)
        is_valid = reached <= rho + rho * slack
        high = torch.where(is_valid, torch.minimum(reached, high), high)
        low = torch.where(is_valid, low, torch.maximum(reached, low))
        rho = (low + high) / 2
    return high, tried(high)
