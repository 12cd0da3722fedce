"""Traversal verification as a Triton kernel: a program does all of a request.

The nodes of a path are columns of a tile, the root first. Rows are swept once for every child that
is refused, and the draft's once more where the next path parts.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.kernels.launch import model, tiles
from draftproof.adapters.fast.kernels.rows import (
    batch_of,
    drawn,
    excess,
    mass,
    position,
    probability,
)
from draftproof.adapters.fast.traversal import in_order
from draftproof.conformance.adapter import Result


def traversal(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.traversal.traversal` does."""
    rows, vocabulary = len(batch.lengths), batch.vocabulary
    batch, order, shared = in_order(batch)
    cut = tiles(rows, vocabulary, whole=True)
    accepted, path, next_token = torch.empty(3, rows, dtype=torch.int64, device=noise.device)
    _verify[(cut.programs,)](
        model(batch.p, vocabulary), model(batch.q, vocabulary), batch.tokens, batch.lengths, noise,
        order.contiguous(), shared.contiguous(), accepted, path, next_token,
        rows, vocabulary, batch.drafts, cut.requests, cut.tokens,
        triton.next_power_of_2(batch.length + 1),
    )  # fmt: skip
    return Result(accepted, path, next_token)


def traversal_without_replacement(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.traversal.traversal_without_replacement` does."""
    return traversal(batch, noise)


@triton.jit
def _verify(
    p, q, tokens, lengths, noise, order, shared, accepted, paths, next_tokens,
    requests, vocabulary, drafts,
    BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr, DEPTHS: tl.constexpr,
):  # fmt: skip
    """Go from the leaf of path after path towards the root, and draw at the node that is kept."""
    p, q, request, real, length = batch_of(p, q, lengths, requests, vocabulary, BLOCK_B)
    FLOAT: tl.constexpr = p.soft.dtype.element_ty
    tokens += request * drafts * q.depths
    shared += request * drafts * drafts
    noise += request * (drafts * q.depths + 1)
    none = tl.full([BLOCK_B], 0, tl.int64)
    kept, path, searching, before = none, none, real, none - 1
    node = tl.arange(0, DEPTHS)[None, :]
    # What a node is worth, its target (a p - c q)+ / m, and the draft's mass that is left there.
    w = tl.full([BLOCK_B, DEPTHS], 1.0, tl.float64)
    a, c, m, r = w, w * 0.0, w, w
    kept_a, kept_c = tl.full([BLOCK_B], 1.0, FLOAT), tl.full([BLOCK_B], 0.0, FLOAT)

    for k in range(drafts):
        after = tl.load(
            shared + k * drafts + k + 1, mask=searching & (none + k + 1 < drafts), other=-1
        )
        is_new = node > before[:, None]
        a, c = tl.where(is_new, 1.0, a), tl.where(is_new, 0.0, c)
        m, r = tl.where(is_new, 1.0, m), tl.where(is_new, 1.0, r)
        for i in range(q.depths):
            going = searching & (before <= i) & (i < length)
            if tl.max(going.to(tl.int32)) > 0:
                at = position(p, q, request * drafts + k, none + i, going)
                token = tl.load(tokens + k * q.depths + i, mask=going, other=0)
                x = probability(p, at.p_row, token, going).to(tl.float64)[:, None]
                y = probability(q, at.q_row, token, going).to(tl.float64)[:, None]
                top = w * (tl.maximum(a * x - c * y, 0.0) / m)
                bottom = y / r
                is_sure = (top > 0) & (top >= bottom)
                child = tl.where(is_sure, 1.0, top / tl.where(bottom > top, bottom, 1.0))
                child = tl.sum(tl.where(node == i, child, 0.0), 1)
                w = tl.where((node == i + 1) & going[:, None], child[:, None], w)
        for up in range(p.depths):
            i = q.depths - up
            here = node == i
            trying = searching & (after <= i) & (i < length)
            if tl.max(trying.to(tl.int32)) > 0:
                weight = tl.sum(tl.where(here, w, 0.0), 1)
                own_a, own_c = tl.sum(tl.where(here, a, 0.0), 1), tl.sum(tl.where(here, c, 0.0), 1)
                own_m, rest = tl.sum(tl.where(here, m, 0.0), 1), tl.sum(tl.where(here, r, 0.0), 1)
                new_a, new_c = weight * own_a, weight * own_c + own_m / rest
                scale = tl.maximum(new_a, new_c)
                new_a, new_c = new_a / scale, new_c / scale
                at = position(p, q, request * drafts + k, none + i, trying)
                left = mass(at, new_a.to(FLOAT), new_c.to(FLOAT), 0, vocabulary, BLOCK_V)
                left = left.to(tl.float64)
                residual = left * scale / own_m
                against = residual + (1.0 - weight)
                weight = tl.where(against > 0, residual / tl.where(against > 0, against, 1.0), 1.0)
                tried, is_left = here & trying[:, None], here & (trying & (left > 0))[:, None]
                w = tl.where(tried, weight[:, None], w)
                a, c = tl.where(is_left, new_a[:, None], a), tl.where(is_left, new_c[:, None], c)
                m = tl.where(is_left, left[:, None], m)
            deciding = searching & (after < i) & (i <= length)
            if tl.max(deciding.to(tl.int32)) > 0:
                own = tl.load(order + request * drafts + k, mask=deciding, other=0)
                place = noise + own * q.depths + i - 1
                coin = tl.load(place, mask=deciding & (none + i > 0), other=-1.0)
                passes = deciding & (coin < tl.sum(tl.where(here, w, 0.0), 1))
                kept, path = tl.where(passes, i, kept), tl.where(passes, k, path)
                kept_a = tl.where(passes, tl.sum(tl.where(here, a, 0.0), 1).to(FLOAT), kept_a)
                kept_c = tl.where(passes, tl.sum(tl.where(here, c, 0.0), 1).to(FLOAT), kept_c)
                searching &= ~passes
        parting = searching & (after >= 0) & (after < length)
        if tl.max(parting.to(tl.int32)) > 0:
            at = position(p, q, request * drafts + k, after, parting)
            total = tl.full([BLOCK_B, BLOCK_V], 0.0, FLOAT)
            for start in range(0, vocabulary, BLOCK_V):
                token = (start + tl.arange(0, BLOCK_V))[None, :]
                inside = parting[:, None] & (token < vocabulary)
                y = probability(q, at.q_row[:, None], token, inside)
                for j in range(k + 1):
                    gone = tl.load(tokens + j * q.depths + after, mask=parting, other=0)
                    common = tl.load(shared + k * drafts + j, mask=parting, other=-1)
                    y = tl.where((token == gone[:, None]) & (common >= after)[:, None], 0.0, y)
                total += y
            rest = tl.sum(total, 1).to(tl.float64)
            rest = tl.where(rest > 0, rest, 1.0)
            r = tl.where((node == after[:, None]) & parting[:, None], rest[:, None], r)
        before = after

    at = position(p, q, request * drafts + path, kept, real)
    mark = tl.load(noise + drafts * q.depths, mask=real, other=0.0)
    here = mark * mass(at, kept_a, kept_c, 0, vocabulary, BLOCK_V)
    of = at, kept_a, kept_c
    token = drawn(excess, of, here, none, vocabulary, vocabulary, real, BLOCK_V)
    tl.store(accepted + request, kept, mask=real)
    own = tl.load(order + request * drafts + path, mask=real, other=0)
    tl.store(paths + request, own, mask=real)
    tl.store(next_tokens + request, token, mask=real)
