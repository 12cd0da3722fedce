"""The last step of single-path verification: draw the next token, from one piece of one row."""

from __future__ import annotations

import triton
import triton.language as tl

from draftproof.adapters.fast.kernels.rows import (
    Position,
    drawn,
    excess,
    mass,
    piece_at,
    position,
)


@triton.jit
def next_token(
    p, q, path, accepted, length, a, mark, sums, pieces, size, active, BLOCK_V: tl.constexpr
):  # fmt: skip
    """Return the next token [BLOCK_B] behind what is accepted, as `excess.corrected` does in torch.

    `sums` [BLOCK_B] point to the mass of what is owed there in each of the `pieces` of the row.
    """
    at = position(p, q, path, accepted, active)
    one, none = tl.zeros_like(a) + 1.0, tl.zeros_like(a)
    is_full = accepted == length
    a, c = tl.where(is_full, one, a), tl.where(is_full, none, one)
    piece, here, total = piece_at(mark, sums, pieces, active)
    V = p.vocabulary
    token = drawn(excess, (at, a, c), here, piece * size, size, V, active, BLOCK_V)
    is_void = active & (total == 0)
    if tl.max(is_void.to(tl.int32)) > 0:
        # Target and draft differ by rounding alone: there is no residual, and p is drawn from.
        at = Position(p, at.p_row, q, at.q_row, is_void)
        here = mark * mass(at, one, none, 0, V, BLOCK_V)
        again = drawn(excess, (at, one, none), here, piece * 0, V, V, is_void, BLOCK_V)
        token = tl.where(is_void, again, token)
    return token
