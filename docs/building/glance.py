"""The matrix at a glance: its rows as a strip of cells, and their number by state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any

from building.engines import feed, is_of_few_cases, record
from draftproof.conformance.report.states import ON_SOME, STATES, state

Row = Mapping[str, Any]


def counted(every: Iterable[Row]) -> dict[str, int]:
    """Return the number of rows in each state, best first."""
    found = Counter(map(state, every))
    return {name: found[name] for name in STATES}


def strip() -> str:
    """Return the matrix as a strip: a cell per row, a group of cells per engine, and a legend."""
    rows = feed(record())["rows"]
    engines: dict[str, list[Row]] = {}
    for row in rows:
        engines.setdefault(row["engine"], []).append(row)
    groups = "\n".join(
        f'<span class="engine"><b>{escape(name)}</b>{"".join(map(_cell, own))}</span>'
        for name, own in engines.items()
    )
    counts = {name: count for name, count in counted(record()).items() if count}
    few = sum(map(is_of_few_cases, rows))
    legend = "\n".join(
        _legend(_style(name), f"{name}: {count}")
        + (_legend(f"{_style(name)} few", f"{_FEW}: {few}") if name == ON_SOME else "")
        for name, count in counts.items()
    )
    label = f"{len(rows)} rows: " + ", ".join(f"{name} {n}" for name, n in counts.items())
    return (
        f'<div class="strip" role="img" aria-label="{label}">\n{groups}\n</div>\n'
        f'<div class="strip legend" aria-hidden="true">\n{legend}\n</div>'
    )


_FEW = "of these, on fewer than half of the cases"


def _legend(style: str, words: str) -> str:
    return f'<span><i class="cell {style}"></i>{words}</span>'


def _cell(row: Row) -> str:
    said = escape(f"{row['name']}: {row['words']}")
    few = " few" if is_of_few_cases(row) else ""
    return f'<i class="cell {_style(row["state"])}{few}" title="{said}"></i>'


def _style(name: str) -> str:
    return name.replace(" ", "-")


COMPUTED: Mapping[str, Callable[..., str]] = {"strip": strip}
"""The forms of this module by name."""
