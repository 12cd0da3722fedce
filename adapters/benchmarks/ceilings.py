"""What a verifier may cost a GPU at most, and what the verifiers cost today.

A verifier that is `LEAN` is held to the goals, the others to what they are: `TODAY` has the figures
of all, and a test says so when one changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

import torch
from benchmarks.compiled import CompiledKernel
from benchmarks.launches import Launches
from benchmarks.machine_code import Region
from benchmarks.traffic import Traffic

LEAN: frozenset[str] = frozenset()
"""The verifiers that are held to the goals: those that the one pipeline verifies."""


# --- kernels -----------------------------------------------------------------------------

MOST_NARROW_LOADS = 10
"""In a sweep: a row's few constants, and what tells which row it is."""


@dataclass(frozen=True)
class KernelGoal:
    """The most that a kernel of a step of the pipeline may need."""

    registers: int | None = None
    """On an H100: other compilers' choices for other GPUs differ."""
    numbers: int | None = None
    """How many numbers of rows a thread takes at a time, for `instructions`."""
    instructions: int | None = None
    """Those of the whole kernel, for one such tile."""


KERNEL_GOALS = {
    # 8192 tokens and eight warps: 32 numbers of a row for every thread.
    "stats": KernelGoal(registers=48, numbers=32, instructions=304),
    "decide": KernelGoal(),
    # The same of two rows.
    "masses": KernelGoal(registers=64, numbers=64, instructions=472),
    "finish": KernelGoal(),
}
"""By the step that a kernel's name says, without underscores; the figures are those of a prototype,
compiled for sm_90. Spills and float64 in loops over V are in none of them."""


def kernel_excesses(kernel: CompiledKernel, dtype: torch.dtype) -> Iterator[str]:
    """Yield in words where a kernel of a lean verifier is above its goals."""
    code = kernel.code
    if code is None:
        raise ValueError(f"{kernel.kernel} for {kernel.target} has no machine code to be held to")
    step = kernel.kernel.strip("_")
    if step not in KERNEL_GOALS:
        yield f"is of no step of the pipeline: {', '.join(KERNEL_GOALS)}"
    goal = KERNEL_GOALS.get(step, KernelGoal())
    yield from code_excesses(kernel)
    most_registers = goal.registers if kernel.target == "sm_90" else None
    if most_registers is not None and code.registers > most_registers:
        yield f"{code.registers} registers, at most {most_registers}"
    if goal.instructions is not None and goal.numbers is not None:
        loaded = sum(sweep.wide_loads for sweep in code.sweeps) * 16 // dtype.itemsize
        most = goal.instructions * max(loaded, goal.numbers) // goal.numbers
        if code.instructions > most:
            yield f"{code.instructions} instructions for {loaded} numbers, at most {most}"


def code_excesses(kernel: CompiledKernel) -> Iterator[str]:
    """Yield in words what no lean kernel does, whatever its step."""
    code = kernel.code
    if code is None:
        return
    if code.stack or code.spill_stores or code.spill_loads:
        yield f"spills: {code.spill_stores} bytes stored, {code.spill_loads} loaded"
    for sweep in code.sweeps:
        yield from _sweep_excesses(sweep)


def _sweep_excesses(sweep: Region) -> Iterator[str]:
    if sweep.wide_loads == 0:
        yield "a sweep without loads of 128 bits"
    if sweep.narrow_loads > MOST_NARROW_LOADS:
        yield f"{sweep.narrow_loads} narrow loads in a sweep, at most {MOST_NARROW_LOADS}"
    if sweep.is_loop and sweep.doubles:
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
class Today:
    """What a verifier's Triton form costs now, of `verify` with drafts of 5 tokens."""

    operators: tuple[int, int]
    """torch's of one call, from logits and from probabilities."""
    kernels: tuple[int, int]
    """Triton's launches, likewise."""
    reads: tuple[float, float] | None = None
    """How many times the rows are read, likewise; None where nobody has measured."""


_DESCENT = Today((75, 51), (3, 1))

TODAY = {
    "token": Today((74, 50), (4, 2), reads=(1.364, 0.205)),
    "block": Today((74, 50), (4, 2), reads=(2.024, 1.024)),
    "greedy_block": Today((88, 64), (3, 1)),
    "recursive_rejection": _DESCENT,
    "recursive_rejection_without_replacement": _DESCENT,
    "k_seq": _DESCENT,
    "spechub": _DESCENT,
    "greedy_draft": _DESCENT,
    "multipath_block": Today((95, 71), (34, 32)),
    "traversal": Today((99, 75), (3, 1)),
    "traversal_without_replacement": Today((99, 75), (3, 1)),
    "recursive_greedy_block": Today((89, 65), (3, 1)),
}
"""The verifiers that are not lean."""


@dataclass(frozen=True)
class Figures:
    """What a kernel is now, compiled at `compiled.QUICK`: the most of its variants in a call."""

    registers: int
    instructions: int
    narrow_loads: int
    """Those of its sweep that has most."""
    swept_doubles: int
    """Instructions of float64 in loops over V."""


MASSES_TODAY = Figures(78, 864, 0, 0)
"""The kernel `_masses`, which all of them launch."""

COMPILED_TODAY = {
    "token": {
        "_accept": Figures(138, 2377, 320, 0),
        "_correct": Figures(168, 5904, 320, 386),
    },
    "block": {
        "_sweep": Figures(139, 2415, 320, 0),
        "_keep": Figures(168, 6438, 320, 386),
    },
    "multipath_block": {
        "_rate": Figures(107, 3624, 160, 496),
        "_weigh": Figures(99, 944, 96, 40),
        "_place": Figures(178, 3992, 96, 622),
        "_owe": Figures(250, 3824, 192, 568),
        "_keep": Figures(251, 3952, 194, 601),
        "_step": Figures(48, 1450, 0, 0),
        "_finish": Figures(95, 1240, 160, 71),
        "_draw": Figures(220, 1496, 0, 225),
    },
    "spechub": {
        "_descend": Figures(254, 11792, 320, 213),
    },
    "recursive_rejection": {
        "_descend": Figures(248, 8512, 320, 197),
    },
    "greedy_block": {
        "_verify": Figures(248, 8988, 320, 195),
    },
    "drafting": {
        "_compare": Figures(128, 1264, 160, 0),
        "_add": Figures(141, 1248, 160, 0),
        "_search": Figures(182, 2312, 161, 193),
    },
    "k_seq": {
        "_descend": Figures(128, 4344, 80, 65),
    },
    "traversal": {
        "_verify": Figures(254, 12668, 320, 195),
    },
    "greedy_draft": {
        "_descend": Figures(254, 10768, 320, 197),
    },
}
"""The other kernels, none of which spills; where a verifier is missing, nobody has measured."""


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
