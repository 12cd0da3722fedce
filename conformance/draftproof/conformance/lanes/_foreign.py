"""Randomness that does not come from torch's operators, and so cannot be followed.

A global generator (Python's, numpy's, torch's own behind the dispatcher's back) shows in its
state. Private generators are looked for among all live objects, which takes a moment, so
that is done once for each program text.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy
import torch


class ForeignRandomness(RuntimeError):
    """The program drew random numbers that the exact lane does not see."""


_searched: WeakSet[Any] = WeakSet()


@contextmanager
def generators_untouched(program: Callable[[], Any]) -> Iterator[None]:
    """Raise `ForeignRandomness` if a generator that is not followed was used meanwhile."""
    text = getattr(getattr(program, "__func__", program), "__code__", type(program))
    private = [] if text in _searched else list(_private_generators())
    _searched.add(text)
    before = _global_states()
    private_before = [_state(generator) for generator in private]
    yield
    used = [name for name, state in _global_states().items() if state != before[name]]
    used += [
        repr(generator)
        for generator, state in zip(private, private_before, strict=True)
        if _state(generator) != state
    ]
    if used:
        raise ForeignRandomness(
            f"{used[0]} was drawn from; the exact lane follows torch's random operators only"
        )


def _global_states() -> dict[str, object]:
    return {
        "Python's random module": random.getstate(),
        "numpy.random": numpy.random.get_state(legacy=False)["state"]["key"].tobytes(),
        "torch's generator, past the dispatcher,": torch.get_rng_state().numpy().tobytes(),
    }


def _private_generators() -> Iterator[random.Random | numpy.random.BitGenerator]:
    for candidate in gc.get_objects():
        kind = type(candidate)
        if issubclass(kind, numpy.random.BitGenerator):
            yield candidate
        elif issubclass(kind, random.Random) and not issubclass(kind, random.SystemRandom):
            yield candidate


def _state(generator: random.Random | numpy.random.BitGenerator) -> str:
    if isinstance(generator, random.Random):
        return str(generator.getstate())
    return str(generator.state)
