"""Token verification: accept token by token, correct at the first rejection."""

from __future__ import annotations

from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import corrected, ratios
from draftproof.conformance.adapter import Result


def token(batch: Batch, noise: Tensor) -> Result:
    """Accept each token with probability min(1, p/q); correct the first rejection from (p - q)+.

    `noise` [B, L+1]: a coin for each token, and the mark of the next token.
    Source: arXiv 2211.17192, Algorithm 1.
    """
    path = batch.any_path()
    ratio = ratios(batch, path)
    # Strictly below: a coin of exactly 0 must not accept what the target never says.
    accepted = (noise[:, :-1] < ratio).long().cumprod(-1).sum(-1)
    return corrected(batch, path, accepted, ratio.new_ones(len(path)), noise[:, -1])
