"""Traversal verification as Triton kernels: one orders the paths, and one does all of a request.

The nodes of a path are columns of a tile, the root first. Rows are swept once for every child that
is refused, and the draft's once more where the next path parts.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.launch import blocks, power_of_two
from draftproof.adapters.fast.kernels.pipeline import tell
from draftproof.adapters.fast.kernels.rows import drawn, excess, mass, p_of, q_of, q_tile
from draftproof.adapters.fast.kernels.sources import Drafts, ModelRows, Numbers, mark_of, numbers
from draftproof.adapters.fast.kernels.walking import WalkRows, position, prepared, token_of, walked


def traversal(flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.traversal.traversal` does."""
    walk, told, drafts = prepared(flat), flat.told(), flat.tokens.shape[1]
    requests, depths = len(flat.ends), power_of_two(flat.longest + 1)
    order = flat.room(requests, drafts, dtype=torch.int64)
    shared = flat.room(requests, drafts, drafts, dtype=torch.int64)
    width = power_of_two(drafts)
    grid, own = blocks(requests, width * width, most=1)
    _order[(grid,)](walk.given.drafts, walk.walk, order, shared, own, width, num_warps=1)
    _verify[(walk.programs,)](
        *walk.of, walk.given.mark, told, order, shared, walk.requests, walk.given.tile, depths
    )
    return told


