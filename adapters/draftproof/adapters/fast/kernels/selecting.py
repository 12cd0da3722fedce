"""What verification of a selected path adds to the pipeline: ranks, without a sort where none is.

1. *stats*, as in `pipeline`.
2. *select*: the path, by ratios p / q of drafted tokens alone, and where its rows are.
3. *weigh*: what q gives to the tokens that rank below the path's own, a sum of a row under a mask,
   piece by piece.
4. *decide*: the algorithm's own step, in its module: weights of prefixes, and the rows that may
   still decide.
5. *finish*: the deepest of them first, until one is kept. Only here rows are sorted, since what is
   owed to a token depends on all that rank below it: some 1.5 of a request's rows.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels import IS_INTERPRETED
from draftproof.adapters.fast.kernels.deciding import DraftedPath, leave_open
from draftproof.adapters.fast.kernels.launch import blocks, given_of, power_of_two
from draftproof.adapters.fast.kernels.pipeline import Open, opened, softmax_of, summed, tell
from draftproof.adapters.fast.kernels.ranking import Ranks, owe, rated, waited
from draftproof.adapters.fast.kernels.rows import drawn, p_tile, q_tile
from draftproof.adapters.fast.kernels.sources import (
    CERTAIN,
    Drafts,
    ModelRows,
    Numbers,
    chance,
    drafted,
    mark_of,
    place_of,
    requests_of,
    span,
)


@triton.jit
def _select(
    p: ModelRows, q: ModelRows, drafts: Drafts, stats, left: Open, ranks: Ranks,
    BLOCK_B: tl.constexpr, DEPTHS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Write the path that goes on to the highest-ranked token every time, and where its rows are.

    The rows that something is drafted from are open.
    """
    DTYPE: tl.constexpr = ranks.keys.dtype.element_ty
    number, real = requests_of(drafts, BLOCK_B)
    request, inside, depth = number[:, None], real[:, None], tl.arange(0, DEPTHS)[None, :]
    start, given = span(drafts, request, inside)
    is_none = (start + depth) < 0
    for k in range(drafts.drafts):
        is_none |= drafted(drafts, start, given, k, depth) < 0
    # A position counts if all drafts have a token there, and at all positions before.
    length = tl.sum((tl.cumsum(is_none.to(tl.int32), 1) == 0).to(tl.int64), 1)
    path, shares = request * 0, request * 0 - 1
    for i in range(drafts.longest + 1):
        here, i_th = inside & (i <= length[:, None]), request * 0 + i
        active = inside & (i < length[:, None])
        p_site, p_place = place_of(p, start + request + i_th, path)
        q_site, q_place = place_of(q, start + i_th, path)
        row = request * drafts.drafts + path
        p_soft = softmax_of(p, drafts, stats, 0, request, row, i_th, p_site, here, PIECES)
        q_soft = softmax_of(q, drafts, stats, 1, request, row, i_th, q_site, active, PIECES)
        most, best, mass = p_soft.scale.to(tl.float64) * 0 - 1, i_th * 0 - 1, q_soft.scale * 0
        following = path
        for k in range(drafts.drafts):
            token = tl.where(active, drafted(drafts, start, given, k, i_th), -1)
            place = token if q.KIND == CERTAIN else q_place
            x, y = (
                chance(p, p_place, p_soft, token, active),
                chance(q, place, q_soft, token, active),
            )
            rank = rated(x, y, DTYPE).to(tl.float64)
            is_higher = (rank > most) | ((rank == most) & (token > best))
            is_higher &= active & (((shares >> k) & 1) > 0)
            most, best = tl.where(is_higher, rank, most), tl.where(is_higher, token, best)
            mass, following = tl.where(is_higher, y, mass), tl.where(is_higher, k, following)
        for k in range(drafts.drafts):
            is_other = drafted(drafts, start, given, k, i_th) != best
            shares = tl.where(active & is_other, shares & ~(request * 0 + 1 << k), shares)
        path = following
        if q.KIND == CERTAIN:
            q_place = best
        at = DraftedPath(i_th, best, length, most, p_place, p_soft, q_place, q_soft)
        is_open = tl.where(active, 1.0, -1.0)
        leave_open(left, drafts, at, number, real, is_open, is_open)
        where = request * left.rows + i_th
        tl.store(ranks.token + where, best, mask=active)
        tl.store(ranks.ratio + where, most, mask=active)
        tl.store(ranks.mass + where, mass.to(tl.float64), mask=active)
    tl.store(ranks.path + request, path, mask=inside)
    tl.store(ranks.length + number, length, mask=real)


