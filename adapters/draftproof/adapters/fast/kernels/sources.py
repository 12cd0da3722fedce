"""What kernels are given: the rows of two models, drafts, and numbers; and how they read them.

Tensors are read where they lie, of whatever strides. A row's place is its position's or, where rows
are INDEXED, what the index says; one beyond the tensor counts as its nearest. Places are int64:
rows of a batch hold more than 2**31 numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from triton.language import target_info

from draftproof.adapters.fast.counters import MARK, OURS
from draftproof.adapters.fast.kernels import IS_INTERPRETED

PROBABILITIES, LOGITS, CERTAIN = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""What rows hold: or there are none, of a draft that is certain of its tokens."""

_LOG2_E = tl.constexpr(1.4426950408889634)
_MARK, _OURS = tl.constexpr(MARK), tl.constexpr(OURS)


class ModelRows(NamedTuple):
    """The rows of a model at N positions of K drafts, `stride` apart, and their tokens `step`.

    The one of a draft at a position is number `by_position` n + `by_draft` k. They are HEATED by a
    `temperature` [B]. Some tokens of rows that are CUT are never said: which is TOLD by `least` and
    `last` [M], or found.
    """

    entry: Any
    stride: Any
    step: Any
    width: Any
    positions: Any
    by_position: Any
    by_draft: Any
    index: Any
    least: Any
    last: Any
    temperature: Any
    DENSE: tl.constexpr
    KIND: tl.constexpr
    INDEXED: tl.constexpr
    CUT: tl.constexpr
    TOLD: tl.constexpr
    HEATED: tl.constexpr


class Drafts(NamedTuple):
    """The tokens [n, K] of B requests, at most L of each, and where each one's end."""

    tokens: Any
    by_position: Any
    by_draft: Any
    count: Any
    ends: Any
    step: Any
    requests: Any
    drafts: Any
    longest: Any
    vocabulary: Any


class Numbers(NamedTuple):
    """Noise [B, W], or the seeds and positions [B] that it is COUNTED from."""

    noise: Any
    width: Any
    seeds: Any
    positions: Any
    COUNTED: tl.constexpr


class Soft(NamedTuple):
    """How logits become probabilities: 2**((x - largest) scale - log_mass), of those kept.

    Those are above `least`, or equal to it with an id of at most `last`.
    """

    scale: tl.tensor
    largest: tl.tensor
    log_mass: tl.tensor
    least: tl.tensor
    last: tl.tensor


@triton.jit
def requests_of(drafts, BLOCK_B: tl.constexpr):
    """Return the requests [BLOCK_B] of this program, and which of them are real."""
    request = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    return request, request < drafts.requests


@triton.jit
def span(drafts, request, real):
    """Return where a request's drafts begin, and how many tokens it was given."""
    end = tl.load(drafts.ends + request * drafts.step, mask=real, other=0).to(tl.int64)
    is_later = real & (request > 0)
    start = tl.load(drafts.ends + (request - 1) * drafts.step, mask=is_later, other=0).to(tl.int64)
    return start, tl.minimum(tl.maximum(end - start, 0), drafts.longest)


@triton.jit
def drafted(drafts, start, given, draft, depth):
    """Return the tokens of a draft at depths, -1 where there is none; shapes are broadcast."""
    position = tl.maximum(start + depth, 0)
    inside = (depth < given) & (position < drafts.count)
    where = position * drafts.by_position + draft * drafts.by_draft
    token = tl.load(drafts.tokens + where, mask=inside, other=-1).to(tl.int64)
    return tl.where((token >= 0) & (token < drafts.vocabulary), token, -1)


@triton.jit
def numbers(of, request, real, which, lane, depth):
    """Return coins in [0, 1), float64, each the `which`-th of its request's, of a lane and a depth.

    Where they are counted, they are those of `fast.counters`. Shapes are broadcast.
    """
    return _number(of, request, real, which, (lane << 16) | depth)


