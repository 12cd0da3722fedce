"""Verification in four launches, each over all multiprocessors at any number of requests.

1. *stats*: the largest logit and the mass of every piece of every row; probabilities have none.
2. *decide*: the algorithm's own step, one program a request, in the algorithm's module. It looks at
   what was drafted and at the coins, and says which rows are *open*: those of which the mass can
   still change what is emitted, and the one that is kept if none of them is.
3. *masses*: what is owed, (a p - q)+, of open rows alone, piece by piece.
4. *finish*: the deepest open row whose coin is below m / (m + 1 - a), m its mass; a token drawn
   from one piece of it; and what an engine reads.

No operator of torch stands between, nothing waits for the device, and no memory depends on data. A
program has BLOCK_B requests, or rows, and BLOCK_V tokens, a piece: one row where the vocabulary is
large, many where it is small, or where kernels are interpreted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.launch import GivenBatch, blocks, given_of, power_of_two
from draftproof.adapters.fast.kernels.rows import Position, drawn, excess, token_at
from draftproof.adapters.fast.kernels.sources import (
    LOGITS,
    Drafts,
    ModelRows,
    Numbers,
    Soft,
    cut,
    drafted,
    entries,
    exponential,
    heat,
    mark_of,
    place_of,
    requests_of,
    span,
)


class Stats(NamedTuple):
    """The largest logit of each piece, its first id, and its mass, [2, B, K, L+1, P] each."""

    largest: Any
    first: Any
    total: Any
    pieces: Any


class Open(NamedTuple):
    """S rows of every request that may decide: those whose `a` [B, S] is not negative.

    Each is kept if its `coin` [B, S] is low enough. `place` [2, B, S] is where the rows of target
    and draft are, -1 where nothing of the draft's is owed; `soft` [2, 5, B, S] what makes them
    probabilities; `sums` [B, S, P] what is owed in each piece.
    """

    a: Any
    coin: Any
    place: Any
    soft: Any
    sums: Any
    rows: Any
    pieces: Any


@triton.jit
def _stats(
    p: ModelRows, q: ModelRows, drafts: Drafts, stats: Stats,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the largest logit of a piece of every row, where it is first, and the piece's mass."""
    if tl.program_id(2) == 0:
        if p.KIND == LOGITS:
            _summed(p, drafts, stats, 0, BLOCK_B, BLOCK_V)
    elif q.KIND == LOGITS:
        _summed(q, drafts, stats, 1, BLOCK_B, BLOCK_V)


