"""Check the fast verifiers on a GPU for correctness, then speed, in thirty minutes.

    python adapters/benchmarks/gpu.py [--minutes N] [--out FOLDER]     on a GPU, or `make gpu`
    TRITON_INTERPRET=1 python adapters/benchmarks/gpu.py --dry-run     on a CPU, tiny

Steps, in this order: the machine; a copy's bandwidth; all kernels beside operators of torch; waits
for the GPU; CUDA graphs; times beside those of installed engines; predictions; certificates; goals.
The script writes each step to `gpu.json` when it ends, and timings case by case, so that a killed
run keeps its results. The most informative cases come first, and the file names those that there
was no time for.

A verifier must read its input once. The benchmark therefore compares the bytes of the rows over the
time with the bandwidth of a large copy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from benchmarks.card.cases import DTYPES
from benchmarks.card.certifying import certify
from benchmarks.card.checks import FIRST, correctness, offsets
from benchmarks.card.device import Device
from benchmarks.card.graphs import replays, waits
from benchmarks.card.judging import compared, goals
from benchmarks.card.report import Budget, Failed, Figures, Report
from benchmarks.card.timing import copied, timings
from benchmarks.inputs import Size
from benchmarks.measuring import figure, installed
from benchmarks.plots import bandwidth
from benchmarks.predictions import LENGTHS, REQUESTS, VOCABULARIES

NO_GPU = """torch finds no CUDA device, so the benchmark measured and wrote nothing.
On a machine with a GPU, install a build of torch for CUDA; to try this script on a CPU, run
    TRITON_INTERPRET=1 python adapters/benchmarks/gpu.py --dry-run"""

ENGINES = ("vllm", "flashinfer-python", "sglang", "sgl-kernel")

CHECKED, TIMED = 0.25, 0.6
"""The most of the minutes that kernels are compared for, and up to which cases are timed."""

TINY: dict[str, Any] = {
    "requests": (1,), "length": (2,), "vocabulary": (64,), "dtype": ("float32",), "rounds": 2,
}  # fmt: skip


@click.command()
@click.option("--dry-run", "is_dry", is_flag=True, help="Run all steps on a CPU at tiny sizes.")
@click.option("--minutes", type=click.FloatRange(0.1), default=30, show_default=True)
@click.option("--requests", type=click.IntRange(1), multiple=True, default=REQUESTS)
@click.option("--length", type=click.IntRange(1), multiple=True, default=LENGTHS)
@click.option("--vocabulary", type=click.IntRange(2), multiple=True, default=VOCABULARIES)
@click.option("--dtype", type=click.Choice(list(DTYPES)), multiple=True, default=tuple(DTYPES))
@click.option("--rounds", type=click.IntRange(2), default=5, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--only", multiple=True, help="Run only this step. [default: all steps]")
@click.option("--out", type=click.Path(path_type=Path), default=Path(__file__).parent / "results")
def main(
    *, is_dry: bool, minutes: float, seed: int, only: tuple[str, ...], out: Path, **sizes: Any
) -> None:
    """Check and time the fast verifiers on a GPU, and write what was found to a folder."""
    if not is_dry and not torch.cuda.is_available():
        raise click.ClickException(NO_GPU)
    device = Device("cpu" if is_dry else "cuda")
    _require_kernels_of(device)
    sizes = TINY if is_dry else sizes
    report = Report(out, Budget(minutes), seed=seed, sizes=sizes)
    torch.manual_seed(seed)
    steps = _steps(report, device, sizes, seed)
    unknown = [name for name in only if name not in steps]
    if unknown:
        raise click.UsageError(f"no step is called {unknown[0]!r}; there are: {', '.join(steps)}")
    for name, run in steps.items():
        # Shares of bandwidth need the bandwidth.
        if not only or name in only or name in ("machine", "bandwidth"):
            report.step(name, run)
    _draw(report, out)
    click.echo(f"written to {out / 'gpu.json'}")
    if report.failed:
        raise click.ClickException(f"failed: {', '.join(report.failed)}")


def _require_kernels_of(device: Device) -> None:
    from draftproof.adapters.fast.kernels import IS_INTERPRETED

    if device.is_gpu == IS_INTERPRETED:
        what, value = ("interpreted", 0) if device.is_gpu else ("compiled for a GPU", 1)
        raise click.ClickException(
            f"kernels are {what} here: nothing was measured. Set TRITON_INTERPRET={value}"
        )


def _steps(
    report: Report, device: Device, sizes: dict[str, Any], seed: int
) -> dict[str, Callable[[], Figures]]:
    """Return the steps by name, in the order in which they are run."""
    is_gpu, budget = device.is_gpu, report.budget
    checked = [Size(64, 5, 128_256), Size(64, 3, 1_000)] if is_gpu else [Size(3, 2, 64)]
    return {
        "machine": partial(_machine, report, device),
        "bandwidth": partial(_bandwidth, report, device, sizes["rounds"]),
        "correctness": lambda: correctness(
            report, device, checked, rounds=8 if is_gpu else 1, budget=budget.part(CHECKED)
        ),
        "offsets": partial(
            offsets, device.name,
            vocabulary=262_144 if is_gpu else 64, past=2**31 if is_gpu else 2**14,
        ),
        "waits": partial(waits, device, checked[-1]),
        "graphs": partial(replays, device, checked[-1], count=100 if is_gpu else 1),
        "timings": lambda: timings(
            report, device, sizes, seed=seed, budget=_until(budget, TIMED if is_gpu else 1.0)
        ),
        "predictions": lambda: compared(report.found["rows"]),
        "certificates": lambda: certify(
            # An interpreted kernel takes minutes.
            [f"triton-{name.replace('_', '-')}" for name in FIRST] if is_gpu else ["torch-token"],
            modes=("quick", "certify") if is_gpu else ("quick",),
            options=() if is_gpu else ("--case", "generic.v2.l1"),
            folder=report.folder / "certificates",
            is_gpu=is_gpu,
            budget=budget,
        ),
        "goals": partial(_goals, report),
    }  # fmt: skip


def _until(budget: Budget, share: float) -> Budget:
    """Return what is left until a share of the whole is over."""
    return budget.part(max(share - 1 + budget.left / budget.seconds, 0.0))


def _machine(report: Report, device: Device) -> Figures:
    """Tell which GPU, driver and versions there are, engines included."""
    report.found["device"] = {"name": device.model, "interpreted": not device.is_gpu}
    versions = {name: installed(name) or "absent" for name in ENGINES}
    own = {name: report.found["machine"][name] for name in ("torch", "triton", "driver")}
    click.echo("  " + ", ".join(f"{name} {told}" for name, told in {**own, **versions}.items()))
    if not device.is_gpu:
        return {"engines": versions}
    properties = torch.cuda.get_device_properties(device.name)
    return {
        "engines": versions,
        "cuda": torch.version.cuda,
        "memory": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
    }


def _bandwidth(report: Report, device: Device, rounds: int) -> Figures:
    """Measure what a large copy reads and writes in a second."""
    own = {} if device.is_gpu else {"count": 2**20}
    found = figure(copied(device, rounds=rounds, **own))
    report.found["device"]["bandwidth"] = found
    click.echo(f"  {device.model}: {found / 1e9:.1f} GB/s copied")
    return {"bandwidth": found}


def _goals(report: Report) -> Figures:
    """Judge goals by what was timed."""
    report.found["goals"] = goals(report.found["rows"])
    for goal in report.found["goals"]:
        verdict = {True: "reached", False: "missed", None: "nothing to judge"}[goal["reached"]]
        worst = "" if goal["where"] is None else f", at worst {goal['worst']:g}: {goal['where']}"
        click.echo(f"  {goal['name']}: aim {goal['aim']:g}, {verdict}{worst}")
    missed = [goal["name"] for goal in report.found["goals"] if goal["reached"] is False]
    # An interpreter's times mean nothing.
    if missed and not report.found["device"]["interpreted"]:
        raise Failed(f"missed: {'; '.join(missed)}")
    return {"missed": missed}


def _draw(report: Report, out: Path) -> None:
    rows = [
        row
        for row in report.found["rows"]
        if (row["given"], row["mode"], row["drafts"]) == ("logits", "graphed", 1)
    ]
    if rows:
        drawn = bandwidth({**report.found, "rows": rows})
        (out / "gpu.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
