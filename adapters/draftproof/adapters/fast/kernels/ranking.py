"""Ranks of the tokens of a row, by p / q and then by id, and what is owed where ranks matter.

A row is ranked by merging: runs of 1, 2, 4, ... tokens, each token's place in the other run found
by bisection. Equals stay in the order of their ids.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from draftproof.adapters.fast.kernels import IS_INTERPRETED
from draftproof.adapters.fast.kernels.pipeline import opened
from draftproof.adapters.fast.kernels.rows import p_tile, q_tile


class Ranks(NamedTuple):
    """The path of B requests, its tokens at S depths, and room to rank a row of V tokens.

    `path` and `length` are [B]; `token`, `ratio` p / q and `mass` q of tokens [B, S]; `sums`
    [2, B, S, P] what q gives to each piece's tokens of lower rank, and to all; `total` [B, S] the
    latter in all; `alive` [B, S, K] the law of how many paths share the prefix. `keys` are ratios
    and `ids` tokens [2, B, V]; `rows` [3, B, V] p, q and what is owed.
    """

    path: Any
    length: Any
    token: Any
    ratio: Any
    mass: Any
    sums: Any
    total: Any
    alive: Any
    keys: Any
    ids: Any
    rows: Any
    PATHS: tl.constexpr
    """The power of two that K is not above."""


@triton.jit
def rated(x, y, DTYPE: tl.constexpr):
    """Return x / y by which tokens rank, rounded to a dtype as IEEE 754 says.

    Of 0 / 0, whose token is never drafted, it is 0.
    """
    x, over = x.to(DTYPE), tl.where(y > 0, y, 1.0).to(DTYPE)
    quotient = x / over if x.dtype == tl.float64 else tl.div_rn(x, over)
    return tl.where(y > 0, quotient, tl.where(x > 0, float("inf"), 0.0))


@triton.jit
def tilt_of(alive, count, below, mass):
    """Return the tilt H of tokens [B, T] of these masses, at and below their rank.

    `alive` [B, K] tells how probable each number of paths is; `fast.mixture` has Horner's rule.
    """
    n, upto = tl.arange(0, alive.shape[1])[None, :], below + mass
    lower = below * 0 + tl.sum(tl.where(n == count - 1, alive, 0.0), 1)[:, None]
    tilt = lower
    for i in range(1, count):
        lower = lower * below + tl.sum(tl.where(n == count - 1 - i, alive, 0.0), 1)[:, None]
        tilt = tilt * upto + lower
    return tilt


@triton.jit
def _nothing():
    pass


@triton.jit
def _wait():
    tl.debug_barrier()


waited = _nothing if IS_INTERPRETED else _wait
"""What a program's threads have stored, all of them see. An interpreted program has one thread."""


@triton.jit
def _ranked(
    p, q, drafts, ranks, at, request, active, levels, BLOCK_V: tl.constexpr, MERGED: tl.constexpr,
):  # fmt: skip
    """Put the tokens of rows [BLOCK_B] in the order of their ranks, in `ids`; p and q in `rows`.

    With no levels they stay in the order of their ids. So many are MERGED at a time: a bisection
    waits for memory in each of its steps, for few tokens as long as for many.
    """
    DTYPE: tl.constexpr = ranks.keys.dtype.element_ty
    V = drafts.vocabulary
    row, size = (request * V)[:, None], ((request * 0 + drafts.requests) * V)[:, None]
    for start in range(0, V, BLOCK_V):
        token = (start + tl.arange(0, BLOCK_V))[None, :]
        x, y = p_tile(p, at, token, active), q_tile(q, at, token, active)
        inside, where = active[:, None] & (token < V), row + token
        tl.store(ranks.keys + where, rated(x, y, DTYPE), mask=inside)
        tl.store(ranks.ids + where, token, mask=inside)
        tl.store(ranks.rows + where, x, mask=inside)
        tl.store(ranks.rows + size + where, y, mask=inside)
    for level in range(levels):
        waited()
        run, old, new = 1 << level, level % 2 * size, (level + 1) % 2 * size
        for start in range(0, V, MERGED):
            place = (start + tl.arange(0, MERGED))[None, :]
            inside = active[:, None] & (place < V)
            key = tl.load(ranks.keys + old + row + place, mask=inside, other=0.0)
            token = tl.load(ranks.ids + old + row + place, mask=inside, other=0)
            is_second = (place & run) > 0
            first = tl.minimum(tl.where(is_second, (place & -run) - run, (place & -run) + run), V)
            low, high = first + row * 0, tl.minimum(first + run, V) + row * 0
            for _ in range(level + 1):
                middle, is_open = (low + high) // 2, inside & (low < high)
                other = tl.load(ranks.keys + old + row + middle, mask=is_open, other=0.0)
                # Of equals, those of the first run come first.
                is_before = (other < key) | (is_second & (other == key))
                low = tl.where(is_open & is_before, middle + 1, low)
                high = tl.where(is_open & ~is_before, middle, high)
            where = new + row + place + low - first - tl.where(is_second, run, 0)
            tl.store(ranks.keys + where, key, mask=inside)
            tl.store(ranks.ids + where, token, mask=inside)
    waited()


@triton.jit
def owe(
    p, q, drafts, left, ranks, request, slot, active, BLOCK_V: tl.constexpr, LEVELS: tl.constexpr,
    MERGED: tl.constexpr,
):  # fmt: skip
    """Rank a row of each request and write what is owed in it; return its sum, and that as written.

    It is (weight p - q H)+, of a tilt H that depends on what q gives to all lower ranks.
    """
    at, weight, _ = opened(drafts, left, slot, active)
    V, count = drafts.vocabulary, drafts.drafts
    # One path tilts all ranks alike.
    levels = tl.where(count > 1, LEVELS, 0)
    _ranked(p, q, drafts, ranks, at, request, active, levels, BLOCK_V, MERGED)
    row, size = (request * V)[:, None], ((request * 0 + drafts.requests) * V)[:, None]
    n = tl.arange(0, ranks.PATHS)[None, :]
    where = ranks.alive + slot[:, None] * count + n
    alive = tl.load(where, mask=active[:, None] & (n < count), other=0.0)
    total = tl.load(ranks.total + slot, mask=active, other=1.0)[:, None]
    none = tl.full(request.shape, 0.0, tl.float64)
    before, more, written = none, none, none
    for start in range(0, V, BLOCK_V):
        rank = (start + tl.arange(0, BLOCK_V))[None, :]
        inside = active[:, None] & (rank < V)
        token = tl.load(ranks.ids + levels % 2 * size + row + rank, mask=inside, other=0)
        x = tl.load(ranks.rows + row + token, mask=inside, other=0.0).to(tl.float64)
        y = tl.load(ranks.rows + size + row + token, mask=inside, other=0.0).to(tl.float64)
        lower = tl.maximum(tl.cumsum(y, 1) - y, 0.0) + before[:, None]
        own = x * weight[:, None] - y * tilt_of(alive, count, lower / total, y / total)
        own = tl.where(inside, tl.maximum(own, 0.0), 0.0)
        more, before = more + tl.sum(own, 1), before + tl.sum(y, 1)
        own = own.to(ranks.rows.dtype.element_ty)
        tl.store(ranks.rows + 2 * size + row + token, own, mask=inside)
        written += tl.sum(own.to(tl.float64), 1)
    return more, written
