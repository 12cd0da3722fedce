"""Block verification's own step of the pipeline: the rows whose mass can change what is kept."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import Flat
from draftproof.adapters.fast.kernels.deciding import chain, leave_open
from draftproof.adapters.fast.kernels.pipeline import verified
from draftproof.adapters.fast.kernels.sources import numbers, requests_of

SLACK = tl.constexpr(2.0**-10)


def block(flat: Flat) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.block.block` does."""
    return verified(_decide, flat)


@triton.jit
def _decide(
    p, q, drafts, stats, left, noise,
    BLOCK_B: tl.constexpr, DEPTHS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Weigh prefixes as `fast.block.block` does, and leave open what is not decided by weights.

    With h = m / (m + 1 - w), and m <= w but for rounding: a coin that is not below w fails whatever
    the mass, and w = 1 passes. So the deepest prefix that passes for sure, and those behind it
    whose coin is below their weight, are all that can be kept.
    """
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
    is_sure = tl.where(path.depth == length, coin < weights, weights == 1) & is_behind
    sure = tl.max(tl.where(is_sure, path.depth, 0), 1)[:, None]
    is_open = is_behind & (path.depth < length) & (path.depth > sure)
    is_open &= (coin < weights * (1 + SLACK)) & (weights < 1)
    a = tl.where(path.depth == length, 1.0, weights)
    a = tl.where(is_open | (path.depth == sure), a, -1.0)
    leave_open(left, drafts, path, request, real, a, tl.where(path.depth == sure, -1.0, coin))
