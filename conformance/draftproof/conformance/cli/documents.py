"""Reading instances, printing documents: what all commands share."""

from __future__ import annotations

import os
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from draftproof.conformance.report.plain import json_text, plain_lines
from draftproof.spec import FileTooLarge, MalformedDocument, content_of, parsed, validate

if TYPE_CHECKING:  # what these import takes longer than to print help
    from draftproof.reference.model import Instance

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

instance_file = click.argument("instance_file", metavar="INSTANCE.json")


def read_json(file: str) -> Any:
    """Read a JSON file, "-" being standard input. What makes it unreadable is a usage error."""
    try:
        return parsed(_content(file).removeprefix(BOM_UTF8))
    except UnicodeDecodeError:
        raise click.UsageError(f"cannot read {file!r}: it is not UTF-8 text") from None
    except MalformedDocument as error:
        raise click.UsageError(f"{file}: {error}") from None


def read_certificate(file: str) -> dict[str, Any]:
    """Read a certificate, "-" being standard input.

    A missing one is a usage error; one that is not as it was written ends the command with 5.
    """
    from draftproof.conformance.evidence.certificate import parsed_certificate
    from draftproof.conformance.evidence.records import EvidenceError

    if file != "-" and not Path(file).exists():
        raise click.UsageError(f"there is no file {file!r}")
    try:
        return parsed_certificate(_content(file), file)
    except EvidenceError as error:
        stop(f"{type(error).__name__}: {error}", 5)
    except click.UsageError as error:
        stop(error.message, 5)


def read_instance(file: str) -> Instance:
    """Read an instance file. Every way in which it can be wrong is a usage error."""
    from draftproof.conformance.cases.enumerable import require_enumerable
    from draftproof.reference.errors import InvalidInput
    from draftproof.reference.model import instance_from_json

    document = read_json(file)
    try:
        instance = instance_from_json(document)
        validate(document, "instance")
        require_enumerable(instance)
    except (InvalidInput, MalformedDocument) as error:
        raise click.UsageError(f"{file}: {error}") from None
    return instance


def _content(file: str) -> bytes:
    """Return the bytes of a file, "-" being standard input. What prevents it is a usage error."""
    if file == "-" and sys.stdin is None:
        raise click.UsageError("cannot read '-': it is closed")
    with read_from(file):
        return content_of(sys.stdin.buffer if file == "-" else Path(file))


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


def stop(message: str, code: int) -> NoReturn:
    """Print an error, and exit with a code of `EXIT_CODES`."""
    echo(f"Error: {message}", err=True)
    sys.exit(code)


@contextmanager
def usage_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Make errors of these kinds usage errors, which say what they say."""
    try:
        yield
    except kinds as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def read_from(file: str) -> Iterator[None]:
    """Make whatever prevents a file from being read a usage error."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"cannot read {file!r}: {error.strerror}") from None
    except FileTooLarge as error:
        raise click.UsageError(f"cannot read {file!r}: {error}") from None


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """Make whatever prevents a file from being written a usage error."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None


def print_report(text: str) -> None:
    """Print a report in a form that `rendered` has made, whose strings are `plain` already."""
    click.echo(text, nl=False)


def show(document: Any, schema: str, printed: Callable[..., None], *, as_json: bool) -> None:
    """Print a document on the terminal, or as JSON that follows a schema."""
    if as_json:
        print_json(document, schema)
        return
    from draftproof.conformance.report import terminal

    printed(terminal.console(), document)


def print_json(document: Any, schema: str | None, *, indent: int | None = 2) -> None:
    """Print a document that follows a schema; None is for one that was validated."""
    if schema is not None:
        validate(document, schema)
    click.echo(json_text(document, indent=indent))
