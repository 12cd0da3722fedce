"""The global generators from which a program may draw: torch's, numpy's and Python's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators for a while, and leave them as they were."""
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
