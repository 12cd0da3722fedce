"""SpecHub as a Triton kernel: at most two sweeps for a pair, none where its other token is kept."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.descent import (
    coin,
    descended,
    masses_without,
    reciprocal,
    sibling,
)
from draftproof.adapters.fast.kernels.rows import among, p_of, q_of


def spechub(flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.spechub.spechub` does."""
    return descended(_rule, flat, scheme="hub")


@triton.jit
def _rule(p, q, drafts, noise, at, node, BLOCK_V: tl.constexpr):
    """Try the other token of a pair, then the hub; a single token is verified as such."""
    token, none = node.depth * 0 - 1, tl.zeros_like(at.p_soft.scale)
    first, second, count = token + 1, token, token + 1
    first_path, second_path = first, first
    for k in range(drafts.drafts):
        own, is_one = sibling(drafts, at, node, k)
        is_first, is_second = is_one & (count == 0), is_one & (count == 1)
        first, first_path = tl.where(is_first, own, first), tl.where(is_first, k, first_path)
        second, second_path = tl.where(is_second, own, second), tl.where(is_second, k, second_path)
        count += is_one.to(tl.int64)
    is_pair = at.active & (count > 1)
    q_first, q_second = q_of(q, at, first, at.active), q_of(q, at, second, is_pair)
    # The more probable of the two, of equals the smaller; one token has none with it.
    is_last = is_pair & ((q_second > q_first) | ((q_second == q_first) & (second < first)))
    is_other = is_last | ~is_pair
    hub, other = tl.where(is_other, second, first), tl.where(is_other, first, second)
    h, drawn = tl.where(is_other, q_second, q_first), tl.where(is_other, q_first, q_second)
    wanted = p_of(p, at, other, at.active)
    apart = (first * 0 + 1) << tl.where(is_last, second_path, first_path)
    apart = tl.where(is_pair, apart, 0)

    number = coin(drafts, noise, node, first_path, at.active)
    accepts = at.active & is_other & (number * drawn < wanted)
    token = tl.where(accepts, other, token)
    c, weight = none + 1, none
    again = is_pair & ~accepts
    if tl.max(again.to(tl.int32)) > 0:
        here = among(at, again)
        rest, less, more = masses_without(p, q, drafts, here, node, apart, none + 1, BLOCK_V)
        c = tl.where(again, reciprocal(rest), c)
        over = (wanted - drawn) * rest
        accepts = again & ~is_last & (number * (h * drawn) < over)
        token = tl.where(accepts, other, token)
        again &= ~accepts
        if tl.max(again.to(tl.int32)) > 0:
            there = among(at, again)
            left = masses_without(p, q, drafts, there, node, apart, c, BLOCK_V)[1]
            p_hub = p_of(p, at, hub, again)
            hub_first = tl.maximum(h - (less - left), 0.0)
            owed_hub = tl.maximum(p_hub - hub_first, 0.0)
            worth = tl.where(is_last, owed_hub, p_hub)
            offered = tl.where(is_last, more, hub_first)
            number = coin(drafts, noise, node, second_path, again)
            accepts = again & (number * offered < worth)
            token = tl.where(accepts, hub, token)
            weight = tl.where(again, tl.maximum(owed_hub - more, 0.0), weight)
    return token, none, c, weight, apart
