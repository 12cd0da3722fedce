"""K-SEQ as a Triton kernel: the factor in sweeps of eight points each."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.descent import coin, descended, sibling
from draftproof.adapters.fast.kernels.rows import among, p_of, p_tile, q_of, q_tile


def k_seq(flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.k_seq.k_seq` does.

    Seven sweeps, whose eight points leave an eighth of the bracket at most, reach what 21 halvings
    do there.
    """
    return descended(_rule, flat, scheme="iid", warps=16)


@triton.jit
def _rule(p, q, drafts, noise, at, node, BLOCK_V: tl.constexpr):
    """Try the siblings one after another, each against the target divided by the factor."""
    token, none = node.depth * 0 - 1, tl.zeros_like(at.p_soft.scale)
    count = (node.depth * 0).to(tl.int32)
    for k in range(drafts.drafts):
        own, is_one = sibling(drafts, at, node, k)
        count += is_one.to(tl.int32)
    count = tl.maximum(count, 1)
    rho, tried = none + 1, none + 1
    several = at.active & (count > 1)
    if tl.max(several.to(tl.int32)) > 0:
        least, reached = _least_factor(p, q, drafts, among(at, several), count, BLOCK_V)
        rho, tried = tl.where(several, least, rho), tl.where(several, reached, tried)
    for k in range(drafts.drafts):
        own, tries = sibling(drafts, at, node, k)
        tries &= token < 0
        if tl.max(tries.to(tl.int32)) > 0:
            wanted, drawn = p_of(p, at, own, tries), q_of(q, at, own, tries)
            number = coin(drafts, noise, node, k, tries)
            accepts = tries & (number * (rho * drawn.to(tl.float64)) < wanted)
            token = tl.where(accepts, own, token)
    return token, tl.maximum(1 - tried / rho, 0.0), tried, none, token * 0


@triton.jit
def _least_factor(p, q, drafts, at, count, BLOCK_V: tl.constexpr):
    """Return a valid factor [BLOCK_B] next to the least one, and how many it tries on average."""
    FLOAT: tl.constexpr = at.p_soft.scale.dtype
    # The four roundings of `fast.k_seq`.
    SLACK: tl.constexpr = 2.0**-21 if FLOAT.primitive_bitwidth == 32 else 2.0**-50
    # An interpreted program has many requests, and Triton has tensors of 2**20 numbers at most.
    POINTS: tl.constexpr = 8 if at.active.shape[0] <= 131072 else 4
    low = tl.full([at.active.shape[0]], 1.0, FLOAT)
    high = count.to(FLOAT)
    place = (tl.arange(0, POINTS).to(FLOAT) / 8)[None, :]
    for _ in range(7):
        first, width = low[:, None], (high - low)[:, None]
        for part in tl.static_range(8 // POINTS):
            rho = first + width * (place + part * POINTS / 8)
            reached = _tried(p, q, drafts, at, rho, count, BLOCK_V)
            is_valid = reached <= rho + rho * SLACK
            high = tl.minimum(high, tl.min(tl.where(is_valid, reached, high[:, None]), 1))
            low = tl.maximum(low, tl.max(tl.where(is_valid, low[:, None], reached), 1))
        low = tl.minimum(low, high)
    reached = _tried(p, q, drafts, at, high[:, None] + 0 * place, count, BLOCK_V)
    return high, tl.max(reached, 1)


@triton.jit
def _tried(p, q, drafts, at, rho, count, BLOCK_V: tl.constexpr):
    """Return how many siblings are tried on average, with factors rho [BLOCK_B, POINTS]."""
    MOST: tl.constexpr = 1048576 // (rho.shape[0] * rho.shape[1])
    CHUNK: tl.constexpr = BLOCK_V if BLOCK_V <= MOST else MOST
    miss, part = tl.zeros_like(rho), (1 / rho)[:, None, :]
    for start in range(0, drafts.vocabulary, CHUNK):
        tokens = (start + tl.arange(0, CHUNK))[None, :]
        x, y = p_tile(p, at, tokens, at.active), q_tile(q, at, tokens, at.active)
        miss += tl.sum(tl.maximum(y[:, :, None] - x[:, :, None] * part, 0.0), 1)
    power = tl.zeros_like(rho) + 1
    tried = tl.zeros_like(rho)
    for i in range(drafts.drafts):
        tried += tl.where((i < count)[:, None], power, 0.0)
        power *= miss
    return tried
