"""vllm-mlx: sampled verification of a multi-token head's draft, as released."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of
from draftproof.adapters.engines.released import (
    Release,
    Unavailable,
    files,
    imported,
    require_call,
    require_names,
)
from draftproof.conformance.adapter import Request, Result

_NEIGHBOUR = torch.tensor([0.5, 0.5])
"""The target's law of another request, which drafts token 0 for certain."""


class MultimodalStep(OneRequest):
    """`install_mtp_mllm` on a generator that has a request, or a request "beside" another one.

    Its first step drafts one token by the model's own head and verifies it; what that emits, and
    the token of its second step, are the emission. The generator and the model are doubles: these
    say the request's rows, and the draw of the draft is the request's token. MLX's other draws are
    torch's. The other request has a draft that the target keeps half of the time.
    """

    algorithm = "token"

    def __init__(self, company: str, release: Release) -> None:
        try:
            import mlx.core as mx
            from mlx_lm.sample_utils import make_sampler
        except ImportError as error:
            raise Unavailable(f"MLX is not installed ({error})") from error
        own = ("memory_cache", "multimodal_processor", "mllm_specprefill", "vision_embedding_cache")
        (self._module,) = imported(
            "vllm_mlx.mllm_batch_generator",
            releases=[release],
            doubles={f"vllm_mlx.{name}": None for name in own},
        )
        require_names(self._module, "install_mtp_mllm", "_residual_logprobs")
        require_call(self._module.install_mtp_mllm, ("batch_gen",), ("language_model",))
        self.name, self._is_beside = f"vllm-mlx ({company})", company == "beside"
        self.version, self.files = release.version, files(__file__, release)
        self._mx: Any = mx
        self._scheduler = ModuleType("vllm_mlx.scheduler")
        vars(self._scheduler).update(make_sampler=make_sampler)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path of one token."""
        q, p = (rows[0, 0] for rows in logits_of(request))
        said, drafts = [p], [q[:1]]
        path = [request.draft_tokens[0, 0, :1]]
        if self._is_beside:
            other = torch.nn.functional.pad(_NEIGHBOUR, (0, max(0, p.shape[-1] - 2))).log()
            said.append(other.expand_as(p))
            drafts.append(torch.eye(p.shape[-1])[:1].log())
            path.append(torch.zeros(1, dtype=torch.int64))
        draws = _Draws(self._mx, torch.cat(path), request.generator)
        self._module.mx = draws  # type: ignore[attr-defined]
        model = _Model(self._mx, torch.stack(said), torch.stack(drafts))
        generator = _Generator(self._mx, len(said), draws)
        with patch.dict(sys.modules, {"vllm_mlx.scheduler": self._scheduler}):
            self._module.install_mtp_mllm(generator, model)
        generator.step()
        emitted = [each for each in generator._next() if each.uid == 0][1:]
        if draws.error is not None:
            raise draws.error
        if generator.get_mtp_stats()["errors"]:
            raise RuntimeError("vllm-mlx caught an error of its own step")
        tokens = [int(each.token) for each in emitted]
        accepted = sum(each.from_draft for each in emitted)
        if len(tokens) == accepted:
            tokens.append(int(generator.y[0].item()))
        return followed(request, torch.tensor(tokens), accepted)


class _Model:
    """A language model that has said its rows [B, 2, V] already, and the head's [B, 1, V]."""

    def __init__(self, mx: Any, rows: Tensor, drafts: Tensor) -> None:
        self._mx, self._rows, self._drafts = mx, mx.array(rows.numpy()), mx.array(drafts.numpy())

    def __call__(self, tokens: Any, **_: object) -> tuple[Any, Any]:
        count, length = tokens.shape
        return self._rows[:, :length], self._mx.zeros((count, length, 1))

    def mtp_forward(self, *_: object, **__: object) -> Any:
        return self._drafts


class _Generator(SimpleNamespace):
    """A batch generator of requests whose last token, whatever it is, has just been drawn."""

    y: Any

    def __init__(self, mx: Any, count: int, draws: _Draws) -> None:
        requests = [SimpleNamespace(temperature=1.0, output_tokens=[]) for _ in range(count)]
        batch = SimpleNamespace(
            uids=[*range(count)],
            requests=requests,
            num_tokens=[0] * count,
            max_tokens=[9] * count,
        )
        super().__init__(
            active_batch=batch, stop_tokens=(), sampler=draws.sampled, y=mx.zeros(count, mx.int32)
        )

    def step(self) -> None:
        """Take the step of what is installed, by the tokens of the last one."""
        self.y, _ = self._step(self.y[:, None], [])

    def _step(self, *_: object, **__: object) -> Any:
        raise Unavailable("vllm-mlx does without its drafts")

    def _next(self) -> list[Any]:
        """Say the tokens of the last step, as responses, and take another."""
        given = self.y.tolist()
        self.step()
        none = {"finish_reason": None, "request_id": "", "prompt_tokens": 0}
        none |= {"specprefill_outcome": None}
        return [SimpleNamespace(uid=uid, token=token, **none) for uid, token in enumerate(given)]


class _Draws:
    """MLX, with torch's random numbers for the first step, and the token that follows it."""

    def __init__(self, mx: Any, drafts: Tensor, generator: torch.Generator | None) -> None:
        self._mx, self._drafts, self._generator = mx, drafts, generator
        self._steps, self._is_drafted = 0, False
        self.error: Exception | None = None
        self.random = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mx, name)

    def sampled(self, logprobs: Any) -> Any:
        """Draw the tokens of a step: before the draft any will do, and so they will after it."""
        self._steps += 1
        if self._steps == 2:
            return self._drawn(logprobs)
        return self._mx.zeros(len(logprobs), self._mx.int32)

    def categorical(self, logits: Any) -> Any:
        """Return the drafted tokens, or draw."""
        if not self._is_drafted or self._steps > 1:
            self._is_drafted = True
            return self._mx.array(self._drafts.tolist())
        return self._drawn(logits)

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """Draw from [0, 1)."""
        if self._steps > 1:
            return self._mx.zeros(shape)
        return self._said(lambda: torch.rand(shape, generator=self._generator))

    def _drawn(self, logits: Any) -> Any:
        law = torch.tensor(logits.tolist()).softmax(-1)
        return self._said(lambda: torch.multinomial(law, 1, generator=self._generator)[:, 0])

    def _said(self, draw: Callable[[], Tensor]) -> Any:
        """Return what torch draws; the engine's step goes on after any error, which is kept."""
        try:
            drawn = draw()
            number = float if drawn.is_floating_point() else int
            return self._mx.array([number(each) for each in drawn.tolist()])
        except Exception as error:
            self.error = error
            raise