@triton.jit
def mark_of(of, request, real, which):
    """Return the mark of the next token of requests, the `which`-th of their numbers."""
    return _number(of, request, real, which, request * 0 + _MARK)


@triton.jit
def _number(of, request, real, which, column):
    if not of.COUNTED:
        return tl.load(of.noise + request * of.width + which, mask=real, other=2.0)
    seed = tl.load(of.seeds + request, mask=real, other=0).to(tl.int64)
    position = tl.load(of.positions + request, mask=real, other=0).to(tl.int64)
    none = (column + position) * 0
    high, low, _, _ = tl.philox(
        seed + none,
        ((position + none) & 0xFFFFFFFF).to(tl.uint32),
        (((position + none) >> 32) & 0xFFFFFFFF).to(tl.uint32),
        (column + none).to(tl.uint32),
        (none + _OURS).to(tl.uint32),
    )
    return (high.to(tl.int64) * 2097152 + (low.to(tl.int64) >> 11)).to(tl.float64) * 2.0**-53


@triton.jit
def place_of(rows, position, draft):
    """Return the number of a row by which its cut is known, and the one by which it lies."""
    nearest = tl.minimum(tl.maximum(position, 0), rows.positions - 1)
    site = nearest * rows.by_position + draft * rows.by_draft
    if not rows.INDEXED:
        return site, site
    # Of a batch that has no positions there is no nearest one.
    return site, tl.load(rows.index + site, mask=nearest >= 0, other=0).to(tl.int64)


@triton.jit
def entries(rows, place, token, active):
    """Return what stands in rows at tokens: logits, -inf where there is none, or probabilities."""
    other: tl.constexpr = -float("inf") if rows.KIND == LOGITS else 0.0
    # Within a row offsets are those of tokens, which are added to one pointer.
    first = rows.entry + place * rows.stride
    where = first + (token if rows.DENSE else token.to(tl.int64) * rows.step)
    return tl.load(where, mask=active & (token < rows.width), other=other)


@triton.jit
def chance(rows, place, soft, token, active):
    """Return the probabilities of tokens in rows, 0 where not active, in the dtype of `soft`."""
    if rows.KIND == CERTAIN:
        return (active & (token == place)).to(soft.scale.dtype)
    x = entries(rows, place, token, active).to(soft.scale.dtype)
    if rows.KIND == LOGITS:
        if rows.CUT:
            x = cut(x, token, soft.least, soft.last)
        # The largest is taken off first: large logits have few digits, and scaled ones fewer.
        x = exponential((x - soft.largest) * soft.scale - soft.log_mass)
    return x


@triton.jit
def cut(x, token, least, last):
    """Return logits of tokens, -inf where they are not kept."""
    return tl.where((x > least) | ((x == least) & (token <= last)), x, -float("inf"))


@triton.jit
def _two_to(x):
    return tl.exp2(x)


@triton.jit
def _two_to_on_a_gpu(x):
    if x.dtype != tl.float32 or not target_info.is_cuda():
        return tl.exp2(x)
    return tl.inline_asm_elementwise(
        "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


exponential = _two_to if IS_INTERPRETED else _two_to_on_a_gpu
"""2**x; what is below 2**-126 may count as 0. Launches of what names no GPU can be recorded."""


@triton.jit
def heat(rows, request, real, FLOAT: tl.constexpr):
    """Return log2(e) / temperature, and which requests are sure of their most probable token."""
    if not rows.HEATED:
        return tl.full(request.shape, 1.4426950408889634, FLOAT), request < 0
    warm = tl.load(rows.temperature + request, mask=real, other=1.0).to(FLOAT)
    is_sure = ~(warm > 0)
    # The bounds of `sampling`.
    warm = tl.minimum(tl.maximum(tl.where(is_sure, 1.0, warm), 7.888609052210118e-31), 2.0**100)
    return (1.0 / warm) * _LOG2_E, is_sure
