"""Verification in four launches, each over all multiprocessors at any number of requests.

1. *stats*: the largest logit and the mass of every piece of every row; probabilities have none.
2. *decide*: the algorithm's own step, one program a request, in the algorithm's module. It looks at
   what was drafted and at the coins, and says which rows are *open*: those of which the mass can
   still change what is emitted, and the one that is kept if none of them is.
3. *masses*: what is owed, (a p - q)+, of open rows alone, piece by piece.
4. *finish*: the deepest open row whose coin is below m / (m + 1 - a), m its mass; a token drawn
   from one piece of it; and what an engine reads.

No operator of torch stands between, nothing waits for the device, and no memory depends on data. A
program has BLOCK_B requests, or rows, and BLOCK_V tokens at a time: one request where the
vocabulary is large, many where it is small, or where kernels are interpreted.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.counters import MARK
from draftproof.adapters.fast.inputs import Flat, Lying
from draftproof.adapters.fast.kernels import IS_INTERPRETED
from draftproof.adapters.fast.kernels.sources import (
    CERTAIN,
    LOGITS,
    PROBABILITIES,
    Drafts,
    Numbers,
    Soft,
    Source,
    chance,
    drafted,
    entries,
    exponential,
    heat,
    numbers,
    place_of,
    requests_of,
    span,
)

_MARK = tl.constexpr(MARK)


class Stats(NamedTuple):
    """The largest logit of each piece, its first id, and its mass, [2, B, K, L+1, P] each."""

    largest: tl.tensor
    first: tl.tensor
    total: tl.tensor
    pieces: tl.tensor


class Open(NamedTuple):
    """S rows of every request that may decide: those whose `a` [B, S] is not negative.

    Each is kept if its `coin` [B, S] is low enough. `place` [2, B, S] is where the rows of target
    and draft are, -1 where nothing of the draft's is owed; `soft` [2, 5, B, S] what makes them
    probabilities; `sums` [B, S, P] what is owed in each piece.
    """

    a: tl.tensor
    coin: tl.tensor
    place: tl.tensor
    soft: tl.tensor
    sums: tl.tensor
    rows: tl.tensor
    pieces: tl.tensor


class Chain(NamedTuple):
    """One path of each request: its tokens [B, D], -1 behind its `length` [B], and their p / q."""

    depth: tl.tensor
    token: tl.tensor
    length: tl.tensor
    ratio: tl.tensor
    p_place: tl.tensor
    q_place: tl.tensor
    p_soft: Soft
    q_soft: Soft


@triton.jit
def _stats(
    p: Source, q: Source, drafts: Drafts, stats: Stats,
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
    row = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    depth, path = row % (drafts.longest + 1), row // (drafts.longest + 1)
    request = path // drafts.drafts
    start, given = span(drafts, request, request < drafts.requests)
    active = (request < drafts.requests) & (depth < given + 1 - SIDE)
    position = start + depth + (request if SIDE == 0 else 0)
    site, place = place_of(rows, position, path % drafts.drafts)
    scale, _ = heat(drafts, request, active, FLOAT)
    token = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
    x = entries(rows, place[:, None], token, active[:, None]).to(FLOAT)
    if rows.CUT:
        least = tl.load(rows.least + site, mask=active, other=0.0).to(FLOAT)[:, None]
        last = tl.load(rows.last + site, mask=active, other=0)[:, None]
        x = tl.where((x > least) | ((x == least) & (token <= last)), x, -float("inf"))
    most = tl.max(x, 1)
    # As long as nothing is kept, -inf - (-inf) would be NaN.
    base = tl.where(most == -float("inf"), 0.0, most)
    mass = tl.sum(exponential((x - base[:, None]) * scale[:, None]), 1)
    rows_in_all = drafts.requests * drafts.drafts * (drafts.longest + 1)
    where = (SIDE * rows_in_all + row) * stats.pieces + tl.program_id(1)
    tl.store(stats.largest + where, most, mask=active)
    tl.store(stats.total + where, mass, mask=active)
    if drafts.HEATED:
        first = tl.min(tl.where(x == most[:, None], token, rows.width), 1)
        tl.store(stats.first + where, first, mask=active)


@triton.jit
def softmax_of(
    rows, drafts, stats, SIDE: tl.constexpr, request, path, depth, site, inside,
    PIECES: tl.constexpr,
):  # fmt: skip
    """Return what makes logits of rows [BLOCK_B, D] probabilities: their pieces together."""
    FLOAT: tl.constexpr = stats.largest.dtype.element_ty
    scale, is_sure = heat(drafts, request, inside, FLOAT)
    none = tl.zeros_like(scale)
    if rows.KIND != LOGITS:
        return Soft(scale, none, none, none, none.to(tl.int32))
    piece = tl.arange(0, PIECES)[None, None, :]
    row = (SIDE * drafts.requests * drafts.drafts + path) * (drafts.longest + 1) + depth
    where, here = (
        row[:, :, None] * stats.pieces + piece,
        inside[:, :, None] & (piece < stats.pieces),
    )
    pieces = tl.load(stats.largest + where, mask=here, other=-float("inf"))
    largest = tl.max(pieces, 2)
    base = tl.where(largest == -float("inf"), 0.0, largest)
    total = tl.load(stats.total + where, mask=here, other=0.0)
    total = tl.sum(total * exponential((pieces - base[:, :, None]) * scale[:, :, None]), 2)
    largest, log_mass = base, tl.log2(tl.where(total > 0, total, 1.0))
    least, last = none - float("inf"), none.to(tl.int32)
    if rows.CUT:
        least = tl.load(rows.least + site, mask=inside, other=0.0).to(FLOAT)
        last = tl.load(rows.last + site, mask=inside, other=0).to(tl.int32)
    elif drafts.HEATED:
        first = tl.load(stats.first + where, mask=here, other=0)
        first = tl.where(pieces == base[:, :, None], first, rows.width)
        least = tl.where(is_sure, largest, least)
        last = tl.where(is_sure, tl.min(first, 2), rows.width).to(tl.int32)
        log_mass = tl.where(is_sure, 0.0, log_mass)
    return Soft(scale, largest, log_mass, least, last)


@triton.jit
def chain(
    p, q, drafts, stats, request, real, DEPTHS: tl.constexpr, PIECES: tl.constexpr
):  # fmt: skip
    """Return the one path of every request, to D depths, the target's row behind it included."""
    depth, request, real = tl.arange(0, DEPTHS)[None, :], request[:, None], real[:, None]
    start, given = span(drafts, request, real)
    token = drafted(drafts, start, given, 0, depth)
    length = tl.sum((tl.cumsum((token < 0).to(tl.int32), 1) == 0).to(tl.int64), 1)
    here = real & (depth <= length[:, None])
    inside = real & (depth < length[:, None])
    token = tl.where(inside, token, -1)
    p_site, p_place = place_of(p, start + request + depth, 0)
    q_site, q_place = place_of(q, start + depth, 0)
    if q.KIND == CERTAIN:
        q_place = token
    at = request + depth * 0
    p_soft = softmax_of(p, drafts, stats, 0, at, at, depth, p_site, here, PIECES)
    q_soft = softmax_of(q, drafts, stats, 1, at, at, depth, q_site, inside, PIECES)
    x = chance(p, p_soft, p_place, token, inside, drafts.HEATED)
    y = chance(q, q_soft, q_place, token, inside, drafts.HEATED)
    # It is rounded as IEEE 754 says, so that it is 1 where p = q; `/` of float32 may be off there.
    over = tl.where(y > 0, y, 1.0)
    ratio = x / over if x.dtype == tl.float64 else tl.div_rn(x, over)
    # The largest float32 stands for infinity: times 0 it is 0.
    most = 3.4028234663852886e38
    ratio = tl.where(y > 0, tl.minimum(ratio, most), tl.where(x > 0, most, 0.0))
    return Chain(depth, token, length, ratio, p_place, q_place, p_soft, q_soft)


