"""Recursive rejection sampling as a Triton kernel: a sweep for every trial but the first."""

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
from draftproof.adapters.fast.kernels.rows import among, mass, p_of, q_of


def recursive_rejection(flat: EngineBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.recursive_rejection.recursive_rejection` does."""
    return descended(_with_replacement, flat, scheme="iid")


def recursive_rejection_without_replacement(
    flat: EngineBatch,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Verify as `fast.recursive_rejection.recursive_rejection_without_replacement` does."""
    return descended(_without_replacement, flat, scheme="without_replacement")


@triton.jit
def _with_replacement(p, q, drafts, noise, at, node, BLOCK_V: tl.constexpr):
    """Try siblings that were all drawn from q."""
    return _tried(p, q, drafts, noise, at, node, True, BLOCK_V)


@triton.jit
def _without_replacement(p, q, drafts, noise, at, node, BLOCK_V: tl.constexpr):
    """Try siblings that were drawn from what those before had left."""
    return _tried(p, q, drafts, noise, at, node, False, BLOCK_V)


@triton.jit
def _tried(
    p, q, drafts, noise, at, node, REPLACED: tl.constexpr, BLOCK_V: tl.constexpr
):  # fmt: skip
    """Try one sibling after another, (p - g q)+ of mass `owed` against q / left."""
    token, none = node.depth * 0 - 1, tl.zeros_like(at.p_soft.scale)
    g, owed, outside, left = none, none + 1, none - 1, none + 1
    for k in range(drafts.drafts):
        own, tries = sibling(drafts, at, node, k)
        tries &= token < 0
        again = tries & (g > 0)
        if tl.max(again.to(tl.int32)) > 0:
            own_mass = mass(p, q, among(at, again), none + 1, g, drafts.vocabulary, BLOCK_V)
            owed = tl.where(again, own_mass, owed)
            if not REPLACED:
                is_new = again & (outside < 0)
                if tl.max(is_new.to(tl.int32)) > 0:
                    here = among(at, is_new)
                    rest = masses_without(p, q, drafts, here, node, node.siblings, none, BLOCK_V)[0]
                    outside = tl.where(is_new, rest, outside)
                left = tl.where(again, outside + _behind(q, drafts, at, node, k), left)
        if tl.max(tries.to(tl.int32)) > 0:
            wanted, drawn = p_of(p, at, own, tries), q_of(q, at, own, tries)
            wanted, drawn = wanted.to(tl.float64), drawn.to(tl.float64)
            number = coin(drafts, noise, node, k, tries)
            accepts = tries & (number * (owed * drawn) < (wanted - g * drawn) * left)
            token = tl.where(accepts, own, token)
            more = g + owed * reciprocal(left)
            # A q of 0 times infinity would be no number.
            g = tl.where(tries & ~accepts, tl.minimum(more, 3.4028234663852886e38), g)
    return token, none, g, none, token * 0


@triton.jit
def _behind(q, drafts, at, node, k):
    """Return the mass [BLOCK_B] of q on sibling k and those behind it."""
    total = tl.zeros_like(at.q_soft.scale)
    for j in range(k, drafts.drafts):
        own, is_one = sibling(drafts, at, node, j)
        total += q_of(q, at, own, is_one)
    return total
