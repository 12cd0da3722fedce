"""Token verification in torch, vectorised over the batch."""

from __future__ import annotations

from importlib.metadata import version
from typing import ClassVar

import torch
from torch import Tensor

from draftproof.adapters.fast.inputs import DTYPES, single_path
from draftproof.conformance.adapter import Request, Result


class TorchToken:
    """Accept each token with probability min(1, p/q); correct the first rejection from (p - q)+.

    Source: arXiv 2211.17192, Algorithm 1.
    """

    name = "torch-token"
    version = version("draftproof")
    algorithm = "token"
    dtypes: ClassVar = DTYPES
    ragged = True

    def verify(self, request: Request) -> Result:
        """Verify B single paths. Raises `InvalidRequest`."""
        ratio, q, p = single_path(request)
        coins = torch.rand(ratio.shape, dtype=p.dtype, device=p.device, generator=request.generator)
        # Strictly below: a coin of exactly 0 must not accept what the target never says.
        accepted = (coins < ratio).long().cumprod(-1).sum(-1)

        last = accepted.view(-1, 1, 1).expand(-1, -1, p.shape[-1])
        target = p.gather(1, last).squeeze(1)
        drafted = torch.cat([q, torch.zeros_like(p[:, :1])], 1).gather(1, last).squeeze(1)
        return Result(
            accepted_length=accepted,
            path=torch.zeros_like(accepted),
            next_token=draw_excess(target - drafted, target, request.generator),
        )


def draw_excess(excess: Tensor, target: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw a token [B] from the positive part of `excess` [B, V], or of `target` where it is void.

    The excess is void only where target and draft differ by rounding alone.
    """
    positive = excess.clamp(min=0)
    void = positive.sum(-1, keepdim=True) == 0
    return torch.multinomial(torch.where(void, target, positive), 1, generator=generator)[:, 0]
