"""The greedy draft's verifier as a Triton kernel: a sweep for its test, and one for a refusal."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.kernels.descent import (
    among,
    descend,
    masses_without,
    reciprocal,
    sibling,
)
from draftproof.adapters.fast.kernels.rows import probability
from draftproof.conformance.adapter import Result


def greedy_draft(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.greedy_draft.greedy_draft` does."""
    return descend(batch, _rule, noise, scheme="greedy")


@triton.jit
def _rule(at, node, BLOCK_V: tl.constexpr):
    """Test the last sibling on its coin, then the fixed ones on a mark."""
    FLOAT: tl.constexpr = at.p.soft.dtype.element_ty
    BLOCK_B: tl.constexpr = at.active.shape[0]
    none = tl.full([BLOCK_B], 0.0, FLOAT)
    last, fixed = tl.full([BLOCK_B], 0, tl.int64), tl.full([BLOCK_B], 0, tl.int64)
    for k in range(node.drafts):
        own, is_one = sibling(at, node, k)
        last = tl.where(is_one, own, last)
        fixed = tl.where(is_one, node.siblings & ((fixed * 0 + 1 << k) - 1), fixed)
    left = none + 1
    are_several = at.active & (fixed > 0)
    if tl.max(are_several.to(tl.int32)) > 0:
        rest = masses_without(among(at, are_several), node, fixed, none, BLOCK_V)[0]
        left = tl.where(are_several, rest, left)
    c = reciprocal(left)
    wanted = probability(at.p, at.p_row, last, at.active)
    drawn = probability(at.q, at.q_row, last, at.active)
    coin = tl.load(node.noise + 2 * node.depth, mask=at.active, other=1.0)
    accepts = at.active & (coin * drawn < wanted.to(tl.float64) * left)
    token = tl.where(accepts, last, -1)
    refused = are_several & ~accepts
    if tl.max(refused.to(tl.int32)) > 0:
        elsewhere = masses_without(among(at, refused), node, fixed, c, BLOCK_V)[1]
        total = tl.full([BLOCK_B], 0.0, tl.float64)
        for k in range(node.drafts):
            own, is_one = sibling(among(at, refused), node, k)
            is_one &= (fixed >> k & 1) > 0
            total += probability(at.p, at.p_row, own, is_one)
        here = tl.load(node.noise + 2 * node.depth + 1, mask=refused, other=0.0)
        here *= total + elsewhere
        reached = tl.full([BLOCK_B], 0.0, tl.float64)
        for k in range(node.drafts):
            own, is_one = sibling(among(at, refused), node, k)
            is_one &= (fixed >> k & 1) > 0
            reached += probability(at.p, at.p_row, own, is_one)
            token = tl.where(is_one & (token < 0) & (here < reached), own, token)
    return token, none, c, none, node.siblings
