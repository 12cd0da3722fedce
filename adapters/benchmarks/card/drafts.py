"""Drafts of every verifier's scheme, for what is checked: a context has one row of a few.

Rows are numbered, as engines number them; nothing of them is copied. Requests have different
lengths, and some have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.inputs import Size
from torch import Tensor

from draftproof.adapters.fast.batch import uniforms
from draftproof.adapters.fast.drafting import siblings
from draftproof.adapters.fast.texts import Text

_ROWS = 32
_SPREAD, _APART = 2.5, 1.0
"""Those of `benchmarks.inputs`."""
_STEP = 31
"""By which contexts after different tokens have different rows."""


@dataclass(frozen=True)
class Drafts:
    """What `verify` takes of B requests, and how many numbers each of them needs."""

    given: dict[str, Any]
    requests: int
    width: int

    def noise(self, seed: int) -> Tensor:
        """Return numbers [B, W] in [0, 1)."""
        device = self.given["draft_token_ids"].device
        generator = torch.Generator(device).manual_seed(seed)
        return uniforms(self.requests, self.width, generator, device)

    def wide(self) -> dict[str, Any]:
        """Return the same with rows of float64, for an oracle that rounds otherwise."""
        return {
            name: value.double() if torch.is_tensor(value) and value.is_floating_point() else value
            for name, value in self.given.items()
        }


def drafts(
    text: Text, size: Size, most: int, *, logits: bool, dtype: torch.dtype, device: str, seed: int
) -> Drafts:
    """Return drafts of at most K = `most` paths of a size, drawn by a verifier's scheme."""
    count = min(most, text.most_drafts, text.widest)
    generator = torch.Generator(device).manual_seed(seed)
    q = torch.randn(_ROWS, size.vocabulary, device=device, generator=generator) * _SPREAD
    p = q + torch.randn(q.shape, device=device, generator=generator) * _APART
    if not logits:
        q, p = q.softmax(-1), p.softmax(-1)
    q, p = q.to(dtype), p.to(dtype)
    here = torch.arange(size.requests, device=device).remainder(_ROWS)[:, None].repeat(1, count)
    places, tokens = [here], []
    for depth in range(size.length):
        above, width = (here[:, 0], count) if depth == 0 else (here.flatten(), 1)
        weights = q[above].float()
        marks = uniforms(len(above), width, generator, torch.device(device))
        drawn = siblings(weights.softmax(-1) if logits else weights, marks, scheme=text.scheme)
        tokens.append(drawn.view(size.requests, count))
        here = (here * _STEP + tokens[-1] + 1).remainder(_ROWS)
        places.append(here)
    lengths = torch.arange(size.requests, device=device).mul(3).add(size.length)
    lengths = lengths.remainder(size.length + 1)
    at, own = torch.stack(places, 1), torch.stack(tokens, 1)
    depths = torch.arange(size.length + 1, device=device)
    is_drafted, is_verified = depths[:-1] < lengths[:, None], depths <= lengths[:, None]
    kind = "logits" if logits else "probs"
    return Drafts(
        given={
            "draft_token_ids": own[is_drafted],
            "cu_num_draft_tokens": lengths.cumsum(0),
            "max_spec_len": size.length,
            f"target_{kind}": p,
            f"draft_{kind}": q,
            "target_rows": at[is_verified],
            "draft_rows": at[:, :-1][is_drafted],
        },
        requests=size.requests,
        width=text.noise(count, size.length),
    )
