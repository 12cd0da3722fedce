"""Greedy block verification: keep what draft and target share, and let the next block repay it.

Of several paths, one after another is verified, each against what is still owed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import draw, excess, rows_behind
from draftproof.adapters.fast.modified import (
    Blocks,
    Targets,
    inherited,
    modified,
    state,
    unmodified,
)
from draftproof.conformance.adapter import Result


def greedy_block(batch: Batch, noise: Tensor) -> Result:
    """Test every prefix against the unclipped ratio, keep the longest; hand on what is owed.

    `noise` [B, L+1]: a coin for each prefix, and the mark of the next token. What is handed on is
    said in `modified`. Source: arXiv 2403.10444, appendix.
    """
    node = root(batch)
    node = kept(batch, node, 0, torch.ones_like(node.path, dtype=torch.bool), noise)
    return emitted(batch, node, noise[:, -1])


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


@dataclass(frozen=True)
class BlockNode:
    """How much of its drafts every request keeps, and what the blocks make of the target there."""

    path: Tensor
    """[B] int64: a path through the node."""
    depth: Tensor
    """[B] int64: how many tokens are kept."""
    blocks: Blocks
    targets: Targets


def root(batch: Batch) -> BlockNode:
    """Return the node at which nothing is kept yet."""
    nothing, blocks = torch.zeros_like(batch.lengths), inherited(batch)
    return BlockNode(nothing, nothing, blocks, unmodified(blocks))


def kept(batch: Batch, start: BlockNode, k: int, active: Tensor, coins: Tensor) -> BlockNode:
    """Return the node to which path k is kept, where it is `active` [B], with coins [B, L].

    A path through the start is verified from there on, against the target there. Where it is none,
    the node remains the start; but it has one block more in any case.
    """
    blocks = start.blocks.with_one_more(active)
    path, depth, along = torch.full_like(start.path, k), start.depth, []
    for i in range(batch.length + 1):
        # The larger of (b, d) is 1: so b is min(1, r), and 1 - b what the draft says too often.
        share = blocks.b[:, -1]
        if i < batch.length:
            p, q = batch.p.row(path, i, batch.room[0]), batch.q.row(path, i, batch.room[1])
            targets, owed = modified(p, q, blocks, i, batch.room[2])
        else:
            targets, owed = unmodified(blocks), share
        along.append((blocks.b, blocks.d, targets.a, targets.c, targets.mass))
        if i > 0:
            against = owed + (1 - share)
            passing = torch.where(against > 0, owed / against, 1.0)
            passing = torch.where(blocks.end == i, share, passing)
            is_behind = active & (start.depth < i) & (i <= blocks.end)
            passes = coins[:, i - 1] < torch.where(is_behind, passing, 0)
            depth = torch.where(passes, i, depth)
        if i < batch.length:
            token = batch.token(path, i)[:, None]
            said = blocks.after(targets, p.gather(1, token)[:, 0], q.gather(1, token)[:, 0])
            is_on = (start.depth <= i)[:, None]
            b, d = torch.where(is_on, said.b, blocks.b), torch.where(is_on, said.d, blocks.d)
            blocks = replace(blocks, b=b, d=d)
    row = torch.arange(len(path), device=path.device)
    b, d, *here = (torch.stack(each, 1)[row, depth] for each in zip(*along, strict=True))
    before = (torch.cat([each, each[:, -1:]], 1) for each in start.targets)
    targets = Targets(
        *(torch.where(active[:, None], *pair) for pair in zip(here, before, strict=True))
    )
    return BlockNode(
        torch.where(active, path, start.path), depth, replace(blocks, b=b, d=d), targets
    )


def emitted(batch: Batch, node: BlockNode, mark: Tensor) -> Result:
    """Return what is emitted: the next token is drawn from what the last block leaves there."""
    p, q = rows_behind(batch, node.path, node.depth)
    a, c = (each[:, -1].to(p.dtype) for each in (node.targets.a, node.targets.c))
    token = draw(excess(p, q, a, c, out=batch.room[2]), mark)
    said = (row.gather(1, token[:, None])[:, 0] for row in (p, q))
    blocks = node.blocks.after(node.targets, *said)
    return Result(node.depth, node.path, token, state(blocks, node.depth + 1, batch.length))
