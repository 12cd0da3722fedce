"""What kernels do with rows of both models: add up what is owed, and draw from it.

A program has a tile of BLOCK_B requests and BLOCK_V tokens at a time: one request where the
vocabulary is large, many where it is small.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from draftproof.adapters.fast.kernels.sources import Soft, chance


class Position(NamedTuple):
    """Where the rows of target and draft are at one position of BLOCK_B requests, of the `active`.

    The models' sources go beside it: what a function of Triton's returns has no constants.
    """

    p_place: tl.tensor
    p_soft: Soft
    q_place: tl.tensor
    q_soft: Soft
    active: tl.tensor


@triton.jit
def wide(soft):
    """Return what makes rows [BLOCK_B] probabilities, for a tile of tokens."""
    return Soft(
        soft.scale[:, None], soft.largest[:, None], soft.log_mass[:, None], soft.least[:, None],
        soft.last[:, None],
    )  # fmt: skip


@triton.jit
def among(at, active):
    """Return the position with other requests active."""
    return Position(at.p_place, at.p_soft, at.q_place, at.q_soft, active)


@triton.jit
def p_of(p, at, token, active):
    """Return the target's probabilities [BLOCK_B] of a token of each request."""
    return chance(p, at.p_place, at.p_soft, token, active)


@triton.jit
def q_of(q, at, token, active):
    """Return the draft's probabilities [BLOCK_B] of a token of each request, 0 without a row."""
    return chance(q, at.q_place, at.q_soft, token, active & (at.q_place >= 0))


@triton.jit
def p_tile(p, at, tokens, active):
    """Return the target's probabilities [BLOCK_B, BLOCK_V] of a tile of tokens."""
    return chance(p, at.p_place[:, None], wide(at.p_soft), tokens, active[:, None])


@triton.jit
def q_tile(q, at, tokens, active):
    """Return the draft's probabilities [BLOCK_B, BLOCK_V] of a tile of tokens."""
    is_drafted = active & (at.q_place >= 0)
    return chance(q, at.q_place[:, None], wide(at.q_soft), tokens, is_drafted[:, None])


@triton.jit
def ratio(x, y):
    """Return x / y, as `excess.ratio` does in torch.

    It is rounded as IEEE 754 says, so that it is 1 where x = y; `/` of float32 may be off there.
    """
    # The largest float32 stands for infinity: times 0 it is 0.
    most = 3.4028234663852886e38
    over = tl.where(y > 0, y, 1.0)
    quotient = x / over if x.dtype == tl.float64 else tl.div_rn(x, over)
    return tl.where(y > 0, tl.minimum(quotient, most), tl.where(x > 0, most, 0.0))


@triton.jit
def excess(p, q, of, tokens, active):
    """Return (a p - c q)+ of tokens [1 or BLOCK_B, BLOCK_V], with a, c [BLOCK_B].

    `of` is a position, a and c. It is 0 where not `active` [BLOCK_B]; where c = 0, q is not read.
    """
    at, a, c = of[0], of[1], of[2]
    x, y = p_tile(p, at, tokens, active), q_tile(q, at, tokens, active & (c != 0))
    return tl.maximum(a[:, None] * x - c[:, None] * y, 0.0)


@triton.jit
def mass(p, q, at, a, c, vocabulary, BLOCK_V: tl.constexpr):
    """Return the sum [BLOCK_B] of `excess` over all tokens."""
    total = tl.full([at.active.shape[0], BLOCK_V], 0.0, a.dtype)
    for start in range(0, vocabulary, BLOCK_V):
        total += excess(p, q, (at, a, c), (start + tl.arange(0, BLOCK_V))[None, :], at.active)
    return tl.sum(total, 1)


@triton.jit
def piece_mass(WEIGHTS: tl.constexpr, p, q, of, piece, active, BLOCK_V: tl.constexpr):
    """Return the sum [BLOCK_B] of weights over a piece [BLOCK_B] of BLOCK_V tokens."""
    tokens = piece[:, None] * BLOCK_V + tl.arange(0, BLOCK_V)[None, :]
    return tl.sum(WEIGHTS(p, q, of, tokens, active), 1)


@triton.jit
def token_at(
    WEIGHTS: tl.constexpr, p, q, of, here, piece, vocabulary, active, BLOCK_V: tl.constexpr
):  # fmt: skip
    """Return the token at which the running sum of a piece's weights rises above `here` [BLOCK_B].

    It runs in float64. Where, as rounding has it, it never gets there, it is the last token that
    has any weight.
    """
    tokens = piece[:, None] * BLOCK_V + tl.arange(0, BLOCK_V)[None, :]
    weights = WEIGHTS(p, q, of, tokens, active)
    is_above = tl.cumsum(weights.to(tl.float64), 1) > here[:, None]
    last = tl.max(tl.where(weights > 0, tokens, -1), 1)
    return tl.minimum(tl.min(tl.where(is_above, tokens, vocabulary), 1), last).to(tl.int64)


@triton.jit
def drawn(WEIGHTS: tl.constexpr, p, q, of, mark, vocabulary, active, BLOCK_V: tl.constexpr):
    """Return the token at a mark [BLOCK_B] of the running sum of weights, and their total.

    `WEIGHTS(p, q, of, tokens, active)` are those of a tile. Rows are swept twice, a piece again.
    """
    none = tl.zeros_like(mark)
    piece, total = none.to(tl.int32), none
    for start in range(0, vocabulary, BLOCK_V):
        total += piece_mass(WEIGHTS, p, q, of, piece * 0 + start // BLOCK_V, active, BLOCK_V)
    here, before, begin = mark * total, none, none
    for start in range(0, vocabulary, BLOCK_V):
        own = piece_mass(WEIGHTS, p, q, of, piece * 0 + start // BLOCK_V, active, BLOCK_V)
        # A piece without weight is never drawn from, nor one behind the last that has some.
        is_next = (own > 0) & (before <= here)
        piece, begin = tl.where(is_next, start // BLOCK_V, piece), tl.where(is_next, before, begin)
        before += own
    return token_at(WEIGHTS, p, q, of, here - begin, piece, vocabulary, active, BLOCK_V), total
