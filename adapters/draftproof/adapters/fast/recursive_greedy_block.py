"""Recursive greedy block verification: one path after another, each against what is still owed."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.greedy_block import emitted, kept, root
from draftproof.conformance.adapter import Result


def recursive_greedy_block(batch: Batch, noise: Tensor) -> Result:
    """Verify each path through the accepted node greedily, with the target that the last one left.

    `noise` [B, K L + 1]: a coin for each prefix of each path, path by path, and the mark of the
    next token. Each path that is verified opens a block: up to K of them go into the next
    iteration from each of the last L - 1.
    Source: `draftproof.reference.verifiers.recursive_greedy_block`, a lossless relative of
    arXiv 2604.25925.
    """
    node, length = root(batch), batch.length
    for k in range(batch.drafts):
        is_same = (
            batch.tokens[:, k] == batch.tokens.take_along_dim(node.path[:, None, None], 1)[:, 0]
        )
        is_behind = torch.arange(length, device=noise.device) >= node.depth[:, None]
        active = (is_same | is_behind).all(1)
        node = kept(batch, node, k, active, noise[:, k * length : (k + 1) * length])
    return emitted(batch, node, noise[:, -1])
