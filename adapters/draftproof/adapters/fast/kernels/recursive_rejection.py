"""Recursive rejection sampling as a Triton kernel: a sweep for every trial but the first."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.kernels.descent import (
    among,
    coin,
    descend,
    masses_without,
    reciprocal,
    sibling,
)
from draftproof.adapters.fast.kernels.rows import mass, probability
from draftproof.conformance.adapter import Result


def recursive_rejection(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.recursive_rejection.recursive_rejection` does."""
    return descend(batch, _with_replacement, noise, scheme="iid")


def recursive_rejection_without_replacement(batch: Batch, noise: Tensor) -> Result:
    """Verify as `fast.recursive_rejection.recursive_rejection_without_replacement` does."""
    return descend(batch, _without_replacement, noise, scheme="without_replacement")


@triton.jit
def _with_replacement(at, node, BLOCK_V: tl.constexpr):
    """Try siblings that were all drawn from q."""
    return _tried(at, node, True, BLOCK_V)


@triton.jit
def _without_replacement(at, node, BLOCK_V: tl.constexpr):
    """Try siblings that were drawn from what those before had left."""
    return _tried(at, node, False, BLOCK_V)


@triton.jit
def _tried(at, node, REPLACED: tl.constexpr, BLOCK_V: tl.constexpr):
    """Try one sibling after another, (p - g q)+ of mass `owed` against q / left."""
    FLOAT: tl.constexpr = at.p.soft.dtype.element_ty
    BLOCK_B: tl.constexpr = at.active.shape[0]
    token, none = tl.full([BLOCK_B], -1, tl.int64), tl.full([BLOCK_B], 0.0, FLOAT)
    g, owed, outside, left = none, none + 1, none - 1, none + 1
    for k in range(node.drafts):
        own, tries = sibling(at, node, k)
        tries &= token < 0
        again = tries & (g > 0)
        if tl.max(again.to(tl.int32)) > 0:
            own_mass = mass(among(at, again), none + 1, g, 0, at.p.vocabulary, BLOCK_V)
            owed = tl.where(again, own_mass, owed)
            if not REPLACED:
                is_new = again & (outside < 0)
                if tl.max(is_new.to(tl.int32)) > 0:
                    here = among(at, is_new)
                    rest = masses_without(here, node, node.siblings, none, BLOCK_V)[0]
                    outside = tl.where(is_new, rest, outside)
                left = tl.where(again, outside + _behind(at, node, k), left)
        if tl.max(tries.to(tl.int32)) > 0:
            wanted = probability(at.p, at.p_row, own, tries).to(tl.float64)
            drawn = probability(at.q, at.q_row, own, tries).to(tl.float64)
            number = coin(node, k, tries)
            accepts = tries & (number * (owed * drawn) < (wanted - g * drawn) * left)
            token = tl.where(accepts, own, token)
            more = g + owed * reciprocal(left)
            # A q of 0 times infinity would be no number.
            g = tl.where(tries & ~accepts, tl.minimum(more, 3.4028234663852886e38), g)
    return token, none, g, none, token * 0


@triton.jit
def _behind(at, node, k):
    """Return the mass [BLOCK_B] of q on sibling k and those behind it."""
    total = tl.full([at.active.shape[0]], 0.0, at.p.soft.dtype.element_ty)
    for j in range(k, node.drafts):
        own, is_one = sibling(at, node, j)
        total += probability(at.q, at.q_row, own, is_one)
    return total
