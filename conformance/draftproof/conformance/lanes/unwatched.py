"""Unwatched real runs, compared with the laws that the exact and probe lanes compute.

These lanes see a program through the operations that they intercept. A gap in them silently gives a
wrong law, since the weights sum to 1 either way. So the suite follows every law that a campaign
computes by runs of the same program with real random numbers. An outcome x of a law with weights w
is turned into F(x-) + V w(x), F being the running sum in a fixed order and V uniform: a number that
is uniform on [0, 1) if the law is correct, whatever the law is. One histogram counts all of these
numbers, with a bin for outcomes that the law excludes, and gives one e-process (`statistics`): it
detects a fault that moves all laws a little, while each law alone would show only gross faults.

Calls of one row and rows of one call are counted separately: a program may take a different branch
for one row, and rows of one call may disturb each other.

The comparison covers whole numbers, also those given as floats, and messages: other floats may be
rounded differently in a real run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy
import torch
from numpy.typing import NDArray

from draftproof.conformance.lanes._streams import SEEDS, seeded
from draftproof.conformance.lanes.statistics import (
    Null,
    Wealth,
    log_evidence,
    log_mean,
    no_evidence,
    null,
    updated,
)
from draftproof.reference.law import Law
from draftproof.reference.rational import Rational, rational

BINS = 16
"""Bins of the histogram, without the extra bin for outcomes that the laws exclude."""

TOLERANCE = 2.0**-14
"""Allowed distance of a real law from the computed one, in total variation.

The lane takes noise as ideal. In float32 noise has a grid of 2**-24, and if the clocks of a race
are closer than 32 roundings, rounding decides: a run that draws twenty numbers, or races ten times
among a dozen tokens, is off by less than a thousand roundings.
"""

_LOOSE = rational("1/1024")
"""Largest uncertainty of a law that is still compared with real runs."""

MOST = 4096
"""Maximum number of real runs of one law, whatever `Held.times` asks for."""

_Counts = NDArray[numpy.int64]


def _nothing() -> _Counts:
    return numpy.zeros(BINS + 1, numpy.int64)


@dataclass
class Held:
    """Real runs of some laws: counts by bin, with a last bin for outcomes that the laws exclude."""

    random: numpy.random.Generator
    times: int | None = None
    """The factor on the usual number of runs, up to `MOST` runs of a law; None for 1."""
    alone: _Counts = field(default_factory=_nothing)
    """Counts of calls like the watched calls: of one row, if the law is that of a row."""
    rows: _Counts = field(default_factory=_nothing)
    """Counts of rows of one call."""
    generators: dict[str, torch.Generator] = field(default_factory=dict)

    def forget(self) -> None:
        """Start the counts anew, because a lane proved blind and the next lane begins."""
        self.alone, self.rows = _nothing(), _nothing()

    def counted(self, lane: str) -> dict[str, Any]:
        """Return the counts in the form of evidence, empty if there were no runs."""
        if not (self.alone.any() or self.rows.any()):
            return {}
        return {"lane": lane, "alone": self.alone.tolist(), "rows": self.rows.tolist()}


# While a program runs under the exact lane, torch's own is one that must not be seeded.
_GENERATOR = torch.Generator
_SEEDS = iter(SEEDS)

_HELD: ContextVar[Held | None] = ContextVar("held", default=None)
_RUNNING: ContextVar[Held | None] = ContextVar("running", default=None)


@contextmanager
def holding(seed: int, *, times: int | None = None) -> Iterator[Held]:
    """Compare all laws computed in this block with real runs, which depend on the seed."""
    held = Held(numpy.random.default_rng(seed), times)
    token = _HELD.set(held)
    try:
        yield held
    finally:
        _HELD.reset(token)


@contextmanager
def holding_nothing() -> Iterator[None]:
    """Skip the comparison for laws computed in this block: it takes place when they are used."""
    token = _HELD.set(None)
    try:
        yield
    finally:
        _HELD.reset(token)


def fresh_generator(device: str | torch.device) -> torch.Generator:
    """Return a generator for a request: a new one, or in real runs one that continues."""
    held = _RUNNING.get()
    if held is None:
        # Under the exact lane torch's own gives the seed that one has which the program makes.
        is_watched = torch.Generator is not _GENERATOR
        return watched_generator(device) if is_watched else _GENERATOR(device)
    if str(device) not in held.generators:
        seed = int(held.random.integers(2**63))
        held.generators[str(device)] = _GENERATOR(device).manual_seed(seed)
    return held.generators[str(device)]


def generators_of_rows(generator: torch.Generator, rows: int) -> tuple[torch.Generator, ...]:
    """Return a generator for each row of a request, seeded from the request's own in real runs."""
    device = generator.device
    if torch.Generator is not _GENERATOR:
        return tuple(watched_generator(device) for _ in range(rows))
    seeds = torch.randint(2**62, (rows,), generator=generator, device=device).tolist()
    return tuple(_GENERATOR(device).manual_seed(seed) for seed in seeds)


