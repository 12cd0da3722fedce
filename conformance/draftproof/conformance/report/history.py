"""Histories of engines, on a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from draftproof.conformance.report.markdown import in_line, row_of
from draftproof.conformance.report.matrix import STYLES
from draftproof.conformance.report.terminal import ruled

COLUMNS = ("versions", "days", "outcome", "lossless")


def table(out: Console, history: Mapping[str, Any]) -> Table:
    """Return a history, `plain`, as a terminal table; neighbours with one result share a line."""
    made = ruled(out, *COLUMNS)
    made.title = escape(f"{history['engine']}:{history['method']}")
    for versions, days, outcome, told in _lines(history):
        style = STYLES.get(outcome.partition(",")[0], "yellow")
        made.add_row(escape(versions), days, f"[{style}]{escape(outcome)}[/]", escape(told))
    return made


def markdown(history: Mapping[str, Any]) -> str:
    """Return a history, `plain`, as a table in GitHub's Markdown."""
    lines = (row_of(tuple(map(in_line, each))) for each in _lines(history))
    title = f"### {in_line(history['engine'])}:{in_line(history['method'])}\n"
    return "\n".join((title, row_of(COLUMNS), "|---|---|---|---|", *lines, ""))


def _lines(history: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a line for each run of versions with the same result."""
    parts = ("outcome", "reason", "failed", "distance", "presumed")
    for _, group in groupby(history["versions"], key=lambda each: [each[part] for part in parts]):
        alike: Sequence[Mapping[str, Any]] = [*group]
        first, last = alike[0], alike[-1]
        files = {each["files"] for each in alike}
        several = f" ({len(alike)}, {len(files)} texts)" if len(alike) > 1 else ""
        outcome = first["outcome"] or "not judged"
        yield (
            _from_to(first["version"], last["version"]) + several,
            _from_to(first["day"], last["day"]),
            f"{outcome}, presumed" if first["presumed"] else outcome,
            first["reason"] or _lossless(first),
        )


def _from_to(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _lossless(version: Mapping[str, Any]) -> str:
    if version["presumed"]:
        return "not judged: a change within that was taken back stays hidden"
    distance, failed = version["distance"], ", ".join(version["failed"])
    told = "" if distance is None else f"TV {distance:.2g}"
    return "; ".join(each for each in (told, failed and f"fails {failed}") if each)
