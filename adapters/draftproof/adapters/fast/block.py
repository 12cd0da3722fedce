"""Block verification: keep the longest prefix that the target can afford, then correct."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import corrected, mass, ratio
from draftproof.conformance.adapter import Result


def block(batch: Batch, noise: Tensor) -> Result:
    """Test every prefix on a coin of its own, keep the longest that passes, correct after it.

    `noise` [B, L+1]: a coin for each prefix, and the mark of the next token. One sweep over the
    rows: the weight of a prefix needs the rows before it only.
    Source: arXiv 2403.10444, Algorithm 2.
    """
    path, nothing = batch.any_path(), torch.zeros_like(batch.lengths)
    weight = torch.ones(nothing.shape, dtype=batch.p.dtype, device=nothing.device)
    accepted, kept = nothing, weight
    room = batch.room
    for i in range(batch.length):
        p, q = batch.p.row(path, i, room[0]), batch.q.row(path, i, room[1])
        step = ratio(p, q, batch.token(path, i))
        if i > 0:
            # What the target still wants after i tokens, against what the draft offers too much of.
            more = mass(p, q, weight, out=room[1])
            against = more + (1 - weight)
            passing = torch.where(against > 0, more / against, 1.0)
            passes = (noise[:, i - 1] < passing) & (i < batch.lengths)
            accepted, kept = torch.where(passes, i, accepted), torch.where(passes, weight, kept)
        weight = (weight * step).clamp(max=1)
        passes = (noise[:, i] < weight) & (i + 1 == batch.lengths)
        accepted, kept = torch.where(passes, i + 1, accepted), torch.where(passes, 1.0, kept)
    return corrected(batch, path, accepted, kept, noise[:, -1])