@triton.jit
def leave_open(open_rows, drafts, path, request, real, a, coin):
    """Write which rows of a `Chain` are open, by their `a` [BLOCK_B, D], and their coins."""
    count = drafts.requests * open_rows.rows
    inside = real[:, None] & (path.depth < open_rows.rows)
    slot = request[:, None] * open_rows.rows + path.depth
    is_drafted = path.depth < path.length[:, None]
    tl.store(open_rows.a + slot, a, mask=inside)
    tl.store(open_rows.coin + slot, coin, mask=inside)
    tl.store(open_rows.place + slot, path.p_place, mask=inside)
    tl.store(open_rows.place + count + slot, tl.where(is_drafted, path.q_place, -1), mask=inside)
    for i in tl.static_range(5):
        tl.store(open_rows.soft + i * count + slot, path.p_soft[i], mask=inside)
        tl.store(open_rows.soft + (5 + i) * count + slot, path.q_soft[i], mask=inside)


@triton.jit
def opened(open_rows, drafts, slot, active):
    """Return an open row of each request: its `a`, and the places and softmax of both models."""
    count = drafts.requests * open_rows.rows
    a = tl.load(open_rows.a + slot, mask=active, other=-1.0)
    p_place = tl.load(open_rows.place + slot, mask=active, other=0)
    q_place = tl.load(open_rows.place + count + slot, mask=active, other=-1)
    return (
        a,
        p_place,
        q_place,
        _soft(open_rows.soft, count, slot, active),
        _soft(open_rows.soft + 5 * count, count, slot, active),
    )


