"""IPEX-LLM: its speculative decoding, with a draft model and by prompt lookup, as released."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
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

_LATER = {
    "ipex_llm.transformers.convert": {"get_enable_ipex": lambda: False},
    "ipex_llm.transformers.kv": {
        name: type(name, (), {})
        for name in ("DynamicFp8Cache", "DynamicNormalCache", "DynamicCompressCache")
    },
    # What keeps all logits, as it is asked to.
    "trl.core": {"top_k_top_p_filtering": lambda logits, **_: logits},
}
"""What it imports while it runs."""


class _Generate(OneRequest):
    """A generation of the package, up to the first iteration, at temperature 1 and without filters.

    Its models say the request's rows and keep no cache; what it prepares its arguments with is
    replaced. It takes one request, and draws from the default generator alone.
    """

    def __init__(self, module: str, release: Release) -> None:
        (self._module,) = imported(
            f"ipex_llm.transformers.{module}", releases=[release], doubles=_DOUBLES
        )
        require_names(self._module, "_prepare_generate_args", "deepmind_sample")
        self.version, self.files = release.version, files(__file__, release)

    def _put(
        self,
        generate: Callable[..., object],
        models: _Said,
        prompt: Tensor,
        *,
        ends: list[int] | None,
        **options: object,
    ) -> Tensor:
        """Return the tokens that it gave to its streamer last."""
        config = SimpleNamespace(
            do_sample=True, top_k=0, top_p=1.0, temperature=1.0, eos_token_id=ends
        )
        self._module._prepare_generate_args = (  # type: ignore[attr-defined]
            lambda *_, **__: (prompt, config, _Processors(), None, {})
        )
        put: list[Tensor] = []
        streamer = SimpleNamespace(put=put.append, end=lambda: None)
        with _there(_LATER):
            generate(models, prompt, streamer=streamer, **options)
        return put[-1][0]


class SpeculativeGenerate(_Generate):
    """`speculative_generate` with a draft model, which it verifies by token.

    It draws the drafts by `deepmind_sample`, in whose place something says the request's drafts and
    the rows that it would have drawn them from. It never stops drafting early; any token of the
    request ends the text.
    """

    name = "ipex-llm-token"
    algorithm = "token"

    def __init__(self, *, release: Release) -> None:
        super().__init__("speculative", release)

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

        self._module.deepmind_sample = sampled  # type: ignore[attr-defined]
        emitted = self._put(
            self._module.speculative_generate,
            # The row of the token before the draft is not asked.
            _Said([p[:, :1].clone(), p]),
            torch.tensor([[other]]),
            ends=[*range(other)],
            draft_model=_Said([row[:, None] for row in q.unbind(1)]),
            max_new_tokens=len(path) + 3,
            max_step_draft=len(path),
            th_stop_draft=0,
        )
        return followed(request, emitted, len(emitted) - 1)


class LookupGenerate(_Generate):
    """`lookup_generate`, which samples the target after every token that it has looked up.

    It keeps those that agree. The prompt is a token that the request does not have and the
    request's drafts; the target says this token again, behind which it looks the drafts up.
    """

    name = "ipex-llm-lookup"
    algorithm = "target_first"

    def __init__(self, *, release: Release) -> None:
        super().__init__("lookup", release)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        rows = logits_of(request)[1][:, 0].clone()
        path, other = request.draft_tokens[0, 0], rows.shape[-1]
        sure = torch.full((1, 1, other + 1), -inf)
        sure[..., -1] = 0
        emitted = self._put(
            self._module.lookup_generate,
            _Said([sure, rows]),
            torch.nn.functional.pad(path, (1, 0), value=other)[None],
            ends=None,
            # It is asked whether to go on behind each iteration alone.
            max_new_tokens=2,
            num_output_tokens=len(path),
        )
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
