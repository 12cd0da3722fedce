"""Token verification for serve.py, on noise of the request or of its seed.

Replace `token_verification` with a call of your engine.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import torch
from torch import Tensor


class Probed:
    """A verifier that is given its noise, so that the probe lane can decide its distribution."""

    name = "python-token"
    version = "1.0"
    algorithm = "token"
    noise: ClassVar = {"coins": ["uniform", "L"], "token": ["exponential", "V"]}

    def verify(self, request: SimpleNamespace) -> tuple[Tensor, Tensor]:
        """Verify on the noise of the request."""
        return token_verification(request, request.noise["coins"], request.noise["token"])


class Sampled:
    """A verifier that draws from torch, as engines do."""

    name = "python-token-sampled"
    version = "1.0"
    algorithm = "token"

    def verify(self, request: SimpleNamespace) -> tuple[Tensor, Tensor]:
        """Verify on noise of the seed of the request."""
        coins = torch.rand(request.rows, request.length, generator=request.generator)
        token = torch.empty(request.rows, request.vocabulary)
        return token_verification(request, coins, token.exponential_(generator=request.generator))


def token_verification(
    request: SimpleNamespace, coins: Tensor, race: Tensor
) -> tuple[Tensor, Tensor]:
    """Return how many tokens are accepted [B], and the next token [B].

    `coins` [B, L] are uniform on [0, 1), and `race` [B, V] is exponential.
    """
    require_sound(request)
    path, q, p = request.draft_tokens[:, 0], request.draft_probs[:, 0], request.target_probs[:, 0]
    drafted = path[..., None]
    ratio = (p[:, :-1].gather(-1, drafted) / q.gather(-1, drafted)).squeeze(-1)
    # Strictly: a coin of exactly 0 must not accept what the target never says.
    accepted = (coins < ratio).long().cumprod(-1).sum(-1)
    rows = torch.arange(len(path))
    target = p[rows, accepted]
    residual = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], 1)[rows, accepted]
    # Nothing is left only where p and q differ by rounding.
    wanted = torch.where(residual.sum(-1, keepdim=True) > 0, residual, target)
    return accepted, (wanted / race).argmax(-1)


def require_sound(request: SimpleNamespace) -> None:
    """Raise `ValueError` for tokens and rows that no draft and no target can have made."""
    size, paths = request.vocabulary, request.draft_tokens
    for name, length in (("draft_probs", request.length), ("target_probs", request.length + 1)):
        rows = getattr(request, name)
        if rows.shape != (request.rows, 1, length, size):
            raise ValueError(f"{name} has the shape {list(rows.shape)}")
        if not (rows >= 0).all():
            raise ValueError(f"{name}: {rows[~(rows >= 0)][0]} is no probability")
        total = rows.double().sum(-1)
        # What a softmax in float32 is off by, at most: one rounding for every token.
        if not ((wrong := (total - 1).abs()) <= size * 2**-24).all():
            raise ValueError(f"{name}: a row sums to {total[wrong > size * 2**-24][0]}, not to 1")
    if not (inside := (paths >= 0) & (paths < size)).all():
        raise ValueError(f"drafted token {paths[~inside][0]} is not in 0..{size - 1}")
    if not (said := request.draft_probs.gather(-1, paths[..., None]).squeeze(-1) > 0).all():
        raise ValueError(f"drafted token {paths[~said][0]} has probability 0")
