"""Greedy multi-path block verification's own step: weights of prefixes, by their tokens' tilts."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.deciding import undecided
from draftproof.adapters.fast.kernels.ranking import tilt_of
from draftproof.adapters.fast.kernels.rows import ratio
from draftproof.adapters.fast.kernels.selecting import verified
from draftproof.adapters.fast.kernels.sources import numbers, requests_of


def multipath_block(flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.mixture.multipath_block` does."""
    return verified(_decide, flat)


@triton.jit
def _decide(
    drafts, left, ranks, noise,
    BLOCK_B: tl.constexpr, DEPTHS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Weigh prefixes as `fast.mixture.verified` does, and leave open what may be kept."""
    request, real = requests_of(drafts, BLOCK_B)
    length = tl.load(ranks.length + request, mask=real, other=-1)[:, None]
    request, real = request[:, None], real[:, None]
    depth, piece = tl.arange(0, DEPTHS)[None, :], tl.arange(0, PIECES)[None, :]
    n, slots = 1 + tl.arange(0, ranks.PATHS)[None, :], drafts.requests * left.rows
    alive = tl.where((request >= 0) & (n == drafts.drafts), 1.0, 0.0).to(tl.float64)
    weight = tl.full(request.shape, 1.0, tl.float64)
    weights = weight + depth * 0
    for i in range(drafts.longest):
        active, slot = real & (i < length), request * left.rows + i
        where, inside = ranks.sums + slot * left.pieces + piece, active & (piece < left.pieces)
        below = tl.sum(tl.load(where, mask=inside, other=0.0), 1)[:, None]
        where += slots * left.pieces
        total = tl.sum(tl.load(where, mask=inside, other=0.0), 1)[:, None]
        known = tl.where(total > 0, total, 1.0)
        below /= known
        mass = tl.load(ranks.mass + slot, mask=active, other=0.0) / known
        offered = tilt_of(alive, drafts.drafts, below, mass)
        tl.store(ranks.total + slot, total, mask=active)
        where = ranks.alive + slot * drafts.drafts + n - 1
        tl.store(where, alive, mask=active & (n <= drafts.drafts))
        step = ratio(tl.load(ranks.ratio + slot, mask=active, other=0.0), offered)
        weight = tl.where(active, tl.minimum(weight * step, 1.0), weight)
        weights = tl.where(depth == i + 1, weight, weights)
        alive = alive_after(alive, drafts.drafts, below, mass, offered)
    is_behind = real & (depth > 0) & (depth <= length)
    coin = numbers(noise, request, is_behind, depth - 1, 0, depth - 1)
    a, coin = undecided(depth, length, weights, coin)
    where, inside = request * left.rows + depth, real & (depth < left.rows)
    tl.store(left.a + where, a, mask=inside)
    tl.store(left.coin + where, coin, mask=inside)


@triton.jit
def alive_after(alive, count, below, mass, offered):
    """Return `alive` [B, K] after a token of such masses, as `fast.mixture.alive_after` does.

    Divided by the law of the token, which is what they sum to; its mass cancels out of both.
    """
    n = 1 + tl.arange(0, alive.shape[1])[None, :]
    ways = alive * 0
    power, lower, sums = ways + 1, ways, ways
    for m in range(1, count + 1):
        each = tl.sum(tl.where(n == m, alive, 0.0), 1)[:, None]
        # Of m paths n are the highest-ranked in C(m, n) ways.
        ways = tl.where(n == m, 1.0, ways * m / tl.maximum(m - n, 1))
        lower = tl.where(n == m, 1.0, lower * below)
        power = tl.where(n > m, power * mass, power)
        sums += each * ways * lower
    is_known = (mass > 0) & (offered > 0)
    return tl.where(
        is_known, sums * power / tl.where(is_known, offered, 1.0), tl.where(n == 1, 1.0, 0.0)
    )
