"""The peak memory of one call, in a process that has done nothing else.

    python adapters/benchmarks/memory.py WAY NAME B L V SEED

prints the most memory that was resident until the call returned, less what was before its input
was made, over the bytes of the input: 1 is a call that needs no memory of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.calls import OURS, WAYS, ours, theirs
from benchmarks.inputs import Size, request
from benchmarks.measuring import Call

from draftproof.adapters.fast.batch import LONG

_SMALL = Size(2, 2, LONG)
"""A size that is verified as large ones are."""
_FLOAT = 4
_MAPPED = 2**16
"""Bytes from which a block is returned to the system at once when it is freed."""


class Unmeasured(RuntimeError):
    """The memory of a call was not measured; the message says why."""


def measured(way: str, name: str, size: Size, *, seed: int) -> float:
    """Return the peak memory of a call over the bytes of its input. Raises `Unmeasured`."""
    sizes = (size.requests, size.length, size.vocabulary, seed)
    command = [sys.executable, __file__, way, name, *map(str, sizes)]
    # Without it, glibc keeps or returns what was freed as it comes, and no two runs agree.
    own = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(_MAPPED)}
    done = subprocess.run(command, capture_output=True, text=True, env=own)  # noqa: S603  # ours
    if done.returncode != 0:
        told = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        raise Unmeasured(told[-1])
    return float(done.stdout)


def _call(way: str, name: str, size: Size, seed: int) -> Call:
    given = request(size, seed=seed, logits=WAYS[way])
    return ours(name, way, given) if name in OURS else theirs(given, logits=WAYS[way])[name]


def _resident(name: str) -> int:
    """Return the bytes that Linux says are resident, now (VmRSS) or at most so far (VmHWM).

    Not `ru_maxrss`: a process inherits that of the one that started it.
    """
    told = Path("/proc/self/status")
    if not told.is_file():
        raise Unmeasured("resident memory is read from /proc/self/status, which only Linux has")
    lines = (line.split() for line in told.read_text(encoding="utf-8").splitlines())
    return next(int(line[1]) * 1024 for line in lines if line[0] == f"{name}:")


def main(way: str, name: str, *numbers: str) -> None:
    """Print the peak of one call in this process."""
    *sides, seed = map(int, numbers)
    size = Size(*sides)
    # What a first call loads and keeps is no matter of its input.
    _call(way, name, _SMALL, seed)()
    before = _resident("VmRSS")
    _call(way, name, size, seed)()
    print((_resident("VmHWM") - before) / (_FLOAT * size.numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
