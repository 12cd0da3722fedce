"""The matrix at a glance: its outcomes counted, as a strip of cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any

from building.engines import record

Row = Mapping[str, Any]

SOME = "conforms on some cases"
BY_DESIGN = "does not conform by design"
OUTCOMES = {
    "conforms": "conforms",
    SOME: "conforms on selected cases",
    "does not conform": "does not conform",
    BY_DESIGN: "lossy by design",
    "fails on every case": "fails on every case",
    "cannot run here": "cannot run here",
    "could not be fetched": "could not be fetched",
}
"""The outcomes of a row, best first, in the words of the strip's legend."""


def outcome(row: Row) -> str:
    """Return the outcome of a row; a row that is asked some cases only does not plainly conform."""
    if row["outcome"] == "conforms" and row["judged"]["cases"]:
        return SOME
    if row["outcome"] == "does not conform" and row["design"]:
        return BY_DESIGN
    return str(row["outcome"])


def counted(every: Iterable[Row]) -> dict[str, int]:
    """Return the number of rows with each outcome, best first."""
    found = Counter(map(outcome, every))
    return {name: found[name] for name in OUTCOMES}


def strip() -> str:
    """Return the matrix as a strip: one cell a row, a group of cells an engine, then its legend."""
    engines: dict[str, list[Row]] = {}
    for row in record():
        engines.setdefault(row["engine"], []).append(row)
    groups = "\n".join(
        f'<span class="engine"><b>{escape(name)}</b>{"".join(map(_cell, own))}</span>'
        for name, own in engines.items()
    )
    counts = {name: count for name, count in counted(record()).items() if count}
    legend = "\n".join(
        f'<span><i class="cell {_style(name)}"></i>{OUTCOMES[name]}: {count}</span>'
        for name, count in counts.items()
    )
    told = f"{len(record())} rows: " + ", ".join(
        f"{OUTCOMES[name]} {count}" for name, count in counts.items()
    )
    return (
        f'<div class="strip" role="img" aria-label="{told}">\n{groups}\n</div>\n'
        f'<div class="strip legend" aria-hidden="true">\n{legend}\n</div>'
    )


def _cell(row: Row) -> str:
    said = escape(f"{row['name']}: {OUTCOMES[outcome(row)]}")
    return f'<i class="cell {_style(outcome(row))}" title="{said}"></i>'


def _style(name: str) -> str:
    return name.replace(" ", "-")


COMPUTED: Mapping[str, Callable[..., str]] = {"strip": strip}
"""The forms of this module by name."""
