"""Multi-path block verification as Triton kernels: sweeps by rank or by token, sorted by torch.

What is computed is in `fast.mixture`. Ranking is a sort of whole rows, and no kernel sorts what it
does not hold: `torch.sort` does it, once for every position, and for a mixture once more, by where
slopes fall. All else is kernels: six at every position, two more for a mixture, and two at the end.
What one position leaves to the next is written beside what it had, for threads that still read.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Batch, Rows
from draftproof.adapters.fast.kernels.launch import model, tiles
from draftproof.adapters.fast.kernels.rows import (
    Position,
    batch_of,
    drawn,
    excess,
    opened,
    piece_at,
    position,
    probability,
)
from draftproof.adapters.fast.mixture import precise
from draftproof.conformance.adapter import Result

_WARPS = 8
"""Of a program, whose tile is of float64: twice as many registers as of float32."""


class State(NamedTuple):
    """What is known of every request at a position: what `fast.mixture` calls so.

    `shares` has a bit for every path that shares the prefix.
    """

    path: tl.tensor
    shares: tl.tensor
    alive: tl.tensor
    weight: tl.tensor
    share: tl.tensor


class KernelRanking(NamedTuple):
    """The ranking [B, V] of one position's rows, and the whole sum [B] of q there."""

    ratio: tl.tensor
    below: tl.tensor
    total: tl.tensor


