"""Block verification's own step of the pipeline: the rows whose mass can change what is kept."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.deciding import chain, leave_open, undecided
from draftproof.adapters.fast.kernels.pipeline import verified
from draftproof.adapters.fast.kernels.sources import numbers, requests_of


def block(flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.block.block` does."""
    return verified(_decide, flat)


@triton.jit
def _decide(
    p, q, drafts, stats, left, noise,
    BLOCK_B: tl.constexpr, DEPTHS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Weigh prefixes as `fast.block.block` does, and leave open what weights do not decide."""
    request, real = requests_of(drafts, BLOCK_B)
    path = chain(p, q, drafts, stats, request, real, DEPTHS, PIECES)
    weight = tl.sum(path.ratio * 0, 1) + 1
    weights = path.ratio * 0 + 1
    for i in range(drafts.longest):
        step = tl.sum(tl.where(path.depth == i, path.ratio, 0.0), 1)
        weight = tl.minimum(weight * step, 1.0)
        weights = tl.where(path.depth == i + 1, weight[:, None], weights)
    length = path.length[:, None]
    is_behind = (path.depth > 0) & (path.depth <= length)
    coin = numbers(noise, request[:, None], is_behind, path.depth - 1, 0, path.depth - 1)
    a, coin = undecided(path.depth, length, weights, coin)
    leave_open(left, drafts, path, request, real, a, coin)
