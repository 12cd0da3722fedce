"""Times of all cases that there is time for, eager and from CUDA graphs, in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import click
import torch
from benchmarks.card.cases import GROUPS, Case, Timed, cases
from benchmarks.card.device import Device
from benchmarks.card.report import Budget, Cut, Figures, Report
from benchmarks.inputs import Size
from benchmarks.measuring import Call, Clock, figure, in_turn, spread
from benchmarks.predictions import CARDS, DRAFTS, Card, Work, predicted

_SHORTEST = 0.002
"""Seconds, as in `in_turn`: events are finer than a clock on the wall."""

_COPIED = 2**30
"""Bytes: enough that a copy's start does not count."""


def copied(device: Device, *, count: int = _COPIED, rounds: int) -> float:
    """Return the bytes per second, read and written, of a copy of so many bytes."""
    source = torch.empty(count, dtype=torch.int8, device=device.name)
    target = torch.empty_like(source)
    calls = {"copy": partial(target.copy_, source)}
    seen = in_turn(calls, rounds=rounds, clock=device.clock())["copy"]
    return 2 * count / spread(seen)["median"]


def card_of(model: str) -> Card | None:
    """Return what predictions take a GPU for, by its maker's name for it."""
    return next((card for card in CARDS.values() if card.model in model), None)


def timings(
    report: Report,
    device: Device,
    sizes: Mapping[str, Any],
    *,
    seed: int,
    budget: Budget,
) -> Figures:
    """Time all cases, each written at once; what there is no time for is told."""
    waiting, last = cases(sizes), 0.0
    count, rows, clock = len(waiting), report.found["rows"], device.clock()
    while waiting and budget.left > last:
        case, start = waiting.pop(0), monotonic()
        for group in GROUPS:
            make = partial(group, case, seed=seed, device=device.name, skip=report.skip)
            # Memory is short at the largest sizes, and others are still to be seen.
            try:
                rows += _rows(report, device, case, make, (sizes["rounds"], clock))
            except Exception as error:
                report.skip(f"{case}, {group.__name__}", f"{type(error).__name__}: {error}")
            device.release()
        last = monotonic() - start
        report.write()
        click.echo(f"  {case}: {last:.1f} s{_told(rows, case)}")
    for case in waiting:
        report.skip(
            str(case), f"cut: the last case took {last:.0f} s, {budget.left:.0f} s were left"
        )
    figures = {"cases": count, "cut": len(waiting), "rows": len(rows)}
    if not rows:
        raise Cut("nothing was timed", figures)
    return figures


def _rows(
    report: Report,
    device: Device,
    case: Case,
    make: Callable[[], list[Timed]],
    how: tuple[int, Clock],
) -> list[dict[str, Any]]:
    """Return what each call took, eager and from a graph if it can be captured."""
    timed, (rounds, clock) = make(), how
    calls: dict[str, Call] = {}
    for each in timed:
        calls[f"eager {each}"] = each.call
        what = f"{each}, graphed"
        # A capture that has failed once is not tried again.
        if not each.is_graphed or any(told["what"] == what for told in report.found["skipped"]):
            continue
        try:
            calls[f"graphed {each}"] = device.captured(each.call)
        except Exception as error:
            report.skip(what, f"{type(error).__name__}: {error}")
    seen = in_turn(calls, rounds=rounds, clock=clock, shortest=_SHORTEST)
    return [
        _row(case, each, mode, seen[f"{mode} {each}"], report.found["device"])
        | {"host": figure(device.host_seconds(each.call, rounds)) if mode == "eager" else None}
        for each in timed
        for mode in ("eager", "graphed")
        if f"{mode} {each}" in seen
    ]


def _row(
    case: Case, timed: Timed, mode: str, seen: Sequence[float], device: Mapping[str, Any]
) -> dict[str, Any]:
    row = {**timed.row(case), "mode": mode, "seconds": spread(seen)}
    fraction = spread([timed.bytes / each / device["bandwidth"] for each in seen])
    return {**row, "fraction": fraction, "predicted": _prediction(card_of(device["name"]), row)}


def _prediction(card: Card | None, row: Mapping[str, Any]) -> float | None:
    """Return the seconds that were predicted, None for another card and for what is not ours."""
    known = row["algorithm"] in DRAFTS and row["name"] == f"triton {row['algorithm']}"
    if card is None or not known or row["given"] == "mixed":
        return None
    try:
        size, logits = Size(**row["size"]), row["given"] == "logits"
        work = Work(row["algorithm"], size, row["dtype"], logits)
        return predicted(card, work)[row["mode"]]
    except KeyError:
        # Of a length that nobody has counted reads for.
        return None


def _told(rows: Sequence[Mapping[str, Any]], case: Case) -> str:
    """Return the times of ours from logits, the best way."""
    told = [
        f", {row['name'].removeprefix('triton ')} {1e6 * row['seconds']['median']:.1f} us"
        f" ({100 * row['fraction']['median']:.0f} % of copy)"
        for row in rows
        if row["size"] == vars(case.size)
        and (row["dtype"], row["given"], row["mode"]) == (case.dtype, "logits", "graphed")
        and row["name"].startswith("triton ")
    ]
    return "".join(told)
