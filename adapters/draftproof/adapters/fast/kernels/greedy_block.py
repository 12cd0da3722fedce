"""Greedy block verification as a Triton kernel: the recursive one's, of one path."""

from __future__ import annotations

from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.kernels.recursive_greedy_block import recursive_greedy_block
from draftproof.conformance.adapter import Result


def greedy_block(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.greedy_block.greedy_block` does."""
    return recursive_greedy_block(batch, noise)
