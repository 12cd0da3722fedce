"""Command that writes a model with a known distribution: `checkpoint`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import as_json, echo, print_json, stop
from draftproof.reference.errors import InvalidInput
from draftproof.reference.rational import Rational, rational

KINDS = ("memory-1", "memory-2", "memory-3", "heads")
DTYPES = ("float32", "bfloat16")


def _rational(_: click.Context, param: click.Parameter, value: Any) -> Rational:
    """Return the value of an option as a rational. Any other value is a usage error."""
    try:
        return rational(value)
    except InvalidInput as error:
        raise click.BadParameter(str(error), param=param) from None


@click.command()
@click.argument("out", type=options.FOLDER)
@options.defaulted(
    "--kind",
    type=click.Choice(KINDS),
    default="memory-1",
    help="Tokens of memory; heads adds draft heads.",
)
@options.defaulted("--vocabulary", type=int, default=16, help="Number of tokens.")
@options.defaulted(
    "--distance", type=float, default=0.25, help="Distance of the draft from the target."
)
@options.defaulted("--zeros", type=int, default=2, help="Tokens of probability zero, per row.")
@options.defaulted(
    "--temperature",
    callback=_rational,
    default="1",
    metavar="RATIONAL",
    help="Temperature at which engines sample.",
)
@options.defaulted(
    "--dtype", type=click.Choice(DTYPES), default="float32", help="Dtype of the weights."
)
@options.defaulted("--seed", type=click.IntRange(min=0), default=0, help="Seed of the rows.")
@as_json
def checkpoint(out: Path, as_json: bool, **settings: Any) -> None:
    """Write a model with a known distribution to OUT, to judge an engine.

    Engines that load Hugging Face folders read OUT/target and OUT/draft, llama.cpp reads
    OUT/target.gguf and OUT/draft.gguf, and `draftproof engine` reads OUT/rows.json.
    """
    from draftproof.conformance.checkpoint.chain import InvalidChain
    from draftproof.conformance.checkpoint.writing import (
        CheckpointUnavailable,
        OccupiedFolder,
        WrongCheckpoint,
        write_checkpoint,
    )

    try:
        rows = write_checkpoint(out, told=lambda told: echo(told, err=as_json), **settings)
    except InvalidChain as error:
        raise click.UsageError(str(error)) from None
    except OccupiedFolder as error:
        raise click.UsageError(f"{error}; name a new folder") from None
    except CheckpointUnavailable as error:
        raise click.UsageError(str(error)) from None
    except WrongCheckpoint as error:
        stop(str(error), 3)
    except OSError as error:
        raise click.UsageError(f"cannot write {str(out)!r}: {error.strerror}") from None
    files = sorted(each.relative_to(out).as_posix() for each in out.iterdir())
    if as_json:
        document = {
            "folder": str(out),
            "files": files,
            "kind": rows.kind,
            "vocabulary": rows.vocabulary,
            "bounds": dict(rows.bounds),
        }
        print_json(document, "checkpoint")
        return
    echo(f"{out}: {', '.join(files)}")
    echo(f"A correct engine is within {rows.bound:.1e} of these rows. Serve {out / 'target'}")
    echo("with speculation on port 8000, without it on port 8001, and run")
    echo("  draftproof engine --url http://127.0.0.1:8000 --control-url http://127.0.0.1:8001 \\")
    echo(f"    --rows {out / 'rows.json'}")
