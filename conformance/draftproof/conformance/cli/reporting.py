"""Command that shows certificates in any format: `report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import (
    print_report,
    read_certificate,
    read_json,
    stop,
    written_to,
)
from draftproof.conformance.evidence.whole_file import write_output
from draftproof.conformance.report import rendered
from draftproof.conformance.report.drawing import ReportUnavailable
from draftproof.spec import MalformedDocument, validate


@click.command()
@click.argument("certificates", nargs=-1, required=True, metavar="CERTIFICATE.json...")
@options.form(help="html: a page; markdown: pull requests; junit: test runners.")
@click.option("--output", type=options.NEW_FILE, help="File for the report.")
@click.option(
    "--kill-matrix",
    "mutants",
    metavar="MUTANTS.json",
    help="Output of `draftproof mutants --json` to show. [default: the shipped one]",
)
@options.verbose
def report(
    certificates: tuple[str, ...],
    form: str,
    output: Path | None,
    mutants: str | None,
    verbose: bool,
) -> None:
    """Show certificates ("-" reads standard input) without judging again.

    The exit code is 0, whatever the verdicts.
    """
    if mutants is not None and form != "html":
        raise click.UsageError("--kill-matrix needs --format html")
    if (*certificates, mutants).count("-") > 1:
        raise click.UsageError("standard input (-) can be named only once")
    documents = [read_certificate(file) for file in certificates]
    kill_matrix = None if mutants is None else _read_kill_matrix(mutants)
    try:
        if form == "terminal":
            text = _on_terminal(documents, certificates, output, verbose=verbose)
        else:
            text = rendered(documents, form, kill_matrix=kill_matrix)
    except ReportUnavailable as error:
        stop(f"cannot make {form}: {error}", 3)
    if output is None:
        print_report(text)
        return
    with written_to(output):
        write_output(text, output)


def _on_terminal(
    documents: Sequence[Mapping[str, Any]],
    files: Sequence[str],
    output: Path | None,
    *,
    verbose: bool,
) -> str:
    """Print certificates on the terminal, or return the text to write to the `output` file."""
    from draftproof.conformance.report import terminal

    written = StringIO()
    out = terminal.console() if output is None else terminal.console(file=written)
    for document, file in zip(documents, files, strict=True):
        terminal.print_certificate(out, document, Path(file), verbose=verbose)
    return written.getvalue()


def _read_kill_matrix(file: str) -> Mapping[str, Any]:
    """Read a kill matrix. Any fault in it is a usage error."""
    document: dict[str, Any] = read_json(file)
    try:
        validate(document, "mutants")
    except MalformedDocument as error:
        raise click.UsageError(f"{file} is not a kill matrix: {error}") from None
    return document
