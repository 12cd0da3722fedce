"""LLMSpeculativeSampling: its two functions, after Google's paper and after DeepMind's.

https://github.com/feifeibear/LLMSpeculativeSampling.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

FEIFEIBEAR = Commit(
    repository="feifeibear/LLMSpeculativeSampling",
    version="59a209d37b2e463459057a784f8bd31c1136a58b",
    digests={
        "sampling/kvcache_model.py": (
            "7b98ee7f9840543437f9218aaee34e8deed922e77e8d0a4a2f9ba4b70818593d"
        ),
        "sampling/speculative_sampling.py": (
            "ee0573f5f7d9d4cec50446d45764c63ac540bef61a62e7fbdc01889abaab3b4b"
        ),
        "sampling/utils.py": "d4b9f5cdf7fdb75b7144955f8266126d6d7c50a3a178656ffd33492cbb0152bf",
    },
)

_FUNCTIONS = {
    "google": ("speculative_sampling", "sampling.kvcache_model"),
    "deepmind": ("speculative_sampling_v2", "sampling.speculative_sampling"),
}
"""The functions by the papers that they follow, each with the module in which it drafts."""


class OneRound(OneRequest):
    """The first round of one of its functions, at temperature 1 and without top-k and top-p.

    Its models are doubles that say the request's rows, and its `sample` says the request's drafts
    where it drafts. It refuses to sample token 0: the request's tokens begin with 1 there, and 0
    has no probability. The modules globals and tqdm are doubles, and Bloom of transformers. It
    takes one request, and draws from the default generator alone.
    """

    version = FEIFEIBEAR.version[:10]
    algorithm = "token"

    def __init__(self, paper: str) -> None:
        function, drafter = _FUNCTIONS[paper]
        own, utils, self._drafter = imported(
            "sampling.speculative_sampling",
            "sampling.utils",
            drafter,
            releases=[FEIFEIBEAR],
            doubles={
                "globals": None,
                "tqdm": {"tqdm": _Bar},
                "transformers.models.bloom.modeling_bloom": None,
            },
        )
        self.name = f"feifeibear-{paper}"
        self.files = files(__file__, FEIFEIBEAR)
        self._function, self._sample = getattr(own, function), utils.sample

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        q, p = (pad(rows[0], (1, 0), value=-torch.inf) for rows in logits_of(request))
        path = request.draft_tokens[0, 0]
        drafts = iter(path + 1)

        def sampled(probs: Tensor) -> Any:
            drafted = next(drafts, None)
            return self._sample(probs) if drafted is None else drafted.view(1, 1)

        self._drafter.sample = sampled  # type: ignore[attr-defined]
        # The token before the draft, whatever it is, then what one round writes.
        text = self._function(
            torch.tensor([[1]]), _CachedModel(q), _CachedModel(p), 1, gamma=len(path)
        )
        emitted = text[0, 1:] - 1
        return followed(request, emitted, len(emitted) - 1)


class _CachedModel:
    """A model that says rows [1, n, V] one after the other, with a cache as long as its text."""

    device = "cpu"

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows

    def __call__(
        self,
        tokens: Tensor,
        past_key_values: list[tuple[Tensor, Tensor]] | None = None,
        **_: object,
    ) -> Any:
        begin = past_key_values[0][0].shape[2] if past_key_values else 0
        end = begin + tokens.shape[1]
        cached = torch.zeros(1, 1, end, 1)
        # They are written over.
        said = self._rows[:, begin:end].clone()
        return SimpleNamespace(logits=said, past_key_values=[(cached, cached)])


class _Bar:
    """A bar of progress that shows nothing."""

    n = 0

    def __init__(self, **_: object) -> None:
        pass

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _: object) -> None:
        """Do nothing."""
