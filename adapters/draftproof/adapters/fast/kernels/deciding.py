"""What a decision of the pipeline begins with, a path and its ratios, and ends with, open rows."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from draftproof.adapters.fast.kernels.pipeline import softmax_of
from draftproof.adapters.fast.kernels.rows import ratio
from draftproof.adapters.fast.kernels.sources import (
    CERTAIN,
    Soft,
    chance,
    drafted,
    place_of,
    span,
)

SLACK = tl.constexpr(2.0**-10)


class DraftedPath(NamedTuple):
    """One path of each request: its tokens [B, D], -1 behind its `length` [B], and their p / q."""

    depth: tl.tensor
    token: tl.tensor
    length: tl.tensor
    ratio: tl.tensor
    p_place: tl.tensor
    p_soft: Soft
    q_place: tl.tensor
    q_soft: Soft


@triton.jit
def chain(
    p, q, drafts, stats, request, real, DEPTHS: tl.constexpr, PIECES: tl.constexpr
):  # fmt: skip
    """Return the one path of every request, to D depths, the target's row behind it included."""
    depth, request, real = tl.arange(0, DEPTHS)[None, :], request[:, None], real[:, None]
    start, given = span(drafts, request, real)
    token = drafted(drafts, start, given, 0, depth)
    length = tl.sum((tl.cumsum((token < 0).to(tl.int32), 1) == 0).to(tl.int64), 1)
    here, inside = real & (depth <= length[:, None]), real & (depth < length[:, None])
    token = tl.where(inside, token, -1)
    p_site, p_place = place_of(p, start + request + depth, 0)
    q_site, q_place = place_of(q, start + depth, 0)
    if q.KIND == CERTAIN:
        q_place = token
    each = request + depth * 0
    p_soft = softmax_of(p, drafts, stats, 0, each, each, depth, p_site, here, PIECES)
    q_soft = softmax_of(q, drafts, stats, 1, each, each, depth, q_site, inside, PIECES)
    x, y = chance(p, p_place, p_soft, token, inside), chance(q, q_place, q_soft, token, inside)
    return DraftedPath(depth, token, length, ratio(x, y), p_place, p_soft, q_place, q_soft)


@triton.jit
def leave_open(left, drafts, path, request, real, a, coin):
    """Write which rows of a `DraftedPath` are open, by their `a` [BLOCK_B, D], and their coins."""
    count = drafts.requests * left.rows
    inside = real[:, None] & (path.depth < left.rows)
    slot = request[:, None] * left.rows + path.depth
    q_place = tl.where(path.depth < path.length[:, None], path.q_place, -1)
    tl.store(left.a + slot, a, mask=inside)
    tl.store(left.coin + slot, coin, mask=inside)
    tl.store(left.place + slot, path.p_place, mask=inside)
    tl.store(left.place + count + slot, q_place, mask=inside)
    for i in tl.static_range(5):
        tl.store(left.soft + i * count + slot, path.p_soft[i], mask=inside)
        tl.store(left.soft + (5 + i) * count + slot, path.q_soft[i], mask=inside)


@triton.jit
def undecided(depth, length, weights, coin):
    """Return the open rows of prefixes of these weights [BLOCK_B, D], by their `a`, and coins.

    With h = m / (m + 1 - w), and m <= w but for rounding: a coin that is not below w fails whatever
    the mass, and w = 1 passes. So the deepest prefix that passes for sure, and those behind it
    whose coin is below their weight, are all that can be kept.
    """
    is_behind = (depth > 0) & (depth <= length)
    is_sure = tl.where(depth == length, coin < weights, weights == 1) & is_behind
    sure = tl.max(tl.where(is_sure, depth, 0), 1)[:, None]
    is_open = is_behind & (depth < length) & (depth > sure)
    is_open &= (coin < weights * (1 + SLACK)) & (weights < 1)
    a = tl.where(depth == length, 1.0, weights)
    return tl.where(is_open | (depth == sure), a, -1.0), tl.where(depth == sure, -1.0, coin)
