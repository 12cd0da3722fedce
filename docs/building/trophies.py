"""The trophy case: what was found in released software, each with its report and its script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from building.engines import record
from building.markdown import table, title
from building.pages import HOUSE

_REPORTS = HOUSE / "adapters/matrix/reports"


def pages() -> Mapping[str, str]:
    """Return the page of the trophy case."""
    rows = record()
    parts = [
        "# The trophy case",
        "Faults that Draftproof has found in released software. Each has a report for the "
        "maintainers, and a script that reproduces it without Draftproof: it runs the released "
        "code, with stand-ins for models. Some reports describe no fault, but a documented "
        "approximation or a fault that is fixed; their first line says so. "
        "[The matrix](engines.md) has the results of all judged verifiers.",
    ]
    for report in sorted(_REPORTS.glob("*.md")):
        parts += [
            f"## {title(report.read_text(encoding='utf-8'))} {{ #trophy.{report.stem} }}",
            f"[The report](repo:adapters/matrix/reports/{report.name}) · "
            f"[the script](repo:adapters/matrix/reproductions/{report.stem}.py)",
        ]
        failed = [row for row in rows if row.get("report") == report.stem]
        if failed:
            parts.append(
                table(
                    ["engine", "version", "algorithm", "outcome", "distance", "lane"],
                    [
                        [
                            row["engine"],
                            row["version"],
                            f"`{row['algorithm']}`",
                            row["outcome"] + (", by design" if row["design"] else ""),
                            *_worst(row),
                        ]
                        for row in failed
                    ],
                    align="llllrl",
                )
            )
    return {"trophies.md": "\n\n".join(parts) + "\n"}


def _worst(row: Mapping[str, Any]) -> list[str]:
    failed = [
        each
        for each in (row["judged"] or {}).get("requirements", ())
        if each["verdict"] == "fail" and each["level"] == "MUST" and each["distance"] is not None
    ]
    if not failed:
        return ["", ""]
    worst = max(failed, key=lambda each: float(each["distance"]))
    return [f"{worst['distance']:.2g} (`{worst['id']}`)", ", ".join(worst["lanes"])]
