"""The verifiers of engines, whatever of them is installed, called on one request's tensors.

Each function makes a call once and for all: what an engine has at hand when it verifies is made
before, and so is no part of the time. That is generous to some: softmaxes are given to those that
take probabilities, and vLLM's first sampler is given the draft's, and its bonus token.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import SimpleNamespace

import torch
from benchmarks.measuring import Call
from torch import Tensor

from draftproof.conformance.protocol.adapter import Request


def vllm(request: Request) -> Call:
    """Return the call of vLLM's v1 sampler, which takes the target's logits."""
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
    return partial(
        module.rejection_sample,
        tokens.flatten().int(),
        [length] * requests,
        length,
        (length * torch.arange(1, requests + 1, device=device)).int(),
        _probabilities(q).flatten(0, 1),
        p[:, :-1].flatten(0, 1).contiguous(),
        torch.zeros(requests, 1, dtype=torch.int32, device=device),
        metadata,
    )


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


def flashinfer(request: Request) -> Call:
    """Return the call of FlashInfer, which takes probabilities."""
    module = import_module("flashinfer.sampling")

    tokens, q, p = of_one_path(request)
    return partial(
        module.chain_speculative_sampling, _probabilities(q), tokens.int(), _probabilities(p)
    )


def sglang(request: Request, *, block: bool) -> Call:
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
        _probabilities(p),
        _probabilities(q),
        1.0,
        1.0,
        True,
    )

    def call() -> None:
        predicts = torch.empty(requests * slots, dtype=torch.int32, device=device)
        accepted = torch.full((requests, slots), -1, dtype=torch.int32, device=device)
        count = torch.empty(requests, dtype=torch.int32, device=device)
        module.chain_speculative_sampling_triton(
            predicts, accepted, count, *given, block_verification=block
        )

    return call


ENGINES: dict[str, Callable[[Request], Call]] = {
    "vllm v1 token": vllm,
    "vllm v2 token": partial(vllm_runner, block=False),
    "vllm v2 block": partial(vllm_runner, block=True),
    "flashinfer token": flashinfer,
    "sglang token": partial(sglang, block=False),
    "sglang block": partial(sglang, block=True),
}
"""By name, from a request of logits to its call."""


def of_one_path(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens [B, L], and the draft's and the target's rows [B, L or L+1, V]."""
    return request.draft_tokens[:, 0], request.draft_probs[:, 0], request.target_probs[:, 0]


def _probabilities(logits: Tensor) -> Tensor:
    return logits.softmax(-1, dtype=torch.float32)


def _behind_roots(tokens: Tensor) -> Tensor:
    """Return the tokens that were put in [B, L+1]: some root, then those that were drafted."""
    return torch.cat([torch.zeros_like(tokens[:, :1]), tokens], 1)
