"""What a kernel's machine code costs: its registers, its loops, and the loads in each of them.

NVIDIA's disassembler, which Triton brings, writes a line for every instruction and a label for
every place that is jumped to. A loop is what lies between a label and a jump back to it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import triton

_TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"

_LABEL = re.compile(r"^(?!\.text)([.$\w]+):")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);")
_TARGET = re.compile(r"`\((?:.*\$)?([.$\w]+)\)")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")
_BITS = re.compile(r"\.(?:[US])?(8|16|64|128|256)\b")
_DOUBLE = re.compile(r"D(?:ADD|MUL|FMA|SETP|MNMX)\b|\w+(?:\.\w+)*\.(?:F64|RCP64H|RSQ64H)\b")

_WIDE = 128
"""Bits: loads of fewer leave a part of the bandwidth unused."""

_SWEPT = 2
"""Wide loads from which on a region reads tiles of rows: fewer are a vector of a few numbers."""

_STREWN = 24
"""Narrow loads from which on a loop reads tiles all the same, number by number."""


@dataclass(frozen=True)
class Region:
    """The instructions of a loop that are in no loop inside of it; or those that are in no loop.

    Subroutines that are called, as divisions of some kinds are, count where they are called.
    """

    is_loop: bool
    instructions: int
    wide_loads: int
    """Loads from global memory of 128 bits or more."""
    narrow_loads: int
    """All others: those of a number, such as a row's constant."""
    doubles: int
    """Instructions of float64, conversions included."""

    @property
    def is_sweep(self) -> bool:
        """Whether tiles of rows are read here."""
        strewn = self.is_loop and self.narrow_loads > _STREWN
        return self.wide_loads >= _SWEPT or strewn


@dataclass(frozen=True)
class MachineCode:
    """A kernel as one of NVIDIA's GPUs runs it."""

    registers: int
    """Of a thread."""
    stack: int
    """Bytes of local memory, which lies behind the caches, that a thread has."""
    spill_stores: int
    """Bytes that a thread stores there, counting every instruction once."""
    spill_loads: int
    regions: tuple[Region, ...]
    """What is in no loop, then the loops from first to last."""

    @property
    def instructions(self) -> int:
        """The number of instructions in all."""
        return sum(region.instructions for region in self.regions)

    @property
    def sweeps(self) -> tuple[Region, ...]:
        """The regions that read tiles of rows."""
        return tuple(region for region in self.regions if region.is_sweep)

    @property
    def swept_doubles(self) -> int:
        """Instructions of float64 in loops that read tiles of rows."""
        return sum(sweep.doubles for sweep in self.sweeps if sweep.is_loop)


def machine_code(cubin: bytes) -> MachineCode:
    """Return what a kernel's cubin has in it."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        usage = _USAGE.search(_told("cuobjdump", "-res-usage", file))
        listing = _told("nvdisasm", "-c", file)
    if usage is None:
        raise ValueError("cuobjdump tells no registers of the kernel")
    registers, stack, local = map(int, usage.groups())
    code, labels = _parsed(listing)
    return MachineCode(
        registers=registers,
        stack=stack + local,
        spill_stores=_bytes(code, "STL"),
        spill_loads=_bytes(code, "LDL"),
        regions=tuple(_regions(code, labels)),
    )


def _told(tool: str, *arguments: str | Path) -> str:
    command = [_TOOLS / tool, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603  # Triton's own


@dataclass(frozen=True)
class _Instruction:
    name: str
    target: str | None
    """The label that is jumped to, or called."""

    @property
    def bits(self) -> int:
        """How many bits are loaded or stored."""
        told = _BITS.findall(self.name)
        return int(told[-1]) if told else 32


def _parsed(listing: str) -> tuple[list[_Instruction], dict[str, int]]:
    """Return the instructions of a listing, and the number of the one behind every label."""
    code: list[_Instruction] = []
    labels: dict[str, int] = {}
    for line in listing.splitlines():
        if label := _LABEL.match(line):
            labels[label[1].rpartition("$")[2]] = len(code)
        elif told := _INSTRUCTION.match(line):
            name, operands = told.groups()
            target = _TARGET.search(operands) if name.startswith(("BRA", "CALL")) else None
            code.append(_Instruction(name, target[1] if target else None))
    return code, labels


def _bytes(code: Iterable[_Instruction], kind: str) -> int:
    return sum(each.bits // 8 for each in code if each.name.partition(".")[0] == kind)


def _regions(code: Sequence[_Instruction], labels: dict[str, int]) -> Iterator[Region]:
    """Yield what is in no loop, then every loop without those inside of it."""
    loops = _loops(code, labels)
    routines = {
        labels[each.target] for each in code if each.name.startswith("CALL") and each.target
    }
    owners: list[tuple[int, int] | None] = [None] * len(code)
    # Small loops last: an instruction is its innermost loop's.
    for first, last in sorted(loops, key=lambda loop: loop[0] - loop[1]):
        owners[first : last + 1] = [(first, last)] * (last + 1 - first)
    for loop in (None, *loops):
        own = [each for each, owner in zip(code, owners, strict=True) if owner == loop]
        called = [each.target for each in own if each.name.startswith("CALL") and each.target]
        if loop is not None:
            own += [each for label in called for each in _routine(code, labels[label], routines)]
        yield _region(own, is_loop=loop is not None)


def _loops(code: Sequence[_Instruction], labels: dict[str, int]) -> list[tuple[int, int]]:
    """Return the first and last instruction of every loop, without the trap behind the end."""
    ends: dict[int, int] = {}
    for number, each in enumerate(code):
        if each.name.startswith("BRA") and each.target is not None:
            first = labels[each.target]
            if first < number:
                # Several jumps back to one label are one loop.
                ends[first] = max(number, ends.get(first, 0))
    return sorted(ends.items())


def _routine(
    code: Sequence[_Instruction], first: int, routines: Iterable[int]
) -> Sequence[_Instruction]:
    """Return a subroutine: up to the next, or to the end."""
    return code[first : min((each for each in routines if each > first), default=len(code))]


def _region(code: Sequence[_Instruction], *, is_loop: bool) -> Region:
    loads = [each.bits for each in code if each.name.startswith(("LDG", "LDGSTS"))]
    wide = sum(bits >= _WIDE for bits in loads)
    return Region(
        is_loop=is_loop,
        instructions=len(code),
        wide_loads=wide,
        narrow_loads=len(loads) - wide,
        doubles=sum(_DOUBLE.match(each.name) is not None for each in code),
    )
