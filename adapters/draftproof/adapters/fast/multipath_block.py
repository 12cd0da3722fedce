"""Greedy multi-path block verification: follow the highest-ranked path, verify it as a block."""

from __future__ import annotations

from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.mixture import verified
from draftproof.conformance.adapter import Result


def multipath_block(batch: Batch, noise: Tensor) -> Result:
    """Go down to the highest-ranked sibling every time; verify the path against its skewed law.

    `noise` [B, L+1]: a coin for each prefix, and the mark of the next token. The law of the path is
    that of `mixture`, with a share of 1.
    Source: arXiv 2602.16961.
    """
    return verified(batch, noise[:, :-1], noise[:, -1])
