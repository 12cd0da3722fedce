"""Histories of engines, which `matrix --history` judges and prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from draftproof.conformance.cli.documents import echo, print_json, stop
from draftproof.conformance.evidence.whole_file import write_whole
from draftproof.conformance.report.plain import plain
from draftproof.spec import validate

if TYPE_CHECKING:
    from draftproof.conformance.protocol.packages import Package


def histories(
    engines: Sequence[str],
    *,
    since: date,
    source: str,
    is_halved: bool,
    output: Path,
    jobs: int,
    as_json: bool,
) -> NoReturn:
    """Judge the methods of engines, version by version, print the verdicts, and exit.

    The exit code is 3 if a history has no verdict at all.
    """
    from draftproof.conformance.report import history as shown
    from draftproof.conformance.report import terminal

    found = []
    for package, method in [each for name in engines for each in _methods(name)]:
        own = _history(
            package, method, since, source, is_halved=is_halved, output=output, jobs=jobs
        )
        found.append(own)
        if not as_json:
            out = terminal.console()
            out.print(shown.table(out, plain(own)))
            for change in plain(own["changes"]):
                echo(_told(change))
    document = {"histories": found}
    validate(document, "histories")
    try:
        output.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        write_whole(text, output / "histories.json")
        write_whole(
            "\n".join(shown.markdown(plain(each)) for each in found), output / "histories.md"
        )
    except OSError as error:
        raise click.UsageError(f"cannot write to {str(output)!r}: {error.strerror}") from None
    if as_json:
        print_json(document, "histories")
    is_judged = all(any(each["files"] for each in own["versions"]) for own in found)
    sys.exit(0 if is_judged else 3)


def _methods(name: str) -> Iterator[tuple[Package, str]]:
    """Yield the methods that ENGINE or ENGINE:METHOD names."""
    from draftproof.conformance.protocol.adapter import UnknownAdapter
    from draftproof.conformance.protocol.packages import packages, require_method

    engine, _, method = name.partition(":")
    package = packages().get(engine)
    if package is None:
        raise click.UsageError(f"no engine {engine!r}; the engines are {', '.join(packages())}")
    try:
        if method:
            require_method(package, method)
    except UnknownAdapter as error:
        raise click.UsageError(str(error)) from None
    for each in (method,) if method else package.methods:
        yield package, each


def _history(
    package: Package,
    method: str,
    since: date,
    source: str,
    *,
    is_halved: bool,
    output: Path,
    jobs: int,
) -> dict[str, Any]:
    from draftproof.conformance.matrix import history as judging
    from draftproof.conformance.protocol.raising import told_of
    from draftproof.conformance.report import terminal

    try:
        past = package.past(method, since=since, source=source)
    except Exception as error:
        stop(f"{package.name}:{method}: {told_of(error)}", 3)
    if not past:
        stop(f"{package.name}:{method}: no version since {since}; name an earlier --since", 3)
    reading = terminal.shown_progress(judging.texts_of(past), len(past), f"{package.name} read")
    read = list(reading)
    texts = [each for each in read if isinstance(each, judging.SameFiles)]
    try:
        judged = judging.verdicts(package, method, texts, output, is_halved=is_halved, jobs=jobs)
        name = f"{package.name}:{method}"
        told = {}
        for digest, row in terminal.shown_progress(judged, len(texts), name):
            told[digest] = row
            echo(f"{name} {row['version']}: {row['outcome']}", err=True)
    except OSError as error:
        raise click.UsageError(f"cannot write to {str(output)!r}: {error.strerror}") from None
    return judging.document(package, method, read, told, source=source)


def _told(change: dict[str, Any]) -> str:
    failed = f" (fails {', '.join(change['failed'])})" if change["failed"] else ""
    said = f" {change['said']!r}" if change["said"] else ""
    return (
        f"{change['version']}, {change['day']}{said}: {change['to']}{failed}; "
        f"before, {change['after']}: {change['from']}"
    )