def multipath_block(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.mixture.multipath_block` does."""
    return verified(batch, noise, is_mixed=False)


def mixed_multipath_block(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.mixture.mixed_multipath_block` does."""
    return verified(batch, noise, is_mixed=True)


def verified(batch: Batch, noise: Tensor, *, is_mixed: bool) -> Result:
    """Verify as `fast.mixture.verified` does.

    `noise` [B, W]: a coin for each prefix, before it a number that selects where it `is_mixed`;
    and the mark.
    """
    rows, vocabulary = len(batch.lengths), batch.vocabulary
    cut, device, drafts = tiles(rows, vocabulary), noise.device, batch.drafts
    p, q, kept = model(batch.p, vocabulary), model(batch.q, vocabulary), batch.room[2]
    ratio = torch.empty(rows, vocabulary, dtype=precise(batch), device=device)
    below, falls, meeting = torch.empty(3, *ratio.shape, dtype=torch.float64, device=device)
    sums, left, slopes, all_falls = torch.empty(
        4, rows, cut.pieces, dtype=torch.float64, device=device
    )
    ranking = ratio, below, torch.empty(rows, dtype=torch.float64, device=device)
    old, new = _start(batch), _start(batch)
    accepted, next_tokens = torch.zeros_like(batch.lengths), torch.zeros_like(batch.lengths)
    grid, blocks = (cut.programs, cut.pieces), (cut.requests, cut.tokens)
    for i in range(batch.length):
        place = p, q, batch.lengths, i, rows, vocabulary, drafts
        here = *place, cut.size
        _rate[grid](*here, old, ratio, *blocks, num_warps=_WARPS)
        order = ratio.sort(stable=True).indices
        _weigh[grid](*here, old, order, sums, *blocks, num_warps=_WARPS)
        _place[grid](*here, old, order, sums, *ranking[1:], *blocks, num_warps=_WARPS)
        if is_mixed:
            slope = slopes, all_falls
            _meet[grid](*here, old, ranking, meeting, falls, *slope, *blocks, num_warps=_WARPS)
            met, order = meeting.sort()
            found = rows, vocabulary, cut.pieces, met, falls, order, *slope, old[4]
            _choose[(cut.programs,)](batch.lengths, i, *found, *blocks)
        _owe[grid](*here, old, ranking, sums, *blocks, num_warps=_WARPS)
        coins = noise, is_mixed, cut.pieces
        _keep[grid](*here, old, ranking, sums, *coins, kept, left, *blocks, num_warps=_WARPS)
        moved = old, new, ranking, sums, *coins, batch.tokens, accepted
        _step[(cut.programs,)](*place, *moved, cut.requests)
        old, new = new, old
    at = torch.arange(rows, device=device).view(-1, 1, 1)
    end = p, q, batch.lengths, accepted, old[0], rows, vocabulary, drafts, cut.size
    _finish[grid](*end, kept, left, sums, cut.pieces, *blocks)
    mark = noise[:, -1].contiguous()
    left_over = model(Rows(kept, at)), mark, sums, rows, vocabulary, cut.pieces, cut.size
    _draw[(cut.programs,)](*left_over, next_tokens, *blocks)
    return Result(accepted, old[0], next_tokens)


def _start(batch: Batch) -> tuple[Tensor, ...]:
    """Return the fields of a `State` before anything is drafted."""
    path = batch.any_path()
    alive = torch.zeros(len(path), batch.drafts, dtype=torch.float64, device=path.device)
    alive[:, -1] = 1
    one = torch.ones_like(path, dtype=torch.float64)
    return path, torch.full_like(path, 2**batch.drafts - 1), alive, one, one.clone()


@triton.jit
def place_of(p, q, lengths, i, requests, vocabulary, drafts, path, BLOCK_B: tl.constexpr):
    """Return the requests [BLOCK_B] of this program, and the position at depth i of their path."""
    p, q, request, real, length = batch_of(p, q, lengths, requests, vocabulary, BLOCK_B)
    own = tl.load(path + request, mask=real, other=0)
    return request, position(p, q, request * drafts + own, request * 0 + i, i < length)


@triton.jit
def _rate(
    p, q, lengths, i, requests, vocabulary, drafts, size, state, ratio,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write p / q in one piece of the rows at depth i."""
    request, at = place_of(p, q, lengths, i, requests, vocabulary, drafts, state[0], BLOCK_B)
    first = tl.program_id(1) * size
    for start in range(first, tl.minimum(first + size, vocabulary), BLOCK_V):
        token = (start + tl.arange(0, BLOCK_V))[None, :]
        inside = (token < vocabulary) & at.active[:, None]
        x = probability(at.p, at.p_row[:, None], token, inside).to(tl.float64)
        y = probability(at.q, at.q_row[:, None], token, inside).to(tl.float64)
        x = tl.where(y > 0, x / tl.where(y > 0, y, 1.0), tl.where(x > 0, float("inf"), 0.0))
        tl.store(ratio + request[:, None] * vocabulary + token, x, mask=inside)


@triton.jit
def _weigh(
    p, q, lengths, i, requests, vocabulary, drafts, size, state, order, sums,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write what q gives to one piece of the tokens by rank."""
    request, at = place_of(p, q, lengths, i, requests, vocabulary, drafts, state[0], BLOCK_B)
    first = tl.program_id(1) * size
    total = tl.full([BLOCK_B], 0.0, tl.float64)
    for start in range(first, tl.minimum(first + size, vocabulary), BLOCK_V):
        rank = (start + tl.arange(0, BLOCK_V))[None, :]
        inside = (rank < vocabulary) & at.active[:, None]
        token = tl.load(order + request[:, None] * vocabulary + rank, mask=inside, other=0)
        total += tl.sum(probability(at.q, at.q_row[:, None], token, inside).to(tl.float64), 1)
    place = request * tl.num_programs(1) + tl.program_id(1)
    tl.store(sums + place, total, mask=at.active)


@triton.jit
def _place(
    p, q, lengths, i, requests, vocabulary, drafts, size, state, order, sums, below, totals,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write, for every token of one piece by rank, what q gives to the lower-ranked ones."""
    request, at = place_of(p, q, lengths, i, requests, vocabulary, drafts, state[0], BLOCK_B)
    before, total = tl.full([BLOCK_B], 0.0, tl.float64), tl.full([BLOCK_B], 0.0, tl.float64)
    own, pieces = tl.program_id(1), tl.num_programs(1)
    for piece in range(pieces):
        mass = tl.load(sums + request * pieces + piece, mask=at.active, other=1.0)
        before += tl.where(piece < own, mass, 0.0)
        total += mass
    for start in range(own * size, tl.minimum(own * size + size, vocabulary), BLOCK_V):
        rank = (start + tl.arange(0, BLOCK_V))[None, :]
        inside = (rank < vocabulary) & at.active[:, None]
        token = tl.load(order + request[:, None] * vocabulary + rank, mask=inside, other=0)
        mass = probability(at.q, at.q_row[:, None], token, inside).to(tl.float64)
        lower = tl.maximum(tl.cumsum(mass, 1) - mass, 0.0) + before[:, None]
        here = below + request[:, None] * vocabulary + token
        tl.store(here, lower / total[:, None], mask=inside)
        before += tl.sum(mass, 1)
    if own == 0:
        tl.store(totals + request, total, mask=at.active)


@triton.jit
def tilt_of(state, ranking, drafts, request, token, q, inside):
    """Return the tilt H of the highest-ranked path's law at tokens whose q are given."""
    total = tl.load(ranking.total + request, mask=inside, other=1.0)
    below = tl.load(ranking.below + token, mask=inside, other=0.0)
    upto = below + q / total
    alive = state.alive + request * drafts
    lower = below * 0 + tl.load(alive + drafts - 1, mask=inside, other=0.0)
    tilt = lower
    for n in range(1, drafts):
        lower = lower * below + tl.load(alive + drafts - 1 - n, mask=inside, other=0.0)
        tilt = tilt * upto + lower
    return tilt


@triton.jit
def _meet(
    p, q, lengths, i, requests, vocabulary, drafts, size, state, ranking, meeting, falls, slopes,
    all_falls, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write where the slope of what is kept falls, by how much, and both sums over one piece."""
    state = State(state[0], state[1], state[2], state[3], state[4])
    ranking = KernelRanking(ranking[0], ranking[1], ranking[2])
    request, at = place_of(p, q, lengths, i, requests, vocabulary, drafts, state.path, BLOCK_B)
    weight = tl.load(state.weight + request, mask=at.active, other=0.0)[:, None]
    slope, fallen = tl.full([BLOCK_B], 0.0, tl.float64), tl.full([BLOCK_B], 0.0, tl.float64)
    first = tl.program_id(1) * size
    for start in range(first, tl.minimum(first + size, vocabulary), BLOCK_V):
        token = (start + tl.arange(0, BLOCK_V))[None, :]
        inside = (token < vocabulary) & at.active[:, None]
        here = request[:, None] * vocabulary + token
        mass = probability(at.q, at.q_row[:, None], token, inside).to(tl.float64)
        tilt = tilt_of(state, ranking, drafts, request[:, None], here, mass, inside)
        ratio = tl.load(ranking.ratio + here, mask=inside, other=0.0).to(tl.float64)
        gain = weight * tl.minimum(ratio, 3.4028234663852886e38) - 1
        more = tilt - 1
        where = gain / tl.where(more == 0, 1.0, more)
        where = tl.minimum(tl.maximum(where, 0.0), 1.0)
        is_rising = (more > 0) & (gain > 0)
        fall = tl.where((more > 0) & (gain <= 0), 0.0, mass * tl.abs(more))
        fall = tl.where(inside, fall, 0.0)
        tl.store(meeting + here, where, mask=inside)
        tl.store(falls + here, fall, mask=inside)
        slope += tl.sum(tl.where(is_rising, fall, 0.0), 1)
        fallen += tl.sum(fall, 1)
    place = request * tl.num_programs(1) + tl.program_id(1)
    tl.store(slopes + place, slope, mask=at.active)
    tl.store(all_falls + place, fallen, mask=at.active)


@triton.jit
def _choose(
    lengths, i, requests, vocabulary, pieces, meeting, falls, order, slopes, all_falls, share,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the share at which the slope of what is kept is not positive any more."""
    request = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    active = i < tl.load(lengths + request, mask=request < requests, other=-1)
    wanted, fallen = tl.full([BLOCK_B], 0.0, tl.float64), tl.full([BLOCK_B], 0.0, tl.float64)
    for piece in range(pieces):
        place = request * pieces + piece
        wanted += tl.load(slopes + place, mask=active, other=0.0)
        fallen += tl.load(all_falls + place, mask=active, other=0.0)
    wanted -= vocabulary * 2.220446049250313e-16 * fallen
    found = tl.full([BLOCK_B], 0.0, tl.float64)
    searching, before = active & (wanted > 0), tl.full([BLOCK_B], 0.0, tl.float64)
    for start in range(0, vocabulary, BLOCK_V):
        rank = (start + tl.arange(0, BLOCK_V))[None, :]
        inside = (rank < vocabulary) & searching[:, None]
        here = request[:, None] * vocabulary + rank
        token = tl.load(order + here, mask=inside, other=0)
        fall = tl.load(falls + request[:, None] * vocabulary + token, mask=inside, other=0.0)
        where = tl.load(meeting + here, mask=inside, other=0.0)
        is_short = before[:, None] + tl.cumsum(fall, 1) < wanted[:, None]
        # The first meeting that is not short of it is the smallest, or the largest of all is.
        least = tl.min(tl.where(inside & ~is_short, where, 2.0), 1)
        most = tl.max(where, 1)
        found = tl.where(searching, tl.where(least < 2, least, most), found)
        searching &= least == 2
        before += tl.sum(fall, 1)
    tl.store(share + request, found, mask=active)


@triton.jit
def owed(at, state, ranking, drafts, request, token, vocabulary, inside):
    """Return (weight p - the selected path's law)+ [BLOCK_B, BLOCK_V], float64."""
    weight = tl.load(state.weight + request, mask=at.active, other=0.0)[:, None]
    share = tl.load(state.share + request, mask=at.active, other=0.0)[:, None]
    here = request[:, None] * vocabulary + token
    mass = probability(at.q, at.q_row[:, None], token, inside).to(tl.float64)
    tilt = tilt_of(state, ranking, drafts, request[:, None], here, mass, inside)
    wanted = weight * probability(at.p, at.p_row[:, None], token, inside).to(tl.float64)
    return tl.maximum(wanted - mass * (1 - share + share * tilt), 0.0)


@triton.jit
def _owe(
    p, q, lengths, i, requests, vocabulary, drafts, size, state, ranking, sums,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the mass of what is owed in one piece of the row."""
    state = State(state[0], state[1], state[2], state[3], state[4])
    ranking = KernelRanking(ranking[0], ranking[1], ranking[2])
    request, at = place_of(p, q, lengths, i, requests, vocabulary, drafts, state.path, BLOCK_B)
    first = tl.program_id(1) * size
    total = tl.full([BLOCK_B], 0.0, tl.float64)
    for start in range(first, tl.minimum(first + size, vocabulary), BLOCK_V):
        token = (start + tl.arange(0, BLOCK_V))[None, :]
        inside = (token < vocabulary) & at.active[:, None]
        total += tl.sum(owed(at, state, ranking, drafts, request, token, vocabulary, inside), 1)
    place = request * tl.num_programs(1) + tl.program_id(1)
    tl.store(sums + place, total, mask=at.active)


@triton.jit
def passing(weight, sums, noise, i, width, request, pieces, active, MIXED: tl.constexpr):
    """Return which requests [BLOCK_B] keep the prefix of i tokens, if no longer one."""
    more = tl.full([request.shape[0]], 0.0, tl.float64)
    for piece in range(pieces):
        more += tl.load(sums + request * pieces + piece, mask=active, other=0.0)
    against = more + (1 - weight)
    chance = tl.where(against > 0, more / tl.where(against > 0, against, 1.0), 1.0)
    here = noise + request * width + (2 * i - 1 if MIXED else i - 1)
    coin = tl.load(here, mask=active & (request * 0 + i > 0), other=-1.0)
    return active & (coin < chance)


@triton.jit
def _keep(
    p, q, lengths, i, requests, vocabulary, drafts, size, state, ranking, sums, noise,
    MIXED: tl.constexpr, pieces, kept, left, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Keep one piece of what is owed behind the prefix of i tokens, where its coin says so."""
    state = State(state[0], state[1], state[2], state[3], state[4])
    ranking = KernelRanking(ranking[0], ranking[1], ranking[2])
    request, at = place_of(p, q, lengths, i, requests, vocabulary, drafts, state.path, BLOCK_B)
    weight = tl.load(state.weight + request, mask=at.active, other=0.0)
    width = (2 * at.q.depths if MIXED else at.q.depths) + 1
    passes = passing(weight, sums, noise, i, width, request, pieces, at.active, MIXED)
    if tl.max(passes.to(tl.int32)) > 0:
        at = Position(at.p, at.p_row, at.q, at.q_row, passes)
        first = tl.program_id(1) * size
        total = tl.full([BLOCK_B], 0.0, tl.float64)
        for start in range(first, tl.minimum(first + size, vocabulary), BLOCK_V):
            token = (start + tl.arange(0, BLOCK_V))[None, :]
            inside = (token < vocabulary) & passes[:, None]
            own = owed(at, state, ranking, drafts, request, token, vocabulary, inside)
            own = own.to(kept.dtype.element_ty)
            tl.store(kept + request[:, None] * vocabulary + token, own, mask=inside)
            total += tl.sum(own.to(tl.float64), 1)
        tl.store(left + request * pieces + tl.program_id(1), total, mask=passes)


@triton.jit
def _step(
    p, q, lengths, i, requests, vocabulary, drafts, state, after, ranking, sums, noise,
    MIXED: tl.constexpr, pieces, tokens, accepted, BLOCK_B: tl.constexpr,
):  # fmt: skip
    """Select the token at depth i, and write the state after it, and what is accepted by then."""
    state = State(state[0], state[1], state[2], state[3], state[4])
    after = State(after[0], after[1], after[2], after[3], after[4])
    ranking = KernelRanking(ranking[0], ranking[1], ranking[2])
    request, at = place_of(p, q, lengths, i, requests, vocabulary, drafts, state.path, BLOCK_B)
    active, depths = at.active, at.q.depths
    length = tl.load(lengths + request, mask=active, other=-1)
    path = tl.load(state.path + request, mask=request < requests, other=0)
    shares = tl.load(state.shares + request, mask=active, other=1)
    weight = tl.load(state.weight + request, mask=active, other=0.0)
    share = tl.load(state.share + request, mask=active, other=1.0)
    width = (2 * depths if MIXED else depths) + 1
    passes = passing(weight, sums, noise, i, width, request, pieces, active, MIXED)
    tl.store(accepted + request, request * 0 + i, mask=passes)

    most, best = tl.full([BLOCK_B], -1.0, tl.float64), tl.full([BLOCK_B], -1, tl.int64)
    highest, count = tl.full([BLOCK_B], 0, tl.int64), tl.full([BLOCK_B], 0, tl.int64)
    drafted = tokens + request * drafts * depths + i
    for k in range(drafts):
        is_shared = (shares >> k) & 1
        token = tl.load(drafted + k * depths, mask=active, other=0)
        rank = tl.load(ranking.ratio + request * vocabulary + token, mask=active, other=0.0)
        rank = rank.to(tl.float64)
        is_higher = (is_shared > 0) & ((rank > most) | ((rank == most) & (token > best)))
        most, best = tl.where(is_higher, rank, most), tl.where(is_higher, token, best)
        highest, count = tl.where(is_higher, k, highest), count + is_shared
    following = highest
    if MIXED:
        any_of_them = (1 - share) / count
        number = tl.load(noise + request * width + 2 * i, mask=active, other=0.0)
        before = tl.full([BLOCK_B], 0.0, tl.float64)
        for k in range(drafts):
            is_shared = (shares >> k) & 1
            chance = any_of_them * is_shared + tl.where(highest == k, share, 0.0)
            # A path without a chance is never selected, whatever was rounded.
            following = tl.where((chance > 0) & (before <= number), k, following)
            before += chance
    path = tl.where(active, following, path)

    token = tl.load(drafted + following * depths, mask=active, other=0)
    left = shares * 0
    for k in range(drafts):
        other = tl.load(drafted + k * depths, mask=active, other=-1)
        left |= tl.where(other == token, (shares >> k) & 1, 0) << k
    mass = probability(at.q, at.q_row, token, active).to(tl.float64)
    here = request * vocabulary + token
    tilt = tilt_of(state, ranking, drafts, request, here, mass, active)
    mass /= tl.load(ranking.total + request, mask=active, other=1.0)
    below = tl.load(ranking.below + here, mask=active, other=0.0)
    ratio = tl.load(ranking.ratio + here, mask=active, other=0.0).to(tl.float64)
    offered = 1 - share + share * tilt
    # The largest float32 stands for infinity: times 0 it is 0.
    large = 3.4028234663852886e38
    step = tl.minimum(ratio, large) / tl.where(offered > 0, offered, 1.0)
    step = tl.where(offered > 0, step, tl.where(ratio > 0, large, 0.0))
    weight = tl.minimum(weight * step, 1.0)
    coin = tl.load(noise + request * width + (2 * i + 1 if MIXED else i), mask=active, other=1.0)
    passes = active & (i + 1 == length) & (coin < weight)
    tl.store(accepted + request, request * 0 + i + 1, mask=passes)
    tl.store(after.path + request, path, mask=request < requests)
    tl.store(after.shares + request, left, mask=active)
    tl.store(after.weight + request, weight, mask=active)

    # Divided by the law of the token, which is what they sum to; mass cancels out of both.
    is_known = (mass > 0) & (offered > 0)
    power = 1 / tl.where(is_known, offered, 1.0)
    for j in range(1, drafts + 1):
        one = tl.full([BLOCK_B], 1.0, tl.float64)
        ways, ways_of_any, lower, others, own = one, one, one, one, one * 0
        for n in range(j, drafts + 1):
            alive = tl.load(state.alive + request * drafts + n - 1, mask=active, other=0.0)
            own += alive * (share * ways * lower + (1 - share) * ways_of_any * others)
            ways = ways * (n + 1) / (n + 1 - j)
            ways_of_any = ways_of_any * n / (n + 1 - j)
            lower, others = lower * below, others * (1 - mass)
        own = tl.where(is_known, own * power, tl.where(j == 1, one, 0.0))
        tl.store(after.alive + request * drafts + j - 1, own, mask=active)
        power = power * mass


@triton.jit
def _finish(
    p, q, lengths, accepted, path, requests, vocabulary, drafts, size, kept, left, sums, pieces,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Put one piece of p where all was accepted, and where nothing is left; write its mass."""
    p, q, request, active, length = batch_of(p, q, lengths, requests, vocabulary, BLOCK_B)
    best, piece = tl.load(accepted + request, mask=active, other=0), tl.program_id(1)
    is_full = best == length
    whole = tl.full([BLOCK_B], 0.0, tl.float64)
    for other in range(pieces):
        whole += tl.load(left + request * pieces + other, mask=active & ~is_full, other=0.0)
    total = tl.load(left + request * pieces + piece, mask=active & ~is_full, other=0.0)
    is_whole = active & (whole == 0)
    if tl.max(is_whole.to(tl.int32)) > 0:
        own = tl.load(path + request, mask=active, other=0)
        at = position(p, q, request * drafts + own, best, is_whole)
        first = piece * size
        for start in range(first, tl.minimum(first + size, vocabulary), BLOCK_V):
            token = (start + tl.arange(0, BLOCK_V))[None, :]
            inside = (token < vocabulary) & is_whole[:, None]
            x = probability(at.p, at.p_row[:, None], token, inside)
            tl.store(kept + request[:, None] * vocabulary + token, x, mask=inside)
            total += tl.sum(x.to(tl.float64), 1)
    tl.store(sums + request * pieces + piece, total, mask=active)


@triton.jit
def _draw(
    kept, marks, sums, requests, vocabulary, pieces, size, next_tokens,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Draw from what was kept, whose pieces have these masses."""
    kept = opened(kept, vocabulary)
    request = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    active = request < requests
    mark = tl.load(marks + request, mask=active, other=0.0)
    chosen, here, _ = piece_at(mark, sums + request * pieces, pieces, active)
    at = Position(kept, request, kept, request, active)
    one = tl.full([BLOCK_B], 1.0, kept.soft.dtype.element_ty)
    first, of = chosen * size, (at, one, one * 0)
    token = drawn(excess, of, here, first, size, vocabulary, active, BLOCK_V)
    tl.store(next_tokens + request, token, mask=active)
