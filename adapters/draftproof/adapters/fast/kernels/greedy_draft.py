"""The greedy draft's verifier as a Triton kernel: a sweep for its test, and one for a refusal."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.descent import (
    descended,
    masses_without,
    reciprocal,
    sibling,
)
from draftproof.adapters.fast.kernels.rows import among, p_of, q_of
from draftproof.adapters.fast.kernels.sources import numbers


def greedy_draft(flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.greedy_draft.greedy_draft` does."""
    return descended(_rule, flat, scheme="greedy")


@triton.jit
def _rule(p, q, drafts, noise, at, node, BLOCK_V: tl.constexpr):
    """Test the last sibling on its coin, then the fixed ones on a mark."""
    none = tl.zeros_like(at.p_soft.scale)
    last, fixed = node.depth * 0, node.depth * 0
    for k in range(drafts.drafts):
        own, is_one = sibling(drafts, at, node, k)
        last = tl.where(is_one, own, last)
        fixed = tl.where(is_one, node.siblings & ((fixed * 0 + 1 << k) - 1), fixed)
    left = none + 1
    are_several = at.active & (fixed > 0)
    if tl.max(are_several.to(tl.int32)) > 0:
        here = among(at, are_several)
        rest = masses_without(p, q, drafts, here, node, fixed, none, BLOCK_V)[0]
        left = tl.where(are_several, rest, left)
    c = reciprocal(left)
    wanted, drawn = p_of(p, at, last, at.active), q_of(q, at, last, at.active)
    request, lane = node.request.number, node.depth * 0
    coin = numbers(noise, request, at.active, 2 * node.depth, lane, node.depth)
    accepts = at.active & (coin * drawn < wanted.to(tl.float64) * left)
    token = tl.where(accepts, last, -1)
    refused = are_several & ~accepts
    if tl.max(refused.to(tl.int32)) > 0:
        there = among(at, refused)
        elsewhere = masses_without(p, q, drafts, there, node, fixed, c, BLOCK_V)[1]
        total = none.to(tl.float64)
        for k in range(drafts.drafts):
            own, is_one = sibling(drafts, among(at, refused), node, k)
            is_one &= (fixed >> k & 1) > 0
            total += p_of(p, at, own, is_one)
        mark = numbers(noise, request, refused, 2 * node.depth + 1, lane + 1, node.depth)
        here = mark * (total + elsewhere)
        reached = none.to(tl.float64)
        for k in range(drafts.drafts):
            own, is_one = sibling(drafts, among(at, refused), node, k)
            is_one &= (fixed >> k & 1) > 0
            reached += p_of(p, at, own, is_one)
            token = tl.where(is_one & (token < 0) & (here < reached), own, token)
    return token, none, c, none, node.siblings
