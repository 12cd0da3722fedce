"""IPEX-LLM: its speculative decoding with a draft model, as released."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of
from draftproof.adapters.engines.released import Release, files, imported, require_names
from draftproof.conformance.adapter import Request, Result

_DOUBLES: dict[str, dict[str, Any] | None] = {
    "ipex_llm.transformers.utils": {"get_xpu_device_name": lambda device: device.type},
    "ipex_llm.utils.common": {"invalidInputError": lambda *_: None, "log4Error": None},
    # It takes its filter from trl then, and prepares its arguments in one way for both.
    "transformers": {
        "__version__": "4.44.0",
        "GenerationMixin": type("GenerationMixin", (), {"generate": None}),
        **dict.fromkeys(
            ("GenerationConfig", "LogitsProcessorList", "StoppingCriteriaList"), object
        ),
    },
    "transformers.modeling_outputs": None,
}

_LATER: dict[str, dict[str, Any]] = {
    "ipex_llm.transformers.convert": {"get_enable_ipex": lambda: False},
    "ipex_llm.transformers.kv": {
        name: type(name, (), {})
        for name in ("DynamicFp8Cache", "DynamicNormalCache", "DynamicCompressCache")
    },
    # What keeps all logits, as it is asked to.
    "trl.core": {"top_k_top_p_filtering": lambda logits, **_: logits},
}
"""Modules that it imports while it runs."""


class SpeculativeGenerate(OneRequest):
    """`speculative_generate` with a draft model, up to the first iteration, at temperature 1.

    Its models say the request's rows and keep no cache; what it prepares its arguments with is
    replaced. It draws the drafts by `deepmind_sample`, in whose place something says the request's
    drafts and the rows that it would have drawn them from. It never stops drafting early; any token
    of the request ends the text. It takes one request, and draws from the default generator alone.
    """

    name = "ipex-llm-token"
    algorithm = "token"

    def __init__(self, *, release: Release) -> None:
        (self._module,) = imported(
            "ipex_llm.transformers.speculative", releases=[release], doubles=_DOUBLES
        )
        require_names(
            self._module, "speculative_generate", "_prepare_generate_args", "deepmind_sample"
        )
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        q, p = (rows[:, 0].clone() for rows in logits_of(request))
        path, other = request.draft_tokens[0, 0], p.shape[-1]
        drafts = iter(path)

        def sampled(logits: Tensor, **options: float) -> object:
            if not options.pop("return_probs", 0):
                return torch.tensor([[other]]), None
            rows = self._module.logits_to_probs(logits, **options)
            return next(drafts).view(1, 1), rows, torch.ones(())

        prompt = torch.tensor([[other]])
        config = SimpleNamespace(
            do_sample=True, top_k=0, top_p=1.0, temperature=1.0, eos_token_id=[*range(other)]
        )
        put: list[Tensor] = []
        own: dict[str, Any] = {
            "deepmind_sample": sampled,
            "_prepare_generate_args": lambda *_, **__: (prompt, config, _Processors(), None, {}),
        }
        vars(self._module).update(own)
        with _there(_LATER):
            self._module.speculative_generate(
                # The row of the token before the draft is not asked.
                _Said([p[:, :1].clone(), p]),
                prompt,
                streamer=SimpleNamespace(put=put.append, end=lambda: None),
                draft_model=_Said([row[:, None] for row in q.unbind(1)]),
                max_new_tokens=len(path) + 3,
                max_step_draft=len(path),
                th_stop_draft=0,
            )
        emitted = put[-1][0]
        return followed(request, emitted, len(emitted) - 1)


class _Said:
    """A model that says rows [1, n, V] one after the other, and keeps one layer of no width."""

    config = SimpleNamespace(model_type="llama")
    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, rows: list[Tensor]) -> None:
        self._rows = iter(rows)

    def __call__(self, **_: object) -> dict[str, object]:
        layer = torch.empty(1, 1, 1, 0)
        return {"logits": next(self._rows), "past_key_values": [(layer, layer)]}

    def prepare_inputs_for_generation(self, _: Tensor) -> dict[str, object]:
        return {}

    def clear_benchmarks(self) -> None:
        self.draft_num, self.accept_num = list[int](), list[int]()
        self.draft_time, self.verify_time = list[float](), list[float]()
        self.generate_time = list[float]()
        self.n_drafted = self.n_matched = 0

    def _crop_past_key_values(self, kept: object, *_: object) -> object:
        return kept


class _Processors(tuple[()]):
    """No processors of logits."""

    def __call__(self, _: Tensor, logits: Tensor) -> Tensor:
        return logits


@contextmanager
def _there(doubles: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Have modules of these names, and these alone in them."""
    hidden = {name: sys.modules.get(name) for name in doubles}
    sys.modules.update({name: SimpleNamespace(**own) for name, own in doubles.items()})  # type: ignore[misc]
    try:
        yield
    finally:
        for name, module in hidden.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
