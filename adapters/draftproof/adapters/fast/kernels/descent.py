"""The walk from the root down as one Triton kernel: one program for a whole request.

A rule is a kernel function `RULE(p, q, drafts, noise, at, node, BLOCK_V)`, handed to the walk. It
returns the token of the sibling that is kept, -1 for none, and what it owes where it keeps none: b,
c, `weight`, and the paths whose tokens are `apart`, see `fast.descent`. Sets of paths are the bits
of an int64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.launch import power_of_two
from draftproof.adapters.fast.kernels.pipeline import tell
from draftproof.adapters.fast.kernels.rows import drawn, p_tile, q_tile
from draftproof.adapters.fast.kernels.sources import Drafts, ModelRows, Numbers, mark_of, numbers
from draftproof.adapters.fast.kernels.walking import (
    WalkedRequests,
    WalkRows,
    position,
    prepared,
    token_of,
    walked,
)


class DescentNode(NamedTuple):
    """What was drafted after the nodes of BLOCK_B requests, at one depth."""

    request: WalkedRequests
    siblings: tl.tensor
    depth: tl.tensor


def descended(
    rule: Any, flat: EngineBatch, *, scheme: str, warps: int = 4
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Go down as `fast.descent.descend` does."""
    walk, told = prepared(flat), flat.told()
    tile, depths = walk.given.tile, power_of_two(flat.longest + 1)
    _descend[(walk.programs,)](
        *walk.of, walk.given.mark, told, _forks(flat.branching or ()), rule, scheme == "iid",
        walk.requests, tile, depths, num_warps=warps,
    )  # fmt: skip
    return told