def traversal_without_replacement(flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.traversal.traversal_without_replacement` does."""
    return traversal(flat)


@triton.jit
def _order(
    drafts: Drafts, walk: WalkRows, order, shared, BLOCK_B: tl.constexpr, PATHS: tl.constexpr
):  # fmt: skip
    """Write the order of paths, and how many tokens two of them share, as `traversal.in_order`."""
    request = walked(drafts, walk, BLOCK_B)
    row = tl.arange(0, PATHS)[None, :, None]
    column = tl.arange(0, PATHS)[None, None, :]
    common = request.length[:, None, None] * 0 + row * 0 + column * 0
    alive = common == 0
    for depth in range(drafts.longest):
        one = row * 0 + common * 0 - 1
        other = one
        for k in range(drafts.drafts):
            token = token_of(drafts, request, k, depth, depth < request.length)
            # Behind all tokens paths are alike.
            token = tl.where(depth < request.length, token, 0)[:, None, None]
            one, other = tl.where(row == k, token, one), tl.where(column == k, token, other)
        alive &= one == other
        common += alive.to(tl.int64)
    is_path = (row < drafts.drafts) & (column < drafts.drafts)
    # Two paths come in the order of their first companions behind what they share.
    wanted = tl.minimum(common, drafts.longest - 1)
    first = common * 0 + PATHS
    second = first
    for i in range(drafts.drafts):
        m = drafts.drafts - 1 - i
        of_row = tl.sum(tl.where(column == m, common, 0), 2)[:, :, None]
        of_column = tl.sum(tl.where(row == m, common, 0), 1)[:, None, :]
        first = tl.where(of_row > wanted, m, first)
        second = tl.where(of_column > wanted, m, second)
    is_behind = (first > second) | ((first == second) & (row > column))
    rank = tl.sum((is_path & is_behind).to(tl.int64), 2)
    place = tl.sum(tl.where(row == column, rank[:, :, None], 0), 1)[:, None, :]
    base = request.number[:, None, None] * drafts.drafts
    inside = is_path & request.real[:, None, None]
    where = (base + rank[:, :, None]) * drafts.drafts + place
    tl.store(shared + where, common, mask=inside)
    where = base + rank[:, :, None] + common * 0
    tl.store(order + where, row + common * 0, mask=inside & (column == 0))


@triton.jit
def _verify(
    p: ModelRows, q: ModelRows, drafts: Drafts, walk: WalkRows, noise: Numbers, mark_at, told,
    order, shared, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr, DEPTHS: tl.constexpr,
):  # fmt: skip
    """Go from the leaf of path after path towards the root, and draw at the node that is kept."""
    request = walked(drafts, walk, BLOCK_B)
    FLOAT: tl.constexpr = walk.soft.dtype.element_ty
    length, real, V = request.length, request.real, drafts.vocabulary
    order += request.number * drafts.drafts
    shared += request.number * drafts.drafts * drafts.drafts
    none = tl.full([BLOCK_B], 0, tl.int64)
    kept, path, searching, before = none, none, real, none - 1
    node = tl.arange(0, DEPTHS)[None, :]
    # What a node is worth, its target (a p - c q)+ / m, and the draft's mass that is left there.
    w = tl.full([BLOCK_B, DEPTHS], 1.0, tl.float64)
    a, c, m, r = w, w * 0.0, w, w
    kept_a, kept_c = tl.full([BLOCK_B], 1.0, FLOAT), tl.full([BLOCK_B], 0.0, FLOAT)

    for k in range(drafts.drafts):
        is_followed = searching & (none + k + 1 < drafts.drafts)
        after = tl.load(shared + k * drafts.drafts + k + 1, mask=is_followed, other=-1)
        own = tl.load(order + k, mask=real, other=0)
        is_new = node > before[:, None]
        a, c = tl.where(is_new, 1.0, a), tl.where(is_new, 0.0, c)
        m, r = tl.where(is_new, 1.0, m), tl.where(is_new, 1.0, r)
        for i in range(drafts.longest):
            going = searching & (before <= i) & (i < length)
            if tl.max(going.to(tl.int32)) > 0:
                at = position(p, q, drafts, walk, request, own, none + i, going)
                token = token_of(drafts, request, own, none + i, going)
                x = p_of(p, at, token, going).to(tl.float64)[:, None]
                y = q_of(q, at, token, going).to(tl.float64)[:, None]
                top = w * (tl.maximum(a * x - c * y, 0.0) / m)
                bottom = y / r
                is_sure = (top > 0) & (top >= bottom)
                child = tl.where(is_sure, 1.0, top / tl.where(bottom > top, bottom, 1.0))
                child = tl.sum(tl.where(node == i, child, 0.0), 1)
                w = tl.where((node == i + 1) & going[:, None], child[:, None], w)
        for up in range(drafts.longest + 1):
            i = drafts.longest - up
            here = node == i
            trying = searching & (after <= i) & (i < length)
            if tl.max(trying.to(tl.int32)) > 0:
                weight = tl.sum(tl.where(here, w, 0.0), 1)
                own_a, own_c = tl.sum(tl.where(here, a, 0.0), 1), tl.sum(tl.where(here, c, 0.0), 1)
                own_m, rest = tl.sum(tl.where(here, m, 0.0), 1), tl.sum(tl.where(here, r, 0.0), 1)
                new_a, new_c = weight * own_a, weight * own_c + own_m / rest
                scale = tl.maximum(new_a, new_c)
                new_a, new_c = new_a / scale, new_c / scale
                at = position(p, q, drafts, walk, request, own, none + i, trying)
                left = mass(p, q, at, new_a.to(FLOAT), new_c.to(FLOAT), V, BLOCK_V)
                left = left.to(tl.float64)
                residual = left * scale / own_m
                against = residual + (1.0 - weight)
                weight = tl.where(against > 0, residual / tl.where(against > 0, against, 1.0), 1.0)
                tried, is_left = here & trying[:, None], here & (trying & (left > 0))[:, None]
                w = tl.where(tried, weight[:, None], w)
                a, c = tl.where(is_left, new_a[:, None], a), tl.where(is_left, new_c[:, None], c)
                m = tl.where(is_left, left[:, None], m)
            deciding = searching & (after < i) & (i <= length)
            if tl.max(deciding.to(tl.int32)) > 0:
                depth, tossed = none + i - 1, deciding & (none + i > 0)
                which = own * drafts.longest + depth
                coin = numbers(noise, request.number, tossed, which, own, depth)
                coin = tl.where(tossed, coin, -1.0)
                passes = deciding & (coin < tl.sum(tl.where(here, w, 0.0), 1))
                kept, path = tl.where(passes, i, kept), tl.where(passes, own, path)
                kept_a = tl.where(passes, tl.sum(tl.where(here, a, 0.0), 1).to(FLOAT), kept_a)
                kept_c = tl.where(passes, tl.sum(tl.where(here, c, 0.0), 1).to(FLOAT), kept_c)
                searching &= ~passes
        parting = searching & (after >= 0) & (after < length)
        if tl.max(parting.to(tl.int32)) > 0:
            at = position(p, q, drafts, walk, request, own, after, parting)
            total = tl.full([BLOCK_B, BLOCK_V], 0.0, FLOAT)
            for start in range(0, V, BLOCK_V):
                tokens = (start + tl.arange(0, BLOCK_V))[None, :]
                y = q_tile(q, at, tokens, parting)
                for j in range(k + 1):
                    other = tl.load(order + j, mask=real, other=0)
                    gone = token_of(drafts, request, other, after, parting)
                    common = tl.load(shared + k * drafts.drafts + j, mask=parting, other=-1)
                    y = tl.where((tokens == gone[:, None]) & (common >= after)[:, None], 0.0, y)
                total += y
            rest = tl.sum(total, 1).to(tl.float64)
            rest = tl.where(rest > 0, rest, 1.0)
            r = tl.where((node == after[:, None]) & parting[:, None], rest[:, None], r)
        before = after

    at = position(p, q, drafts, walk, request, path, kept, real)
    mark = mark_of(noise, request.number, real, mark_at)
    token = drawn(excess, p, q, (at, kept_a, kept_c), mark, V, real, BLOCK_V)[0]
    tell(drafts, told, request.number, real, path, kept, token, DEPTHS)
