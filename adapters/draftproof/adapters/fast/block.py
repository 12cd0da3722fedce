"""Block verification in torch, vectorised over the batch."""

from __future__ import annotations

from importlib.metadata import version
from typing import ClassVar

import torch
from torch import Tensor

from draftproof.adapters.fast.inputs import DTYPES, single_path
from draftproof.adapters.fast.token import draw_excess
from draftproof.conformance.adapter import Request, Result


class TorchBlock:
    """Test every prefix on a coin of its own, keep the longest that passes, correct after it.

    Source: arXiv 2403.10444, Algorithm 2.
    """

    name = "torch-block"
    version = version("draftproof")
    algorithm = "block"
    dtypes: ClassVar = DTYPES
    ragged = True

    def verify(self, request: Request) -> Result:
        """Verify B single paths. Raises `InvalidRequest`."""
        ratio, q, p = single_path(request)
        weight = prefix_weights(ratio)

        # Row i is what the target still wants after i accepted tokens; row L is the bonus.
        excess = (weight[:, :-1, None] * p[:, :-1] - q).clamp(min=0)
        mass = excess.sum(-1)[:, 1:]
        against = mass + 1 - weight[:, 1:-1]
        passing = torch.where(against > 0, mass / against, 1.0)
        passing = torch.cat([passing, weight[:, -1:]], 1)
        coins = torch.rand(
            passing.shape, dtype=p.dtype, device=p.device, generator=request.generator
        )
        lengths = torch.arange(1, ratio.shape[1] + 1, device=p.device)
        accepted = torch.where(coins < passing, lengths, 0).amax(-1)

        last = accepted.view(-1, 1, 1).expand(-1, -1, p.shape[-1])
        wanted = torch.cat([excess, p[:, -1:]], 1).gather(1, last).squeeze(1)
        target = p.gather(1, last).squeeze(1)
        return Result(
            accepted_length=accepted,
            path=torch.zeros_like(accepted),
            next_token=draw_excess(wanted, target, request.generator),
        )


def prefix_weights(ratio: Tensor) -> Tensor:
    """Return w [B, L+1] of w_0 = 1, w_i = min(1, w_{i-1} * ratio_i), from ratios [B, L]."""
    weight = [torch.ones_like(ratio[:, 0])]
    for column in ratio.unbind(1):
        weight.append((weight[-1] * column).clamp(max=1))
    return torch.stack(weight, 1)
