"""What a verifier may cost a GPU at most, and what the verifiers cost today.

All verifiers are held to the goal for launches. The kernels of one that is `LEAN` are held to those
for kernels, the others to what they are: a test says so when one changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

import torch
from benchmarks.compiled import CompiledKernel
from benchmarks.launches import Launches
from benchmarks.traffic import Traffic

LEAN = frozenset({"token", "block"})
"""The verifiers that are held to the goals: those that the one pipeline verifies."""


# --- kernels -----------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelGoal:
    """The most that a kernel of a step of the pipeline may need."""

    registers: int | None = None
    """On an H100: other compilers' choices for other GPUs differ."""
    numbers: int | None = None
    """How many numbers of rows a thread takes at a time, for `instructions`."""
    instructions: int | None = None
    """Those of the whole kernel, for one such tile."""
    narrow_loads: int | None = None
    """In a sweep: a row's few constants, and what tells which row it is. No float64 is in its
    loops. None for steps that do not sweep."""


KERNEL_GOALS = {
    # 4096 tokens and four warps: 32 numbers of a row for every thread; the code for p, and for q.
    "stats": KernelGoal(registers=48, numbers=64, instructions=736, narrow_loads=10),
    "decide": KernelGoal(),
    # The same of two rows.
    "masses": KernelGoal(registers=64, numbers=64, instructions=584, narrow_loads=10),
    "finish": KernelGoal(),
}
"""By the step that a kernel's name says, without underscores, compiled for sm_90. No step spills.

A prototype that knew neither strides nor lengths had 608 and 472 instructions. What stands between
is a subtraction for each number: the largest logit is taken off before the rest is scaled, since
one multiplication and addition would be off by the digits of large logits. The loops of `finish`
are for rows of which rounding leaves nothing; a tile's sum is added there in float64."""


def kernel_excesses(kernel: CompiledKernel, dtype: torch.dtype) -> Iterator[str]:
    """Yield in words where a kernel of a lean verifier is above its goals."""
    code = kernel.code
    if code is None:
        raise ValueError(f"{kernel.kernel} for {kernel.target} has no machine code to be held to")
    step = kernel.kernel.strip("_")
    if step not in KERNEL_GOALS:
        yield f"is of no step of the pipeline: {', '.join(KERNEL_GOALS)}"
    goal = KERNEL_GOALS.get(step, KernelGoal())
    yield from code_excesses(kernel, goal.narrow_loads)
    most_registers = goal.registers if kernel.target == "sm_90" else None
    if most_registers is not None and code.registers > most_registers:
        yield f"{code.registers} registers, at most {most_registers}"
    if goal.instructions is not None and goal.numbers is not None:
        loaded = sum(sweep.wide_loads for sweep in code.sweeps) * 16 // dtype.itemsize
        most = goal.instructions * max(loaded, goal.numbers) // goal.numbers
        if code.instructions > most:
            yield f"{code.instructions} instructions for {loaded} numbers, at most {most}"


def code_excesses(kernel: CompiledKernel, narrow_loads: int | None) -> Iterator[str]:
    """Yield in words what no lean kernel does, whatever its step."""
    code = kernel.code
    if code is None:
        return
    if code.stack or code.spill_stores or code.spill_loads:
        yield f"spills: {code.spill_stores} bytes stored, {code.spill_loads} loaded"
    for sweep in code.sweeps:
        if sweep.wide_loads == 0:
            yield "a sweep without loads of 128 bits"
        if narrow_loads is not None and sweep.narrow_loads > narrow_loads:
            yield f"{sweep.narrow_loads} narrow loads in a sweep, at most {narrow_loads}"
        if narrow_loads is not None and sweep.is_loop and sweep.doubles:
            yield f"{sweep.doubles} instructions of float64 in a loop over V"


# --- launches ----------------------------------------------------------------------------

MOST_LAUNCHES = 6
"""Operators of torch and kernels of Triton, of one call with one generator."""