@triton.jit
def _summed(
    rows, drafts, stats, SIDE: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr
):  # fmt: skip
    FLOAT: tl.constexpr = stats.largest.dtype.element_ty
    # Divisions of int64 cost as much as a tile.
    row = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B)
    depth, path = row % (drafts.longest + 1), row // (drafts.longest + 1)
    request = (path // drafts.drafts).to(tl.int64)
    start, given = span(drafts, request, request < drafts.requests)
    active = (request < drafts.requests) & (depth < given + 1 - SIDE)
    position = start + depth + (request if SIDE == 0 else 0)
    site, place = place_of(rows, position, path % drafts.drafts)
    scale, _ = heat(rows, request, active, FLOAT)
    token = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
    x = entries(rows, place[:, None], token, active[:, None]).to(FLOAT)
    if rows.TOLD:
        least = tl.load(rows.least + site, mask=active, other=0.0).to(FLOAT)
        last = tl.load(rows.last + site, mask=active, other=0)
        x = cut(x, token, least[:, None], last[:, None])
    most = tl.max(x, 1)
    # As long as nothing is kept, -inf - (-inf) would be NaN.
    base = tl.where(most == -float("inf"), 0.0, most)
    mass = tl.sum(exponential((x - base[:, None]) * scale[:, None]), 1)
    rows_in_all = drafts.requests * drafts.drafts * (drafts.longest + 1)
    where = (SIDE * rows_in_all + row.to(tl.int64)) * stats.pieces + tl.program_id(1)
    tl.store(stats.largest + where, most, mask=active)
    tl.store(stats.total + where, mass, mask=active)
    if rows.HEATED:
        first = tl.min(tl.where(x == most[:, None], token, rows.width), 1)
        tl.store(stats.first + where, first, mask=active)


@triton.jit
def softmax_of(
    rows, drafts, stats, SIDE: tl.constexpr, request, path, depth, site, active,
    PIECES: tl.constexpr,
):  # fmt: skip
    """Return what makes logits of rows [BLOCK_B, D] probabilities: their pieces together."""
    FLOAT: tl.constexpr = stats.largest.dtype.element_ty
    scale, is_sure = heat(rows, request, active, FLOAT)
    none = tl.zeros_like(scale)
    if rows.KIND != LOGITS:
        return Soft(scale, none, none, none, none.to(tl.int32))
    row = (SIDE * drafts.requests * drafts.drafts + path) * (drafts.longest + 1) + depth
    piece = tl.arange(0, PIECES)[None, None, :]
    here = active[:, :, None] & (piece < stats.pieces)
    where = row[:, :, None] * stats.pieces + piece
    pieces = tl.load(stats.largest + where, mask=here, other=-float("inf"))
    most = tl.max(pieces, 2)
    most = tl.where(most == -float("inf"), 0.0, most)
    masses = tl.load(stats.total + where, mask=here, other=0.0)
    masses *= exponential((pieces - most[:, :, None]) * scale[:, :, None])
    total = tl.sum(masses, 2)
    log_mass = tl.log2(tl.where(total > 0, total, 1.0))
    least, last = none - float("inf"), none.to(tl.int32)
    if rows.TOLD:
        least = tl.load(rows.least + site, mask=active, other=0.0).to(FLOAT)
        last = tl.load(rows.last + site, mask=active, other=0).to(tl.int32)
    elif rows.CUT:
        first = tl.load(stats.first + where, mask=here, other=0)
        first = tl.min(tl.where(pieces == most[:, :, None], first, rows.width), 2)
        least = tl.where(is_sure, most, least)
        last = tl.where(is_sure, first, rows.width).to(tl.int32)
        log_mass = tl.where(is_sure, 0.0, log_mass)
    return Soft(scale, most, log_mass, least, last)


@triton.jit
def softmax_at(soft, count, slot, active):
    """Return what makes rows [BLOCK_B] probabilities, of `soft` [5, count]."""
    scale = tl.load(soft + slot, mask=active, other=1.0)
    largest = tl.load(soft + count + slot, mask=active, other=0.0)
    log_mass = tl.load(soft + 2 * count + slot, mask=active, other=0.0)
    least = tl.load(soft + 3 * count + slot, mask=active, other=0.0)
    last = tl.load(soft + 4 * count + slot, mask=active, other=0.0)
    return Soft(scale, largest, log_mass, least, last.to(tl.int32))


@triton.jit
def opened(drafts, left, slot, active):
    """Return an open row of each request as a position, its `a`, and 0 where q is not owed."""
    count = drafts.requests * left.rows
    a = tl.load(left.a + slot, mask=active, other=-1.0)
    p_place = tl.load(left.place + slot, mask=active, other=0)
    q_place = tl.load(left.place + count + slot, mask=active, other=-1)
    p_soft = softmax_at(left.soft, count, slot, active)
    q_soft = softmax_at(left.soft + 5 * count, count, slot, active)
    c = tl.where(q_place >= 0, 1.0, 0.0).to(a.dtype)
    return Position(p_place, p_soft, q_place, q_soft, active), a, c


@triton.jit
def _masses(
    p: ModelRows, q: ModelRows, drafts: Drafts, left: Open, BLOCK_B: tl.constexpr,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write what is owed in a piece of every row that is open."""
    slot = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    active = tl.load(left.a + slot, mask=slot < drafts.requests * left.rows, other=-1.0) >= 0
    if tl.max(active.to(tl.int32)) > 0:
        tokens = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
        own = tl.sum(excess(p, q, opened(drafts, left, slot, active), tokens, active), 1)
        tl.store(left.sums + slot * left.pieces + tl.program_id(1), own, mask=active)


@triton.jit
def _finish(
    p: ModelRows, q: ModelRows, drafts: Drafts, left: Open, noise: Numbers, which, told,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr, DEPTHS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Keep the deepest open row whose coin is low enough, draw from it, and tell of it."""
    request, real = requests_of(drafts, BLOCK_B)
    depth, piece = tl.arange(0, DEPTHS)[None, :], tl.arange(0, PIECES)[None, :]
    slot = request[:, None] * left.rows + depth
    a = tl.load(left.a + slot, mask=real[:, None] & (depth < left.rows), other=-1.0)
    coin = tl.load(left.coin + slot, mask=a >= 0, other=2.0)
    here = (a >= 0)[:, :, None] & (piece < left.pieces)[:, None, :]
    where = slot[:, :, None] * left.pieces + piece[:, None, :]
    mass = tl.sum(tl.load(left.sums + where, mask=here, other=0.0), 2)
    against = mass + (1 - a)
    passing = tl.where(against > 0, mass / tl.where(against > 0, against, 1.0), 1.0)
    kept = tl.max(tl.where((a >= 0) & (coin < passing), depth, 0), 1).to(tl.int64)

    mark, slot = mark_of(noise, request, real, which), request * left.rows + kept
    where = slot[:, None] * left.pieces + piece
    own = tl.load(left.sums + where, mask=real[:, None] & (piece < left.pieces), other=0.0)
    running = tl.cumsum(own.to(tl.float64), 1)
    before, total = running - own, tl.sum(own.to(tl.float64), 1)
    here = mark * total
    # A piece without weight is never drawn from, nor one behind the last that has some.
    chosen = tl.max(tl.where((own > 0) & (before <= here[:, None]), piece, 0), 1)
    here -= tl.sum(tl.where(piece == chosen[:, None], before, 0.0), 1)
    at, weight, c = opened(drafts, left, slot, real)
    V = drafts.vocabulary
    token = token_at(excess, p, q, (at, weight, c), here, chosen, V, real, BLOCK_V)
    is_void = real & (total == 0)
    if tl.max(is_void.to(tl.int32)) > 0:
        # Target and draft differ by rounding alone: there is no residual, and p is drawn from.
        whole = at, weight * 0 + 1, c * 0
        token = tl.where(is_void, drawn(excess, p, q, whole, mark, V, is_void, BLOCK_V)[0], token)
    tell(drafts, told, request, real, request * 0, kept, token, DEPTHS)


@triton.jit
def tell(drafts, told, request, real, path, kept, token, DEPTHS: tl.constexpr):
    """Write the tokens that requests emit, how many they accept, of which path, and their count."""
    emitted, accepted, paths, sampled = told
    depth = tl.arange(0, DEPTHS)[None, :]
    start, given = span(drafts, request, real)
    tokens = drafted(drafts, start[:, None], given[:, None], path[:, None], depth)
    tokens = tl.where(depth == kept[:, None], token[:, None], tokens)
    tokens = tl.where(depth <= kept[:, None], tokens, -1).to(tl.int32)
    place = request[:, None] * (drafts.longest + 1) + depth
    tl.store(emitted + place, tokens, mask=real[:, None] & (depth <= drafts.longest))
    tl.store(accepted + request, kept, mask=real)
    tl.store(paths + request, path, mask=real)
    tl.store(sampled + request, (kept + 1).to(tl.int32), mask=real)


def summed(flat: EngineBatch, given: GivenBatch) -> Stats:
    """Return the stats of all rows, of which nothing is written where there are no logits."""
    rows, pieces = len(flat.ends) * flat.tokens.shape[1] * (flat.longest + 1), given.pieces
    largest, total = flat.room(2, 2, rows, pieces).unbind()
    first = flat.room(2, rows, pieces, dtype=torch.int32)
    stats = Stats(largest, first, total, pieces)
    if given.has_logits:
        grid, own = blocks(rows, given.tile)
        _stats[grid, pieces, 2](given.p, given.q, given.drafts, stats, own, given.tile)
    return stats


def verified(decide: Any, flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what B requests emit [B, L+1] int32, and of each what is accepted, path and count.

    `decide` is a kernel that says which rows are open, which is all that an algorithm adds.
    """
    given, requests, slots = given_of(flat), len(flat.ends), len(flat.ends) * (flat.longest + 1)
    pieces, tile, of = given.pieces, given.tile, (given.p, given.q, given.drafts)
    shape = power_of_two(flat.longest + 1), power_of_two(pieces)
    stats = summed(flat, given)
    places, coins = flat.room(2, slots, dtype=torch.int64), flat.room(slots, dtype=torch.float64)
    rows = flat.room(slots), coins, places, flat.room(2, 5, slots), flat.room(slots, pieces)
    left = Open(*rows, flat.longest + 1, pieces)
    grid, own = blocks(requests, shape[0] * shape[1], most=1)
    warps = min(max(shape[0] * shape[1] // 128, 1), 8)
    decide[(grid,)](*of, stats, left, given.noise, own, *shape, num_warps=warps)
    grid, own = blocks(slots, tile)
    _masses[grid, pieces](*of, left, own, tile)
    grid, own = blocks(requests, tile)
    told = flat.told()
    _finish[(grid,)](*of, left, given.noise, given.mark, told, own, tile, *shape, num_warps=8)
    return told
