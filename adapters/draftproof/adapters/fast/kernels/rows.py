"""What every kernel does with rows: read them, add up what is owed, draw from it.

A program has a tile of BLOCK_B requests and BLOCK_V tokens at a time: one request where the
vocabulary is large, many where it is small. Probabilities of logits are made as they are read, from
five numbers of their row: scale, least, last and largest (see `batch.Softmax`; of what is kept),
and the logarithm of the mass when the largest has mass 1. The largest is taken off before all else:
large logits have few digits, and scaled ones fewer. Offsets are int64: rows of a batch hold more
than 2**31 numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl


class ModelRows(NamedTuple):
    """The rows [N, W] of a model, and which of them is where, at [B, K, D].

    They lie `stride` numbers apart, and their tokens `step`; where rows are INDEXED, their numbers
    are in `index`, and where they are NARROW, W is less than V. `soft` has the dtype that is
    computed in, whatever it holds.
    """

    entry: tl.tensor
    stride: tl.tensor
    step: tl.tensor
    soft: tl.tensor
    at: tl.tensor
    depths: tl.tensor
    LOGITS: tl.constexpr
    index: tl.tensor
    INDEXED: tl.constexpr
    width: tl.tensor
    NARROW: tl.constexpr
    vocabulary: tl.tensor


class Position(NamedTuple):
    """The rows of target and draft at one position of BLOCK_B requests, those that are `active`."""

    p: ModelRows
    p_row: tl.tensor
    q: ModelRows
    q_row: tl.tensor
    active: tl.tensor


@triton.jit
def opened(rows, vocabulary):
    """Return the model of what `launch.model` made of rows of V tokens."""
    return ModelRows(
        rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7], rows[8], rows[9],
        rows[10], vocabulary,
    )  # fmt: skip


@triton.jit
def batch_of(p, q, lengths, requests, vocabulary, BLOCK_B: tl.constexpr):
    """Return both models, and this program's requests [BLOCK_B], which are real, and how long."""
    request = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    real = request < requests
    length = tl.load(lengths + request, mask=real, other=-1)
    return opened(p, vocabulary), opened(q, vocabulary), request, real, length


@triton.jit
def position(p, q, path, depth, active):
    """Return the position at a depth [BLOCK_B] of paths that are numbered b K + k [BLOCK_B]."""
    p_row = tl.load(p.at + path * p.depths + depth, mask=active, other=0)
    drafted = active & (depth < q.depths)
    q_row = tl.load(q.at + path * q.depths + depth, mask=drafted, other=0)
    return Position(p, p_row, q, q_row, active)


@triton.jit
def probability(model, row, token, inside):
    """Return the probabilities of tokens in rows, of one shape or broadcast, 0 where not inside."""
    if model.NARROW:
        inside &= token < model.width
    number = tl.load(model.index + row) if model.INDEXED else row
    place = number * model.stride + token.to(tl.int64) * model.step
    x = tl.load(model.entry + place, mask=inside, other=0.0)
    x = x.to(model.soft.dtype.element_ty)
    if model.LOGITS:
        soft = model.soft + row * 5
        scale = tl.load(soft, mask=inside, other=0.0)
        least = tl.load(soft + 1, mask=inside, other=0.0)
        last = tl.load(soft + 2, mask=inside, other=0.0)
        largest = tl.load(soft + 3, mask=inside, other=0.0)
        log_mass = tl.load(soft + 4, mask=inside, other=0.0)
        is_kept = inside & ((x > least) | ((x == least) & (token <= last)))
        x = tl.where(is_kept, tl.exp((x - largest) * scale - log_mass), 0.0)
    return x


