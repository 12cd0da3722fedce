"""What kernels begin with that go through a request's rows one after another.

Which row is read next depends on the last one's mass, so there are no open rows to list: a program
does all of a request, from the stats of its rows on. Two numbers are made before, for all of them:
how long each request's drafts are, and what makes each row's logits probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.launch import GivenBatch, blocks, given_of, power_of_two
from draftproof.adapters.fast.kernels.pipeline import Stats, softmax_at, softmax_of, summed
from draftproof.adapters.fast.kernels.rows import Position
from draftproof.adapters.fast.kernels.sources import (
    CERTAIN,
    Drafts,
    ModelRows,
    drafted,
    place_of,
    requests_of,
    span,
)


class WalkRows(NamedTuple):
    """The lengths [B] of requests, and what makes their rows probabilities, [2, 5, B, K, L+1]."""

    lengths: Any
    soft: Any


class WalkedRequests(NamedTuple):
    """BLOCK_B requests: which are real, where their drafts begin, how many tokens were given."""

    number: tl.tensor
    real: tl.tensor
    start: tl.tensor
    given: tl.tensor
    length: tl.tensor


@triton.jit
def _prepare(
    p: ModelRows, q: ModelRows, drafts: Drafts, stats: Stats, walk: WalkRows,
    BLOCK_B: tl.constexpr, DEPTHS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Write what a walk needs to know of requests before it begins."""
    request, real = requests_of(drafts, BLOCK_B)
    depth = tl.arange(0, DEPTHS)[None, :]
    start, given = span(drafts, request[:, None], real[:, None])
    is_none = (start + depth) < 0
    for draft in range(drafts.drafts):
        is_none |= drafted(drafts, start, given, draft, depth) < 0
    # A position counts if all drafts have a token there, and at all positions before.
    length = tl.sum((tl.cumsum(is_none.to(tl.int32), 1) == 0).to(tl.int64), 1)
    tl.store(walk.lengths + request, length, mask=real)
    rows = drafts.requests * drafts.drafts * (drafts.longest + 1)
    inside = real[:, None] & (depth <= length[:, None])
    for draft in range(drafts.drafts):
        path = request[:, None] * drafts.drafts + draft + depth * 0
        each, where = path // drafts.drafts, path * (drafts.longest + 1) + depth
        p_site, _ = place_of(p, start + request[:, None] + depth, draft)
        q_site, _ = place_of(q, start + depth, draft)
        drawn = inside & (depth < length[:, None])
        p_soft = softmax_of(p, drafts, stats, 0, each, path, depth, p_site, inside, PIECES)
        q_soft = softmax_of(q, drafts, stats, 1, each, path, depth, q_site, drawn, PIECES)
        for i in tl.static_range(5):
            tl.store(walk.soft + i * rows + where, p_soft[i], mask=inside)
            tl.store(walk.soft + (5 + i) * rows + where, q_soft[i], mask=drawn)


@triton.jit
def walked(drafts, walk, BLOCK_B: tl.constexpr):
    """Return the requests of this program."""
    request, real = requests_of(drafts, BLOCK_B)
    start, given = span(drafts, request, real)
    length = tl.load(walk.lengths + request, mask=real, other=-1)
    return WalkedRequests(request, real, start, given, length)


@triton.jit
def token_of(drafts, request, path, depth, active):
    """Return the token [BLOCK_B] of a path of each request at a depth, -1 where not active."""
    token = drafted(drafts, request.start, request.given, path, depth)
    return tl.where(active, token, -1)


@triton.jit
def position(p, q, drafts, walk, request, path, depth, active):
    """Return where the rows of a path of each request are at a depth; shapes are [BLOCK_B]."""
    rows = drafts.requests * drafts.drafts * (drafts.longest + 1)
    slot = (request.number * drafts.drafts + path) * (drafts.longest + 1) + depth
    is_drafted = active & (depth < request.length)
    p_place = place_of(p, request.start + request.number + depth, path)[1]
    q_place = place_of(q, request.start + depth, path)[1]
    if q.KIND == CERTAIN:
        q_place = token_of(drafts, request, path, depth, is_drafted)
    p_soft = softmax_at(walk.soft, rows, slot, active)
    q_soft = softmax_at(walk.soft + 5 * rows, rows, slot, is_drafted)
    return Position(p_place, p_soft, tl.where(is_drafted, q_place, -1), q_soft, active)


@dataclass(frozen=True)
class Walked:
    """What a kernel is launched with that does all of a request."""

    given: GivenBatch
    walk: WalkRows
    programs: int
    requests: int
    """How many a program has."""

    @property
    def of(self) -> tuple[Any, ...]:
        """What every such kernel is given first."""
        return self.given.p, self.given.q, self.given.drafts, self.walk, self.given.noise


def prepared(flat: EngineBatch) -> Walked:
    """Return what a walk over a batch is given, its rows' stats included."""
    given, requests = given_of(flat), len(flat.ends)
    stats, of = summed(flat, given), (given.p, given.q, given.drafts)
    rows = requests * flat.tokens.shape[1] * (flat.longest + 1)
    lengths = flat.room(requests, dtype=torch.int64)
    walk = WalkRows(lengths, flat.room(2, 5, rows))
    shape = power_of_two(flat.longest + 1), power_of_two(given.pieces)
    grid, own = blocks(requests, shape[0] * shape[1], most=1)
    _prepare[(grid,)](*of, stats, walk, own, *shape)
    return Walked(given, walk, *blocks(requests, given.tile))
