"""Drafting as Triton kernels: one sweep adds a row up, then one piece of it is searched.

Tokens that are gone are few, and compared with as a row is read: no row is copied without them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Rows, Softmax
from draftproof.adapters.fast.kernels.launch import model, tiles
from draftproof.adapters.fast.kernels.rows import drawn, opened, piece_at, probability
from draftproof.adapters.fast.urn import Urn


def urn(rows: Tensor, softmax: Softmax | None) -> Urn:
    """Return the urn of rows as `fast.urn.urn` does. Logits are never written as a row."""
    count, vocabulary = rows.shape
    cut = tiles(count, vocabulary)
    every = torch.arange(count, device=rows.device).view(-1, 1, 1)
    drawn_from = Rows(rows, every, softmax)
    given = model(drawn_from)
    sums = torch.empty(2, count, cut.pieces, dtype=drawn_from.dtype, device=rows.device)
    tokens = torch.empty(count, cut.pieces, dtype=torch.int64, device=rows.device)

    def draw(mark: Tensor, gone: Tensor) -> Tensor:
        token = torch.empty_like(every[:, 0, 0])
        row = given, gone.contiguous(), gone.shape[1], count, vocabulary, cut.size
        _add[cut.programs, cut.pieces](*row, sums[0], cut.requests, cut.tokens)
        _search[(cut.programs,)](
            *row, sums[0], mark.contiguous(), token, cut.pieces, cut.requests, cut.tokens
        )
        return token

    def most_probable(gone: Tensor) -> Tensor:
        row = given, gone.contiguous(), gone.shape[1], count, vocabulary, cut.size
        _compare[cut.programs, cut.pieces](*row, sums[1], tokens, cut.requests, cut.tokens)
        return tokens.gather(1, sums[1].argmax(-1, keepdim=True))[:, 0]

    return Urn(draw, most_probable)


@triton.jit
def left(of, tokens, inside):
    """Return the weights [BLOCK_B, BLOCK_V] of tokens [1 or BLOCK_B, BLOCK_V], 0 if gone.

    `of` are the model, the rows [BLOCK_B], which of them there are, what is gone, and how many.
    """
    p, row, active, gone, count = of[0], of[1], of[2], of[3], of[4]
    inside &= active[:, None]
    weight = probability(p, row[:, None], tokens, inside)
    for i in range(count):
        other = tl.load(gone + row * count + i, mask=active, other=-1)
        weight = tl.where(tokens == other[:, None], 0.0, weight)
    return weight


@triton.jit
def _add(
    p, gone, count, rows, vocabulary, size, sums, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr
):  # fmt: skip
    """Write the mass of what is left in one piece of every row."""
    p = opened(p, vocabulary)
    row = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    piece, pieces = tl.program_id(1), tl.num_programs(1)
    of = p, row, row < rows, gone, count
    total = tl.full([BLOCK_B, BLOCK_V], 0.0, p.soft.dtype.element_ty)
    for start in range(0, size, BLOCK_V):
        tokens = (piece * size + start + tl.arange(0, BLOCK_V))[None, :]
        total += left(of, tokens, tokens < vocabulary)
    tl.store(sums + row * pieces + piece, tl.sum(total, 1), mask=row < rows)


@triton.jit
def _search(
    p, gone, count, rows, vocabulary, size, sums, marks, next_tokens, pieces,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the token at which the running sum of what is left rises above its mark."""
    p = opened(p, vocabulary)
    row = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    active = row < rows
    mark = tl.load(marks + row, mask=active, other=0.0)
    chosen, here, _ = piece_at(mark, sums + row * pieces, pieces, active)
    of = p, row, active, gone, count
    token = drawn(left, of, here, chosen * size, size, vocabulary, active, BLOCK_V)
    tl.store(next_tokens + row, token, mask=active)


@triton.jit
def _compare(
    p, gone, count, rows, vocabulary, size, largest, best,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the largest weight that is left in one piece of every row, and its first token."""
    p = opened(p, vocabulary)
    row = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    piece, pieces = tl.program_id(1), tl.num_programs(1)
    of = p, row, row < rows, gone, count
    most = tl.full([BLOCK_B], 0.0, p.soft.dtype.element_ty)
    token = tl.full([BLOCK_B], 0, tl.int64)
    for start in range(0, size, BLOCK_V):
        tokens = (piece * size + start + tl.arange(0, BLOCK_V))[None, :]
        weight = left(of, tokens, tokens < vocabulary)
        here = tl.max(weight, 1)
        first = tl.min(tl.where(weight == here[:, None], tokens, vocabulary), 1)
        token, most = tl.where(here > most, first, token), tl.maximum(most, here)
    tl.store(largest + row * pieces + piece, most, mask=row < rows)
    tl.store(best + row * pieces + piece, token, mask=row < rows)