def _forks(branching: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return where paths part, at most three times, and into how many: of 8 paths there are."""
    parting = [(depth, width) for depth, width in enumerate(branching) if width > 1]
    parting += [(-1, 1)] * (3 - len(parting))
    return tuple(depth for depth, _ in parting), tuple(width for _, width in parting)


@triton.jit
def _descend(
    p: ModelRows, q: ModelRows, drafts: Drafts, walk: WalkRows, noise: Numbers, mark_at, told,
    forks, RULE: tl.constexpr, IID: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
    DEPTHS: tl.constexpr,
):  # fmt: skip
    """Write what is emitted for each request."""
    FLOAT: tl.constexpr = walk.soft.dtype.element_ty
    request = walked(drafts, walk, BLOCK_B)
    kept, path = tl.full([BLOCK_B], 0, tl.int64), tl.full([BLOCK_B], 0, tl.int64)
    alive = (kept + 1 << drafts.drafts) - 1
    b, c = tl.full([BLOCK_B], 1.0, FLOAT), tl.full([BLOCK_B], 0.0, FLOAT)
    apart, weight = kept, c
    going = request.real & (request.length > 0)
    for depth in range(drafts.longest):
        if tl.max(going.to(tl.int32)) > 0:
            at = position(p, q, drafts, walk, request, path, path * 0 + depth, going)
            siblings = _siblings(drafts, request, alive, depth, going, forks, IID)
            node = DescentNode(request, siblings, path * 0 + depth)
            token, own_b, own_c, own_weight, own_apart = RULE(
                p, q, drafts, noise, at, node, BLOCK_V
            )
            stops = going & (token < 0)
            b, c = tl.where(stops, own_b, b), tl.where(stops, own_c, c)
            weight, apart = tl.where(stops, own_weight, weight), tl.where(stops, own_apart, apart)
            going &= token >= 0
            for i in range(drafts.drafts):
                k = drafts.drafts - 1 - i
                is_lost = going & (token_of(drafts, request, k, depth, going) != token)
                alive = tl.where(is_lost, alive & ~(kept * 0 + 1 << k), alive)
                path = tl.where((alive >> k & 1) > 0, k, path)
            kept += going.to(tl.int64)
            going &= kept < request.length
    at = position(p, q, drafts, walk, request, path, kept, request.real)
    mark = mark_of(noise, request.number, request.real, mark_at)
    behind = DescentNode(request, apart, kept)
    token = _next(p, q, drafts, at, behind, b, c, weight, mark, BLOCK_V)
    tell(drafts, told, request.number, request.real, path, kept, token, DEPTHS)


@triton.jit
def _siblings(drafts, request, alive, depth, going, forks, IID: tl.constexpr):
    """Return the paths that were drawn after the node, one for each sibling."""
    found, step = tl.where(going, alive, 0), 1
    for fork in tl.static_range(3):
        step *= tl.where(forks[0][fork] > depth, forks[1][fork], 1)
    for k in range(drafts.drafts):
        if IID:
            is_one = (alive * 0 + k) % step == 0
        else:
            own = token_of(drafts, request, k, depth, going)
            is_one = going
            for j in range(k):
                other = token_of(drafts, request, j, depth, going)
                is_one &= ((alive >> j & 1) == 0) | (other != own)
        found = tl.where(is_one, found, found & ~(alive * 0 + 1 << k))
    return found


@triton.jit
def sibling(drafts, at, node, k):
    """Return the token [BLOCK_B] of path k, and which requests have it as a sibling."""
    is_one = at.active & ((node.siblings >> k & 1) > 0)
    return token_of(drafts, node.request, k, node.depth, at.active), is_one


@triton.jit
def coin(drafts, noise, node, k, active):
    """Return the coin [BLOCK_B] of the token of path k."""
    request, lane = node.request, node.depth * 0 + k
    return numbers(noise, request.number, active, k * drafts.longest + node.depth, lane, node.depth)


@triton.jit
def reciprocal(mass):
    """Return 1 / mass [BLOCK_B], at most what is a float."""
    return 1 / tl.maximum(mass, 1.1754943508222875e-38)


@triton.jit
def replaced(drafts, x, tokens, node, paths, weight):
    """Return weights x [BLOCK_B, BLOCK_V] with `weight` [BLOCK_B] at the tokens of some paths."""
    for k in range(drafts.drafts):
        own = token_of(drafts, node.request, k, node.depth, (paths >> k & 1) > 0)
        x = tl.where(tokens == own[:, None], weight[:, None], x)
    return x


@triton.jit
def masses_without(p, q, drafts, at, node, paths, c, BLOCK_V: tl.constexpr):
    """Return the masses [BLOCK_B] of q, (p - c q)+ and (c q - p)+ without the tokens of paths."""
    none = tl.zeros_like(c)
    rest, below, above = none, none, none
    for start in range(0, drafts.vocabulary, BLOCK_V):
        tokens = (start + tl.arange(0, BLOCK_V))[None, :]
        x, y = p_tile(p, at, tokens, at.active), q_tile(q, at, tokens, at.active)
        x = replaced(drafts, x, tokens, node, paths, none)
        y = replaced(drafts, y, tokens, node, paths, none)
        rest += tl.sum(y, 1)
        below += tl.sum(tl.maximum(x - c[:, None] * y, 0.0), 1)
        above += tl.sum(tl.maximum(c[:, None] * y - x, 0.0), 1)
    return rest, below, above


@triton.jit
def _owed(p, q, of, tokens, active):
    """Return what is owed to a tile of tokens, 0 where not `active`; `node.siblings` are apart."""
    drafts, at, node, b, c, weight = of[0], of[1], of[2], of[3], of[4], of[5]
    x, y = p_tile(p, at, tokens, active), q_tile(q, at, tokens, active & (c != 0))
    owed = tl.maximum((1 - b)[:, None] * x - c[:, None] * y, 0.0)
    if tl.max(node.siblings) > 0:
        owed = replaced(drafts, owed, tokens, node, node.siblings, weight)
    return tl.where(active[:, None], owed + b[:, None] * x, 0.0)


@triton.jit
def _next(p, q, drafts, at, node, b, c, weight, mark, BLOCK_V: tl.constexpr):
    """Return the token [BLOCK_B] at the mark [BLOCK_B] of what is owed."""
    V = drafts.vocabulary
    token, total = drawn(_owed, p, q, (drafts, at, node, b, c, weight), mark, V, at.active, BLOCK_V)
    is_void = at.active & (total == 0)
    if tl.max(is_void.to(tl.int32)) > 0:
        # Target and draft differ by rounding alone: there is no residual, and p is drawn from.
        whole = drafts, at, node, b * 0 + 1, c * 0, weight
        token = tl.where(is_void, drawn(_owed, p, q, whole, mark, V, is_void, BLOCK_V)[0], token)
    return token
