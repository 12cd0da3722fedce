"""What was measured beside what was predicted, and beside what is aimed at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.card.report import Cut, Figures
from benchmarks.measuring import figure

Row = Mapping[str, Any]

LARGE = 100e6
"""Bytes of input from which bandwidth counts."""

SHARE, LATENCY, FASTER = 0.8, 15e-6, 1.5
"""Of a copy's bandwidth; seconds of one request's graph; times the fastest peer."""

_OURS = "triton "


def compared(rows: Sequence[Row]) -> Figures:
    """Return measured over predicted times: the median, and the case that is farthest off."""
    found = {}
    known = [row for row in rows if row["predicted"] is not None]
    if not known:
        raise Cut("there is no prediction for this card")
    for key in dict.fromkeys((row["name"], row["given"], row["mode"]) for row in known):
        ratios = {
            _where(row): row["seconds"]["median"] / row["predicted"]
            for row in known
            if (row["name"], row["given"], row["mode"]) == key
        }
        worst = max(ratios, key=lambda where: abs(ratios[where] - 1))
        found[f"{key[0]} from {key[1]}, {key[2]}"] = {
            "median": figure(median(ratios.values())),
            "worst": figure(ratios[worst]),
            "where": worst,
        }
    return found


def goals(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return each goal with the case that is farthest from it, and whether all cases reach it."""
    graphed = [row for row in rows if row["mode"] == "graphed" and row["name"].startswith(_OURS)]
    logits = [row for row in graphed if row["given"] == "logits"]
    shares = {_where(row): row["fraction"]["median"] for row in logits if row["bytes"] >= LARGE}
    times = {
        _where(row): row["seconds"]["median"] for row in graphed if row["size"]["requests"] == 1
    }
    ratios = [*peers(rows)]
    large = {where: ratio for where, count, ratio in ratios if count >= LARGE}
    small = {where: ratio for where, count, ratio in ratios if count < LARGE}
    return [
        _goal("share of a copy's bandwidth above 100 MB", SHARE, shares, most=False),
        _goal("seconds graphed of one request", LATENCY, times, most=True),
        _goal("times as fast as the fastest peer above 100 MB", FASTER, large, most=False),
        _goal("times as fast as the fastest peer up to 100 MB", 1.0, small, most=False),
    ]


def peers(rows: Sequence[Row]) -> Iterator[tuple[str, int, float]]:
    """Yield where, bytes, and how many times as fast as the fastest peer ours is.

    A peer is of the same algorithm, rows and way to launch: that is, of equal semantics.
    """
    for row in rows:
        if not row["name"].startswith(_OURS):
            continue
        others = [
            other
            for other in rows
            if all(other[each] == row[each] for each in ("size", "dtype", "algorithm", "given"))
            and other["mode"] == row["mode"]
            and other["drafts"] == row["drafts"]
            and not other["name"].startswith(_OURS)
        ]
        if others:
            best = min(others, key=lambda other: other["seconds"]["median"])
            ratio = best["seconds"]["median"] / row["seconds"]["median"]
            yield f"{_where(row)}, beside {best['name']}", row["bytes"], ratio


def _goal(name: str, aim: float, seen: Mapping[str, float], *, most: bool) -> dict[str, Any]:
    if not seen:
        return {
            "name": name,
            "aim": aim,
            "worst": None,
            "where": None,
            "missed": 0,
            "reached": None,
        }
    where = (max if most else min)(seen, key=lambda each: seen[each])
    missed = sum(value > aim if most else value < aim for value in seen.values())
    return {
        "name": name,
        "aim": aim,
        "worst": figure(seen[where]),
        "where": where,
        "missed": missed,
        "reached": missed == 0,
    }


def _where(row: Row) -> str:
    size = row["size"]
    return (
        f"{row['name']} from {row['given']}, {row['mode']}: B {size['requests']}, "
        f"L {size['length']}, V {size['vocabulary']}, {row['dtype']}"
    )
