"""Command that compares certificates before and after a change: `diff`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from draftproof.conformance.cli.documents import as_json, echo, print_json, print_report, stop
from draftproof.conformance.cli.documents import read_certificate as read
from draftproof.conformance.report.plain import plain


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option(
    "--markdown", "is_markdown", is_flag=True, help="Print Markdown, for a review comment."
)
@as_json
def diff(before: Path, after: Path, is_markdown: bool, as_json: bool) -> None:
    """Compare certificates BEFORE a change with those AFTER it, verifier by verifier.

    BEFORE and AFTER are certificates or folders of certificates. The exit code is 1 if a verifier
    newly fails a requirement or is no longer judged, and 3 if there is no certificate at all.
    """
    from draftproof.conformance.report import difference as shown

    was, now = _certificates(before), _certificates(after)
    found = shown.difference(was, now)
    if as_json:
        print_json(found, "diff")
    elif is_markdown:
        print_report(shown.markdown(plain(found)))
    else:
        for line in shown.text(plain(found)):
            echo(line)
    if not was and not now:
        stop("nothing was judged: neither folder has a certificate", 3)
    sys.exit(1 if any(each["is_worse"] for each in found["adapters"]) else 0)


def _certificates(path: Path) -> list[dict[str, Any]]:
    """Return the certificate of a file, or those of a folder; an empty folder has none."""
    if not path.exists():
        raise click.UsageError(f"there is no file or folder {str(path)!r}")
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    return [read(str(file)) for file in files]
