"""The certificates of the fast verifiers, in mode certify, beside this file.

    python adapters/certificates/fast.py [--jobs N] [NAME...]

judges every verifier again whose certificate is not of its present sources, by the present suite:
minutes for an operator's form, up to an hour for an interpreted kernel's. A run that was stopped
goes on where it was. `draftproof check-certificate --rerun` repeats one that is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from draftproof.adapters.fast import FORMS, TEXTS
from draftproof.conformance.adapter import declaration
from draftproof.conformance.certificate import checked, gravest
from draftproof.conformance.cli import cli as draftproof
from draftproof.conformance.identity import subject, suite
from draftproof.conformance.loading import load_adapter

FOLDER = Path(__file__).parent
NAMES = tuple(f"{form}-{text.replace('_', '-')}" for form in FORMS for text in TEXTS)


def lacking(name: str) -> str | None:
    """Return what a certificate lacks to be current, None if nothing.

    Raises `EvidenceError` for one that is not as it was written.
    """
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return "there is none"
    _, evidence = checked(path)
    adapter = load_adapter(name)
    if evidence.header["subject"] != subject(adapter, declaration(adapter)):
        return "the verifier has changed"
    if evidence.header["suite"] != suite():
        return "the suite has changed"
    return None


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="NAME...")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True)
def main(names: Sequence[str], *, jobs: int) -> None:
    """Certify every fast verifier, or those named, unless its certificate is current."""
    # Triton decides when a kernel is defined. TRITON_INTERPRET=0 certifies on a GPU that is there.
    os.environ.setdefault("TRITON_INTERPRET", "1")
    codes = []
    for name in names or NAMES:
        reason = lacking(name)
        click.echo(f"{name}: {reason or 'its certificate is current'}")
        if reason is not None:
            codes.append(_certify(name, jobs))
    sys.exit(gravest(codes))


def _certify(name: str, jobs: int) -> int:
    options = ["--mode", "certify", "--jobs", str(jobs), "--output", str(FOLDER)]
    if (FOLDER / f"{name}.jsonl.part").exists():
        options.append("--resume")
    try:
        draftproof(["certify", name, *options], standalone_mode=False)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    main()
