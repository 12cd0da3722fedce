"""Functions of all benchmarks: time calls in turn, and describe the machine.

A machine that others use is slow for minutes and fast for minutes. So calls that are compared are
made in turn, A B A B; a ratio is the median of the ratios of neighbours, not the ratio of medians.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from math import ceil
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any

import torch

from draftproof.conformance.evidence.identity import environment
from draftproof.spec.schemas import validate

Call = Callable[[], object]
Clock = Callable[[Call, int], float]
"""From a call and a number of repetitions to the seconds that one of them took."""

_SHORTEST = 0.02
"""Seconds: a call that takes less is repeated, so that a clock's resolution does not count."""

_FLUSHED = 2**28
"""Bytes: more than any cache holds."""

_DIGITS = 6
"""More digits of a measured figure are noise."""


Spread = Mapping[str, float]
"""The `median` of what was seen, and the quartiles `low` and `high` beside it."""


def spread(seen: Sequence[float]) -> Spread:
    """Return the median and the quartiles of what was seen at least once."""
    quartiles = quantiles(seen, method="inclusive") if len(seen) > 1 else [seen[0]] * 3
    return dict(zip(("low", "median", "high"), map(figure, quartiles), strict=True))


def ratio(seen: Sequence[float], other: Sequence[float]) -> Spread:
    """Return how many times as long a call took as the other of the same round."""
    return spread([a / b for a, b in zip(seen, other, strict=True)])


def in_turn(
    calls: Mapping[str, Call], *, rounds: int, clock: Clock, shortest: float = _SHORTEST
) -> dict[str, list[float]]:
    """Return the seconds that every call took in every round; before the first, it is warmed up."""
    repeats = {}
    for name, call in calls.items():
        call()
        repeats[name] = ceil(max(1.0, shortest / clock(call, 1)))
    seen: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seen[name].append(clock(call, repeats[name]))
    return seen


def clock_of(device: str) -> Clock:
    """Return the clock that times what a device does."""
    return by_wall if torch.device(device).type == "cpu" else by_events(device)


def by_wall(call: Call, repeats: int) -> float:
    """Time calls that are over when they return."""
    start = perf_counter()
    for _ in range(repeats):
        call()
    return (perf_counter() - start) / repeats


def by_events(device: str) -> Clock:
    """Return a clock of what a GPU does, between events of its stream.

    A cache's worth is written before each call, so that none finds its input in the cache.
    """
    flushed = torch.empty(_FLUSHED, dtype=torch.int8, device=device)

    def clock(call: Call, repeats: int) -> float:
        events = []
        for _ in range(repeats):
            start, end = (_event() for _ in range(2))
            flushed.zero_()
            start.record()
            call()
            end.record()
            events.append((start, end))
        torch.cuda.synchronize()
        milliseconds: list[float] = [start.elapsed_time(end) for start, end in events]
        return sum(milliseconds) / repeats / 1000

    return clock


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch has no types


def figure(value: float) -> float:
    """Return a measured figure with as many digits as it deserves."""
    return float(f"{value:.{_DIGITS}g}")


def document(benchmark: str, *, seed: int, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the start of what a benchmark writes: what was measured, when, and where."""
    return {
        "benchmark": benchmark,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "sizes": {
            name: list(size) if isinstance(size, tuple) else size for name, size in sizes.items()
        },
        "machine": machine(),
    }


def told(row: Mapping[str, Any], aims: Mapping[str, float]) -> str:
    """Return a row of a document in words, times in milliseconds, figures beside their aims."""
    words = []
    for name, value in row.items():
        if name == "seconds":
            low, median, high = (1e3 * value[part] for part in ("low", "median", "high"))
            words.append(f"{median:.4g} ms [{low:.4g}, {high:.4g}]")
        elif name in ("size", "to_others"):
            words.append(told(value, {}))
        elif isinstance(value, str):
            words.append(f"{value:<12}")
        elif value is not None:
            one = value["median"] if isinstance(value, Mapping) else value
            aim = f" (aim {aims[name]:g})" if name in aims else ""
            words.append(f"{name} {one:g}{aim}")
    return "  ".join(words)


def machine() -> dict[str, Any]:
    """Return what a time depends on."""
    return {
        **{name: value for name, value in environment().items() if name != "processor"},
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        # What others do at the same time, one minute's average as this starts.
        "load": figure(os.getloadavg()[0]),
        "draftproof": version("draftproof"),
        "triton": installed("triton"),
        "transformers": installed("transformers"),
        "driver": _driver(),
    }


def installed(package: str) -> str | None:
    """Return the version of a package, None where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def written(found: Mapping[str, Any], folder: Path) -> Path:
    """Write a document that follows its schema into a folder, under the benchmark's name."""
    validate(found, "benchmark")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{found['benchmark']}.json"
    # One that is killed here leaves what was written before.
    beside = file.with_suffix(".part")
    beside.write_text(f"{json.dumps(found, indent=2)}\n", encoding="utf-8")
    beside.replace(file)
    return file


def _cpu() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.is_file() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def _driver() -> str | None:
    """Return the version of NVIDIA's driver, None where there is none."""
    told = Path("/proc/driver/nvidia/version")
    return told.read_text(encoding="utf-8").splitlines()[0] if told.is_file() else None
