"""Options and arguments that commands share; each command supplies the help text."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from draftproof.conformance.protocol.modes import MODES
from draftproof.conformance.report import FORMATS

LANES = ("exact", "probe", "sample")

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""Type of a file to read."""

NEW_FILE = click.Path(dir_okay=False, path_type=Path)
"""Type of a file to write, or of one that may be missing."""

FOLDER = click.Path(file_okay=False, path_type=Path)


def importing(context: click.Context, __: click.Parameter, value: Any) -> Any:
    """Let adapters at ./file.py:attribute import the modules beside them, while the command runs.

    Their folders come last on the path: a module beside an adapter replaces no installed one.
    """
    for name in value if isinstance(value, tuple) else (value,):
        file, _colon, attribute = (name or "").rpartition(":")
        folder = str(Path(file).resolve().parent)
        if attribute and file.endswith(".py") and folder not in sys.path:
            sys.path.append(folder)
            context.call_on_close(partial(sys.path.remove, folder))
    return value


certificate_files = click.argument(
    "certificates", nargs=-1, required=True, metavar="CERTIFICATE.json...", type=FILE
)

defaulted = partial(click.option, show_default=True)
"""Option whose help shows its default."""

mode = partial(defaulted, "--mode", type=click.Choice(MODES), default="standard")
lanes = partial(click.option, "--lane", "lanes", multiple=True, type=click.Choice(LANES))
form = partial(defaulted, "--format", "form", type=click.Choice(FORMATS), default="terminal")
output_folder = partial(defaulted, "--output", type=FOLDER)
verbose = click.option("-v", "--verbose", is_flag=True, help="Print a row for every requirement.")
jobs = partial(defaulted, "--jobs", type=click.IntRange(min=1), default=1)
seed = click.option(
    "--seed", type=click.IntRange(min=0), help="Seed for sampled tests. [default: random]"
)
