"""Generators from which a program may draw: torch's, numpy's and Python's."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from secrets import randbits
from typing import Any, TypeAlias

import numpy
import torch

from draftproof.conformance.lanes.opaque import OpaqueRandomness


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators within a block, and restore them afterwards."""
    ours, theirs = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng():
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        # `torch.manual_seed` records the caller's stack for a device that may come: a millisecond.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(seed)
        try:
            yield
        finally:
            random.setstate(ours)
            numpy.random.set_state(theirs)


_FIRST = randbits(60)
SEEDS = range(_FIRST, _FIRST + 2**60)
"""Seeds of the generators of requests, which no program knows or has by chance."""


def is_among(generator: object, others: Sequence[object]) -> bool:
    """Return True if a generator is one of these generators, whatever their states."""
    return any(generator is other for other in others)


class Rewound(Exception):
    """Raised for a generator that repeats numbers; the message completes a sentence with 'it'."""


UNSEEDED = 2**62 + 1
"""Seed of a generator that a program makes without a seed; torch gives it a constant seed, too."""


Elsewhere: TypeAlias = random.Random | numpy.random.BitGenerator
"""A generator of Python's or of numpy's."""

_GLOBAL: list[Elsewhere] = [
    numpy.random.mtrand._rand._bit_generator,
    random.random.__self__,  # type: ignore[attr-defined]  # likewise
]


class Streams:
    """Generators from which a run of a program draws, checked for repeated numbers.

    The lane takes no number from them, so it advances a generator at every draw, and restores it in
    the end. `foreign` has the generators that do not belong to a request: the program may have made
    and seeded them, or they existed before.
    """

    def __init__(self) -> None:
        self.foreign: list[torch.Generator | Elsewhere] = []
        self._generators: list[torch.Generator] = []
        self._first: list[torch.Tensor] = []
        self._last: list[bytes] = []
        self._elsewhere: list[tuple[Elsewhere, Any, Hashable]] = []
        self._seen: set[Hashable] = set()
        """The states of Python's and numpy's generators, and hashes of torch's states, which are
        long."""
        self.run: Any = None
        """The run, or the walk of several runs, that draws; None outside of a program."""
        _OPEN.append(self)

    def draw(self, given: torch.Generator | None) -> None:
        """Record a draw from a generator, None for the global one. Raises `Rewound`."""
        generator = torch.default_generator if given is None else given
        if generator.device.type != "cpu":
            return
        state = generator.get_state()
        now = state.numpy().tobytes()
        known = next((i for i, g in enumerate(self._generators) if g is generator), None)
        if known is None:
            if hash(now) in self._seen:
                raise Rewound("draws from a copy of another generator: both draw the same")
            if generator.initial_seed() == UNSEEDED:
                raise Rewound("draws from a generator without a seed: what it draws is fixed")
            known = len(self._generators)
            self._generators.append(generator)
            if generator is not torch.default_generator and generator.initial_seed() not in SEEDS:
                self.foreign.append(generator)
            self._first.append(state)
            self._last.append(b"")
        elif now != self._last[known]:
            raise Rewound("draws from a generator whose state the program has set")
        self._seen.add(hash(now))
        torch.rand((), generator=generator)
        self._last[known] = generator.get_state().numpy().tobytes()
        self._seen.add(hash(self._last[known]))

    def draw_elsewhere(self, generator: Elsewhere, *, is_fresh: bool) -> None:
        """Record a draw from a generator of Python's or numpy's. Raises `Rewound`.

        A generator that `is_fresh` was made in this run, from noise of the operating system.
        """
        state = _state(generator)
        known = next((i for i, (g, *_) in enumerate(self._elsewhere) if g is generator), None)
        if known is None:
            if _frozen(state) in self._seen:
                raise Rewound("draws from a copy of another generator: both draw the same")
            if not is_fresh and not is_among(generator, _GLOBAL):
                self.foreign.append(generator)
            known = len(self._elsewhere)
            self._elsewhere.append((generator, state, None))
        elif _frozen(state) != self._elsewhere[known][2]:
            raise Rewound("draws from a generator whose state the program has set")
        self._seen.add(_frozen(state))
        _move_on(generator)
        last = _frozen(_state(generator))
        self._elsewhere[known] = (*self._elsewhere[known][:2], last)
        self._seen.add(last)

    def close(self) -> None:
        """Restore the generators, except those whose final state the program has set.

        Raises `OpaqueRandomness` for these.
        """
        if self in _OPEN:
            _OPEN.remove(self)
        disturbed = []
        for elsewhere, first, last in self._elsewhere:
            if _frozen(_state(elsewhere)) == last:
                _restore(elsewhere, first)
            else:
                disturbed.append(elsewhere)
        for generator, state in zip(self._generators, self._first, strict=True):
            torch._C.Generator.set_state(generator, state)
        if disturbed:
            reason = "was drawn from, or seeded, in a way that is not followed"
            raise OpaqueRandomness(type(disturbed[0]).__name__, reason)


_OPEN: list[Streams] = []


def streams_of_run() -> Streams | None:
    """Return the streams of the run that is being made, None if there is no run."""
    return _OPEN[-1] if _OPEN else None


def _state(generator: Elsewhere) -> Any:
    return generator.getstate() if isinstance(generator, random.Random) else generator.state


def _restore(generator: Elsewhere, state: Any) -> None:
    if isinstance(generator, random.Random):
        random.Random.setstate(generator, state)
    else:
        generator.state = state


def _move_on(generator: Elsewhere) -> None:
    if isinstance(generator, random.Random):
        _PYTHONS(generator)
    else:
        generator.random_raw()


# A lane puts another one in its place, in the class that everybody knows.
_PYTHONS = random.Random.random


def _frozen(state: Any) -> Hashable:
    """Return a state as a value that can be compared: numpy's states are nests with arrays."""
    if isinstance(state, dict):
        return tuple((name, _frozen(part)) for name, part in state.items())
    if isinstance(state, numpy.ndarray):
        return state.tobytes()
    found: Hashable = state
    return found


def states() -> dict[str, object]:
    """Return the state of each global generator, by the generator's name."""
    numpys = numpy.random.get_state(legacy=False)
    found: dict[str, object] = {
        "torch's global generator": torch.get_rng_state().numpy().tobytes(),
        # The key alone stays as it is for 624 draws.
        "numpy.random": (numpys["state"]["key"].tobytes(), numpys["state"]["pos"]),
        "Python's random module": random.getstate(),
    }
    if torch.cuda.is_available():
        cuda = tuple(state.numpy().tobytes() for state in torch.cuda.get_rng_state_all())
        found["torch's global generator of CUDA"] = cuda
    return found
