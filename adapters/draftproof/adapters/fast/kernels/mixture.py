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

from draftproof.adapters.fast.inputs import Flat
from draftproof.adapters.fast.kernels.launch import blocks, power_of_two
from draftproof.adapters.fast.kernels.pipeline import tell
from draftproof.adapters.fast.kernels.rows import among, p_tile, q_of, q_tile
from draftproof.adapters.fast.kernels.sources import (
    Drafts,
    Numbers,
    Source,
    mark_of,
    numbers,
    requests_of,
)
from draftproof.adapters.fast.kernels.walking import (
    Walk,
    position,
    prepared,
    token_of,
    walked,
)

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


def multipath_block(flat: Flat) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.mixture.multipath_block` does."""
    return verified(flat, is_mixed=False)


def mixed_multipath_block(flat: Flat) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.mixture.mixed_multipath_block` does."""
    return verified(flat, is_mixed=True)


def verified(flat: Flat, *, is_mixed: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.mixture.verified` does."""
    walk, told, longest = prepared(flat), flat.told(), flat.longest
    rows, vocabulary = len(flat.ends), flat.vocabulary
    tile, pieces = walk.given.tile, walk.given.pieces
    double = torch.float64
    ratio = flat.room(rows, vocabulary, dtype=_precise(flat))
    below, falls, meeting = flat.room(3, rows, vocabulary, dtype=double).unbind()
    kept = flat.room(rows, vocabulary)
    sums, left, slopes, all_falls = flat.room(4, rows, pieces, dtype=double).unbind()
    ranking = ratio, below, flat.room(rows, dtype=double)
    old, new = _start(flat), _start(flat)
    accepted = torch.zeros(rows, dtype=torch.int64, device=flat.tokens.device)
    grid, own = blocks(rows, tile)
    whole, shape = (grid, pieces), (own, tile)
    given = walk.given.p, walk.given.q, walk.given.drafts, walk.walk
    for i in range(longest):
        here = *given, i
        _rate[whole](*here, old, ratio, *shape, num_warps=_WARPS)
        order = ratio.sort(stable=True).indices
        _weigh[whole](*here, old, order, sums, *shape, num_warps=_WARPS)
        _place[whole](*here, old, order, sums, *ranking[1:], *shape, num_warps=_WARPS)
        if is_mixed:
            slope = slopes, all_falls
            _meet[whole](*here, old, ranking, meeting, falls, *slope, *shape, num_warps=_WARPS)
            met, order = meeting.sort()
            found = pieces, met, falls, order, *slope, old[4]
            _choose[(grid,)](walk.given.drafts, walk.walk, i, *found, *shape)
        _owe[whole](*here, old, ranking, sums, *shape, num_warps=_WARPS)
        coins = walk.given.noise, is_mixed, pieces
        _keep[whole](*here, old, ranking, sums, *coins, kept, left, *shape, num_warps=_WARPS)
        _step[(grid,)](*here, old, new, ranking, sums, *coins, accepted, own)
        old, new = new, old
    _finish[whole](*given, accepted, old[0], kept, left, sums, pieces, *shape)
    drawn_from = accepted, old[0], kept, sums, pieces, walk.given.noise, walk.given.mark, told
    few = power_of_two(pieces), power_of_two(longest + 1)
    _draw[(grid,)](walk.given.drafts, *drawn_from, *shape, *few)
    return told


def _precise(flat: Flat) -> torch.dtype:
    """Return the dtype of ratios, as `fast.mixture.precise` does."""
    models = [rows for rows in (flat.p, flat.q) if rows is not None]
    is_given = all(rows.softmax is None for rows in models)
    is_wide = any(rows.values.element_size() > 2 for rows in models)
    is_double = flat.dtype == torch.float64 or (is_given and is_wide)
    return torch.float64 if is_double else torch.float32


def _start(flat: Flat) -> tuple[Tensor, ...]:
    """Return the fields of a `State` before anything is drafted."""
    rows, drafts = len(flat.ends), flat.tokens.shape[1]
    path = torch.zeros(rows, dtype=torch.int64, device=flat.tokens.device)
    alive = torch.zeros(rows, drafts, dtype=torch.float64, device=path.device)
    alive[:, -1] = 1
    one = torch.ones_like(path, dtype=torch.float64)
    return path, torch.full_like(path, 2**drafts - 1), alive, one, one.clone()


