"""The greedy draft's verifier: one ordinary test of the sibling that was drawn.

All siblings but the last, A, are fixed. The last was drawn from q / r, with r the mass of q outside
of A, so a refusal leaves (p - q / r)+, and all of p on A. Its mass is added up outside of A; which
token of A the correction is, or that it is none, is drawn at a mark of its own. So what is owed
where the descent stops is the excess apart from A, and nothing there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.descent import SiblingChoice, Siblings, descend
from draftproof.adapters.fast.excess import mass
from draftproof.conformance.adapter import Result


def greedy_draft(batch: Batch, noise: Tensor) -> Result:
    """Verify the last sibling against all of p; a correction on the fixed ones is accepted too.

    `noise` [B, 2L+1]: for each position a coin, and a mark that says whether a correction is one of
    the fixed siblings; and the mark of the next token.
    Source: arXiv 2502.18779.
    """

    def rule(siblings: Siblings, p: Tensor, q: Tensor) -> SiblingChoice:
        coin, mark = noise[:, 2 * siblings.depth], noise[:, 2 * siblings.depth + 1]
        return _tested(siblings, p, q, coin, mark, batch.room[2])

    return descend(batch, rule, noise[:, -1], scheme="greedy")


def _tested(
    siblings: Siblings, p: Tensor, q: Tensor, coin: Tensor, mark: Tensor, out: Tensor
) -> SiblingChoice:
    """Test the last sibling on its coin, then the fixed ones on a mark. Sweeps are in `out`."""
    tokens, last = siblings.tokens, siblings.tokens[:, -1]
    drawn, wanted = q.gather(1, tokens), p.gather(1, tokens)
    slot = torch.arange(tokens.shape[1], device=tokens.device)
    is_fixed = slot < siblings.count[:, None] - 1
    left = one = torch.ones_like(coin, dtype=p.dtype)
    if siblings.most > 1:
        # The last sibling stands behind the fixed ones wherever there is a place for more.
        p.scatter_(1, tokens, wanted.masked_fill(is_fixed, 0))
        q.scatter_(1, tokens, drawn.masked_fill(is_fixed, 0))
        left = q.sum(-1)
    c = (1 / left).nan_to_num()
    accepts = coin * drawn[:, -1] < (wanted[:, -1] * left).where(siblings.count > 0, 0)
    token = torch.where(accepts, last, -1)
    if siblings.most > 1:
        reached = wanted.masked_fill(~is_fixed, 0).double().cumsum(1)
        here = mark * (reached[:, -1] + mass(p, q, one, c, out=out))
        is_here = (here[:, None] < reached) & is_fixed & ~accepts[:, None]
        first = tokens.gather(1, is_here.long().argmax(1, keepdim=True))[:, 0]
        token = torch.where(is_here.any(1), first, token)
    return SiblingChoice(token, c, apart=tokens)
