"""HTML page of certificates: one file, without scripts or external requests.

The strings of a certificate stay text: the template escapes all of them, turns only web addresses
into links, and sets a policy that forbids the browser to load or run anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from draftproof.conformance.report import words
from draftproof.conformance.report.bars import bars
from draftproof.conformance.report.drawing import ReportUnavailable, require_matplotlib
from draftproof.conformance.report.plots import Plot, plots
from draftproof.conformance.report.reproduction import outcomes
from draftproof.reference.extras import installation
from draftproof.spec import requirements

FOLDER = Path(__file__).parent


def page(
    documents: Sequence[Mapping[str, Any]], *, kill_matrix: Mapping[str, Any] | None = None
) -> str:
    """Return certificates as one page of HTML; every string is `plain`.

    The page is self-contained, and the same for the same documents. `kill_matrix` defaults to the
    shipped kill matrix. Raises `ReportUnavailable` without jinja2 or matplotlib.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError as error:
        if error.name != "jinja2":
            raise
        raise ReportUnavailable(f"the page needs jinja2: {installation('report')}") from None
    # Also where there is nothing to plot yet: who asks beforehand is told beforehand.
    require_matplotlib()
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    environment.globals.update(words=words, outcomes=outcomes, bars=bars, style=style)
    return environment.get_template("page.html.jinja").render(
        articles=[_article(each, f"a{n}") for n, each in enumerate(documents, 1)],
        trial=_trial(kill_matrix),
    )


def _article(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the template's data on a certificate; `name` is its anchor."""
    found = document["predicate"]["draftproof"]
    drawn: tuple[Plot, ...] = plots(found, name=name)
    return {
        "name": name,
        "document": document,
        "found": found,
        "plots": drawn,
        "issues": {known["id"]: known["issue"] for known in found["known_failures"]},
    }


# --- the kill matrix ---------------------------------------------------------------------


def _trial(kill_matrix: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a kill matrix as a table: a column for a requirement, a row for an exhibit."""
    source = "Results given with --kill-matrix"
    if kill_matrix is None:
        kill_matrix = words.recorded_kill_matrix()
        source = f"The suite's own results, shipped with draftproof {version('draftproof')}"
    exhibits = sorted(kill_matrix["exhibits"], key=lambda each: each["kind"] == "control")
    met = {cell["requirement"] for each in exhibits for cell in each["cells"]}
    tried, wrong = words.trial(kill_matrix)
    told = f"{tried}: " + (f"wrong results: {', '.join(wrong)}" if wrong else "all as required")
    ordered = [each for each in requirements() if each in met]
    columns = (*ordered, *sorted(met - set(ordered)))
    return {"source": source, "told": told, "columns": columns, "rows": [*map(_row, exhibits)]}


def _row(exhibit: Mapping[str, Any]) -> dict[str, Any]:
    """Return an exhibit with its most severe cell for each requirement."""
    gravest = ("killed", "survived", "undecided", "blind")
    cells: dict[str, Mapping[str, Any]] = {}
    for cell in sorted(exhibit["cells"], key=lambda each: gravest.index(each["verdict"])):
        cells.setdefault(cell["requirement"], cell)
    return {**exhibit, "cells": cells}
