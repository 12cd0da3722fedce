"""The verifiers of engines, whatever of them is installed, called on one request's tensors.

Each function makes a call once and for all: what an engine has at hand when it verifies is made
before, and so is no part of the time. An engine whose verifier takes probabilities is called twice:
with the softmax outside of the call, beside ours from probabilities, and with it inside, beside
ours from logits. vLLM's first sampler is given its bonus token, which is generous to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Literal, TypeAlias

import torch
from benchmarks.measuring import Call
from torch import Tensor

from draftproof.conformance.protocol.adapter import Request

Given: TypeAlias = Literal["logits", "probabilities", "mixed"]
"""What rows are when a call begins; mixed are logits of the target and probabilities of the
draft."""


@dataclass(frozen=True)
class Engine:
    """A verifier of an engine, and which of ours it is to be compared with."""

    make: Callable[[Request], Call]
    """From a request of logits to the call."""
    algorithm: str
    given: Given

    def __call__(self, request: Request) -> Call:
        return self.make(request)


def vllm(request: Request, *, softmax: bool = False) -> Call:
    """Return the call of vLLM's v1 sampler: logits of the target, probabilities of the draft."""
    module = import_module("vllm.v1.sample.rejection_sampler")

    tokens, q, p = of_one_path(request)
    requests, length = tokens.shape
    device = tokens.device
    metadata = SimpleNamespace(
        all_greedy=False,
        all_random=True,
        temperature=torch.ones(requests, device=device),
        top_k=None,
        top_p=None,
        generators={},
    )
    before = (
        tokens.flatten().int(),
        [length] * requests,
        length,
        (length * torch.arange(1, requests + 1, device=device)).int(),
    )
    behind = (
        p[:, :-1].flatten(0, 1).contiguous(),
        torch.zeros(requests, 1, dtype=torch.int32, device=device),
        metadata,
    )
    rows = _rows(q.flatten(0, 1), softmax=softmax)
    return lambda: module.rejection_sample(*before, rows(), *behind)


def vllm_runner(request: Request, *, block: bool) -> Call:
    """Return the call of the sampler of vLLM's model runner v2, which takes logits of both."""
    module = import_module("vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils")

    tokens, q, p = of_one_path(request)
    requests, length = tokens.shape
    device, rows = tokens.device, requests * (length + 1)
    every = torch.arange(rows, device=device, dtype=torch.int32)
    each = torch.arange(requests, device=device, dtype=torch.int32)
    return partial(
        module.rejection_sample,
        p.flatten(0, 1),
        q,
        _behind_roots(tokens).flatten(),
        (length + 1) * torch.arange(requests + 1, device=device, dtype=torch.int32),
        every.long(),
        each,
        each.repeat_interleave(length + 1),
        every % (length + 1),
        torch.ones(requests, device=device),
        torch.arange(requests, device=device),
        length,
        use_block_verification=block,
    )


def flashinfer(request: Request, *, softmax: bool = False) -> Call:
    """Return the call of FlashInfer, which takes probabilities."""
    module = import_module("flashinfer.sampling")

    tokens, q, p = of_one_path(request)
    ids = tokens.int()
    of_draft, of_target = _rows(q, softmax=softmax), _rows(p, softmax=softmax)
    return lambda: module.chain_speculative_sampling(of_draft(), ids, of_target())


def sglang(request: Request, *, block: bool, softmax: bool = False) -> Call:
    """Return the call of SGLang, which takes probabilities and writes into its arguments."""
    module = import_module("sglang.kernels.ops.speculative.reject_sampling")

    tokens, q, p = of_one_path(request)
    requests, slots = p.shape[:2]
    device = tokens.device
    slot = torch.arange(requests * slots, device=device).view(requests, slots)
    following = torch.arange(1, slots + 1, device=device).repeat(requests, 1)
    following[:, -1] = -1
    given = (
        _behind_roots(tokens),
        slot,
        following,
        torch.full_like(following, -1),
        torch.rand(requests, slots, device=device),
        torch.rand(requests, device=device),
    )
    of_target, of_draft = _rows(p, softmax=softmax), _rows(q, softmax=softmax)

    def call() -> None:
        predicts = torch.empty(requests * slots, dtype=torch.int32, device=device)
        accepted = torch.full((requests, slots), -1, dtype=torch.int32, device=device)
        count = torch.empty(requests, dtype=torch.int32, device=device)
        module.chain_speculative_sampling_triton(
            *(predicts, accepted, count, *given, of_target(), of_draft(), 1.0, 1.0, True),
            block_verification=block,
        )

    return call


ENGINES: dict[str, Engine] = {
    "vllm v1 token": Engine(vllm, "token", "mixed"),
    "vllm v1 token with softmax": Engine(partial(vllm, softmax=True), "token", "logits"),
    "vllm v2 token": Engine(partial(vllm_runner, block=False), "token", "logits"),
    "vllm v2 block": Engine(partial(vllm_runner, block=True), "block", "logits"),
    "flashinfer token": Engine(flashinfer, "token", "probabilities"),
    "flashinfer token with softmax": Engine(partial(flashinfer, softmax=True), "token", "logits"),
    **{
        f"sglang {name}{' with softmax' * softmax}": Engine(
            partial(sglang, block=name == "block", softmax=softmax),
            name,
            "logits" if softmax else "probabilities",
        )
        for name in ("token", "block")
        for softmax in (False, True)
    },
}
"""By name."""


def of_one_path(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens [B, L], and the draft's and the target's rows [B, L or L+1, V]."""
    return request.draft_tokens[:, 0], request.draft_probs[:, 0], request.target_probs[:, 0]


def _rows(logits: Tensor, *, softmax: bool) -> Callable[[], Tensor]:
    """Return what tells probabilities: made at once, or in every call where `softmax` is."""
    if softmax:
        return partial(_probabilities, logits)
    rows = _probabilities(logits)
    return lambda: rows


def _probabilities(logits: Tensor) -> Tensor:
    return logits.softmax(-1, dtype=torch.float32)


def _behind_roots(tokens: Tensor) -> Tensor:
    """Return the tokens that were put in [B, L+1]: some root, then those that were drafted."""
    return torch.cat([torch.zeros_like(tokens[:, :1]), tokens], 1)
