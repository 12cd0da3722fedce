"""MLX-VLM: speculative decoding by agreement with the target's own tokens, as released."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of
from draftproof.adapters.engines.released import (
    Release,
    Unavailable,
    files,
    imported,
    require_call,
)
from draftproof.conformance.adapter import Request, Result


class SampledWalk(OneRequest):
    """The walk of a drafter's round, "dflash" or "mtp", where tokens are drawn.

    It draws from the target after every drafted token, and keeps the drafted ones that agree. Its
    sampler, which is its caller's to choose, is torch's draw here. It takes one request.
    """

    algorithm = "target_first"

    def __init__(self, drafter: str, release: Release) -> None:
        try:
            import mlx.core as mx
        except ImportError as error:
            raise Unavailable(f"MLX is not installed ({error})") from error
        self._mx: Any = mx
        (module,) = imported(
            f"mlx_vlm.speculative.{drafter}",
            releases=[release],
            doubles={
                "mlx_vlm.models": {"cache": None},
                "mlx_vlm.models.base": None,
                "mlx_vlm.models.cache": None,
                "mlx_vlm.models.linear": None,
                "mlx_vlm.models.quantized_verifier": None,
                "mlx_vlm.speculative.cache_state": None,
            },
        )
        self.name, self._is_dflash = f"mlx-vlm-{drafter}", drafter == "dflash"
        self.version, self.files = release.version, files(__file__, release)
        if self._is_dflash:
            self._walk = module._sample_dflash_target_walk
            given = ["logits", "draft_tokens", "sampler", "budgets"]
            require_call(
                self._walk, *((name,) for name in given), keywords=("row_ids", "base_positions")
            )
        else:
            self._walk = module._mtp_acceptance_walk
            given = ["lm", "verify", "draft_tokens", "sampler", "budget"]
            require_call(self._walk, *((name,) for name in given))

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        mx = self._mx
        rows = mx.array(logits_of(request)[1][:, 0].numpy())
        path = mx.array(request.draft_tokens[:, 0].tolist())

        def sampled(logprobs: Any) -> Any:
            law = torch.tensor(logprobs.tolist()).exp()
            return mx.array(torch.multinomial(law, 1, generator=request.generator)[:, 0].tolist())

        budget = path.shape[1] + 1
        if self._is_dflash:
            (accepted,), (emitted,) = self._walk(
                rows, path, sampled, [budget], row_ids=[0], base_positions=[0]
            )
        else:
            model = SimpleNamespace(speculative_logits_from_hidden=lambda hidden: hidden)
            verified = SimpleNamespace(target_tokens=None, hidden=rows)
            accepted, emitted = self._walk(model, verified, path, sampled, budget)
        return followed(request, torch.tensor(emitted), accepted)
