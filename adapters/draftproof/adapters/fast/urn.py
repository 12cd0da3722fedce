"""Urns, which tokens are taken out of one after another: here of torch operators.

`kernels.drafting` makes one of kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Softmax
from draftproof.adapters.fast.excess import draw


@dataclass(frozen=True)
class Urn:
    """How tokens are taken out of N rows, given those [N, E] int64 that are gone already."""

    draw: Callable[[Tensor, Tensor], Tensor]
    """From marks [N] in [0, 1), and what is gone, to a token [N] of those that are left."""
    most_probable: Callable[[Tensor], Tensor]
    """From what is gone to the most probable token [N] that is left, the smallest of equals."""


def urn(rows: Tensor, softmax: Softmax | None) -> Urn:
    """Return the urn of rows [N, V]: probabilities, or logits where there is a `softmax`."""
    made = torch.empty_like(rows, dtype=torch.promote_types(rows.dtype, torch.float32))
    if softmax is not None:
        rows = softmax.of(rows, torch.arange(len(rows), device=rows.device), made)
    elif rows.dtype != made.dtype:
        rows = made.copy_(rows)

    def left(gone: Tensor) -> Tensor:
        return rows.scatter(1, gone, 0) if gone.shape[1] > 0 else rows

    return Urn(
        draw=lambda mark, gone: draw(left(gone), mark),
        most_probable=lambda gone: left(gone).argmax(-1),
    )
