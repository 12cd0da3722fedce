"""Certificates of the kernels as this machine runs them, compiled where there is a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from time import monotonic
from typing import Any

import click
from benchmarks.card.report import Budget, Cut, Failed, Figures
from benchmarks.measuring import figure

_MAIN = "from draftproof.conformance.cli import main; main()"
_OUTCOMES = {0: "passed", 6: "passed", 3: "cut", 4: "cut"}
"""By the command's exit code: 6 passes the cases that were asked for, 3 and 4 decide nothing."""

_TOLD = 2000
"""How much of what a command says is kept, from its end."""


def certify(
    adapters: Sequence[str],
    *,
    modes: Sequence[str],
    options: Sequence[str],
    folder: Path,
    is_gpu: bool,
    budget: Budget,
) -> Figures:
    """Run `draftproof certify` of adapters, mode by mode; each has its share of the time left.

    Raises `Failed` if one is not certified, `Cut` if time was over before.
    """
    own = {**os.environ, "TRITON_INTERPRET": "0" if is_gpu else "1"}
    waiting = list(product(modes, adapters))
    figures: dict[str, Any] = {}
    while waiting:
        limit = budget.left / len(waiting)
        mode, adapter = waiting.pop(0)
        command = [sys.executable, "-c", _MAIN, "certify", adapter, "--mode", mode, *options,
                   "--store", "off", "--output", str(folder / mode)]  # fmt: skip
        start = monotonic()
        try:
            done = subprocess.run(  # noqa: S603  # ours
                command, capture_output=True, text=True, env=own, timeout=max(limit, 1.0)
            )
        except subprocess.TimeoutExpired:
            outcome, told = "cut", f"its {limit:.0f} s were over"
        else:
            outcome = _OUTCOMES.get(done.returncode, "failed")
            told = (done.stdout + done.stderr).strip()[-_TOLD:]
        seconds = figure(monotonic() - start)
        figures[f"{adapter} {mode}"] = {"outcome": outcome, "seconds": seconds, "told": told}
        click.echo(f"  {adapter}, mode {mode}: {outcome} after {seconds:.0f} s")
    for ended, what in ((Failed, "not certified"), (Cut, "not judged to the end")):
        named = [each for each, found in figures.items() if found["outcome"] == ended.outcome]
        if named:
            raise ended(f"{what}: {', '.join(named)}", figures)
    return figures
