"""Token verification as Triton kernels: one sweep over one row of each request."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.kernels.correction import next_token
from draftproof.adapters.fast.kernels.launch import model, tiles
from draftproof.adapters.fast.kernels.rows import batch_of, mass, position, ratio
from draftproof.conformance.adapter import Result


def token(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.token.token` does."""
    rows, vocabulary = len(batch.lengths), batch.vocabulary
    cut = tiles(rows, vocabulary)
    p, q = model(batch.p, vocabulary), model(batch.q, vocabulary)
    sums = torch.empty(rows, cut.pieces, dtype=batch.p.dtype, device=noise.device)
    accepted, next_token = torch.empty_like(batch.lengths), torch.empty_like(batch.lengths)
    given = p, q, batch.lengths, sums, noise, accepted, rows, vocabulary, cut.size
    _accept[cut.programs, cut.pieces](*given, batch.tokens, cut.requests, cut.tokens)
    _correct[(cut.programs,)](*given, next_token, cut.pieces, cut.requests, cut.tokens)
    return Result(accepted, batch.any_path(), next_token)


@triton.jit
def _accept(
    p, q, lengths, sums, noise, accepted, requests, vocabulary, size, tokens,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write how many tokens pass their coins, and what is owed there in one piece of the row."""
    p, q, request, real, length = batch_of(p, q, lengths, requests, vocabulary, BLOCK_B)
    FLOAT: tl.constexpr = p.soft.dtype.element_ty
    piece, pieces = tl.program_id(1), tl.num_programs(1)
    kept, accepting = tl.full([BLOCK_B], 0, tl.int64), real
    for i in range(q.depths):
        accepting &= i < length
        at = position(p, q, request, request * 0 + i, accepting)
        token = tl.load(tokens + request * q.depths + i, mask=accepting, other=0)
        coin = tl.load(noise + request * p.depths + i, mask=accepting, other=1.0)
        # Strictly below: a coin of exactly 0 must not accept what the target never says.
        accepting &= coin < ratio(at, token)
        kept += accepting.to(tl.int64)
    one = tl.full([BLOCK_B], 1.0, FLOAT)
    c = tl.where(kept == length, 0.0, one)
    at = position(p, q, request, kept, real)
    own = mass(at, one, c, piece * size, tl.minimum(piece * size + size, vocabulary), BLOCK_V)
    tl.store(sums + request * pieces + piece, own, mask=real)
    if piece == 0:
        tl.store(accepted + request, kept, mask=real)


@triton.jit
def _correct(
    p, q, lengths, sums, noise, accepted, requests, vocabulary, size, next_tokens, pieces,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Draw the correction or the bonus."""
    p, q, request, active, length = batch_of(p, q, lengths, requests, vocabulary, BLOCK_B)
    FLOAT: tl.constexpr = p.soft.dtype.element_ty
    kept = tl.load(accepted + request, mask=active, other=0)
    mark = tl.load(noise + request * p.depths + q.depths, mask=active, other=0.0)
    a, here = tl.full([BLOCK_B], 1.0, FLOAT), sums + request * pieces
    token = next_token(p, q, request, kept, length, a, mark, here, pieces, size, active, BLOCK_V)
    tl.store(next_tokens + request, token, mask=active)
