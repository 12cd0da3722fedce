"""Token verification's own step of the pipeline: one row is open, that of the first rejection."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.deciding import chain, leave_open
from draftproof.adapters.fast.kernels.pipeline import verified
from draftproof.adapters.fast.kernels.sources import numbers, requests_of


def token(flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.token.token` does."""
    return verified(_decide, flat)


@triton.jit
def _decide(
    p, q, drafts, stats, left, noise,
    BLOCK_B: tl.constexpr, DEPTHS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Accept tokens as `fast.token.token` does, and leave the row behind them."""
    request, real = requests_of(drafts, BLOCK_B)
    path = chain(p, q, drafts, stats, request, real, DEPTHS, PIECES)
    is_drafted = path.depth < path.length[:, None]
    coin = numbers(noise, request[:, None], is_drafted, path.depth, 0, path.depth)
    # Strictly below: a coin of exactly 0 must not accept what the target never says.
    refused = ~(is_drafted & (coin < path.ratio))
    kept = tl.sum((tl.cumsum(refused.to(tl.int32), 1) == 0).to(tl.int64), 1)
    a = tl.where(path.depth == kept[:, None], 1.0, -1.0)
    leave_open(left, drafts, path, request, real, a, coin * 0 - 1)
