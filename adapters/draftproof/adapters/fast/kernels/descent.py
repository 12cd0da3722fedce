"""The walk from the root down as one Triton kernel: one program for a whole request.

A rule is a kernel function `RULE(at, node, BLOCK_V)`, handed to the walk. It returns the token of
the sibling that is kept, -1 for none, and what it owes where it keeps none: b, c, `weight`, and the
paths whose tokens are `apart`, see `fast.descent`. Sets of paths are the bits of an int64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.kernels.launch import model, tiles
from draftproof.adapters.fast.kernels.rows import Position, batch_of, drawn, position, probability
from draftproof.conformance.adapter import Result


class DescentNode(NamedTuple):
    """What was drafted after the nodes of BLOCK_B requests, at one depth."""

    tokens: tl.tensor
    noise: tl.tensor
    siblings: tl.tensor
    depth: tl.tensor
    length: tl.tensor
    drafts: tl.tensor


def descend(batch: Batch, rule: Any, noise: Tensor, *, scheme: str, warps: int = 4) -> Result:
    """Go down as `fast.descent.descend` does; the mark of the next token is the last of `noise`."""
    rows, vocabulary = len(batch.lengths), batch.vocabulary
    cut = tiles(rows, vocabulary, whole=True)
    accepted, path, next_token = (torch.empty_like(batch.lengths) for _ in range(3))
    _descend[(cut.programs,)](
        model(batch.p, vocabulary), model(batch.q, vocabulary), batch.tokens, _steps(batch),
        batch.lengths, noise, accepted, path, next_token, rows, vocabulary, batch.drafts,
        noise.shape[1],
        rule, scheme == "iid", cut.requests, cut.tokens, num_warps=warps,
    )  # fmt: skip
    return Result(accepted, path, next_token)


def _steps(batch: Batch) -> Tensor:
    """Return how many paths there are below a token of each depth, [L] int64."""
    steps = torch.ones(batch.length, dtype=torch.int64, device=batch.tokens.device)
    for depth, width in enumerate(batch.branching or ()):
        steps[:depth] *= width
    return steps


@triton.jit
def _descend(
    p, q, tokens, steps, lengths, noise, accepted, paths, next_tokens, requests, vocabulary, drafts,
    width, RULE: tl.constexpr, IID: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write what is emitted for each request."""
    p, q, request, active, length = batch_of(p, q, lengths, requests, vocabulary, BLOCK_B)
    FLOAT: tl.constexpr = p.soft.dtype.element_ty
    tokens += request * drafts * q.depths
    noise += request * width
    kept, path = tl.full([BLOCK_B], 0, tl.int64), tl.full([BLOCK_B], 0, tl.int64)
    alive = (kept + 1 << drafts) - 1
    b, c = tl.full([BLOCK_B], 1.0, FLOAT), tl.full([BLOCK_B], 0.0, FLOAT)
    apart, weight = kept, c
    going = active & (length > 0)
    for depth in range(q.depths):
        if tl.max(going.to(tl.int32)) > 0:
            at = position(p, q, request * drafts + path, request * 0 + depth, going)
            step = tl.load(steps + depth)
            siblings = _siblings(tokens + depth, alive, going, q.depths, drafts, step, IID)
            node = DescentNode(tokens + depth, noise, siblings, depth, q.depths, drafts)
            token, own_b, own_c, own_weight, own_apart = RULE(at, node, BLOCK_V)
            stops = going & (token < 0)
            b, c = tl.where(stops, own_b, b), tl.where(stops, own_c, c)
            weight, apart = tl.where(stops, own_weight, weight), tl.where(stops, own_apart, apart)
            going &= token >= 0
            for i in range(drafts):
                k = drafts - 1 - i
                drafted = tl.load(node.tokens + k * q.depths, mask=going, other=-1)
                is_lost = going & (drafted != token)
                alive = tl.where(is_lost, alive & ~(request * 0 + 1 << k), alive)
                path = tl.where((alive >> k & 1) > 0, k, path)
            kept += going.to(tl.int64)
            going &= kept < length
    at = position(p, q, request * drafts + path, kept, active)
    mark = tl.load(noise + width - 1, mask=active, other=0.0)
    behind = DescentNode(tokens + kept, noise, apart, kept, q.depths, drafts)
    tl.store(accepted + request, kept, mask=active)
    tl.store(paths + request, path, mask=active)
    tl.store(next_tokens + request, _next(at, behind, b, c, weight, mark, BLOCK_V), mask=active)


