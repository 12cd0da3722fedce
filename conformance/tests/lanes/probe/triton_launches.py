"""Launches of Triton's interpreter that are made again write what interpreted ones write.

A program of its own, because Triton decides when it is imported whether it interprets:

    TRITON_INTERPRET=1 python triton_launches.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import wraps
from time import monotonic
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.conformance.lanes.probe import _launches
from draftproof.conformance.lanes.probe._launches import interpreted, recorded

INTERPRETER: Any = sys.modules["triton.runtime.interpreter"]

# Triton is untyped.
jit: Callable[[Callable[..., Any]], Any] = triton.jit

calls = 0
LIMIT = tl.constexpr(0.0)


@jit
def plain(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Sum, take the largest of, and add up rows, the first of which is written to, too."""
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < count
    own = tl.load(x + row * count + place, mask=inside, other=0.0) * scale
    tl.store(out + row * 3, tl.sum(own))
    tl.store(out + row * 3 + 1, tl.max(own, 0))
    tl.store(out + row * 3 + 2, tl.sum(tl.cumsum(own, 0) * own))
    tl.store(x + row * count + place, own, mask=inside & (place * 0 + row == 0))


@jit
def looking(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write over memory, and look at what is there before it is written to again."""
    place = tl.arange(0, BLOCK)
    own = tl.load(x + place, mask=place < count, other=0.0)
    tl.store(out, 7.0)
    if tl.max(own, 0) > scale:
        tl.store(out, tl.load(out) + tl.sum(own))
        for step in range(count):
            tl.store(out + step, tl.load(out + step) * 2)
    elif tl.min(own, 0) < 0:
        tl.store(out + 1, tl.min(own, 0))


@jit
def added(one: Any, other: Any) -> Any:
    """Return a sum, as numpy does not."""
    return one + other


@jit
def combining(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Reduce by a function of the program's own."""
    place = tl.arange(0, BLOCK)
    own = tl.load(x + place, mask=place < count, other=0.0)
    tl.store(out, tl.reduce(own, 0, added))


@jit
def counting(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write what depends on the launches before, which nobody sees that it reads."""
    tl.store(out, monotonic())


@jit
def tallying(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write how many launches there were before, which a function of Python's counts."""
    tl.store(out, called() + tl.load(x) * 0)


def called() -> float:
    global calls
    calls += 1
    return float(calls)


@jit
def limited(x: Any) -> Any:
    """Return whether a number is below a limit that is a global."""
    return x < LIMIT


@jit
def reading(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with a global that is different in every launch."""
    place = tl.arange(0, BLOCK)
    own = tl.load(x + place, mask=place < count, other=0.0)
    tl.store(out, tl.sum(limited(own).to(tl.int32)))


@jit
def paired(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Divide by a constant that is one of a pair: its sign is seen where it is zero."""
    tl.store(out, 1.0 / (tl.load(x) * tl.load(x) * BLOCK[1]))


class Place(NamedTuple):
    """Where a number is, and whether it is there; the type has a bound, changed meanwhile."""

    at: Any
    inside: Any


BOUNDED: Any = Place


@jit
def placed(place: Any, count: Any) -> Any:
    return Place(place, place < count)


@jit
def bounded(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Go by named tuples, and compare with an attribute of their type."""
    here = placed(tl.arange(0, BLOCK), count)
    own = tl.load(x + here.at, mask=here.inside, other=0.0)
    tl.store(out, tl.sum((own < BOUNDED.bound).to(tl.int32)))


@jit
def attributed(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with an attribute of a function of the kernel's."""
    tl.store(out, tl.sum((tl.load(x + tl.arange(0, BLOCK)) < limited.bound).to(tl.int32)))


def below_limit(x: Any) -> Any:
    return x < LIMIT


wrapping: Callable[..., Any] = wraps(tl.exp)(below_limit)


@jit
def wrapped(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare by a function that says that it is one of Triton's."""
    tl.store(out, tl.sum(wrapping(tl.load(x + tl.arange(0, BLOCK))).to(tl.int32)))


SETTINGS = ModuleType("settings")
MAKING = ModuleType("making")
vars(MAKING)["__getattr__"] = lambda name: LIMIT


def bounding(settings: Any) -> Any:
    return settings.bound


@jit
def given(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with an attribute of a module that another function reads."""
    bound = bounding(SETTINGS)
    tl.store(out, tl.sum((tl.load(x + tl.arange(0, BLOCK)) < bound).to(tl.int32)))


@jit
def telling(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Look at a number's text."""
    tl.store(out, 1.0 if str(tl.load(x) < 0) == "[ True]" else 2.0)


@jit
def making(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with what a module makes when it is asked for it."""
    tl.store(out, tl.sum((tl.load(x + tl.arange(0, BLOCK)) < MAKING.bound).to(tl.int32)))


@jit
def importing(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with what is imported then."""
    from __main__ import LIMIT as bound

    tl.store(out, tl.sum((tl.load(x + tl.arange(0, BLOCK)) < bound).to(tl.int32)))


@jit
def handling(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Look at a number as numpy has it."""
    tl.store(out, 1.0 if tl.load(x).handle.data.item() < 0 else 2.0)


@jit
def wandering(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Look at so many numbers that nearly every launch takes a way of its own."""
    for i in range(12):
        if tl.load(x + i) < 0:
            tl.store(out + i % 9, scale * i)


@jit
def adding_at_once(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Add to memory in one step."""
    tl.atomic_add(out, tl.load(x))


_LIMITED = (reading, bounded, attributed, wrapped, given, making, importing)


def launched(kernel: Any, x: Tensor, count: int, scale: float) -> list[Any]:
    """Return what a launch writes, bit by bit."""
    global LIMIT
    LIMIT = tl.constexpr(scale - 1.0)
    BOUNDED.bound = limited.bound = vars(SETTINGS)["bound"] = LIMIT
    x, out = x.clone(), torch.full((3 * 3,), -1.0, dtype=x.dtype)
    block = (1, 0.0 if scale < 1 else -0.0) if kernel is paired else 16
    # Of the limit only the global tells, or an attribute.
    scale = 1.0 if kernel in _LIMITED else scale
    kernel[(3,) if kernel is plain else (1,)](x, out, count, scale, BLOCK=block)
    return [out.tolist(), x.tolist()]


def inputs(kernel: Any) -> list[tuple[Tensor, int, float]]:
    """Return rows with many answers to what a kernel looks at."""
    generator = torch.Generator().manual_seed(3)
    return [
        (torch.randn(3 * 12, generator=generator, dtype=dtype), count, scale)
        for _ in range(4)
        for dtype in (torch.float32, torch.float64)
        for count in (1, 3, 5, 9)
        for scale in (0.5, 2.0)
    ]


@contextmanager
def spoilt() -> Any:
    """Let launches that are made again add where they should multiply."""
    played = _launches._played

    def wrong(interpreter: Any, root: Any, values: Any, **how: Any) -> Any:
        def swapped(branch: Any) -> None:
            for place, step in enumerate(branch.steps):
                if step.name == "create_fmul":
                    add = interpreter.interpreter_builder.create_fadd
                    branch.steps[place] = _launches.Step(
                        step.name, add, step.arguments, step.are_values
                    )
            for each in branch.answers.values():
                swapped(each)

        swapped(root)
        return played(interpreter, root, values, **how)

    vars(_launches)["_played"] = wrong
    try:
        yield
    finally:
        vars(_launches)["_played"] = played


def compared(kernel: Any) -> dict[str, Any]:
    """Return how many launches differ, and what is known of their kinds."""
    _launches._KINDS.clear()
    wanted = [launched(kernel, *each) for each in inputs(kernel)]
    with recorded(INTERPRETER):
        found = [launched(kernel, *each) for each in inputs(kernel)]
    kinds = _launches._KINDS.values()
    return {
        "differ": sum(one != other for one, other in zip(wanted, found, strict=True)),
        "kinds": len(kinds),
        "branches": sum(kind.branches for kind in kinds),
        "checked": sum(kind.made > 0 and kind.refused is None for kind in kinds),
        "refused": sorted({kind.refused for kind in kinds if kind.refused}),
    }


if __name__ == "__main__":
    kernels: list[Callable[..., Any]] = [
        *(plain, looking, reading, paired, bounded, attributed, wrapped, given, telling),
        *(making, importing, handling, wandering),
        *(combining, adding_at_once, counting, tallying),
    ]
    report = {kernel.__name__: compared(kernel) for kernel in kernels}
    with spoilt():
        report["spoilt"] = compared(plain)
    with interpreted():
        report["interpreted"] = compared(plain)
    with patch.object(_launches, "_MOST_MISSED", 2):
        report["wandering on"] = compared(wandering)
    with patch.object(_launches, "_MOST_NUMBERS", 35):
        report["large"] = compared(plain)
    print(json.dumps(report))
