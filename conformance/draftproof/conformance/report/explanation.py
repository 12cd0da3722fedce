"""Explanation of a failure on a terminal: the counterexample, and a script to reproduce it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from draftproof.conformance.report import words
from draftproof.conformance.report.plain import plain
from draftproof.conformance.report.reproduction import outcomes
from draftproof.conformance.report.terminal import print_counterexample, print_lines, ruled


def print_explanation(out: Console, document: Mapping[str, Any]) -> None:
    """Print an explanation, given as the document that --json prints."""
    script = document["script"]
    document = plain({**document, "script": None})
    out.print(f"[bold]{escape(document['adapter'])}[/] {document['verdict']}")
    if not document["failures"]:
        out.print("Nothing to explain: no requirement fails.")
        return
    if cause := [*words.likely_cause(document)]:
        out.print("\n[bold]Likely cause[/]")
        print_lines(out, cause)
    shown = document["counterexample"]
    if shown is None:
        _print_failures(out, document)
        out.print(f"\n{escape(document['reason'])}", soft_wrap=not out.is_terminal)
        return
    print_counterexample(out, shown)
    for number, row in enumerate(shown.get("rows", [shown])):
        of = f" of request {number}" if "rows" in shown else ""
        out.print(f"\n[bold]Probabilities given to the verifier[/]{of}")
        out.print(_rows(out, row["instance"]))
    out.print("\n[bold]What the verifier emits[/]")
    out.print(_laws(out, shown))
    _print_failures(out, document)
    if script is None:
        out.print(f"\nno script: {escape(document['reason'])}", soft_wrap=not out.is_terminal)
        return
    out.print("\n[bold]Script that reproduces it[/]\n")
    # It is to be copied: nothing is wrapped or marked.
    out.print(script, markup=False, soft_wrap=True, end="")


def _print_failures(out: Console, document: Mapping[str, Any]) -> None:
    """Print every requirement that failed, with its worst case."""
    out.print(f"\n[bold]{words.groups_title(document['failures'])}[/]")
    for failure in document["failures"]:
        detail = f": {failure['detail']}" if failure["detail"] else ""
        level = " (SHOULD)" if failure["level"] == "SHOULD" else ""
        print_lines(
            out, [f"{failure['id']}: {failure['verdict']}{level} on {failure['case']}{detail}"]
        )


def _rows(out: Console, instance: Mapping[str, Any]) -> Table:
    """Return the rows of both models, by context."""
    table = ruled(out, "after", "target", "draft")
    for row in words.models(instance):
        table.add_row(*row)
    return table


def _laws(out: Console, shown: Mapping[str, Any]) -> Table:
    """Return the observed distribution beside the expected one, largest errors first."""
    known = shown["expected"] is not None
    table = ruled(out, "emitted", "observed", *(["expected"] if known else []))
    most_wrong, more = outcomes(shown)
    for each in most_wrong:
        seen = f"{each.observed:.6g}"
        seen = f"[bold red]{seen}[/]" if each.is_wrong else seen
        table.add_row(escape(each.spoken), seen, *([f"{each.expected:.6g}"] if known else []))
    if more:
        table.add_row(f"and {more} with smaller errors", "")
    return table
