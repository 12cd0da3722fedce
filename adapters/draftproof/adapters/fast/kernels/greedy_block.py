"""Greedy block verification, of one path or several, as one Triton kernel.

A program does all of a request.

Blocks are columns of a tile, (b, d) and the target of each, as `modified` says. Its rows are swept
once for every block that is open at a depth, of every path that passes through what is accepted.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.kernels.launch import model, tiles
from draftproof.adapters.fast.kernels.rows import (
    Position,
    batch_of,
    drawn,
    excess,
    mass,
    position,
    probability,
)
from draftproof.adapters.fast.modified import inherited, state
from draftproof.conformance.adapter import Result

_NUMBERS = 4096
"""How many numbers of a tile of blocks a program holds at most."""


def greedy_block(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.greedy_block.greedy_block` does, the recursive one with one path."""
    return recursive_greedy_block(batch, noise)


def recursive_greedy_block(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.greedy_block.recursive_greedy_block` does."""
    rows, vocabulary = len(batch.lengths), batch.vocabulary
    blocks, cut = inherited(batch), tiles(rows, vocabulary, whole=True)
    older = blocks.b.shape[1]
    columns = triton.next_power_of_2(older + batch.drafts + 1)
    requests = min(cut.requests, max(_NUMBERS // columns, 1))
    b, d = blocks.b.new_empty(2, rows, older + batch.drafts).unbind()
    accepted, path, next_token = torch.empty(3, rows, dtype=torch.int64, device=noise.device)
    _verify[(triton.cdiv(rows, requests),)](
        model(batch.p, vocabulary), model(batch.q, vocabulary), batch.tokens, batch.lengths, noise,
        blocks.b.contiguous(), blocks.d.contiguous(), blocks.left.contiguous(), blocks.end, b, d,
        accepted, path, next_token, rows, vocabulary, batch.drafts, older, blocks.drafts,
        requests, cut.tokens, columns,
    )  # fmt: skip
    left = state(replace(blocks, b=b, d=d), accepted + 1, batch.length)
    return Result(accepted, path, next_token, left)


@triton.jit
def _verify(
    p, q, tokens, lengths, noise, older_b, older_d, left, end, later_b, later_d,
    accepted, paths, next_tokens, requests, vocabulary, drafts, older, width,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Verify path after path, and draw behind what is accepted.

    `older` is the number of blocks of the iterations before, `width` of them of each.
    """
    p, q, request, real, length = batch_of(p, q, lengths, requests, vocabulary, BLOCK_B)
    FLOAT: tl.constexpr = p.soft.dtype.element_ty
    last = tl.load(end + request, mask=real, other=-1)
    noise += request * (drafts * q.depths + 1)

    block = tl.arange(0, BLOCKS)[None, :]
    is_older = real[:, None] & (block < older)
    place = request[:, None] * older + block
    b = tl.load(older_b + place, mask=is_older, other=1.0)
    d = tl.load(older_d + place, mask=is_older, other=0.0)
    over = tl.load(left + place // width, mask=is_older, other=0)
    over = tl.where(block < older, over, last[:, None])
    # At the node, column n is the target of block n; columns behind the last are what it leaves.
    a, c, m = tl.full([BLOCK_B, BLOCKS], 1.0, tl.float64), b * 0.0, b * 0.0 + 1.0
    kept, path = tl.full([BLOCK_B], 0, tl.int64), tl.full([BLOCK_B], 0, tl.int64)

    for k in range(drafts):
        through = real
        for i in range(q.depths):
            asked = through & (i < kept)
            here = tokens + request * drafts * q.depths + i
            own = tl.load(here + k * q.depths, mask=asked, other=0)
            through &= own == tl.load(here + path * q.depths, mask=asked, other=0)
        newest, start = older + k, kept
        d = tl.where((block == newest) & through[:, None], 1.0, d)
        now_b, now_d = b, d
        for i in range(p.depths):
            walking = through & (start <= i) & (i <= last)
            if tl.max(walking.to(tl.int32)) > 0:
                at = position(p, q, request * drafts + k, start * 0 + i, walking)
                one = tl.full([BLOCK_B], 1.0, tl.float64)
                level_a, level_c, level_m, owed = one, one * 0.0, one, one
                own_a, own_c, own_m = a * 0.0 + 1.0, a * 0.0, a * 0.0 + 1.0
                # The iterations before the last i have no block that reaches here.
                for n in range(tl.minimum(i * width, older), newest + 1):
                    this = block == n
                    x = tl.sum(tl.where(this, now_b, 0.0), 1)
                    y = tl.sum(tl.where(this, now_d, 0.0), 1)
                    inside = walking & (i < tl.sum(tl.where(this, over, 0), 1))
                    inside &= (y > 0) | (start * 0 + n == newest)
                    if tl.max(inside.to(tl.int32)) > 0:
                        new_a, new_c = x * level_a, x * level_c + y * level_m
                        scale = tl.maximum(new_a, new_c)
                        new_a, new_c = new_a / scale, new_c / scale
                        there = Position(at.p, at.p_row, at.q, at.q_row, inside)
                        rest = mass(there, new_a.to(FLOAT), new_c.to(FLOAT), 0, vocabulary, BLOCK_V)
                        rest = rest.to(tl.float64)
                        owed = rest * scale / level_m
                        modifies = inside & (rest > 0) & (y > 0)
                        level_a = tl.where(modifies, new_a, level_a)
                        level_c = tl.where(modifies, new_c, level_c)
                        level_m = tl.where(modifies, rest, level_m)
                    own_a = tl.where(block > n, level_a[:, None], own_a)
                    own_c = tl.where(block > n, level_c[:, None], own_c)
                    own_m = tl.where(block > n, level_m[:, None], own_m)
                share = tl.sum(tl.where(block == newest, now_b, 0.0), 1)
                against = owed + (1.0 - share)
                passing = tl.where(against > 0, owed / tl.where(against > 0, against, 1.0), 1.0)
                passing = tl.where(i == last, share, passing)
                tossed = walking & (start < i)
                coin = tl.load(noise + k * q.depths + i - 1, mask=tossed, other=1.0)
                passes = (walking & (start == i)) | (tossed & (coin < passing))
                kept, path = tl.where(passes, i, kept), tl.where(passes, k, path)
                b, d = tl.where(passes[:, None], now_b, b), tl.where(passes[:, None], now_d, d)
                a, c = tl.where(passes[:, None], own_a, a), tl.where(passes[:, None], own_c, c)
                m = tl.where(passes[:, None], own_m, m)
                # What is said at the bonus is drawn, not drafted.
                going = walking & (i < last)
                here = tokens + (request * drafts + k) * q.depths + i
                token = tl.load(here, mask=going, other=0)
                x = probability(p, at.p_row, token, going).to(tl.float64)[:, None]
                y = probability(q, at.q_row, token, going).to(tl.float64)[:, None]
                said = going[:, None] & (block <= newest)
                next_b, next_d = after(now_b, now_d, own_a, own_c, own_m, x, y)
                now_b, now_d = tl.where(said, next_b, now_b), tl.where(said, next_d, now_d)

    at = position(p, q, request * drafts + path, kept, real)
    is_last = block == older + drafts
    final_a = tl.sum(tl.where(is_last, a, 0.0), 1).to(FLOAT)
    final_c = tl.sum(tl.where(is_last, c, 0.0), 1).to(FLOAT)
    mark = tl.load(noise + drafts * q.depths, mask=real, other=0.0)
    here = mark * mass(at, final_a, final_c, 0, vocabulary, BLOCK_V)
    of = at, final_a, final_c
    token = drawn(excess, of, here, kept * 0, vocabulary, vocabulary, real, BLOCK_V)
    x = probability(p, at.p_row, token, real).to(tl.float64)[:, None]
    y = probability(q, at.q_row, token, real & (kept < length)).to(tl.float64)[:, None]
    b, d = after(b, d, a, c, m, x, y)
    place = request[:, None] * (older + drafts) + block
    is_block = real[:, None] & (block < older + drafts)
    tl.store(later_b + place, b, mask=is_block)
    tl.store(later_d + place, d, mask=is_block)
    tl.store(accepted + request, kept, mask=real)
    tl.store(paths + request, path, mask=real)
    tl.store(next_tokens + request, token, mask=real)


@triton.jit
def after(b, d, a, c, m, x, y):
    """Return (b, d) behind a token of probabilities x, y, as `modified.Blocks.after` does."""
    b, d = b * tl.maximum(a * x - c * y, 0.0), d * m * y
    d = tl.where(tl.maximum(b, d) > 0, d, 1.0)
    larger = tl.maximum(b, d)
    return b / larger, d / larger
