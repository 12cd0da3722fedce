"""Options and arguments that commands share; each command supplies the help text."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from draftproof.conformance.protocol.modes import MODES
from draftproof.conformance.report import FORMATS

LANES = ("exact", "probe", "sample")

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""Type of a file to read."""

NEW_FILE = click.Path(dir_okay=False, path_type=Path)
"""Type of a file to write, or of one that may be missing."""

FOLDER = click.Path(file_okay=False, path_type=Path)


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
