"""SpecForge: generation with a DFlash draft model, by agreement with the target, as released."""

from __future__ import annotations

from itertools import chain, repeat
from math import inf
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of
from draftproof.adapters.engines.released import Release, files, imported, require_call
from draftproof.conformance.adapter import Request, Result


class SpecGenerate(OneRequest):
    """`DFlashDraftModel.spec_generate` at temperature 1, with models that say the request's rows.

    It samples the target after every drafted token, and keeps the drafted ones that agree. Its
    drafter says the request's drafts, and its caches keep nothing. It takes one request, and draws
    from the default generator alone. From the second iteration on, its models say but one token,
    which the request does not have.
    """

    name = "specforge"
    algorithm = "target_first"

    def __init__(self, *, release: Release) -> None:
        (module,) = imported(
            "specforge.modeling.draft.dflash",
            releases=[release],
            doubles=dict.fromkeys(
                (
                    *("transformers", "transformers.cache_utils", "transformers.modeling_outputs"),
                    "transformers.models.qwen3.modeling_qwen3",
                )
            ),
        )
        own: dict[str, Any] = {"DynamicCache": _EmptyCache}
        vars(module).update(own)
        self._generate = module.DFlashDraftModel.spec_generate
        given = ("self", "target", "input_ids", "max_new_tokens", "stop_token_ids", "temperature")
        require_call(self._generate, *((name,) for name in given))
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        path = request.draft_tokens[0, 0]
        rows = logits_of(request)[1][:, 0]
        # A token that the request does not have.
        other = rows.shape[-1]
        written = self._generate(
            _DraftModel(path, other),
            _TargetModel(rows, other),
            torch.tensor([[other]]),
            max_new_tokens=len(path) + 2,
            stop_token_ids=None,
            temperature=1.0,
        )
        # Behind the prompt and the token before the draft.
        emitted = written[0, 2:]
        emitted = emitted[: (emitted != other).long().cumprod(0).sum()]
        return followed(request, emitted, len(emitted) - 1)


class _DraftModel:
    """A draft model that says its tokens [L], and then but another one."""

    mask_token_id = -1
    target_layer_ids = (0,)

    def __init__(self, path: Tensor, other: int) -> None:
        self._blocks = chain([path], repeat(torch.full_like(path, other)))
        self.block_size = len(path) + 1

    def __call__(self, **_: object) -> None:
        """Say nothing of hidden states."""

    def eval(self) -> None:
        """Be as it is."""

    def _sample_draft_tokens(self, *_: object) -> Tensor:
        return next(self._blocks)


class _TargetModel:
    """A target that says a token that its rows [1, L+1, V] lack, then these, then it again."""

    device = "cpu"

    def __init__(self, rows: Tensor, other: int) -> None:
        sure = torch.full((1, rows.shape[1], other + 1), -inf)
        sure[..., -1] = 0
        self._said = chain([sure[:, :1], rows], repeat(sure))
        self.model = SimpleNamespace(embed_tokens=lambda _: None)

    def __call__(self, *_: object, **__: object) -> SimpleNamespace:
        logits = next(self._said)
        # Hidden states of no width.
        return SimpleNamespace(logits=logits, hidden_states=[None, logits[..., :0]])


class _EmptyCache:
    """A cache that keeps nothing."""

    def get_seq_length(self) -> int:
        return 0

    def crop(self, length: int) -> None:
        pass
