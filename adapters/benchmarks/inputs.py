"""What is verified: drafts of two models that are as alike as models are.

Inputs are large, and made where they lie: making them needs no more memory than they have.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from draftproof.adapters.fast.excess import draw
from draftproof.conformance.protocol.adapter import Request

_SPREAD = 2.5
"""The standard deviation of the draft's logits."""

_APART = 1.0
"""The standard deviation of what the target's logits differ by."""


@dataclass(frozen=True)
class Size:
    """B requests of one path of L tokens, over V tokens."""

    requests: int
    length: int
    vocabulary: int

    @property
    def numbers(self) -> int:
        """How many numbers the rows of draft and target have."""
        return self.requests * (2 * self.length + 1) * self.vocabulary


def request(
    size: Size,
    *,
    seed: int,
    logits: bool = False,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Request:
    """Return drafts, i.i.d. from their rows; with `logits` both fields of rows have logits."""
    generator = torch.Generator(device).manual_seed(seed)
    path, vocabulary = (size.requests, 1, size.length), size.vocabulary
    q = torch.empty(*path, vocabulary, device=device, dtype=dtype).normal_(generator=generator)
    q.mul_(_SPREAD)
    tokens = torch.empty(path, device=device, dtype=torch.int64)
    for depth in range(size.length):
        weights = q[:, 0, depth].float().exp()
        marks = torch.rand(len(weights), device=device, dtype=torch.float64, generator=generator)
        tokens[:, 0, depth] = draw(weights, marks)
    del weights  # before there is more
    p = torch.empty(size.requests, 1, size.length + 1, vocabulary, device=device, dtype=dtype)
    p.normal_(generator=generator)
    p[:, :, :-1].mul_(_APART).add_(q)
    p[:, :, -1].mul_(_SPREAD)
    if not logits:
        for rows in (q, p):
            rows.exp_()
            rows.div_(rows.sum(-1, keepdim=True))
    return Request(tokens, q, p, generator=generator)
