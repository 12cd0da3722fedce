"""Command that judges the verifiers of released engines: `matrix`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import as_json, echo, print_json, read_from, usage_errors
from draftproof.conformance.cli.history import histories
from draftproof.conformance.evidence.whole_file import write_whole
from draftproof.conformance.report.plain import plain
from draftproof.spec import content_of, parsed, validate

if TYPE_CHECKING:
    from draftproof.conformance.matrix import MatrixRow

ROWS = ("draftproof.adapters.engines", "rows.toml")
"""Package and file of the default rows."""


@click.command()
@click.argument("file", required=False, type=options.FILE)
@click.option(
    "--only", "names", multiple=True, metavar="NAME", help="Judge only rows of this name or engine."
)
@options.output_folder(
    default=Path("matrix"),
    help="Folder for results; its judged rows are reused.",
)
@click.option(
    "--check",
    "expected",
    type=options.FILE,
    metavar="FILE",
    help="Fail if a verdict differs from this matrix.json.",
)
@click.option(
    "--history",
    "engines",
    multiple=True,
    metavar="ENGINE",
    help="Judge every release of ENGINE or ENGINE:METHOD.",
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DAY",
    help="First day of the history. [default: 18 months ago]",
)
@click.option(
    "--source",
    metavar="CHECKOUT",
    default="",
    help="Checkout whose verifier commits to judge.",
)
@click.option(
    "--halve",
    "is_halved",
    is_flag=True,
    help="Bisect to find where the verdict changes.",
)
@options.jobs(help="Number of rows to judge at a time.")
@as_json
def matrix(
    file: Path | None,
    names: tuple[str, ...],
    output: Path,
    expected: Path | None,
    engines: tuple[str, ...],
    since: datetime | None,
    source: str,
    is_halved: bool,
    jobs: int,
    as_json: bool,
) -> None:
    """Judge verifiers as engines released them, and print a verdict for each.

    pip fetches their packages at a pinned version and hash; Draftproof keeps and imports only the
    few files that it needs. FILE names other rows, in TOML.

    A row without a verdict fails on every case, cannot run here or could not be fetched; the matrix
    gives the reason. The exit code is 3 if --only names such a row, or if a row with an adapter
    cannot run here or could not be fetched.
    """
    if engines:
        if file or names or expected:
            raise click.UsageError("--history cannot be combined with FILE, --only or --check")
        histories(
            engines,
            since=since.date() if since else _long_ago(),
            source=source,
            is_halved=is_halved,
            output=output,
            jobs=jobs,
            as_json=as_json,
        )
    if since or source or is_halved:
        raise click.UsageError("--since, --source and --halve need --history")
    from draftproof.conformance import matrix as judging
    from draftproof.conformance.report import matrix as shown
    from draftproof.conformance.report import terminal

    rows = _chosen(_rows(file), names)
    before = _read(expected) if expected else []
    try:
        judged = judging.judged(rows, output, jobs=jobs)
        became = list(terminal.shown_progress(judged, len(rows), "matrix"))
        found = {each.row.name: judging.line(each) for each in became}
        document = {"rows": [found[row.name] for row in rows]}
        validate(document, "matrix")
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        write_whole(text, output / "matrix.json")
        said = plain(document["rows"])
        write_whole(shown.markdown(said), output / "matrix.md")
    except OSError as error:
        raise click.UsageError(f"cannot write to {str(output)!r}: {error.strerror}") from None
    if as_json:
        print_json(document, "matrix")
    else:
        out = terminal.console()
        out.print(shown.table(out, said))
    asked = [each for each in before if not names or each["name"] in found]
    changed = judging.changes(asked, document["rows"])
    for change in changed:
        echo(f"Changed: {plain(change)}", err=True)
    without = judging.not_judged(became, named=bool(names))
    for row in without:
        told = found[row.name]
        said = f"{row.name}: {told['outcome']}: {told['reason']}"
        echo(f"Error: {plain(said)}", err=True)
    sys.exit(3 if without else 1 if changed else 0)


def _long_ago() -> date:
    """Return the day about 18 months ago."""
    return date.today() - timedelta(days=548)


def _rows(file: Path | None) -> list[MatrixRow]:
    from draftproof.conformance.matrix import MOST_TOML, InvalidRows, read_rows

    with usage_errors(InvalidRows), read_from(str(file)):
        if file is not None:
            return read_rows(content_of(file, most=MOST_TOML), str(file))
        place = resources.files(ROWS[0]).joinpath(ROWS[1])
        return read_rows(place.read_bytes(), str(place))


def _chosen(rows: Sequence[MatrixRow], names: Sequence[str]) -> list[MatrixRow]:
    for name in names:
        if not any(name in (row.name, row.engine) for row in rows):
            known = dict.fromkeys(each for row in rows for each in (row.engine, row.name))
            raise click.UsageError(f"there is no row or engine {name!r}{_meant(name, known, rows)}")
    return [row for row in rows if not names or {row.name, row.engine} & {*names}]


def _meant(name: str, known: Iterable[str], rows: Sequence[MatrixRow]) -> str:
    """Suggest a row or engine of a similar name, otherwise list the engines."""
    folded = {each.casefold(): each for each in known}
    if near := get_close_matches(name.casefold(), folded, n=1):
        return f", did you mean {folded[near[0]]!r}?"
    return f"; the engines are {', '.join(dict.fromkeys(row.engine for row in rows))}"


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        document = parsed(content_of(path))
        validate(document, "matrix")
    except OSError as error:
        raise click.UsageError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        raise click.UsageError(f"{path} is not a matrix: {error}") from None
    rows: list[dict[str, Any]] = document["rows"]
    return rows
