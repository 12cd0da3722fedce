"""Numbers by counter: which they are depends on a request's seed and its position alone.

An engine that counts needs no generator: what a request draws is a function of its seed, of where
its text stands, and of which number it is. So it does not depend on its neighbours, nor on how many
tokens an engine drafts at most. Philox is a bijection of 128-bit counters under a 64-bit key; the
last word of ours is a constant, so that counters of others, whose last words are 0, are none of
them: those that drew the draft with the same seed, as `tl.rand` does.
Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

MARK = 2**32 - 1
"""The column of the mark of the next token."""

OURS = 0x44524654
"""The last word of every counter."""

_WORD = 2**32 - 1
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_STEPS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10


def column(lane: int, depth: int) -> int:
    """Return the column of a coin: which it is of its depth, and the depth, below 2**16."""
    return lane << 16 | depth


def numbers(seeds: Tensor, positions: Tensor, columns: Sequence[int]) -> Tensor:
    """Return numbers [B, W] in [0, 1), float64, of seeds and positions [B] and W columns.

    Two calls have no number in common where a request's positions differ.
    """
    seeds, positions = seeds.long()[:, None], positions.long()[:, None]
    which = torch.tensor(columns, dtype=torch.int64, device=seeds.device)[None]
    high, low, _, _ = philox(
        (positions & _WORD, positions >> 32 & _WORD, which, torch.full_like(which, OURS)),
        (seeds & _WORD, seeds >> 32 & _WORD),
    )
    return (high * 2**21 + (low >> 11)).double() * 2.0**-53


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]
) -> tuple[Tensor, ...]:
    """Return the four words of Philox 4x32-10, int64 in [0, 2**32), of counters and keys of them.

    Products are taken modulo 2**64, whose upper half is the same whatever its sign says.
    """
    a, b, c, d = counter
    x, y = key
    for _ in range(_ROUNDS):
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (
            (second >> 32 & _WORD) ^ b ^ x,
            second & _WORD,
            (first >> 32 & _WORD) ^ d ^ y,
            first & _WORD,
        )
        x, y = x + _STEPS[0] & _WORD, y + _STEPS[1] & _WORD
    return a, b, c, d