@triton.jit
def _soft(soft, count, slot, active):
    scale = tl.load(soft + slot, mask=active, other=1.0)[:, None]
    largest = tl.load(soft + count + slot, mask=active, other=0.0)[:, None]
    log_mass = tl.load(soft + 2 * count + slot, mask=active, other=0.0)[:, None]
    least = tl.load(soft + 3 * count + slot, mask=active, other=0.0)[:, None]
    last = tl.load(soft + 4 * count + slot, mask=active, other=0.0)[:, None]
    return Soft(scale, largest, log_mass, least, last.to(tl.int32))


@triton.jit
def owed(p, q, row, token, active, HEATED: tl.constexpr):
    """Return (a p - q)+ of tokens in an open row; of p alone where nothing of the draft's is."""
    a, p_place, q_place, p_soft, q_soft = row
    x = chance(p, p_soft, p_place[:, None], token, active[:, None], HEATED)
    y = chance(q, q_soft, q_place[:, None], token, (active & (q_place >= 0))[:, None], HEATED)
    return tl.maximum(a[:, None] * x - y, 0.0)


@triton.jit
def _masses(
    p: Source, q: Source, drafts: Drafts, open_rows: Open,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write what is owed in a piece of every row that is open."""
    slot = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    real = slot < drafts.requests * open_rows.rows
    active = tl.load(open_rows.a + slot, mask=real, other=-1.0) >= 0
    if tl.max(active.to(tl.int32)) > 0:
        row = opened(open_rows, drafts, slot, active)
        token = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
        mass = tl.sum(owed(p, q, row, token, active, drafts.HEATED), 1)
        tl.store(open_rows.sums + slot * open_rows.pieces + tl.program_id(1), mass, mask=active)


@triton.jit
def _finish(
    p: Source, q: Source, drafts: Drafts, open_rows: Open, noise: Numbers, which, emitted,
    accepted, path, sampled, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr, DEPTHS: tl.constexpr,
    PIECES: tl.constexpr,
):  # fmt: skip
    """Keep the deepest open row whose coin is low enough, draw from it, and write what is read."""
    request, real = requests_of(drafts, BLOCK_B)
    depth, piece = tl.arange(0, DEPTHS)[None, :], tl.arange(0, PIECES)[None, :]
    slot = request[:, None] * open_rows.rows + depth
    inside = real[:, None] & (depth < open_rows.rows)
    a = tl.load(open_rows.a + slot, mask=inside, other=-1.0)
    coin = tl.load(open_rows.coin + slot, mask=inside, other=2.0)
    here = (a >= 0)[:, :, None] & (piece < open_rows.pieces)[:, None, :]
    where = slot[:, :, None] * open_rows.pieces + piece[:, None, :]
    mass = tl.sum(tl.load(open_rows.sums + where, mask=here, other=0.0), 2)
    against = mass + (1 - a)
    passing = tl.where(against > 0, mass / tl.where(against > 0, against, 1.0), 1.0)
    kept = tl.max(tl.where((a >= 0) & (coin < passing), depth, 0), 1).to(tl.int64)

    mark = numbers(noise, request, real, which, request * 0 + _MARK)
    slot = request * open_rows.rows + kept
    where = open_rows.sums + slot[:, None] * open_rows.pieces + piece
    own = tl.load(where, mask=real[:, None] & (piece < open_rows.pieces), other=0.0)
    running = tl.cumsum(own.to(tl.float64), 1)
    before, total = running - own, tl.sum(own.to(tl.float64), 1)
    here = mark * total
    # A piece without weight is never drawn from, nor one behind the last that has some.
    chosen = tl.max(tl.where((own > 0) & (before <= here[:, None]), piece, 0), 1)
    here -= tl.sum(tl.where(piece == chosen[:, None], before, 0.0), 1)
    row = opened(open_rows, drafts, slot, real)
    token = _drawn(p, q, drafts, row, here, chosen, real, BLOCK_V)
    is_void = real & (total == 0)
    if tl.max(is_void.to(tl.int32)) > 0:
        # Target and draft differ by rounding alone: there is no residual, and p is drawn from.
        again = _of_target(p, q, drafts, row, mark, open_rows.pieces, is_void, BLOCK_V)
        token = tl.where(is_void, again, token)

    start, given = span(drafts, request, real)
    tokens = drafted(drafts, start[:, None], given[:, None], 0, depth)
    tokens = tl.where(depth == kept[:, None], token[:, None], tokens)
    tokens = tl.where(depth <= kept[:, None], tokens, -1).to(tl.int32)
    place = request[:, None] * (drafts.longest + 1) + depth
    tl.store(emitted + place, tokens, mask=real[:, None] & (depth <= drafts.longest))
    tl.store(accepted + request, kept, mask=real)
    tl.store(path + request, kept * 0, mask=real)
    tl.store(sampled + request, (kept + 1).to(tl.int32), mask=real)


@triton.jit
def _of_target(p, q, drafts, row, mark, pieces, active, BLOCK_V: tl.constexpr):
    """Return the token at a mark [BLOCK_B] of the target's own row."""
    one, nothing = row[0] * 0 + 1, row[2] * 0 - 1
    whole = one, row[1], nothing, row[3], row[4]
    total, piece = row[0] * 0, (row[1] * 0).to(tl.int32)
    for at in range(pieces):
        total += _mass(p, q, drafts, whole, piece + at, active, BLOCK_V)
    here = total * mark.to(total.dtype)
    before, begin = total * 0, total * 0
    for at in range(pieces):
        own = _mass(p, q, drafts, whole, piece * 0 + at, active, BLOCK_V)
        is_next = (own > 0) & (before <= here)
        piece, begin = tl.where(is_next, at, piece), tl.where(is_next, before, begin)
        before += own
    return _drawn(p, q, drafts, whole, (here - begin).to(tl.float64), piece, active, BLOCK_V)


@triton.jit
def _mass(p, q, drafts, row, piece, active, BLOCK_V: tl.constexpr):
    token = piece[:, None] * BLOCK_V + tl.arange(0, BLOCK_V)[None, :]
    return tl.sum(owed(p, q, row, token, active, drafts.HEATED), 1)


@triton.jit
def _drawn(p, q, drafts, row, here, piece, active, BLOCK_V: tl.constexpr):
    """Return the token at which the running sum of what a piece owes rises above `here` [BLOCK_B].

    It runs in float64. Where, as rounding has it, it never gets there, it is the last token that
    has any weight.
    """
    token = piece[:, None] * BLOCK_V + tl.arange(0, BLOCK_V)[None, :]
    weights = owed(p, q, row, token, active, drafts.HEATED)
    is_above = tl.cumsum(weights.to(tl.float64), 1) > here[:, None]
    last = tl.max(tl.where(weights > 0, token, -1), 1)
    return tl.minimum(tl.min(tl.where(is_above, token, drafts.vocabulary), 1), last)


def verified(decide: Any, flat: Flat) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what B requests emit [B, L+1] int32, and of each what is accepted, path and count.

    `decide` is a kernel that says which rows are open, which is all that an algorithm adds.
    """
    requests, longest, vocabulary = len(flat.ends), flat.longest, flat.vocabulary
    paths, device = flat.tokens.shape[1], flat.tokens.device
    slots, depths = requests * (longest + 1), _power_of_two(longest + 1)
    tile = _tile(vocabulary)
    pieces, blocks = -(-vocabulary // tile), partial(_blocks, tile=tile)

    def room(*shape: int, dtype: torch.dtype = flat.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    largest, total = room(2, 2, slots * paths, pieces).unbind()
    first = room(2, slots * paths, pieces, dtype=torch.int32)
    stats = Stats(largest, first, total, pieces)
    a, coin = room(slots), room(slots, dtype=torch.float64)
    place, soft = room(2, slots, dtype=torch.int64), room(2, 5, slots)
    left = Open(a, coin, place, soft, room(slots, pieces), longest + 1, pieces)
    emitted, sampled = (room(requests, width, dtype=torch.int32) for width in (longest + 1, 1))
    accepted, path = room(2, requests, dtype=torch.int64).unbind()

    p, q, drafts, noise = (
        _source(flat.p, flat),
        _source(flat.q, flat),
        _drafts(flat),
        _numbers(flat),
    )
    which = 0 if flat.noise is None else flat.noise.shape[1] - 1
    shape = depths, _power_of_two(pieces)
    if LOGITS.value in (p.KIND.value, q.KIND.value):
        grid, own = blocks(slots * paths)
        _stats[grid, pieces, 2](p, q, drafts, stats, own, tile)
    grid, own = _blocks(requests, tile=shape[0] * shape[1])
    warps = min(max(shape[0] * shape[1] // 512, 1), 8)
    decide[(grid,)](p, q, drafts, stats, left, noise, own, *shape, num_warps=warps)
    grid, own = blocks(slots)
    _masses[grid, pieces](p, q, drafts, left, own, tile)
    grid, own = blocks(requests)
    told = emitted, accepted, path, sampled
    _finish[(grid,)](p, q, drafts, left, noise, which, *told, own, tile, *shape)
    return emitted, accepted, path, sampled[:, 0]


def _tile(vocabulary: int) -> int:
    """Return how many tokens a program has: a row is 64 pieces at most."""
    least = 2**16 if IS_INTERPRETED else 4096
    size = min(max(_power_of_two(vocabulary), 16), least)
    return max(size, _power_of_two(-(-vocabulary // 64)))


def _power_of_two(least: int) -> int:
    return 1 << (max(least, 1) - 1).bit_length()


def _blocks(count: int, *, tile: int) -> tuple[int, int]:
    """Return the programs of so many requests or rows, and how many each of them has.

    An interpreted operator costs the same for few numbers as for many, and a size that was met
    before costs less than a new one: there are few.
    """
    most, times = (2**20, 3) if IS_INTERPRETED else (4096, 1)
    doublings = -(-(max(count, 1) - 1).bit_length() // times) * times
    own = max(min(2**doublings, most // tile), 1)
    return -(-count // own), own


def _source(rows: Lying | None, flat: Flat) -> Source:
    """Return rows as kernels read them; those of a draft that is certain are none."""
    none, no = flat.ends, tl.constexpr(False)
    if rows is None:
        shape = 0, 0, flat.vocabulary, 1, 1, 0
        return Source(none, *shape, none, none, none, tl.constexpr(1), CERTAIN, no, no)
    soft, width = rows.softmax, rows.values.shape[1]
    stride, step = rows.values.stride()
    return Source(
        entry=rows.values,
        stride=stride,
        step=step,
        width=width,
        positions=rows.positions,
        by_position=rows.by_position,
        by_draft=rows.by_draft,
        index=none if rows.index is None else rows.index,
        least=none if soft is None or soft.least is None else soft.least,
        last=none if soft is None or soft.last is None else soft.last,
        STEP=tl.constexpr(1 if step == 1 or width == 1 else 0),
        KIND=PROBABILITIES if soft is None else LOGITS,
        INDEXED=tl.constexpr(rows.index is not None),
        CUT=tl.constexpr(soft is not None and soft.least is not None),
    )


def _drafts(flat: Flat) -> Drafts:
    by_position, by_draft = flat.tokens.stride()
    return Drafts(
        tokens=flat.tokens,
        by_position=by_position,
        by_draft=by_draft,
        count=flat.tokens.shape[0],
        ends=flat.ends,
        step=flat.ends.stride(0),
        requests=len(flat.ends),
        drafts=flat.tokens.shape[1],
        longest=flat.longest,
        vocabulary=flat.vocabulary,
        temperature=flat.ends if flat.temperature is None else flat.temperature.contiguous(),
        HEATED=tl.constexpr(flat.temperature is not None),
    )


def _numbers(flat: Flat) -> Numbers:
    noise, seeds, positions = flat.noise, flat.seeds, flat.positions
    if seeds is not None and positions is not None:
        counted = tl.constexpr(True)
        return Numbers(flat.ends, 0, seeds.contiguous(), positions.contiguous(), counted)
    return Numbers(noise, 0 if noise is None else noise.shape[1], noise, noise, tl.constexpr(False))
