"""The global generators from which a program may draw: torch's, numpy's and Python's."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from secrets import randbits

import numpy
import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators for a while, and restore them afterwards."""
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
"""The seeds of the generators of requests, which no program knows and none has by chance."""


def is_among(generator: torch.Generator, others: Sequence[torch.Generator]) -> bool:
    """Return True if a generator is one of the others, whatever their states."""
    return any(generator is other for other in others)


class Rewound(Exception):
    """Raised for a generator that repeats numbers; the message completes a sentence with 'it'."""


UNSEEDED = 2**62 + 1
"""The seed of a generator that a program makes without one; torch gives it a constant seed too."""


class Streams:
    """The generators from which a run of a program draws, checked for repeated numbers.

    The lane takes no number from them, so it advances a generator at every draw, and restores it in
    the end. `foreign` has the generators that are not a request's: the program may have made and
    seeded them, or they existed before.
    """

    def __init__(self) -> None:
        self.foreign: list[torch.Generator] = []
        self._generators: list[torch.Generator] = []
        self._first: list[torch.Tensor] = []
        self._last: list[bytes] = []
        self._seen: set[bytes] = set()

    def draw(self, given: torch.Generator | None) -> None:
        """Record a draw from a generator, None for the global one. Raises `Rewound`."""
        generator = torch.default_generator if given is None else given
        if generator.device.type != "cpu":
            return
        state = generator.get_state()
        known = next((i for i, g in enumerate(self._generators) if g is generator), None)
        if known is None:
            if state.numpy().tobytes() in self._seen:
                raise Rewound("draws from a copy of another generator: both draw the same")
            if generator.initial_seed() == UNSEEDED:
                raise Rewound("draws from a generator without a seed: what it draws is fixed")
            known = len(self._generators)
            self._generators.append(generator)
            if generator is not torch.default_generator and generator.initial_seed() not in SEEDS:
                self.foreign.append(generator)
            self._first.append(state)
            self._last.append(b"")
        elif state.numpy().tobytes() != self._last[known]:
            raise Rewound("draws from a generator whose state the program has set")
        self._seen.add(state.numpy().tobytes())
        torch.rand((), generator=generator)
        self._last[known] = generator.get_state().numpy().tobytes()
        self._seen.add(self._last[known])

    def close(self) -> None:
        """Restore the generators."""
        for generator, state in zip(self._generators, self._first, strict=True):
            torch._C.Generator.set_state(generator, state)


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
