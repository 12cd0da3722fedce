"""Greedy multi-path block verification as Triton kernels, around sorts of whole rows."""

from __future__ import annotations

from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.kernels.mixture import verified
from draftproof.conformance.adapter import Result


def multipath_block(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.multipath_block.multipath_block` does."""
    return verified(batch, noise, is_mixed=False)