def launch_excesses(found: Launches) -> Iterator[str]:
    """Yield in words where a call of a lean verifier is above its goals."""
    if found.waits is not None:
        yield f"waits for the device: {found.waits}"
    if found.count > MOST_LAUNCHES:
        operators = sum(found.operators.values())
        told = f"{operators} operators and {len(found.kernels)} kernels"
        yield f"{told}, at most {MOST_LAUNCHES} together"


# --- reads -------------------------------------------------------------------------------

MOST_READS = {
    ("token", True): 1.2,
    ("block", True): 1.35,
    ("block", False): 0.5,
    ("multipath_block", True): 1.35,
}
"""How many times the rows are read on average, by the verifier and whether they are logits: with
drafts of 5 tokens, four of them for `multipath_block`, of the benchmark's rows."""


def read_excesses(name: str, found: Traffic, *, logits: bool) -> Iterator[str]:
    """Yield in words where a lean verifier reads more than its goal, if it has one."""
    most = MOST_READS.get((name, logits))
    if most is not None and found.mean > most:
        yield f"the rows are read {found.mean:.3f} times on average, at most {most}"


# --- today -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """What a kernel is now, compiled at `compiled.QUICK`: the most of its variants in a call."""

    registers: int
    instructions: int
    narrow_loads: int
    """Those of its sweep that has most."""
    swept_doubles: int
    """Instructions of float64 in loops over V."""


_STATS, _PREPARE = Figures(47, 784, 2, 0), Figures(32, 512, 0, 0)

COMPILED_TODAY = {
    "multipath_block": {
        "_stats": _STATS,
        "_select": Figures(80, 1417, 3, 2),
        "_weigh": Figures(168, 1832, 11, 0),
        "_decide": Figures(149, 2584, 4, 314),
        "_finish": Figures(100, 2816, 0, 0),
    },
    "spechub": {
        "_stats": _STATS,
        "_prepare": _PREPARE,
        "_descend": Figures(245, 8856, 27, 22),
    },
    "recursive_rejection": {
        "_stats": _STATS,
        "_prepare": _PREPARE,
        "_descend": Figures(210, 5824, 13, 10),
    },
    "greedy_block": {
        "_stats": Figures(47, 736, 2, 0),
        "_prepare": Figures(30, 352, 0, 0),
        "_verify": Figures(225, 5244, 10, 298),
    },
    "drafting": {
        "_stats": Figures(46, 400, 2, 0),
        "_prepare": Figures(32, 200, 0, 0),
        "_compare": Figures(80, 568, 4, 0),
        "_add": Figures(32, 464, 5, 0),
        "_search": Figures(168, 1000, 7, 0),
    },
    "k_seq": {
        "_stats": _STATS,
        "_prepare": _PREPARE,
        "_descend": Figures(128, 3624, 8, 117),
    },
    "traversal": {
        "_stats": _STATS,
        "_prepare": _PREPARE,
        "_order": Figures(38, 408, 0, 0),
        "_verify": Figures(250, 8418, 11, 5),
    },
    "greedy_draft": {
        "_stats": _STATS,
        "_prepare": _PREPARE,
        "_descend": Figures(254, 8392, 28, 26),
    },
}
"""The kernels of verifiers that are not lean, none of which spills."""


def figures(kernels: Iterable[CompiledKernel]) -> dict[str, Figures]:
    """Return the figures of kernels by name."""
    found: dict[str, Figures] = {}
    for kernel in kernels:
        if kernel.code is None:
            continue
        own = Figures(
            kernel.code.registers,
            kernel.code.instructions,
            max((sweep.narrow_loads for sweep in kernel.code.sweeps), default=0),
            kernel.code.swept_doubles,
        )
        other = astuple(found.get(kernel.kernel, own))
        found[kernel.kernel] = Figures(*map(max, astuple(own), other))
    return found
