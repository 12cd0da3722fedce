"""Whether a call waits for the GPU, and whether a CUDA graph of it can be replayed."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from benchmarks.card.checks import FIRST, differing, hold, parts, poison
from benchmarks.card.device import Device
from benchmarks.card.drafts import Drafts, drafts
from benchmarks.card.report import Figures
from benchmarks.inputs import Size

from draftproof.adapters.fast import TEXTS
from draftproof.adapters.fast.engine import verify

_DRAFTS = 4


def _given(name: str, device: Device, size: Size, *, logits: bool) -> Drafts:
    return drafts(
        TEXTS[name], size, _DRAFTS,
        logits=logits, dtype=torch.bfloat16, device=device.name, seed=0,
    )  # fmt: skip


def counted(requests: int, device: str) -> dict[str, torch.Tensor]:
    """Return seeds and positions of requests, from which kernels make their numbers."""
    each = torch.arange(requests, device=device)
    return {"seeds": each, "positions": each * 100}


def waits(device: Device, size: Size) -> Figures:
    """Call every verifier while waiting for the GPU is an error: by noise, counter, generator."""
    made = 0
    for name, logits in product(FIRST, (True, False)):
        given = _given(name, device, size, logits=logits)
        generator = torch.Generator(device.name).manual_seed(0)
        own: list[dict[str, Any]] = [
            {"noise": given.noise(0)},
            counted(given.requests, device.name),
            {"generators": generator},
        ]
        for randomness in own:
            verify(name, form="triton", **given.given, **randomness)
            device.synchronize()
            with device.without_waits():
                verify(name, form="triton", **given.given, **randomness)
            made += 1
    return {"calls": made}


def replays(device: Device, size: Size, *, count: int) -> Figures:
    """Capture verifiers, replay each with fresh numbers, and compare with operators of torch."""
    made = 0
    for name, logits in product(FIRST, (True, False)):
        given = _given(name, device, size, logits=logits)
        noise, counter = given.noise(0), counted(given.requests, device.name)
        ways: list[dict[str, torch.Tensor]] = [{"noise": noise}, counter]
        for randomness in ways:

            def call(own: dict[str, torch.Tensor] = randomness) -> tuple[torch.Tensor, ...]:
                return parts(verify(name, form="triton", **given.given, **own))  # noqa: B023  # called here

            replay = device.captured(call)
            wrong = 0
            for each in range(count):
                noise.copy_(given.noise(1 + each))
                counter["positions"].add_(1)
                if device.is_gpu:
                    for output in replay():
                        poison(output)
                wrong += differing(name, replay(), given, **randomness)
            hold(wrong, count * given.requests, f"{name}, replayed by {' and '.join(randomness)}")
            made += count
    return {"replays": made}
