"""Foreign randomness: draws that bypass torch's operators, and that no lane follows.

The exact lane answers many calls to other generators itself (`exact._sources`); these advance no
generator. This module detects all other draws.

The state of a global generator (Python's, numpy's, or torch's own used around the dispatcher)
reveals its use. The module searches all live objects for private generators; the search takes a
moment, so it runs once for each program text. The noise of the operating system has no state, so
the module guards the functions through which Python and numpy get it. Threads do not inherit the
modes under which the program runs, so the program must not start any.
"""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import getclosurevars, isfunction
from itertools import compress
from secrets import randbits
from threading import Thread, get_ident
from typing import Any

import numpy
import torch

from draftproof.conformance.lanes._streams import UNSEEDED, seeded, states
from draftproof.conformance.lanes.opaque import FixedRandomness, OpaqueRandomness, program_line

_searched: set[Hashable] = set()


@contextmanager
def generators_untouched(program: Callable[..., Any]) -> Iterator[None]:
    """Raise `OpaqueRandomness` if the program used a generator that the lane does not follow."""
    # Seeds that nobody knows: a program that seeds a generator always changes its state.
    with seeded(randbits(60)):
        text = _text(program)
        private = [] if text in _searched else list(_private_generators())
        _searched.add(text)
        before = states()
        private_before = [_state(generator) for generator in private]
        refused: list[OpaqueRandomness] = []
        with (
            _no_threads(refused),
            _no_seeding(refused),
            _no_capsules(refused),
            _no_noise_of_the_system(refused),
        ):
            yield
        if refused:
            # A program that catches everything must not turn a refusal into a law.
            raise refused[0]
        used = [name for name, state in states().items() if state != before[name]]
        used += [
            repr(generator)
            for generator, state in zip(private, private_before, strict=True)
            if _state(generator) != state
        ]
        if used:
            _searched.discard(text)
            raise OpaqueRandomness(
                used[0], "was drawn from or seeded, in a way that this lane does not follow"
            )


@contextmanager
def _no_threads(refused: list[OpaqueRandomness]) -> Iterator[None]:
    """Refuse new threads: the modes that follow the program do not apply in them."""
    start, ours = Thread.start, get_ident()

    def guarded(thread: Thread) -> None:
        if get_ident() == ours:
            reason = "is a new thread, which cannot be followed"
            refused.append(OpaqueRandomness(thread.name, reason, program_line()))
            raise refused[-1]
        start(thread)

    Thread.start = guarded  # type: ignore[assignment,method-assign]  # no hook
    try:
        yield
    finally:
        Thread.start = start  # type: ignore[method-assign]  # as above


@contextmanager
def _no_seeding(refused: list[OpaqueRandomness]) -> Iterator[None]:
    """Refuse generators that the program makes and seeds: it would determine their draws."""

    class AsGenerator(type(torch.Generator)):  # type: ignore[misc]  # whatever it is
        # A generator that was made before is one for the program, too.
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, made)

    class Unseeded(torch.Generator, metaclass=AsGenerator):
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()
            made.manual_seed(self, UNSEEDED)

        def manual_seed(self, seed: int) -> torch.Generator:
            reason = f"fixes what is drawn (seed {seed}), which is then not random"
            refused.append(FixedRandomness("Generator.manual_seed", reason, program_line()))
            raise refused[-1]

        def set_state(self, state: torch.Tensor) -> torch.Generator:
            reason = (
                f"fixes what is drawn (a state of {len(state)} bytes), which is then not random"
            )
            refused.append(FixedRandomness("Generator.set_state", reason, program_line()))
            raise refused[-1]

    Unseeded.__name__ = Unseeded.__qualname__ = torch.Generator.__name__
    Unseeded.__module__ = torch.Generator.__module__
    torch.Generator, made = Unseeded, torch.Generator  # type: ignore[misc]  # no other hook
    try:
        yield
    finally:
        torch.Generator = made  # type: ignore[misc]  # as above


@contextmanager
def _no_capsules(refused: list[OpaqueRandomness]) -> Iterator[None]:
    """Refuse `to_dlpack`: other libraries read memory through it, unseen by every mode."""
    handed_out = torch._C._to_dlpack

    def guarded(*_: Any) -> Any:
        reason = "hands out a tensor's memory, which is then read where nobody can follow"
        refused.append(OpaqueRandomness("to_dlpack", reason, program_line()))
        raise refused[-1]

    places = (torch, torch.utils.dlpack)
    for place in places:
        vars(place)["to_dlpack"] = guarded
    try:
        yield
    finally:
        for place in places:
            vars(place)["to_dlpack"] = handed_out


@contextmanager
def _no_noise_of_the_system(refused: list[OpaqueRandomness]) -> Iterator[None]:
    """Refuse draws from the operating system, and generators seeded by it.

    This covers `secrets`, `uuid` and numpy, which draw from the system through Python's own
    functions.
    """
    ours = get_ident()

    def guarded(name: str, drawn: Callable[..., Any], *, is_seed: bool = False) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            is_drawn = not is_seed or (given[1:] or (named.get("a"),))[0] is None
            if is_drawn and get_ident() == ours and not is_import():
                reason = "draws noise of the operating system, which cannot be followed"
                refused.append(OpaqueRandomness(name, reason, program_line()))
                raise refused[-1]
            return drawn(*given, **named)

        return called

    places: list[tuple[Any, str, bool]] = [
        (os, "getrandom", False),
        (os, "urandom", False),
        (random, "_urandom", False),
        (random.Random, "seed", True),
    ]
    found = [each for each in places if hasattr(each[0], each[1])]
    before = [getattr(place, name) for place, name, _ in found]
    for (place, name, is_seed), drawn in zip(found, before, strict=True):
        setattr(place, name, guarded(name.strip("_"), drawn, is_seed=is_seed))
    try:
        yield
    finally:
        for (place, name, _), drawn in zip(found, before, strict=True):
            setattr(place, name, drawn)


def is_import() -> bool:
    """Return True if a module is being imported: an import may draw random numbers for itself."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
    return False


def _text(program: Any) -> Hashable:
    """Return a key of a program's text: its code and the code of its parts."""
    if isinstance(program, partial):
        return (_text(program.func), *map(_text, program.args))
    bound = getattr(program, "__self__", None)
    function = getattr(program, "__func__", program)
    free = getclosurevars(function).nonlocals.values() if isfunction(function) else ()
    parts = (getattr(part, "__code__", type(part)) for part in free)
    return (getattr(function, "__code__", type(function)), type(bound), *parts)


def _private_generators() -> Iterator[random.Random | numpy.random.BitGenerator]:
    objects = gc.get_objects()
    # There may be millions, of few types.
    kinds = {
        kind
        for kind in set(map(type, objects))
        # The system's generator has no state to look at.
        if issubclass(kind, (numpy.random.BitGenerator, random.Random))
        and not issubclass(kind, random.SystemRandom)
    }
    return compress(objects, map(kinds.__contains__, map(type, objects)))


def _state(generator: random.Random | numpy.random.BitGenerator) -> str:
    try:
        if isinstance(generator, random.Random):
            return str(generator.getstate())
        return str(generator.state)
    except Exception as error:
        # One that was not made to its end has no state, and draws nothing.
        return repr(error)
