"""An explanation on a terminal: a counterexample in words and tables, and a script to see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from draftproof.conformance.report import words
from draftproof.conformance.report.plain import plain
from draftproof.conformance.report.reproduction import outcomes
from draftproof.conformance.report.terminal import ruled


def print_explanation(out: Console, document: Mapping[str, Any]) -> None:
    """Print an explanation, given as the document that --json prints."""
    script = document["script"]
    document = plain({**document, "script": None})
    out.print(f"[bold]{escape(document['adapter'])}[/] {document['verdict']}")
    if not document["failures"]:
        out.print("nothing to explain: nothing that was judged fails")
        return
    for failure in document["failures"]:
        detail = f": {failure['detail']}" if failure["detail"] else ""
        level = " (SHOULD)" if failure["level"] == "SHOULD" else ""
        told = f"{failure['id']} {failure['verdict']}{level} on {failure['case']}{detail}"
        out.print(escape(told), soft_wrap=not out.is_terminal)
    for sentence in words.likeness(document):
        out.print(escape(sentence), soft_wrap=not out.is_terminal)
    shown = document["counterexample"]
    if shown is None:
        out.print(escape(document["reason"]), soft_wrap=not out.is_terminal)
        return
    out.print("\n[bold]The smallest counterexample found[/]")
    for sentence in shown["words"]:
        out.print(f"  {escape(sentence)}", soft_wrap=not out.is_terminal)
    for number, row in enumerate(shown.get("rows", [shown])):
        out.print(f"\n[bold]The rows[/]{f' of row {number}' if 'rows' in shown else ''}")
        out.print(_rows(out, row["instance"]))
    out.print("\n[bold]What is emitted[/]")
    out.print(_laws(out, shown))
    if script is None:
        out.print(f"\nno script: {escape(document['reason'])}")
        return
    out.print("\n[bold]A script that shows it[/]\n")
    # It is to be copied: nothing is wrapped or marked.
    out.print(script, markup=False, soft_wrap=True, end="")


def _rows(out: Console, instance: Mapping[str, Any]) -> Table:
    """Return the rows of both models, by context."""
    table = ruled(out, "after", "target", "draft")
    for row in words.models(instance):
        table.add_row(*row)
    return table


def _laws(out: Console, shown: Mapping[str, Any]) -> Table:
    """Return the observed law beside the expected one, the most wrong outcomes first."""
    known = shown["expected"] is not None
    table = ruled(out, "emitted", "observed", *(["expected"] if known else []))
    most_wrong, more = outcomes(shown)
    for each in most_wrong:
        seen = f"{each.observed:.6g}"
        seen = f"[bold red]{seen}[/]" if each.is_wrong else seen
        table.add_row(escape(each.spoken), seen, *([f"{each.expected:.6g}"] if known else []))
    if more:
        table.add_row(f"and {more} less wrong", "")
    return table
