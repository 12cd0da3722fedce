"""The trophy case: faults found in released software, each with its report and its script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from building.engines import record
from building.markdown import title
from building.pages import HOUSE
from draftproof.conformance.report.states import told

_REPORTS = HOUSE / "adapters/matrix/reports"


def pages() -> Mapping[str, str]:
    """Return the page of the trophy case."""
    rows = record()
    parts = [
        "# The trophy case",
        "Faults that Draftproof has found or confirmed in released software. Each has a report "
        "for the maintainers, and a script that reproduces it without Draftproof: it runs the "
        "released code, with stand-ins for models. Some reports describe no fault, but a "
        "documented approximation, a fault that is fixed, or a suggestion; their first line says "
        "so. [The matrix](engines/index.md) has the results of all judged verifiers.",
    ]
    for report in sorted(_REPORTS.glob("*.md")):
        judged = [row for row in rows if row.get("report") == report.stem]
        parts += [
            f"## {_heading(report, judged)} {{ #trophy.{report.stem} }}",
            f"[The report](repo:adapters/matrix/reports/{report.name}) · "
            f"[the script](repo:adapters/matrix/reproductions/{report.stem}.py)",
            "\n".join(f"* {_outcome(row)}" for row in judged),
        ]
    return {"trophies.md": "\n\n".join(parts) + "\n"}


def _heading(report: Path, judged: Sequence[Mapping[str, Any]]) -> str:
    """Return the title of a report, preceded by the names of its engines if it has none of them."""
    found = title(report.read_text(encoding="utf-8"))
    engines = dict.fromkeys(row["engine"] for row in judged)
    if not engines or any(engine.casefold() in found.casefold() for engine in engines):
        return found
    return f"{', '.join(engines)}: {found}"


def _outcome(row: Mapping[str, Any]) -> str:
    return f"{row['engine']} {row['version']}, `{row['name']}`: {told(row)}"
