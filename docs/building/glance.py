"""The matrix at a glance: its outcomes counted, as a strip of cells, and as a table by engine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from html import escape
from typing import Any

from building.markdown import table
from building.pages import HOUSE

Row = Mapping[str, Any]

SOME = "conforms on some cases"
BY_DESIGN = "does not conform by design"
OUTCOMES = {
    "conforms": "conforms",
    SOME: "conforms on the cases asked",
    "does not conform": "does not conform",
    BY_DESIGN: "lossy by design",
    "fails on every case": "fails on every case",
    "cannot run here": "cannot run here",
    "could not be fetched": "could not be fetched",
}
"""The outcomes of a row, best first, in the words of the strip's legend."""


@cache
def rows() -> tuple[Row, ...]:
    """Return the rows of the matrix as they are on record."""
    record = HOUSE / "adapters/matrix/matrix.json"
    return tuple(json.loads(record.read_text(encoding="utf-8"))["rows"])


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
    for row in rows():
        engines.setdefault(row["engine"], []).append(row)
    groups = "\n".join(
        f'<span class="engine"><b>{escape(name)}</b>{"".join(map(_cell, own))}</span>'
        for name, own in engines.items()
    )
    counts = {name: count for name, count in counted(rows()).items() if count}
    legend = "\n".join(
        f'<span><i class="cell {_style(name)}"></i>{OUTCOMES[name]}: {count}</span>'
        for name, count in counts.items()
    )
    told = f"{len(rows())} rows: " + ", ".join(
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


def by_engine() -> str:
    """Return the newest version of each verifier by engine and outcome, and why cases are few."""
    newest = {row["name"].partition("@")[0]: row for row in rows()}
    engines: dict[str, dict[str, list[str]]] = {}
    for name, row in newest.items():
        cells = engines.setdefault(row["engine"], {each: [] for each in OUTCOMES})
        cells[outcome(row)].append(f"`{name}`{_asked(row)}")
    made = table(
        ["engine", *OUTCOMES.values()],
        [[engine, *map(", ".join, cells.values())] for engine, cells in engines.items()],
    )
    why = Counter(row["judged"]["why"] for row in rows() if outcome(row) == SOME)
    told = "; ".join(f"{reason} ({count})" for reason, count in why.most_common())
    return f"{made}\n\nWhy some rows are asked some cases only, with the number of rows: {told}."


def _asked(row: Row) -> str:
    judged = row["judged"]
    return f" ({judged['asked']} of {judged['planned']})" if outcome(row) == SOME else ""


COMPUTED: Mapping[str, Callable[..., str]] = {"strip": strip, "by_engine": by_engine}
"""The forms of this module by name."""
