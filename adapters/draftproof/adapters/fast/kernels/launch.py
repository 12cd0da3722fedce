"""How a batch goes to a kernel: its tensors, its tiles, and the mass of its rows of logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Rows, Softmax
from draftproof.adapters.fast.kernels import IS_INTERPRETED

_TILE = 4096
"""How many numbers of a row a program holds: 16 KiB, in the registers of eight warps."""

_SPLITS = 64
"""The most pieces that a row is cut into, so that few requests are many programs."""


@dataclass(frozen=True)
class Tiles:
    """How B requests of rows of V tokens are cut up."""

    requests: int
    """How many a program takes: a power of two, more than one where the vocabulary is small."""
    tokens: int
    """How many it takes at a time: a power of two."""
    pieces: int
    """Into how many pieces a row is cut."""
    size: int
    """How many tokens a piece has; a multiple of `tokens`."""
    programs: int
    """How many programs the requests are."""


def tiles(requests: int, vocabulary: int, *, whole: bool = False) -> Tiles:
    """Return the tiles of a batch; rows stay `whole` where programs go through them in turn."""
    # An interpreted operator costs the same for few numbers as for many, and a size that was met
    # before costs less than a new one: there are few. But what is not there is computed, too.
    least, most, tile, times = (4, 2**16, 2**20, 3) if IS_INTERPRETED else (16, _TILE, _TILE, 1)
    tokens = min(most, max(triton.next_power_of_2(vocabulary), least))
    doublings = (max(requests, 1) - 1).bit_length()
    own = min(2 ** (triton.cdiv(doublings, times) * times), tile // tokens)
    most = 1 if whole else _SPLITS
    size = triton.cdiv(triton.cdiv(vocabulary, tokens), most) * tokens
    return Tiles(own, tokens, triton.cdiv(vocabulary, size), size, triton.cdiv(requests, own))


def model(rows: Rows) -> tuple[Any, ...]:
    """Return rows as a kernel takes them: the fields of a `Model` but for V.

    They stay where they are, of whatever strides.
    """
    values, at = rows.values, rows.at.contiguous()
    soft = values.new_empty(0, dtype=rows.dtype)
    if rows.softmax is not None:
        soft = _soft(rows, rows.softmax)
    is_logits = tl.constexpr(rows.softmax is not None)
    return values, *_strides(values), soft, at, at.shape[-1], is_logits


def _strides(values: Tensor) -> tuple[int, Any]:
    """Return how far apart rows lie, and tokens in them; the usual 1 is a constant."""
    row, token = values.stride()
    return row, tl.constexpr(1) if token == 1 or values.shape[1] == 1 else token


def _soft(rows: Rows, given: Softmax) -> Tensor:
    """Return the five numbers [N, 5] that make logits probabilities; see `rows`."""
    count, vocabulary = rows.values.shape
    soft = torch.zeros(count, 5, device=rows.values.device, dtype=rows.dtype)
    soft[:, 0] = 1 if given.scale is None else given.scale
    soft[:, 1] = -torch.inf
    if given.least is not None and given.last is not None:
        soft[:, 1], soft[:, 2] = given.least, given.last
    cut = tiles(count, vocabulary)
    largest, total = soft.new_empty(2, count, cut.pieces).unbind()
    _masses[cut.programs, cut.pieces](
        rows.values, *_strides(rows.values), soft, largest, total, count, vocabulary, cut.size,
        cut.requests, cut.tokens,
    )  # fmt: skip
    soft[:, 3] = largest.amax(-1)
    below = (largest - soft[:, 3:4]) * soft[:, :1]
    soft[:, 4] = (total * below.exp()).sum(-1).log()
    return soft


@triton.jit
def _masses(
    values, stride, step, soft, largest, total, count, vocabulary, size,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the largest logit of a piece of every row, and the mass if it has mass 1."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    is_row, piece = row < count, tl.program_id(1)
    scale = tl.load(soft + row * 5, mask=is_row, other=1.0)
    least = tl.load(soft + row * 5 + 1, mask=is_row, other=0.0)
    last = tl.load(soft + row * 5 + 2, mask=is_row, other=0.0)
    most, mass = tl.zeros_like(scale) - float("inf"), tl.zeros_like(scale)
    for start in range(0, size, BLOCK_V):
        token = piece * size + start + tl.arange(0, BLOCK_V)
        inside = is_row[:, None] & (token < vocabulary)[None, :]
        place = row[:, None] * stride + token.to(tl.int64)[None, :] * step
        x = tl.load(values + place, mask=inside, other=0.0).to(scale.dtype)
        is_tied = (x == least[:, None]) & (token[None, :] <= last[:, None])
        is_kept = inside & ((x > least[:, None]) | is_tied)
        x = tl.where(is_kept, x, -float("inf"))
        seen = tl.maximum(most, tl.max(x, 1))
        # As long as nothing is kept, -inf - (-inf) would be NaN.
        base = tl.where(seen == -float("inf"), 0.0, seen)
        mass *= tl.exp((most - base) * scale)
        mass += tl.sum(tl.exp((x - base[:, None]) * scale[:, None]), 1)
        most = seen
    tl.store(largest + row * tl.num_programs(1) + piece, most, mask=is_row)
    tl.store(total + row * tl.num_programs(1) + piece, mass, mask=is_row)