@triton.jit
def _siblings(tokens, alive, going, length, drafts, step, IID: tl.constexpr):
    """Return the paths that were drawn after the node, one for each sibling."""
    found = tl.where(going, alive, 0)
    for k in range(drafts):
        if IID:
            is_one = k % step == 0
        else:
            own = tl.load(tokens + k * length, mask=going, other=0)
            is_one = going
            for j in range(k):
                other = tl.load(tokens + j * length, mask=going, other=0)
                is_one &= ((alive >> j & 1) == 0) | (other != own)
        found = tl.where(is_one, found, found & ~(alive * 0 + 1 << k))
    return found


@triton.jit
def sibling(at, node, k):
    """Return the token [BLOCK_B] of path k, and which requests have it as a sibling."""
    token = tl.load(node.tokens + k * node.length, mask=at.active, other=0)
    return token, at.active & ((node.siblings >> k & 1) > 0)


@triton.jit
def coin(node, k, active):
    """Return the coin [BLOCK_B] of the token of path k."""
    return tl.load(node.noise + k * node.length + node.depth, mask=active, other=1.0)


@triton.jit
def among(at, active):
    """Return the position with other requests active."""
    return Position(at.p, at.p_row, at.q, at.q_row, active)


@triton.jit
def reciprocal(mass):
    """Return 1 / mass [BLOCK_B], at most what is a float."""
    return 1 / tl.maximum(mass, 1.1754943508222875e-38)


@triton.jit
def replaced(x, tokens, node, paths, weight):
    """Return weights x [BLOCK_B, BLOCK_V] with `weight` [BLOCK_B] at the tokens of some paths."""
    for k in range(node.drafts):
        is_one = (paths >> k & 1) > 0
        own = tl.load(node.tokens + k * node.length, mask=is_one, other=-1)
        x = tl.where(tokens == own[:, None], weight[:, None], x)
    return x


@triton.jit
def masses_without(at, node, paths, c, BLOCK_V: tl.constexpr):
    """Return the masses [BLOCK_B] of q, (p - c q)+ and (c q - p)+ without the tokens of paths."""
    none = tl.full([at.active.shape[0]], 0.0, at.p.soft.dtype.element_ty)
    rest, below, above = none, none, none
    for start in range(0, at.p.vocabulary, BLOCK_V):
        tokens = (start + tl.arange(0, BLOCK_V))[None, :]
        inside = (tokens < at.p.vocabulary) & at.active[:, None]
        p = probability(at.p, at.p_row[:, None], tokens, inside)
        q = probability(at.q, at.q_row[:, None], tokens, inside)
        p, q = replaced(p, tokens, node, paths, none), replaced(q, tokens, node, paths, none)
        rest += tl.sum(q, 1)
        below += tl.sum(tl.maximum(p - c[:, None] * q, 0.0), 1)
        above += tl.sum(tl.maximum(c[:, None] * q - p, 0.0), 1)
    return rest, below, above


@triton.jit
def _owed(of, tokens, inside):
    """Return what is owed to a tile of tokens, 0 where not `inside`; `node.siblings` are apart."""
    at, node, b, c, weight = of[0], of[1], of[2], of[3], of[4]
    inside &= at.active[:, None]
    p = probability(at.p, at.p_row[:, None], tokens, inside)
    q = probability(at.q, at.q_row[:, None], tokens, inside & (c != 0)[:, None])
    owed = tl.maximum((1 - b)[:, None] * p - c[:, None] * q, 0.0)
    if tl.max(node.siblings) > 0:
        owed = replaced(owed, tokens, node, node.siblings, weight)
    return tl.where(inside, owed + b[:, None] * p, 0.0)


@triton.jit
def _mass(of, BLOCK_V: tl.constexpr):
    """Return the sum [BLOCK_B] of what is owed."""
    vocabulary = of[0].p.vocabulary
    total = tl.zeros([of[0].active.shape[0]], tl.float64)
    for start in range(0, vocabulary, BLOCK_V):
        tokens = (start + tl.arange(0, BLOCK_V))[None, :]
        total += tl.sum(_owed(of, tokens, tokens < vocabulary), 1)
    return total


@triton.jit
def _next(at, node, b, c, weight, mark, BLOCK_V: tl.constexpr):
    """Return the token [BLOCK_B] at the mark [BLOCK_B] of what is owed."""
    total = _mass((at, node, b, c, weight), BLOCK_V)
    is_void = at.active & (total == 0)
    if tl.max(is_void.to(tl.int32)) > 0:
        # Target and draft differ by rounding alone: there is no residual, and p is drawn from.
        b, c = tl.where(is_void, 1.0, b).to(b.dtype), tl.where(is_void, 0.0, c).to(c.dtype)
        total += _mass((among(at, is_void), node, b, c, weight), BLOCK_V)
    of, first = (at, node, b, c, weight), tl.full([mark.shape[0]], 0, tl.int64)
    V = at.p.vocabulary
    return drawn(_owed, of, mark * total, first, V, V, at.active, BLOCK_V)
