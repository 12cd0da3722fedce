"""How a batch goes to kernels: what they are given of it, and how it is cut up."""

from __future__ import annotations

from dataclasses import dataclass

import triton.language as tl
from torch import Tensor

from draftproof.adapters.fast.inputs import EngineBatch, Lying
from draftproof.adapters.fast.kernels import IS_INTERPRETED
from draftproof.adapters.fast.kernels.sources import (
    CERTAIN,
    LOGITS,
    PROBABILITIES,
    Drafts,
    ModelRows,
    Numbers,
)

_TILE = 4096
"""How many numbers of a row a program holds: 16 KiB, in the registers of four warps."""

_PIECES = 64
"""The most pieces that a row is cut into, so that few requests are many programs."""


@dataclass(frozen=True)
class GivenBatch:
    """What kernels are given of a batch."""

    p: ModelRows
    q: ModelRows
    drafts: Drafts
    noise: Numbers
    mark: int
    """Which of a request's numbers is the mark."""
    tile: int
    """How many tokens a piece has: a power of two."""
    pieces: int
    """Into how many pieces a row is cut."""

    @property
    def has_logits(self) -> bool:
        """Whether any row is one of logits."""
        return LOGITS.value in (self.p.KIND.value, self.q.KIND.value)


def given_of(flat: EngineBatch) -> GivenBatch:
    """Return what kernels are given of a batch; nothing of it is copied."""
    vocabulary = flat.vocabulary
    # What is not there is computed, too, where kernels are interpreted.
    least, most = (4, 2**16) if IS_INTERPRETED else (16, _TILE)
    tile = min(max(power_of_two(vocabulary), least), most)
    tile = max(tile, power_of_two(-(-vocabulary // _PIECES)))
    mark = 0 if isinstance(flat.noise, tuple) else flat.noise.shape[1] - 1
    return GivenBatch(
        p=_source(flat.p, flat.p_temperature, flat),
        q=_source(flat.q, flat.q_temperature, flat),
        drafts=_drafts(flat),
        noise=_numbers(flat),
        mark=mark,
        tile=tile,
        pieces=-(-vocabulary // tile),
    )


def blocks(count: int, size: int, *, most: int = _TILE) -> tuple[int, int]:
    """Return the programs of so many requests or rows of a size, and how many each of them has.

    On a GPU a program has at most so many numbers, and one request or row at least. An interpreted
    operator costs the same for few numbers as for many, and a size that was met before costs less
    than a new one: there are few.
    """
    most, times = (2**20, 3) if IS_INTERPRETED else (most, 1)
    doublings = -(-(max(count, 1) - 1).bit_length() // times) * times
    own = max(min(2**doublings, most // size), 1)
    return -(-count // own), own


def power_of_two(least: int) -> int:
    """Return the least power of two that is not below a number."""
    return 1 << (max(least, 1) - 1).bit_length()


def _source(rows: Lying | None, heat: Tensor | None, flat: EngineBatch) -> ModelRows:
    """Return rows as kernels read them; those of a draft that is certain are none."""
    none, no = flat.ends, tl.constexpr(False)
    if rows is None:
        shape = 0, 0, flat.vocabulary, 1, 1, 0
        return ModelRows(none, *shape, none, none, none, none, no, CERTAIN, no, no, no, no)
    soft, width = rows.softmax, rows.values.shape[1]
    stride, step = rows.values.stride()
    is_told = soft is not None and soft.least is not None
    is_heated = soft is not None and heat is not None
    return ModelRows(
        entry=rows.values,
        stride=stride,
        step=step,
        width=width,
        positions=rows.positions,
        by_position=rows.by_position,
        by_draft=rows.by_draft,
        index=none if rows.index is None else rows.index,
        least=none if soft is None or soft.least is None else soft.least,
        last=none if soft is None or soft.last is None else soft.last,
        temperature=none if heat is None else heat.contiguous(),
        DENSE=tl.constexpr(step == 1 or width == 1),
        KIND=PROBABILITIES if soft is None else LOGITS,
        INDEXED=tl.constexpr(rows.index is not None),
        CUT=tl.constexpr(is_told or is_heated),
        TOLD=tl.constexpr(is_told),
        HEATED=tl.constexpr(is_heated),
    )


def _drafts(flat: EngineBatch) -> Drafts:
    by_position, by_draft = flat.tokens.stride()
    return Drafts(
        tokens=flat.tokens,
        by_position=by_position,
        by_draft=by_draft,
        count=flat.tokens.shape[0],
        ends=flat.ends,
        step=flat.ends.stride(0),
        requests=len(flat.ends),
        drafts=flat.tokens.shape[1],
        longest=flat.longest,
        vocabulary=flat.vocabulary,
    )


def _numbers(flat: EngineBatch) -> Numbers:
    noise = flat.noise
    if isinstance(noise, tuple):
        seeds, positions = (each.contiguous() for each in noise)
        return Numbers(flat.ends, 0, seeds, positions, tl.constexpr(True))
    return Numbers(noise, noise.shape[1], noise, noise, tl.constexpr(False))
