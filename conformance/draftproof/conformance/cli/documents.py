"""Reading instances, printing documents: what all commands share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

import click

from draftproof.conformance.evidence import EvidenceError
from draftproof.conformance.report.words import json_text, plain_lines
from draftproof.reference.errors import InvalidInput, WrongShape
from draftproof.reference.model import Instance, Model, instance_from_json
from draftproof.spec import MalformedDocument, validate

# Minutes of enumeration, not hours: about this many tokens and row entries are visited.
_MOST_WORK = 4_000_000

# And no deeper than a program may recurse.
_MOST_SIBLINGS = 500

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

instance_file = click.argument("instance_file", metavar="INSTANCE.json")


def read_json(file: str) -> Any:
    """Read a JSON file, "-" being standard input. What makes it unreadable is a usage error."""
    try:
        text = _content(file).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"cannot read {file!r}: it is not UTF-8 text") from None
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except InvalidInput as error:
        raise click.UsageError(f"{file}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file} is not JSON: {error}") from None


def read_certificate(file: str) -> dict[str, Any]:
    """Read a certificate, "-" being standard input.

    A missing one is a usage error; one that is not as it was written ends the command with 5.
    """
    from draftproof.conformance.certificate import parsed_certificate

    if file != "-" and not Path(file).exists():
        raise click.UsageError(f"there is no file {file!r}")
    try:
        return parsed_certificate(_content(file), file)
    except EvidenceError as error:
        echo(f"Error: {type(error).__name__}: {error}", err=True)
    except click.UsageError as error:
        echo(f"Error: {error.message}", err=True)
    sys.exit(5)


def read_instance(file: str) -> Instance:
    """Read an instance file. Every way in which it can be wrong is a usage error."""
    document = read_json(file)
    try:
        instance = instance_from_json(document)
        validate(document, "instance")
    except (InvalidInput, MalformedDocument) as error:
        raise click.UsageError(f"{file}: {error}") from None
    _require_small(file, instance.draft, instance.length)
    _require_small(file, instance.target, instance.length + 1)
    _require_few_drafts(file, instance)
    return instance


def _content(file: str) -> bytes:
    """Return the bytes of a file, "-" being standard input. What prevents it is a usage error."""
    if file == "-" and sys.stdin is None:
        raise click.UsageError("cannot read '-': it is closed")
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {file!r}: {error.strerror}") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise WrongShape(f"the key {twice!r} appears twice")
    return document


def _require_small(file: str, model: Model, depth: int) -> None:
    """Refuse what would be enumerated for hours: too many prefixes, or too long ones."""
    work = accumulate(model.vocabulary + len(prefix) for prefix in model.reachable(depth))
    if any(done > _MOST_WORK for done in work):
        raise click.UsageError(
            f"{file}: there are too many texts of {depth} tokens of the {model.name} to enumerate"
        )


def _require_few_drafts(file: str, instance: Instance) -> None:
    """Refuse what would be enumerated for hours: too many ways to draw one context's tokens."""
    for context in instance.draft.reachable(instance.length - 1):
        support = sum(q != 0 for q in instance.draft(context))
        width = instance.widths[len(context)]
        if width > _MOST_SIBLINGS or support**width > _MOST_WORK:
            raise click.UsageError(
                f"{file}: there are too many ways to draw {width} tokens of {support} to enumerate"
            )


@contextmanager
def nothing_printed() -> Iterator[None]:
    """Send what programs under test print, and their processes, to the error stream.

    It must not end up among what a command prints.
    """
    with redirect_stdout(sys.stderr), ExitStack() as stack:
        # Not every stream is a file: then there is nothing to send elsewhere.
        with suppress(OSError, AttributeError, ValueError):
            (sys.__stdout__ or sys.stdout).flush()
            own = os.dup(1)
            stack.callback(os.close, own)
            os.dup2(2, 1)
            stack.callback(os.dup2, own, 1)
        yield


def echo(text: str = "", *, err: bool = False) -> None:
    """Print lines for people. What they quote is shown, and neither terminal nor log obeys it."""
    click.echo(plain_lines(text), err=err)


def print_report(text: str) -> None:
    """Print a report in a form that `rendered` has made, whose strings are `plain` already."""
    click.echo(text, nl=False)


def print_json(document: Any, schema: str | None, *, indent: int | None = 2) -> None:
    """Print a document that follows a schema; None is for one that was validated."""
    if schema is not None:
        validate(document, schema)
    click.echo(json_text(document, indent=indent))