def watched_generator(device: str | torch.device) -> torch.Generator:
    """Return a request's generator for the exact lane, which recognises it by its seed."""
    return _GENERATOR(device).manual_seed(next(_SEEDS))


def hold(
    law: Law[Any],
    *,
    slack: Rational,
    alone: float,
    rows: int,
    one: Callable[[], Hashable],
    many: Callable[[int], Mapping[Hashable, int]] | None,
) -> None:
    """Compare a law with real runs, if enabled.

    `one()` returns the outcome of a real run. There are `alone` such runs, on average if that is
    not a whole number. `many(n)` counts the outcomes of n `rows` of one call; it is None if there
    is no such call.
    """
    held = _HELD.get()
    if held is None or slack > _LOOSE:
        return
    token = _RUNNING.set(held)
    try:
        with seeded(int(held.random.integers(2**63))):
            if held.times is not None:
                alone, rows = min(alone * held.times, MOST), min(rows * held.times, MOST)
            by_rows = many(rows) if many is not None else {}
            calls = int(alone) if alone == int(alone) else int(alone + held.random.random())
            by_calls = Counter(one() for _ in range(calls))
    finally:
        _RUNNING.reset(token)
    held.rows += _places(law, by_rows, held.random)
    held.alone += _places(law, by_calls, held.random)


def _places(law: Law[Any], seen: Mapping[Hashable, int], random: numpy.random.Generator) -> _Counts:
    """Return the counts of the places of outcomes in a law."""
    counts = _nothing()
    weights: dict[Hashable, float] = {}
    for outcome, weight in law.items():
        known = _comparable(outcome)
        weights[known] = weights.get(known, 0.0) + float(weight)
    starts, running = {}, 0.0
    for outcome in sorted(weights, key=repr):
        starts[outcome] = running
        running += weights[outcome]
    for outcome, times in sorted(seen.items(), key=repr):
        outcome = _comparable(outcome)
        if outcome not in weights:
            counts[BINS] += times
            continue
        places = starts[outcome] + weights[outcome] * random.random(times)
        bins = numpy.minimum((places * BINS).astype(numpy.int64), BINS - 1)
        counts[:BINS] += numpy.bincount(bins, minlength=BINS)
    return counts


def _comparable(outcome: Any) -> Hashable:
    if isinstance(outcome, tuple):
        return tuple(map(_comparable, outcome))
    if isinstance(outcome, frozenset):
        return frozenset(map(_comparable, outcome))
    if not isinstance(outcome, float):
        known: Hashable = outcome
        return known
    whole = round(outcome) if isfinite(outcome) else None
    return whole if whole is not None and abs(outcome - whole) < _ROUNDED else None


_ROUNDED = 2.0**-10
"""Largest distance of a float from a whole number that counts as that accepted length or token."""


# --- what it came to --------------------------------------------------------------------------


def evidence(counts: Sequence[Sequence[int]]) -> float:
    """Return the log evidence that laws differ from those of real runs, from the counts of tasks.

    It is the mean of two e-processes: that of all counts together, and the mean of those of each
    task, which detects a fault of a single kind of law sooner.
    """
    if not counts:
        return 0.0
    each = [_evidence([own]) for own in counts]
    return log_mean([_evidence(counts), log_mean(each)])


def _evidence(counts: Iterable[Sequence[int]]) -> float:
    held = _null()
    found: Wealth = no_evidence(held)
    for each in counts:
        found = updated(held, found, numpy.array(each, dtype=numpy.float64))
    return log_evidence(held, found)


def _null() -> Null:
    law = numpy.full(BINS + 1, 1 / BINS)
    law[BINS] = 0
    return null(law, tolerance=TOLERANCE)


def off_by(counts: Sequence[int]) -> float:
    """Return the total variation distance of a histogram from the expected one."""
    shares = numpy.array(counts) / max(sum(counts), 1)
    return float((numpy.maximum(shares - [*[1 / BINS] * BINS, 0], 0)).sum())