@triton.jit
def ratio(at, token):
    """Return p / q [BLOCK_B] of a token of each request, as `excess.ratio` does in torch.

    It is rounded as IEEE 754 says, so that it is 1 where p = q; `/` of float32 may be off there.
    """
    p = probability(at.p, at.p_row, token, at.active)
    q = probability(at.q, at.q_row, token, at.active)
    # The largest float32 stands for infinity: times 0 it is 0.
    most = 3.4028234663852886e38
    divisor = tl.where(q > 0, q, 1.0)
    quotient = p / divisor if p.dtype == tl.float64 else tl.div_rn(p, divisor)
    quotient = tl.minimum(quotient, most)
    return tl.where(q > 0, quotient, tl.where(p > 0, most, 0.0))


@triton.jit
def excess(of, tokens, inside):
    """Return (a p - c q)+ of tokens [1 or BLOCK_B, BLOCK_V], with a, c [BLOCK_B].

    `of` is a position, a and c. It is 0 where not `inside` [BLOCK_B, BLOCK_V]; where c = 0, q is
    not read.
    """
    at, a, c = of[0], of[1], of[2]
    inside &= at.active[:, None]
    p = probability(at.p, at.p_row[:, None], tokens, inside)
    q = probability(at.q, at.q_row[:, None], tokens, inside & (c != 0)[:, None])
    return tl.maximum(a[:, None] * p - c[:, None] * q, 0.0)


@triton.jit
def mass(at, a, c, first, end, BLOCK_V: tl.constexpr):
    """Return the sum [BLOCK_B] of `excess` over the tokens first..end-1."""
    total = tl.full([at.active.shape[0], BLOCK_V], 0.0, at.p.soft.dtype.element_ty)
    for start in range(first, end, BLOCK_V):
        tokens = (start + tl.arange(0, BLOCK_V))[None, :]
        total += excess((at, a, c), tokens, tokens < end)
    return tl.sum(total, 1)


@triton.jit
def piece_at(mark, sums, pieces, active):
    """Return the piece [BLOCK_B] of a row at a mark [BLOCK_B], where in it that is, and the total.

    `sums` [BLOCK_B] point to the mass of each of the `pieces`, which are added up in float64.
    """
    total = tl.zeros_like(mark)
    for piece in range(pieces):
        total += tl.load(sums + piece, mask=active, other=0.0)
    here = mark * total
    chosen = tl.full([mark.shape[0]], 0, tl.int64)
    start, before = tl.zeros_like(mark), tl.zeros_like(mark)
    for piece in range(pieces):
        own = tl.load(sums + piece, mask=active, other=0.0)
        # A piece without weight is never drawn from, nor one behind the last that has some.
        is_next = (own > 0) & (before <= here)
        chosen, start = tl.where(is_next, piece, chosen), tl.where(is_next, before, start)
        before += own
    return chosen, here - start, total


@triton.jit
def drawn(WEIGHTS: tl.constexpr, of, here, first, size, vocabulary, active, BLOCK_V: tl.constexpr):
    """Return the token [BLOCK_B] at which the running sum of weights rises above `here` [BLOCK_B].

    `WEIGHTS(of, tokens, inside)` are those of a tile, 0 where not `inside`. The sum runs in float64
    over the `size` tokens from `first` [BLOCK_B] on, of requests that are `active`. Where, as
    rounding has it, it never gets there, it is the last token that has any weight.
    """
    token, before = first, tl.zeros_like(here)
    searching = active
    for step in range(0, size, BLOCK_V):
        if tl.max(searching.to(tl.int32)) > 0:
            own = step + tl.arange(0, BLOCK_V)
            tokens = first[:, None] + own[None, :]
            inside = (own < size)[None, :] & (tokens < vocabulary) & searching[:, None]
            weights = WEIGHTS(of, tokens, inside)
            last = tl.max(tl.where(weights > 0, tokens, -1), 1)
            token = tl.where(last >= 0, last, token)
            after = before + tl.sum(weights, 1)
            found = searching & (after > here)
            if tl.max(found.to(tl.int32)) > 0:
                running = before[:, None] + tl.cumsum(weights.to(tl.float64), 1)
                above = tl.min(tl.where(running > here[:, None], tokens, vocabulary), 1)
                token = tl.where(found, tl.minimum(above, token), token)
            searching &= ~found
            before = after
    return token
