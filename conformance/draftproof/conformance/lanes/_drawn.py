"""Random operators that run for real: the lane replaces their results or overwrites them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

# While a program runs, torch's own name for it is a generator that must not be seeded.
_Generator = torch.Generator

DIGITS = {torch.float16: 11, torch.bfloat16: 8}
"""Binary digits of the types whose uniform numbers are rounded float32 numbers."""


def drawn(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return the result of a random operator on a generator that nothing else draws from.

    The program's own generator stays untouched. Raises torch's own errors for invalid arguments.
    """
    seeded = _seeded(func)
    device = _device(args, kwargs)
    if seeded is not None:
        own: Tensor = seeded(*args, **{**kwargs, "generator": _generator(device)})
        return own
    with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
        found: Tensor = func(*args, **kwargs)
    return found


def has_generator(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if there are generators for the device on which a random operator draws."""
    try:
        _generator(_device(args, kwargs))
    except RuntimeError:
        return False
    return True


@cache
def _seeded(func: OpOverload) -> OpOverload | None:
    """Return the operator's form that takes a generator; old releases of torch lack some."""
    names = [argument.name for argument in func._schema.arguments]
    if "generator" in names:
        return func
    packet = func._overloadpacket
    overloads = packet.overloads()  # type: ignore[no-untyped-call]  # torch is
    for overload in map(packet.__getattr__, overloads):
        taken = [argument.name for argument in overload._schema.arguments]
        if "generator" in taken and [name for name in taken if name != "generator"] == names:
            return overload
    return None


@cache
def _generator(device: torch.device) -> torch.Generator:
    return _Generator(device)


def _device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    given = kwargs.get("device")
    if given is not None:
        return torch.device(given)
    tensors = (each for each in (*args, kwargs.get("out")) if isinstance(each, Tensor))
    return next((tensor.device for tensor in tensors), torch.device("cpu"))


@cache
def rounds_uniforms(dtype: torch.dtype) -> bool:
    """Return True if this torch rounds float32 uniforms to narrow types; older releases do not."""
    streams = [_Generator().manual_seed(1) for _ in range(2)]
    narrow = torch.rand(10_000, dtype=dtype, generator=streams[0])
    rounded = torch.rand(10_000, generator=streams[1]).to(dtype)
    return torch.equal(narrow, rounded.masked_fill(rounded == 1, 0))
