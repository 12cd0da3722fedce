"""Recursive rejection sampling: try the siblings in turn, each against what is still owed.

After j refusals p is owed no more than (p - g_j q)+, which has the mass m_j: g_0 = 0, m_0 = 1.
The next sibling was drawn from q / r_j, where r_j is 1 with replacement, and without it the mass of
q outside of the siblings before. It is accepted with probability (p - g_j q)+ r_j / (m_j q), and
what is left is (p - g_j q - (m_j / r_j) q)+, so that g_{j+1} = g_j + m_j / r_j. That removed
siblings count for nothing there changes nothing: what was refused is owed nothing. So all trials
at a node are against the rows as they are, and each but the first takes one sweep.

Numerics. The mass r_j is added up from what is left of the row, never 1 minus what is gone: of a
draft that is almost certain, the difference is all rounding. A coin is compared without a
division, in float64: where p and q are equal to the last bit nothing is refused; what its draft
cannot have said is accepted if it is owed at all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.descent import SiblingChoice, Siblings, descend
from draftproof.adapters.fast.excess import mass
from draftproof.conformance.adapter import Result


def recursive_rejection(batch: Batch, noise: Tensor) -> Result:
    """Accept a sibling with probability min(1, p/q), else go on with the residual as target.

    `noise` [B, KL+1]: a coin for each drafted token, and the mark of the next token.
    Source: arXiv 2305.09781 (SpecInfer).
    """

    def rule(siblings: Siblings, p: Tensor, q: Tensor) -> SiblingChoice:
        left = torch.ones_like(siblings.tokens, dtype=p.dtype)
        return _tried(siblings, p, q, left, noise, batch.room[2])

    return descend(batch, rule, noise[:, -1], scheme="iid")


def recursive_rejection_without_replacement(batch: Batch, noise: Tensor) -> Result:
    """Do the same with siblings drawn without replacement, each measured by q without those before.

    `noise` [B, KL+1]: a coin for each drafted token, and the mark of the next token.
    Source: arXiv 2402.14160, arXiv 2402.12374 (Sequoia), arXiv 2401.15077 (EAGLE-1).
    """

    def rule(siblings: Siblings, p: Tensor, q: Tensor) -> SiblingChoice:
        left = _left(siblings, q, batch.room[2])
        return _tried(siblings, p, q, left, noise, batch.room[2])

    return descend(batch, rule, noise[:, -1], scheme="without_replacement")


def _tried(
    siblings: Siblings, p: Tensor, q: Tensor, left: Tensor, noise: Tensor, out: Tensor
) -> SiblingChoice:
    """Try one sibling after another, drawn from q / `left` [B, K]. Sweeps are done in `out`."""
    wanted, drawn = (row.gather(1, siblings.tokens).double() for row in (p, q))
    coins = noise.gather(1, siblings.place)
    token = torch.full_like(siblings.count, -1)
    one = torch.ones_like(wanted[:, 0], dtype=p.dtype)
    g, owed = torch.zeros_like(one), one
    for j in range(siblings.most):
        if j > 0:
            owed = mass(p, q, one, g, out=out)
        tries = (token < 0) & (j < siblings.count)
        worth = (wanted[:, j] - g * drawn[:, j]) * left[:, j]
        accepts = coins[:, j] * (owed * drawn[:, j]) < worth.where(tries, 0)
        token = torch.where(accepts, siblings.tokens[:, j], token)
        g = torch.where(tries & ~accepts, (g + owed / left[:, j]).nan_to_num(), g)
    return SiblingChoice(token, g)


def _left(siblings: Siblings, q: Tensor, out: Tensor) -> Tensor:
    """Return the mass [B, K] of q outside of the siblings before each; of the first it is 1."""
    own = q.gather(1, siblings.tokens)
    left = torch.ones_like(own)
    if siblings.most > 1:
        outside = out.copy_(q).scatter_(1, siblings.tokens, 0).sum(-1, keepdim=True)
        slot = torch.arange(own.shape[1], device=own.device)
        behind = torch.where(slot < siblings.count[:, None], own, 0).flip(1).cumsum(1).flip(1)
        left[:, 1:] = (outside + behind)[:, 1:]
    return left