@triton.jit
def here_of(p, q, drafts, walk, i, path, BLOCK_B: tl.constexpr):
    """Return the requests [BLOCK_B] of this program, and the position at depth i of their path."""
    request = walked(drafts, walk, BLOCK_B)
    own = tl.load(path + request.number, mask=request.real, other=0)
    depth, active = own * 0 + i, request.real & (i < request.length)
    return request.number, position(p, q, drafts, walk, request, own, depth, active)


@triton.jit
def _rate(
    p: Source, q: Source, drafts: Drafts, walk: Walk, i, state, ratio,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write p / q in one piece of the rows at depth i."""
    request, at = here_of(p, q, drafts, walk, i, state[0], BLOCK_B)
    token = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
    inside = (token < drafts.vocabulary) & at.active[:, None]
    x = p_tile(p, at, token, at.active).to(tl.float64)
    y = q_tile(q, at, token, at.active).to(tl.float64)
    x = tl.where(y > 0, x / tl.where(y > 0, y, 1.0), tl.where(x > 0, float("inf"), 0.0))
    tl.store(ratio + request[:, None] * drafts.vocabulary + token, x, mask=inside)


@triton.jit
def _weigh(
    p: Source, q: Source, drafts: Drafts, walk: Walk, i, state, order, sums,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write what q gives to one piece of the tokens by rank."""
    request, at = here_of(p, q, drafts, walk, i, state[0], BLOCK_B)
    total = tl.full([BLOCK_B], 0.0, tl.float64)
    rank = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
    inside = (rank < drafts.vocabulary) & at.active[:, None]
    token = tl.load(order + request[:, None] * drafts.vocabulary + rank, mask=inside, other=0)
    total += tl.sum(tl.where(inside, q_tile(q, at, token, at.active), 0.0).to(tl.float64), 1)
    place = request * tl.num_programs(1) + tl.program_id(1)
    tl.store(sums + place, total, mask=at.active)


@triton.jit
def _place(
    p: Source, q: Source, drafts: Drafts, walk: Walk, i, state, order, sums, below, totals,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write, for every token of one piece by rank, what q gives to the lower-ranked ones."""
    request, at = here_of(p, q, drafts, walk, i, state[0], BLOCK_B)
    before, total = tl.full([BLOCK_B], 0.0, tl.float64), tl.full([BLOCK_B], 0.0, tl.float64)
    own, pieces = tl.program_id(1), tl.num_programs(1)
    for piece in range(pieces):
        mass = tl.load(sums + request * pieces + piece, mask=at.active, other=1.0)
        before += tl.where(piece < own, mass, 0.0)
        total += mass
    rank = (own * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
    inside = (rank < drafts.vocabulary) & at.active[:, None]
    token = tl.load(order + request[:, None] * drafts.vocabulary + rank, mask=inside, other=0)
    mass = tl.where(inside, q_tile(q, at, token, at.active), 0.0).to(tl.float64)
    lower = tl.maximum(tl.cumsum(mass, 1) - mass, 0.0) + before[:, None]
    here = below + request[:, None] * drafts.vocabulary + token
    tl.store(here, lower / total[:, None], mask=inside)
    before += tl.sum(mass, 1)
    if own == 0:
        tl.store(totals + request, total, mask=at.active)


@triton.jit
def tilt_of(drafts, state, ranking, request, token, mass, inside):
    """Return the tilt H of the highest-ranked path's law at tokens whose q are given."""
    total = tl.load(ranking.total + request, mask=inside, other=1.0)
    below = tl.load(ranking.below + token, mask=inside, other=0.0)
    upto = below + mass / total
    alive = state.alive + request * drafts.drafts
    lower = below * 0 + tl.load(alive + drafts.drafts - 1, mask=inside, other=0.0)
    tilt = lower
    for n in range(1, drafts.drafts):
        lower = lower * below + tl.load(alive + drafts.drafts - 1 - n, mask=inside, other=0.0)
        tilt = tilt * upto + lower
    return tilt


@triton.jit
def _meet(
    p: Source, q: Source, drafts: Drafts, walk: Walk, i, state, ranking, meeting, falls, slopes,
    all_falls, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write where the slope of what is kept falls, by how much, and both sums over one piece."""
    state = State(state[0], state[1], state[2], state[3], state[4])
    ranking = KernelRanking(ranking[0], ranking[1], ranking[2])
    request, at = here_of(p, q, drafts, walk, i, state.path, BLOCK_B)
    weight = tl.load(state.weight + request, mask=at.active, other=0.0)[:, None]
    slope, fallen = tl.full([BLOCK_B], 0.0, tl.float64), tl.full([BLOCK_B], 0.0, tl.float64)
    token = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
    inside = (token < drafts.vocabulary) & at.active[:, None]
    here = request[:, None] * drafts.vocabulary + token
    mass = q_tile(q, at, token, at.active).to(tl.float64)
    tilt = tilt_of(drafts, state, ranking, request[:, None], here, mass, inside)
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
    drafts: Drafts, walk: Walk, i, pieces, meeting, falls, order, slopes, all_falls, share,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the share at which the slope of what is kept is not positive any more."""
    request, real = requests_of(drafts, BLOCK_B)
    active = i < tl.load(walk.lengths + request, mask=real, other=-1)
    wanted, fallen = tl.full([BLOCK_B], 0.0, tl.float64), tl.full([BLOCK_B], 0.0, tl.float64)
    for piece in range(pieces):
        place = request * pieces + piece
        wanted += tl.load(slopes + place, mask=active, other=0.0)
        fallen += tl.load(all_falls + place, mask=active, other=0.0)
    wanted -= drafts.vocabulary * 2.220446049250313e-16 * fallen
    found = tl.full([BLOCK_B], 0.0, tl.float64)
    searching, before = active & (wanted > 0), tl.full([BLOCK_B], 0.0, tl.float64)
    for start in range(0, drafts.vocabulary, BLOCK_V):
        rank = (start + tl.arange(0, BLOCK_V))[None, :]
        inside = (rank < drafts.vocabulary) & searching[:, None]
        here = request[:, None] * drafts.vocabulary + rank
        token = tl.load(order + here, mask=inside, other=0)
        fall = tl.load(falls + request[:, None] * drafts.vocabulary + token, mask=inside, other=0.0)
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
def owed(p, q, drafts, at, state, ranking, request, token, inside):
    """Return (weight p - the selected path's law)+ [BLOCK_B, BLOCK_V], float64."""
    weight = tl.load(state.weight + request, mask=at.active, other=0.0)[:, None]
    share = tl.load(state.share + request, mask=at.active, other=0.0)[:, None]
    here = request[:, None] * drafts.vocabulary + token
    mass = q_tile(q, at, token, at.active).to(tl.float64)
    tilt = tilt_of(drafts, state, ranking, request[:, None], here, mass, inside)
    wanted = weight * p_tile(p, at, token, at.active).to(tl.float64)
    return tl.maximum(wanted - mass * (1 - share + share * tilt), 0.0)


@triton.jit
def _owe(
    p: Source, q: Source, drafts: Drafts, walk: Walk, i, state, ranking, sums,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the mass of what is owed in one piece of the row."""
    state = State(state[0], state[1], state[2], state[3], state[4])
    ranking = KernelRanking(ranking[0], ranking[1], ranking[2])
    request, at = here_of(p, q, drafts, walk, i, state.path, BLOCK_B)
    total = tl.full([BLOCK_B], 0.0, tl.float64)
    token = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
    inside = (token < drafts.vocabulary) & at.active[:, None]
    total += tl.sum(owed(p, q, drafts, at, state, ranking, request, token, inside), 1)
    place = request * tl.num_programs(1) + tl.program_id(1)
    tl.store(sums + place, total, mask=at.active)


@triton.jit
def coin_of(noise, request, depth, active, MIXED: tl.constexpr):
    """Return the coin [BLOCK_B] of the prefix that ends with the token at a depth."""
    lane = 1 if MIXED else 0
    which = 2 * depth + 1 if MIXED else depth
    return numbers(noise, request, active, which, lane, depth)


@triton.jit
def passing(weight, sums, noise, i, request, pieces, active, MIXED: tl.constexpr):
    """Return which requests [BLOCK_B] keep the prefix of i tokens, if no longer one."""
    more = tl.full([request.shape[0]], 0.0, tl.float64)
    for piece in range(pieces):
        more += tl.load(sums + request * pieces + piece, mask=active, other=0.0)
    against = more + (1 - weight)
    chance = tl.where(against > 0, more / tl.where(against > 0, against, 1.0), 1.0)
    tossed = active & (request * 0 + i > 0)
    coin = tl.where(tossed, coin_of(noise, request, request * 0 + i - 1, tossed, MIXED), -1.0)
    return active & (coin < chance)


@triton.jit
def _keep(
    p: Source, q: Source, drafts: Drafts, walk: Walk, i, state, ranking, sums, noise,
    MIXED: tl.constexpr, pieces, kept, left, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Keep one piece of what is owed behind the prefix of i tokens, where its coin says so."""
    state = State(state[0], state[1], state[2], state[3], state[4])
    ranking = KernelRanking(ranking[0], ranking[1], ranking[2])
    request, at = here_of(p, q, drafts, walk, i, state.path, BLOCK_B)
    weight = tl.load(state.weight + request, mask=at.active, other=0.0)
    passes = passing(weight, sums, noise, i, request, pieces, at.active, MIXED)
    if tl.max(passes.to(tl.int32)) > 0:
        token = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
        inside = (token < drafts.vocabulary) & passes[:, None]
        here = among(at, passes)
        own = owed(p, q, drafts, here, state, ranking, request, token, inside)
        own = own.to(kept.dtype.element_ty)
        tl.store(kept + request[:, None] * drafts.vocabulary + token, own, mask=inside)
        total = tl.sum(own.to(tl.float64), 1)
        tl.store(left + request * pieces + tl.program_id(1), total, mask=passes)


@triton.jit
def _step(
    p: Source, q: Source, drafts: Drafts, walk: Walk, i, state, after, ranking, sums, noise,
    MIXED: tl.constexpr, pieces, accepted, BLOCK_B: tl.constexpr,
):  # fmt: skip
    """Select the token at depth i, and write the state after it, and what is accepted by then."""
    state = State(state[0], state[1], state[2], state[3], state[4])
    after = State(after[0], after[1], after[2], after[3], after[4])
    ranking = KernelRanking(ranking[0], ranking[1], ranking[2])
    request, at = here_of(p, q, drafts, walk, i, state.path, BLOCK_B)
    given, active, depth = walked(drafts, walk, BLOCK_B), at.active, request * 0 + i
    path = tl.load(state.path + request, mask=given.real, other=0)
    shares = tl.load(state.shares + request, mask=active, other=1)
    weight = tl.load(state.weight + request, mask=active, other=0.0)
    share = tl.load(state.share + request, mask=active, other=1.0)
    passes = passing(weight, sums, noise, i, request, pieces, active, MIXED)
    tl.store(accepted + request, request * 0 + i, mask=passes)

    most, best = tl.full([BLOCK_B], -1.0, tl.float64), tl.full([BLOCK_B], -1, tl.int64)
    highest, count = tl.full([BLOCK_B], 0, tl.int64), tl.full([BLOCK_B], 0, tl.int64)
    for k in range(drafts.drafts):
        is_shared = (shares >> k) & 1
        token = token_of(drafts, given, k, depth, active)
        rank = tl.load(ranking.ratio + request * drafts.vocabulary + token, mask=active, other=0.0)
        rank = rank.to(tl.float64)
        is_higher = (is_shared > 0) & ((rank > most) | ((rank == most) & (token > best)))
        most, best = tl.where(is_higher, rank, most), tl.where(is_higher, token, best)
        highest, count = tl.where(is_higher, k, highest), count + is_shared
    following = highest
    if MIXED:
        any_of_them = (1 - share) / count
        number = numbers(noise, request, active, 2 * depth, 0, depth)
        before = tl.full([BLOCK_B], 0.0, tl.float64)
        for k in range(drafts.drafts):
            is_shared = (shares >> k) & 1
            chance = any_of_them * is_shared + tl.where(highest == k, share, 0.0)
            # A path without a chance is never selected, whatever was rounded.
            following = tl.where((chance > 0) & (before <= number), k, following)
            before += chance
    path = tl.where(active, following, path)

    token = token_of(drafts, given, following, depth, active)
    left = shares * 0
    for k in range(drafts.drafts):
        other = token_of(drafts, given, k, depth, active)
        left |= tl.where(other == token, (shares >> k) & 1, 0) << k
    mass = q_of(q, at, token, active).to(tl.float64)
    here = request * drafts.vocabulary + token
    tilt = tilt_of(drafts, state, ranking, request, here, mass, active)
    mass /= tl.load(ranking.total + request, mask=active, other=1.0)
    below = tl.load(ranking.below + here, mask=active, other=0.0)
    ratio = tl.load(ranking.ratio + here, mask=active, other=0.0).to(tl.float64)
    offered = 1 - share + share * tilt
    # The largest float32 stands for infinity: times 0 it is 0.
    large = 3.4028234663852886e38
    step = tl.minimum(ratio, large) / tl.where(offered > 0, offered, 1.0)
    step = tl.where(offered > 0, step, tl.where(ratio > 0, large, 0.0))
    weight = tl.minimum(weight * step, 1.0)
    is_last = active & (i + 1 == given.length)
    passes = is_last & (coin_of(noise, request, depth, is_last, MIXED) < weight)
    tl.store(accepted + request, request * 0 + i + 1, mask=passes)
    tl.store(after.path + request, path, mask=given.real)
    tl.store(after.shares + request, left, mask=active)
    tl.store(after.weight + request, weight, mask=active)

    # Divided by the law of the token, which is what they sum to; mass cancels out of both.
    is_known = (mass > 0) & (offered > 0)
    power = 1 / tl.where(is_known, offered, 1.0)
    for j in range(1, drafts.drafts + 1):
        one = tl.full([BLOCK_B], 1.0, tl.float64)
        ways, ways_of_any, lower, others, own = one, one, one, one, one * 0
        for n in range(j, drafts.drafts + 1):
            alive = tl.load(state.alive + request * drafts.drafts + n - 1, mask=active, other=0.0)
            own += alive * (share * ways * lower + (1 - share) * ways_of_any * others)
            ways = ways * (n + 1) / (n + 1 - j)
            ways_of_any = ways_of_any * n / (n + 1 - j)
            lower, others = lower * below, others * (1 - mass)
        own = tl.where(is_known, own * power, tl.where(j == 1, one, 0.0))
        tl.store(after.alive + request * drafts.drafts + j - 1, own, mask=active)
        power = power * mass


@triton.jit
def _finish(
    p: Source, q: Source, drafts: Drafts, walk: Walk, accepted, path, kept, left, sums, pieces,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Put one piece of p where all was accepted, and where nothing is left; write its mass."""
    request = walked(drafts, walk, BLOCK_B)
    active, row = request.real, request.number * pieces
    best, piece = tl.load(accepted + request.number, mask=active, other=0), tl.program_id(1)
    is_full = best == request.length
    whole = tl.full([BLOCK_B], 0.0, tl.float64)
    for other in range(pieces):
        whole += tl.load(left + row + other, mask=active & ~is_full, other=0.0)
    total = tl.load(left + row + piece, mask=active & ~is_full, other=0.0)
    is_whole = active & (whole == 0)
    if tl.max(is_whole.to(tl.int32)) > 0:
        own = tl.load(path + request.number, mask=active, other=0)
        at = position(p, q, drafts, walk, request, own, best, is_whole)
        token = (piece * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
        x, where = p_tile(p, at, token, is_whole), request.number[:, None] * drafts.vocabulary
        inside = (token < drafts.vocabulary) & is_whole[:, None]
        tl.store(kept + where + token, x, mask=inside)
        total += tl.sum(x.to(tl.float64), 1)
    tl.store(sums + row + piece, total, mask=active)


@triton.jit
def _draw(
    drafts: Drafts, accepted, paths, kept, sums, pieces, noise: Numbers, mark_at, told,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr, PIECES: tl.constexpr, DEPTHS: tl.constexpr,
):  # fmt: skip
    """Draw from what was kept, whose pieces have these masses, and tell of it."""
    request, real = requests_of(drafts, BLOCK_B)
    mark, piece = mark_of(noise, request, real, mark_at), tl.arange(0, PIECES)[None, :]
    inside = real[:, None] & (piece < pieces)
    own = tl.load(sums + request[:, None] * pieces + piece, mask=inside, other=0.0)
    before, here = tl.cumsum(own, 1) - own, mark * tl.sum(own, 1)
    # A piece without weight is never drawn from, nor one behind the last that has some.
    chosen = tl.max(tl.where((own > 0) & (before <= here[:, None]), piece, 0), 1)
    here -= tl.sum(tl.where(piece == chosen[:, None], before, 0.0), 1)
    tokens = chosen[:, None] * BLOCK_V + tl.arange(0, BLOCK_V)[None, :]
    inside = real[:, None] & (tokens < drafts.vocabulary)
    where = kept + request[:, None] * drafts.vocabulary + tokens
    weights = tl.load(where, mask=inside, other=0.0)
    is_above = tl.cumsum(weights.to(tl.float64), 1) > here[:, None]
    last = tl.max(tl.where(weights > 0, tokens, -1), 1)
    token = tl.minimum(tl.min(tl.where(is_above, tokens, drafts.vocabulary), 1), last)
    accepted = tl.load(accepted + request, mask=real, other=0)
    path = tl.load(paths + request, mask=real, other=0)
    tell(drafts, told, request, real, path, accepted, token.to(tl.int64), DEPTHS)
