"""Block verification as Triton kernels: one sweep over all rows, then one piece of one of them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.kernels.correction import next_token
from draftproof.adapters.fast.kernels.launch import model, tiles
from draftproof.adapters.fast.kernels.rows import batch_of, mass, opened, position, ratio
from draftproof.conformance.adapter import Result


def block(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.block.block` does."""
    rows, vocabulary = len(batch.lengths), batch.vocabulary
    positions = rows * (batch.length + 1)
    swept, cut = tiles(positions, vocabulary), tiles(rows, vocabulary)
    p, q = model(batch.p, vocabulary), model(batch.q, vocabulary)
    sums = torch.empty(rows, batch.length + 1, cut.pieces, dtype=batch.p.dtype, device=noise.device)
    accepted, next_token = torch.empty_like(batch.lengths), torch.empty_like(batch.lengths)
    given = p, q, batch.tokens, batch.lengths, sums, rows, vocabulary, cut.size
    _sweep[swept.programs, swept.pieces](*given, swept.requests, swept.tokens)
    kept = noise, accepted, next_token, cut.pieces
    _keep[(cut.programs,)](*given, *kept, cut.requests, cut.tokens)
    return Result(accepted, batch.any_path(), next_token)


@triton.jit
def _sweep(
    p, q, tokens, lengths, sums, requests, vocabulary, size,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the mass of what the target wants after each prefix, in one piece of its row."""
    p, q = opened(p, vocabulary), opened(q, vocabulary)
    FLOAT: tl.constexpr = p.soft.dtype.element_ty
    place = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    piece, pieces = tl.program_id(1), tl.num_programs(1)
    request, depth = place // p.depths, place % p.depths
    length = tl.load(lengths + request, mask=request < requests, other=-1)
    weight = tl.full([BLOCK_B], 1.0, FLOAT)
    for i in range(tl.max(depth)):
        weight = shared(p, q, tokens, request, i, weight, (i < depth) & (i < length))
    c = tl.where(depth == length, 0.0, 1.0).to(FLOAT)
    at = position(p, q, request, depth, depth <= length)
    end = tl.minimum(piece * size + size, vocabulary)
    own = mass(at, tl.where(c == 0, 1.0, weight), c, piece * size, end, BLOCK_V)
    tl.store(sums + place * pieces + piece, own, mask=request < requests)


@triton.jit
def _keep(
    p, q, tokens, lengths, sums, requests, vocabulary, size, noise, accepted, next_tokens, pieces,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Test every prefix on its coin, keep the longest that passes, and draw behind it."""
    p, q, request, active, length = batch_of(p, q, lengths, requests, vocabulary, BLOCK_B)
    FLOAT: tl.constexpr = p.soft.dtype.element_ty
    noise += request * p.depths
    weight = tl.full([BLOCK_B], 1.0, FLOAT)
    kept, best = weight, tl.full([BLOCK_B], 0, tl.int64)
    for i in range(q.depths):
        weight = shared(p, q, tokens, request, i, weight, i < length)
        more = tl.full([BLOCK_B], 0.0, FLOAT)
        for piece in range(pieces):
            place = (request * p.depths + i + 1) * pieces + piece
            more += tl.load(sums + place, mask=i + 1 < length, other=0.0)
        against = more + (1 - weight)
        passing = tl.where(against > 0, more / tl.where(against > 0, against, 1.0), 1.0)
        passing = tl.where(i + 1 == length, weight, passing)
        coin = tl.load(noise + i, mask=i < length, other=1.0)
        passes = (coin < passing) & (i < length)
        best, kept = tl.where(passes, i + 1, best), tl.where(passes, weight, kept)
    here = sums + (request * p.depths + best) * pieces
    mark = tl.load(noise + q.depths, mask=active, other=0.0)
    token = next_token(
        p, q, request, best, length, kept, mark, here, pieces, size, active, BLOCK_V
    )  # fmt: skip
    tl.store(accepted + request, best, mask=active)
    tl.store(next_tokens + request, token, mask=active)


@triton.jit
def shared(p, q, tokens, request, i, weight, active):
    """Return the weight of a prefix of i + 1 tokens from that of i: what target and draft share."""
    at = position(p, q, request, request * 0 + i, active)
    token = tl.load(tokens + request * q.depths + i, mask=active, other=0)
    return tl.where(active, tl.minimum(weight * ratio(at, token), 1.0), weight)
