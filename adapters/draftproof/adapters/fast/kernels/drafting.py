"""Drafting as Triton kernels: one sweep adds a row up, then one piece of it is searched.

Tokens that are gone are few, and compared with as a row is read: no row is copied without them.
Rows are those of requests that have drafted nothing yet.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Softmax
from draftproof.adapters.fast.inputs import EngineBatch, Lying
from draftproof.adapters.fast.kernels.launch import blocks, power_of_two
from draftproof.adapters.fast.kernels.rows import p_tile, token_at
from draftproof.adapters.fast.kernels.sources import Drafts, ModelRows
from draftproof.adapters.fast.kernels.walking import WalkRows, position, prepared, walked
from draftproof.adapters.fast.urn import Urn


def urn(rows: Tensor, softmax: Softmax | None) -> Urn:
    """Return the urn of rows as `fast.urn.urn` does. Logits are never written as a row."""
    count, device = len(rows), rows.device
    nothing = torch.zeros(count, dtype=torch.int64, device=device)
    heat = None if softmax is None or softmax.scale is None else 1 / softmax.scale
    laid = Lying(rows, 1, 0, count, softmax)
    flat = EngineBatch(nothing[:0, None], nothing, laid, None, 0, nothing[:, None].double(), heat)
    walk = prepared(flat)
    given, pieces, tile = walk.given, walk.given.pieces, walk.given.tile
    read = given.p, given.q, given.drafts, walk.walk
    sums, most = flat.room(2, count, pieces).unbind()
    tokens = flat.room(count, pieces, dtype=torch.int64)
    grid, own = blocks(count, tile)

    def draw(mark: Tensor, gone: Tensor) -> Tensor:
        token, left_out = torch.empty_like(nothing), (gone.contiguous(), gone.shape[1])
        _add[grid, pieces](*read, *left_out, sums, own, tile)
        found = sums, mark.contiguous(), token, pieces
        _search[(grid,)](*read, *left_out, *found, own, tile, power_of_two(pieces))
        return token

    def most_probable(gone: Tensor) -> Tensor:
        left_out = gone.contiguous(), gone.shape[1]
        _compare[grid, pieces](*read, *left_out, most, tokens, own, tile)
        return tokens.gather(1, most.argmax(-1, keepdim=True))[:, 0]

    return Urn(draw, most_probable)


@triton.jit
def left(p, q, of, tokens, active):  # noqa: ARG001  # as `token_at` calls it
    """Return the weights [BLOCK_B, BLOCK_V] of tokens [1 or BLOCK_B, BLOCK_V], 0 if gone.

    `of` are the position, the rows [BLOCK_B], what is gone, and how many.
    """
    at, row, gone, count = of[0], of[1], of[2], of[3]
    weight = p_tile(p, at, tokens, active)
    for i in range(count):
        other = tl.load(gone + row * count + i, mask=active, other=-1)
        weight = tl.where(tokens == other[:, None], 0.0, weight)
    return weight


@triton.jit
def _here(p, q, drafts, walk, BLOCK_B: tl.constexpr):
    """Return the rows of this program, and where they are."""
    request = walked(drafts, walk, BLOCK_B)
    none = request.number * 0
    return request, position(p, q, drafts, walk, request, none, none, request.real)


@triton.jit
def _add(
    p: ModelRows, q: ModelRows, drafts: Drafts, walk: WalkRows, gone, count, sums,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the mass of what is left in one piece of every row."""
    request, at = _here(p, q, drafts, walk, BLOCK_B)
    tokens = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
    weights = left(p, q, (at, request.number, gone, count), tokens, request.real)
    place = request.number * tl.num_programs(1) + tl.program_id(1)
    tl.store(sums + place, tl.sum(weights, 1), mask=request.real)


@triton.jit
def _search(
    p: ModelRows, q: ModelRows, drafts: Drafts, walk: WalkRows, gone, count, sums, marks,
    next_tokens, pieces, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Write the token at which the running sum of what is left rises above its mark."""
    request, at = _here(p, q, drafts, walk, BLOCK_B)
    row, real, piece = request.number, request.real, tl.arange(0, PIECES)[None, :]
    inside = real[:, None] & (piece < pieces)
    own = tl.load(sums + row[:, None] * pieces + piece, mask=inside, other=0.0).to(tl.float64)
    mark = tl.load(marks + row, mask=real, other=0.0)
    before, here = tl.cumsum(own, 1) - own, mark * tl.sum(own, 1)
    # A piece without weight is never drawn from, nor one behind the last that has some.
    chosen = tl.max(tl.where((own > 0) & (before <= here[:, None]), piece, 0), 1)
    here -= tl.sum(tl.where(piece == chosen[:, None], before, 0.0), 1)
    of, V = (at, row, gone, count), drafts.vocabulary
    token = token_at(left, p, q, of, here, chosen, V, real, BLOCK_V)
    tl.store(next_tokens + row, token, mask=real)


@triton.jit
def _compare(
    p: ModelRows, q: ModelRows, drafts: Drafts, walk: WalkRows, gone, count, largest, best,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the largest weight that is left in one piece of every row, and its first token."""
    request, at = _here(p, q, drafts, walk, BLOCK_B)
    tokens = (tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V))[None, :]
    weights = left(p, q, (at, request.number, gone, count), tokens, request.real)
    most = tl.max(weights, 1)
    first = tl.min(tl.where(weights == most[:, None], tokens, drafts.vocabulary), 1)
    place = request.number * tl.num_programs(1) + tl.program_id(1)
    tl.store(largest + place, most, mask=request.real)
    tl.store(best + place, first.to(tl.int64), mask=request.real)
