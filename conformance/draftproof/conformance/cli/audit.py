"""Command that judges a log of tokens and rows: `audit`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from errno import EEXIST
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import (
    as_json,
    echo,
    read_from,
    show,
    usage_errors,
    written_to,
)

if TYPE_CHECKING:
    from draftproof.conformance.lanes.audit.log import Audited

_CODES = {"no alarm": 0, "alarm": 1, "inconclusive": 4}


def _number(_: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Return a finite number, refusing nan, which click accepts in every range of floats."""
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number", param=param)
    return value


@click.command()
@click.argument("log", metavar="[LOG.jsonl]", required=False)
@options.defaulted(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=1e-6,
    callback=_number,
    help="Probability of a false alarm, at any time.",
)
@options.defaulted(
    "--tolerance",
    type=click.FloatRange(0, 1, max_open=True),
    default=1e-3,
    callback=_number,
    help="Distance of rows to tolerate.",
)
@click.option("--strip", type=options.NEW_FILE, help="File for the log without tokens and rows.")
@click.option("--plan", is_flag=True, help="Print how many tokens an audit needs.")
@options.defaulted(
    "--vocabulary",
    type=click.IntRange(min=2),
    default=32_000,
    help="Vocabulary for --plan without a log.",
)
@click.option(
    "--rate",
    type=click.FloatRange(1e-6, 1e12),
    callback=_number,
    help="Tokens per second, for --plan.",
)
@as_json
def audit(
    log: str | None,
    alpha: float,
    tolerance: float,
    strip: Path | None,
    plan: bool,
    vocabulary: int,
    rate: float | None,
    as_json: bool,
) -> None:
    """Judge a server by a log of its tokens and of the target's rows.

    Use it for a server whose model you cannot replace; for any other, `draftproof engine` shows
    more. LOG has one line of JSON per token ("-" reads standard input):

    {"token": 3, "top": {"3": -0.4, "1": -1.6}, "rest": 0.1, "favourite": 1}
    """
    if plan:
        if strip is not None:
            raise click.UsageError("--strip cannot be combined with --plan")
        _plan(log, alpha=alpha, tolerance=tolerance, vocabulary=vocabulary, rate=rate, json=as_json)
        return
    if log is None:
        raise click.UsageError('name a LOG.jsonl ("-" for standard input), or use --plan')
    if rate is not None:
        raise click.UsageError("--rate needs --plan")
    from draftproof.conformance.report.audit import print_audit
    from draftproof.conformance.run.audit import audit as audited

    with _read(log) as tokens, _stripping(tokens, strip) as kept:
        document = audited(kept, alpha=alpha, tolerance=tolerance)
    if not document["groups"]:
        raise click.UsageError(f"{log} has no tokens")
    show(document, "audit", print_audit, as_json=as_json)
    if strip is not None:
        echo(f"{strip}: the log without tokens and rows", err=True)
    sys.exit(_CODES[document["verdict"]])


@contextmanager
def _read(log: str) -> Iterator[Iterator[Audited]]:
    """Open a log. An unreadable log is a usage error."""
    from draftproof.conformance.lanes.audit.log import UnreadableLog, read_log

    with ExitStack() as stack:
        stack.enter_context(read_from(log))
        stack.enter_context(usage_errors(UnreadableLog))
        file: BinaryIO
        if log == "-":
            if sys.stdin is None:
                raise click.UsageError("cannot read '-': standard input is closed")
            file = sys.stdin.buffer
        else:
            file = stack.enter_context(Path(log).open("rb"))
        yield read_log(file, log, told=lambda text: echo(text, err=True))


@contextmanager
def _stripping(tokens: Iterator[Audited], path: Path | None) -> Iterator[Iterator[Audited]]:
    """Write each token's events, as they are read, to a new file."""
    if path is None:
        yield tokens
        return
    if str(path) == "-":
        raise click.UsageError("--strip writes a file: name one")
    # What was begun is not taken for a whole log.
    part = path.with_name(f"{path.name}.part")
    with ExitStack() as stack:
        with written_to(path):
            if path.exists():
                raise FileExistsError(EEXIST, os.strerror(EEXIST))
            file = stack.enter_context(part.open("w", encoding="utf-8"))

        def written() -> Iterator[Audited]:
            for each in tokens:
                with written_to(path):
                    file.write(f"{each.line()}\n")
                yield each

        yield written()
        with written_to(path):
            file.close()
            part.replace(path)


def _plan(
    log: str | None,
    *,
    alpha: float,
    tolerance: float,
    vocabulary: int,
    rate: float | None,
    json: bool,
) -> None:
    """Print how many tokens an audit needs, for the rows of a log or for random ones."""
    from itertools import islice
    from math import log as logarithm

    import numpy

    from draftproof.conformance.lanes.audit.plan import planned, random_rows
    from draftproof.conformance.report.audit import print_plan

    if log is None:
        draft, target = random_rows(vocabulary).T
        rows = f"random, over {vocabulary:,} tokens"
    else:
        with _read(log) as tokens:
            found = [each.chances[:2] for each in islice(tokens, _ENOUGH)]
        if not found:
            raise click.UsageError(f"{log} has no tokens")
        draft, target = numpy.array(found).T
        rows = f"the first {len(found):,} of {log}"
    table = planned(draft, target, -logarithm(alpha), epsilon=tolerance)
    document: dict[str, Any] = {
        "rows": rows,
        "alpha": alpha,
        "tolerance": tolerance,
        "rate": rate,
        "biases": [
            {
                "bias": bias,
                **{
                    name: int(tokens) if isfinite(tokens) else None
                    for name, tokens in needed.items()
                },
            }
            for bias, needed in table
        ],
    }
    show(document, "audit-plan", print_plan, as_json=json)


_ENOUGH = 10_000
"""Number of rows of a log that a plan reads."""