@triton.jit
def _weigh(
    p: ModelRows, q: ModelRows, drafts: Drafts, left: Open, ranks: Ranks,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write what q gives to a piece of every row of the path, below its token and in all."""
    DTYPE: tl.constexpr = ranks.keys.dtype.element_ty
    slot = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    slots = drafts.requests * left.rows
    active = tl.load(left.a + slot, mask=slot < slots, other=-1.0) >= 0
    if tl.max(active.to(tl.int32)) > 0:
        at, _, _ = opened(drafts, left, slot, active)
        own = tl.load(ranks.ratio + slot, mask=active, other=0.0).to(DTYPE)[:, None]
        token = tl.load(ranks.token + slot, mask=active, other=0)[:, None]
        tokens = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
        x, y = p_tile(p, at, tokens, active), q_tile(q, at, tokens, active)
        ratio, y = rated(x, y, DTYPE), y.to(tl.float64)
        is_lower = (ratio < own) | ((ratio == own) & (tokens < token))
        where = ranks.sums + slot * left.pieces + tl.program_id(1)
        tl.store(where, tl.sum(tl.where(is_lower, y, 0.0), 1), mask=active)
        tl.store(where + slots * left.pieces, tl.sum(y, 1), mask=active)


@triton.jit
def stored(p, q, of, tokens, active):  # noqa: ARG001  # all weights are called alike
    """Return what was written for tokens [BLOCK_B, BLOCK_V]: `of` are where it is, and V."""
    inside = active[:, None] & (tokens < of[1])
    return tl.load(of[0][:, None] + tokens, mask=inside, other=0.0)


@triton.jit
def _finish(
    p: ModelRows, q: ModelRows, drafts: Drafts, left: Open, ranks: Ranks, noise: Numbers, which,
    told, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr, DEPTHS: tl.constexpr, LEVELS: tl.constexpr,
    MERGED: tl.constexpr,
):  # fmt: skip
    """Keep the deepest open row whose coin is low enough, draw from it, and tell of it."""
    request, real = requests_of(drafts, BLOCK_B)
    length = tl.load(ranks.length + request, mask=real, other=-1)
    kept, searching, V = request * 0, real, drafts.vocabulary
    written = tl.full(request.shape, 0.0, tl.float64)
    for i in range(drafts.longest + 1):
        depth = request * 0 + drafts.longest - i
        slot = request * left.rows + depth
        weight = tl.load(left.a + slot, mask=searching, other=-1.0)
        here = searching & (weight >= 0)
        # Behind a whole path there is nothing to rank: its weight was compared with its coin.
        is_last, owing = here & (depth == length), here & (depth < length)
        kept, searching = tl.where(is_last, depth, kept), searching & ~is_last
        if tl.max(owing.to(tl.int32)) > 0:
            coin = tl.load(left.coin + slot, mask=owing, other=2.0)
            more, own = owe(
                p, q, drafts, left, ranks, request, slot, owing, BLOCK_V, LEVELS, MERGED
            )
            against = more + (1 - weight)
            passing = tl.where(against > 0, more / tl.where(against > 0, against, 1.0), 1.0)
            passes = owing & (coin < passing)
            kept, written = tl.where(passes, depth, kept), tl.where(passes, own, written)
            searching &= ~passes
    where = ranks.rows + (2 * (request * 0 + drafts.requests) + request) * V
    is_whole = real & (written == 0)
    if tl.max(is_whole.to(tl.int32)) > 0:
        at, _, _ = opened(drafts, left, request * left.rows + kept, is_whole)
        for start in range(0, V, BLOCK_V):
            token = (start + tl.arange(0, BLOCK_V))[None, :]
            x, inside = p_tile(p, at, token, is_whole), is_whole[:, None] & (token < V)
            tl.store(where[:, None] + token, x, mask=inside)
    waited()
    mark, path = mark_of(noise, request, real, which), tl.load(ranks.path + request, mask=real)
    token, _ = drawn(stored, p, q, (where, V), mark, V, real, BLOCK_V)
    tell(drafts, told, request, real, path, kept, token, DEPTHS)


def verified(decide: Any, flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what B requests emit [B, L+1] int32, and of each what is accepted, path and count.

    `decide` is a kernel that says which rows are open, which is all that an algorithm adds.
    """
    given, requests, depths = given_of(flat), len(flat.ends), flat.longest + 1
    pieces, tile, of = given.pieces, given.tile, (given.p, given.q, given.drafts)
    slots, drafts, double = requests * depths, flat.tokens.shape[1], torch.float64
    shape = power_of_two(depths), power_of_two(pieces)
    stats = summed(flat, given)
    a, coin, ratio, mass, total = flat.room(5, slots, dtype=double).unbind()
    places, softs = flat.room(2, slots, dtype=torch.int64), flat.room(2, 5, slots)
    left = Open(a, coin, places, softs, a, depths, pieces)
    path, length = flat.room(2, requests, dtype=torch.int64).unbind()
    ranks = Ranks(
        *(path, length, flat.room(slots, dtype=torch.int64), ratio, mass),
        sums=flat.room(2, slots, pieces, dtype=double),
        total=total,
        alive=flat.room(slots, drafts, dtype=double),
        keys=flat.room(2, requests, flat.vocabulary, dtype=precise(flat)),
        ids=flat.room(2, requests, flat.vocabulary, dtype=torch.int32),
        rows=flat.room(3, requests, flat.vocabulary),
        PATHS=tl.constexpr(power_of_two(drafts)),
    )
    grid, own = blocks(requests, max(shape[0] * shape[1], power_of_two(drafts)))
    warps = min(max(shape[0] * shape[1] // 64, 4), 8)
    _select[(grid,)](*of, stats, left, ranks, own, *shape, num_warps=warps)
    _weigh[blocks(slots, tile)[0], pieces](*of, left, ranks, blocks(slots, tile)[1], tile)
    decide[(grid,)](given.drafts, left, ranks, given.noise, own, *shape, num_warps=warps)
    told, levels = flat.told(), power_of_two(flat.vocabulary).bit_length() - 1
    # Of twice as many tokens, a thread's numbers are more than it has registers.
    few = min(tile, 2**16 if IS_INTERPRETED else 1024)
    # Two tiles are merged.
    grid, own = blocks(requests, max(tile, 2 * few))
    last = given.noise, given.mark, told, own, few, shape[0], levels, 2 * few
    _finish[(grid,)](*of, left, ranks, *last, num_warps=16)
    return told


def precise(flat: EngineBatch) -> torch.dtype:
    """Return the dtype of ratios, as `fast.mixture.precise` does."""
    models = [rows for rows in (flat.p, flat.q) if rows is not None]
    is_given = all(rows.softmax is None for rows in models)
    is_wide = any(rows.values.element_size() > 2 for rows in models)
    is_double = flat.dtype == torch.float64 or (is_given and is_wide)
    return torch.float64 if is_double else torch.float32
