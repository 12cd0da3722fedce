"""Compile every kernel that the fast verifiers launch, for GPUs that need not be there.

    python adapters/benchmarks/compiled.py [--json] [--all] [--at TARGET:V:DTYPE:WAY]... NAME...

A NAME is that of a verifier, or "drafting"; a WAY is logits or probabilities. Triton's launcher
itself specialises the kernels, on pointers and integers that 16 divides and on integers that are 1,
and compiles them with its own options: it only finds a driver that has no GPU. Tensors are torch's
meta tensors, which have shapes and no memory. A program of its own, since Triton decides when a
kernel is defined whether it is interpreted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import click
import torch
from benchmarks.machine_code import MachineCode, Region, machine_code
from benchmarks.unfilled import DRAFTING, Shape, call
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from draftproof.adapters.fast import KERNELS
from draftproof.adapters.fast.kernels import IS_INTERPRETED

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
"""NVIDIA's A100, H100 and B200, and AMD's MI300."""

VOCABULARIES = (32_000, 128_256, 151_936, 262_144)

DTYPES = (torch.float32, torch.bfloat16)

WAYS = ("logits", "probabilities")

_REGISTERS, _THREADS, _PROGRAMS = 2**16, 2048, 32
"""What a multiprocessor has of each, of the GPUs above."""


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel as it was compiled for a launch."""

    kernel: str
    target: str
    warps: int
    shared: int
    """Bytes of shared memory."""
    correct_divisions: int
    """Divisions of float32 that are rounded as IEEE 754 says."""
    other_divisions: int
    code: MachineCode | None
    """None for AMD's GPUs, whose disassembler Triton does not bring."""

    @property
    def programs(self) -> int:
        """How many programs a multiprocessor has registers and threads for."""
        if self.code is None:
            return 0
        # A warp's registers are handed out by 256.
        of_a_warp = -(-self.code.registers * 32 // 256) * 256
        by_registers = _REGISTERS // of_a_warp // self.warps
        return min(by_registers, _THREADS // (32 * self.warps), _PROGRAMS)


@dataclass(frozen=True)
class _NoGPU:
    """What Triton's launcher asks its driver for, of a GPU that is not there."""

    target: GPUTarget

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> Any:
        # The launcher keeps what it compiled by the device's number.
        return self.target.arch

    def get_current_stream(self, device: Any) -> int:  # noqa: ARG002  # Triton's
        return 0


@contextmanager
def compiling(target: str) -> Iterator[list[CompiledKernel]]:
    """Let launches compile their kernels for a target, list what comes of it, and run nothing."""
    found: list[CompiledKernel] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, **options: Any) -> None:
        made = run(self, *args, **{**options, "warmup": True})
        found.append(_facts(made, target))

    driver.set_active(_NoGPU(TARGETS[target]))
    JITFunction.run = compile_only
    try:
        yield found
    finally:
        JITFunction.run = run


def compiled(name: str, shape: Shape, target: str) -> list[CompiledKernel]:
    """Return the kernels that one call of a verifier launches, in turn."""
    with compiling(target) as found:
        call(name, shape)()
    return found


def _facts(made: Any, target: str) -> CompiledKernel:
    key = made.hash
    if key not in _FACTS:
        ptx, metadata = made.asm.get("ptx", ""), made.metadata
        _FACTS[key] = CompiledKernel(
            kernel=made.name,
            target=target,
            warps=metadata.num_warps,
            shared=metadata.shared,
            correct_divisions=ptx.count("div.rn.f32"),
            other_divisions=ptx.count("div.full.f32"),
            code=machine_code(made.asm["cubin"]) if "cubin" in made.asm else None,
        )
    return _FACTS[key]


_FACTS: dict[str, CompiledKernel] = {}
"""What was found out already, by Triton's hash of a kernel: many shapes have the same."""


@dataclass(frozen=True)
class Place:
    """Where and for what a verifier's kernels are compiled."""

    target: str
    vocabulary: int
    dtype: torch.dtype
    logits: bool

    @property
    def shape(self) -> Shape:
        """The shape of the call."""
        return Shape(vocabulary=self.vocabulary, dtype=self.dtype, logits=self.logits)


QUICK = Place("sm_90", 128_256, torch.bfloat16, logits=True)

EVERY = tuple(
    Place(target, vocabulary, dtype, logits)
    for target, dtype, logits, vocabulary in product(
        ("sm_80", "sm_90", "sm_100"), DTYPES, (True, False), VOCABULARIES
    )
)


def rows(names: Iterable[str], places: Sequence[Place]) -> Iterator[dict[str, Any]]:
    """Yield every kernel once for each target, dtype and way, with all V that it is for."""
    for name in names:
        found: dict[tuple[str, torch.dtype, bool], dict[CompiledKernel, list[int]]] = {}
        for place in places:
            kernels = found.setdefault((place.target, place.dtype, place.logits), {})
            for kernel in dict.fromkeys(compiled(name, place.shape, place.target)):
                kernels.setdefault(kernel, []).append(place.vocabulary)
        for (_, dtype, logits), kernels in found.items():
            for kernel, vocabularies in kernels.items():
                yield {
                    "verifier": name,
                    "dtype": str(dtype).removeprefix("torch."),
                    "way": WAYS[not logits],
                    "vocabularies": vocabularies,
                    "kernel": asdict(kernel),
                }


def read(document: Mapping[str, Any]) -> CompiledKernel:
    """Return the kernel that `asdict` made a document of."""
    code = document["code"]
    if code is not None:
        regions = tuple(Region(**region) for region in code["regions"])
        code = MachineCode(**{**code, "regions": regions})
    return CompiledKernel(**{**document, "code": code})


class Uncompiled(RuntimeError):
    """A program that compiles kernels has failed; the message says how."""


def apart(program: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the documents that a program prints, in a process that interprets no kernel.

    Raises `Uncompiled`.
    """
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=own)  # noqa: S603  # ours
    if done.returncode != 0:
        raise Uncompiled(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


HEAD = (
    f"{'verifier':24} {'kernel':20} {'target':6} {'dtype':8} {'way':6} regs spill warps CTA/SM "
    f"shared  SASS  fp64  sweeps: SASS, wide/narrow loads, fp64"
)


def line(row: Mapping[str, Any]) -> str:
    """Return a row as a line of the table under `HEAD`."""
    kernel = read(row["kernel"])
    who = f"{row['verifier'][:24]:24} {kernel.kernel[:20]:20} {kernel.target:6} {row['dtype']:8}"
    who = f"{who} {row['way'][:6]:6}"
    if kernel.code is None:
        return f"{who} compiled"
    code = kernel.code
    sweeps = "; ".join(
        f"{sweep.instructions}, {sweep.wide_loads}/{sweep.narrow_loads}, {sweep.doubles}"
        f"{'' if sweep.is_loop else ' (no loop)'}"
        for sweep in code.sweeps
    )
    doubles = sum(region.doubles for region in code.regions)
    return (
        f"{who} {code.registers:4} {code.spill_stores + code.spill_loads:5} {kernel.warps:5} "
        f"{kernel.programs:6} {kernel.shared:6} {code.instructions:5} {doubles:5}  {sweeps or '-'}"
        f"  V {', '.join(map(str, row['vocabularies']))}"
    )


def _places(_context: click.Context, _option: click.Parameter, told: Sequence[str]) -> list[Place]:
    """Return the places that an option tells of."""
    found = []
    for each in told:
        try:
            target, vocabulary, dtype, way = each.split(":")
            place = Place(target, int(vocabulary), getattr(torch, dtype), logits=way == WAYS[0])
        except (ValueError, AttributeError):
            raise click.BadParameter(f"{each!r} is no TARGET:V:DTYPE:WAY") from None
        if target not in TARGETS or way not in WAYS:
            known = f"{', '.join(TARGETS)}; {', '.join(WAYS)}"
            raise click.BadParameter(f"{each!r}: targets and ways are {known}")
        found.append(place)
    return found


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*KERNELS, DRAFTING]))
@click.option("--at", "places", multiple=True, callback=_places, metavar="TARGET:V:DTYPE:WAY")
@click.option("--all", "is_all", is_flag=True, help="Compile for all served sizes and GPUs.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document per line.")
def main(*, names: tuple[str, ...], places: list[Place], is_all: bool, is_json: bool) -> None:
    """Print what the kernels of verifiers are, compiled for GPUs that need not be there."""
    if IS_INTERPRETED:
        raise click.UsageError(
            "kernels are compiled here, and TRITON_INTERPRET has them interpreted: unset it"
        )
    warnings.simplefilter("ignore")
    if not is_json:
        click.echo(HEAD)
    for row in rows(names or (*KERNELS, DRAFTING), EVERY if is_all else places or (QUICK,)):
        click.echo(json.dumps(row) if is_json else line(row))


if __name__ == "__main__":
    main()
