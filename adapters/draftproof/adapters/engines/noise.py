"""Random numbers that torch has drawn, for kernels that would make their own.

A kernel's seed is the address of the numbers, its position is their row: the first of a row is the
coin, those behind are for the tokens. Rows are so far apart that a kernel may read past its
vocabulary, where it masks what it reads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_WIDTH = tl.constexpr(2**18 + 2**13)


def drawn(positions: int, vocabulary: int, generator: torch.Generator | None) -> Tensor:
    """Return numbers [positions, width], of which 1 + V in every row are drawn from [0, 1).

    Those for tokens are made of clocks, which a kernel makes of them again: it is a race.
    """
    numbers = torch.empty(positions, _WIDTH.value)
    numbers[:, 0] = torch.rand(positions, generator=generator)
    clocks = torch.empty(positions, vocabulary).exponential_(generator=generator)
    numbers[:, 1 : 1 + vocabulary] = -torch.expm1(-clocks)
    return numbers


@triton.jit
def coin(seed, position, includes_zero: tl.constexpr):  # noqa: ARG001  # torch's do
    """Return the coin of a position."""
    return tl.load(seed.to(tl.pointer_type(tl.float32)) + position * _WIDTH)


@triton.jit
def uniform(seed, position, token):
    """Return the numbers of tokens at a position."""
    return tl.load(seed.to(tl.pointer_type(tl.float32)) + position * _WIDTH + 1 + token)


@triton.jit
def same(seed, step):  # noqa: ARG001  # a position has numbers of its own
    """Return the seed."""
    return seed


@triton.jit
def log1p(value):
    """Return log(1 + value) of float32."""
    return tl.log(1.0 + value.to(tl.float64)).to(tl.float32)
