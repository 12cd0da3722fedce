"""Reading and printing of documents, for all commands."""

from __future__ import annotations

import os
import re
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
    """Read a JSON file ("-" is standard input). An unreadable file is a usage error."""
    try:
        return parsed(_content(file).removeprefix(BOM_UTF8))
    except UnicodeDecodeError:
        raise click.UsageError(f"cannot read {file!r}: it is not UTF-8 text") from None
    except MalformedDocument as error:
        raise click.UsageError(f"{file}: {error}") from None


def read_certificate(file: str) -> dict[str, Any]:
    """Read a certificate ("-" is standard input).

    A missing certificate is a usage error; a changed one ends the command with exit code 5.
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
    """Read an instance file. Any fault in it is a usage error."""
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
    """Return the bytes of a file ("-" is standard input). An unreadable file is a usage error."""
    if file == "-" and sys.stdin is None:
        raise click.UsageError("cannot read '-': standard input is closed")
    with read_from(file):
        return content_of(sys.stdin.buffer if file == "-" else Path(file))


@contextmanager
def nothing_printed() -> Iterator[None]:
    """Redirect the output of programs under test and their processes to the error stream.

    Their output must not mix with the output of the command.
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
    """Print lines for people; control sequences in quoted text are shown, not executed."""
    click.echo(plain_lines(text), err=err)


def stop(message: str, code: int) -> NoReturn:
    """Print an error, and exit with a code of `EXIT_CODES`."""
    echo(f"Error: {message}", err=True)
    sys.exit(code)


@contextmanager
def usage_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into usage errors with the same message."""
    try:
        yield
    except kinds as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def errors_of(algorithm: str) -> Iterator[None]:
    """Turn errors of an algorithm's name or input into usage errors, and exit with 3 for its own.

    An error of the user's own file is told with its line. What a reference algorithm raises is a
    defect, and is raised.
    """
    from draftproof.conformance.protocol.adapter import AdapterFailed, UnknownAdapter
    from draftproof.conformance.protocol.raising import told_of
    from draftproof.reference.errors import InvalidInput
    from draftproof.reference.verifiers import ALGORITHMS

    try:
        yield
    except (InvalidInput, UnknownAdapter) as error:
        # What runs a program on symbols raises an error of its own about the program's.
        if line := line_of(error) or line_of(error.__cause__ or error):
            told = _of_floats(str(error)).removeprefix(f"{algorithm} ")
            stop(f"{algorithm}: {told}{line}", 3)
        raise click.UsageError(str(error)) from None
    except AdapterFailed as error:
        stop(f"{error}{line_of(error.__cause__ or error, str(error))}", 3)
    except (ArithmeticError, LookupError, RuntimeError, ValueError) as error:
        if algorithm in ALGORITHMS:
            raise
        stop(f"{algorithm} raised {told_of(error)}{line_of(error)}", 3)


def _of_floats(message: str) -> str:
    """Return the message about a number that a float and a fraction made, in the user's words.

    The exact numbers are gmpy2's, and such a product is one of its floats.
    """
    return re.sub(
        r"got mpfr mpfr\('([^']+)'\)",
        r"got the float \1: it is computed from a float; write that as a fraction",
        message,
    )


def line_of(error: BaseException, told: str = "") -> str:
    """Return the line of the user's own file that an error came through.

    It is empty if there is none, or if its place is `told` already.
    """
    from draftproof.conformance.protocol.raising import place_of

    place = place_of(error)
    return "" if place in told else f" (line {place.rpartition(':')[2]})"


@contextmanager
def read_from(file: str) -> Iterator[None]:
    """Turn any error of reading a file into a usage error."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"cannot read {file!r}: {error.strerror}") from None
    except FileTooLarge as error:
        raise click.UsageError(f"cannot read {file!r}: {error}") from None


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """Turn any error of writing a file into a usage error."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None


def print_report(text: str) -> None:
    """Print a report made by `rendered`, whose strings are `plain` already."""
    click.echo(text, nl=False)


def show(document: Any, schema: str, printed: Callable[..., None], *, as_json: bool) -> None:
    """Print a document on the terminal, or as JSON that follows a schema."""
    if as_json:
        print_json(document, schema)
        return
    from draftproof.conformance.report import terminal

    printed(terminal.console(), document)


def print_json(document: Any, schema: str | None, *, indent: int | None = 2) -> None:
    """Print a document that follows a schema; None if the document is validated already."""
    if schema is not None:
        validate(document, schema)
    click.echo(json_text(document, indent=indent))
