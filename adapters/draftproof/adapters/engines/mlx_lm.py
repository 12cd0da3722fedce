"""MLX LM: speculative decoding by agreement with the target's own tokens, as released."""

from __future__ import annotations

from typing import Any

import torch

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of
from draftproof.adapters.engines.released import (
    Release,
    Unavailable,
    Wheel,
    files,
    imported,
)
from draftproof.conformance.adapter import Request, Result

MLX_LM = Wheel(
    project="mlx-lm",
    version="0.32.2",
    name="mlx_lm-0.32.2-py3-none-any.whl",
    digest="5c0991248cfff5872503d74f466d2532dd8cb7fb3670cb9be7a06d7305dadc04",
    members=(
        "mlx_lm/generate.py",
        "mlx_lm/models/base.py",
        "mlx_lm/models/cache.py",
    ),
)


class SpeculativeGenerateStep(OneRequest):
    """The first iteration of `speculative_generate_step`, with models that say the request's rows.

    It samples the target after every drafted token, and keeps the drafted ones that agree. Its
    sampler, which is its caller's to choose, is torch's draw here; for the draft model, which it
    asks first, the sampler says the request's drafts. It takes one request.
    """

    name = "mlx-lm"
    algorithm = "target_first"

    def __init__(self, release: Release = MLX_LM) -> None:
        try:
            import mlx.core as mx
        except ImportError as error:
            raise Unavailable(f"MLX is not installed ({error})") from error
        self._mx: Any = mx
        (self._module,) = imported(
            "mlx_lm.generate",
            releases=[release],
            doubles=dict.fromkeys(
                (
                    *("mlx_lm.generate_utils", "mlx_lm.processors", "mlx_lm.sample_utils"),
                    *("mlx_lm.tokenizer_utils", "mlx_lm.utils", "transformers"),
                )
            ),
        )
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        rows = self._mx.array(logits_of(request)[1][0, 0].numpy())
        path = request.draft_tokens[0, 0].tolist()
        drafts = iter(path)

        def sampled(logprobs: Any) -> Any:
            drafted = next(drafts, None)
            if drafted is not None:
                return self._mx.array([drafted], self._mx.uint32)
            law = torch.tensor(logprobs.tolist()).exp()
            drawn = torch.multinomial(law, 1, generator=request.generator)
            return self._mx.array(drawn[:, 0].tolist(), self._mx.uint32)

        emitted = []
        generated = self._module.speculative_generate_step(
            # The token before the draft, whatever it is.
            self._mx.array([0]),
            _MlxSaid(rows),
            _MlxSaid(rows),
            num_draft_tokens=len(path),
            max_tokens=len(path) + 1,
            sampler=sampled,
        )
        for token, _, is_drafted in generated:
            emitted.append(token)
            if not is_drafted:
                break
        return followed(request, torch.tensor(emitted), len(emitted) - 1)


class _MlxSaid:
    """A model that has said its rows [n, V] already, and keeps no cache."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __call__(self, tokens: Any, **_: object) -> Any:
        return self._rows[None, : tokens.shape[1]]

    def make_cache(self) -> list[object]:
        return []
