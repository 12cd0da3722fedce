"""The certificates of the fast verifiers, in mode certify, beside this file.

    python adapters/certificates/fast.py [--list] [--jobs N] [NAME...]

judges every verifier again whose certificate is not current, as far as the store does not know it:
a minute for an operator's form, several for an interpreted kernel's. Certificates beside this file
are slim; the whole ones and their evidence go to the folder `evidence`, which git does not keep and
a release has. The list of the certificates, README.md, is written anew; `--list` does nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click
from certificates.listing import EVIDENCE, FOLDER, NAMES, README, present, readme

from draftproof.conformance.cli import cli as draftproof
from draftproof.conformance.evidence.certificate import checked, gravest, statement, write
from draftproof.conformance.evidence.records import EvidenceError, read_finished
from draftproof.conformance.run.staleness import standing


def lacking(name: str) -> str | None:
    """Return what a certificate lacks to be current, None if nothing."""
    try:
        document, _ = checked(FOLDER / f"{name}.json")
    except EvidenceError as error:
        return str(error)
    return standing(document, name).reason


def slim(name: str) -> None:
    """Write the slim certificate that follows from the evidence of a whole one."""
    path = EVIDENCE / f"{name}.jsonl"
    evidence, digest = read_finished(path)
    document = statement(evidence.records, evidence=path.name, digest=digest, is_slim=True)
    write(document, FOLDER / f"{name}.json")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="NAME...")
@click.option("--list", "is_listing", is_flag=True, help="Write README.md, judge nothing.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True)
def main(names: Sequence[str], *, is_listing: bool, jobs: int) -> None:
    """Certify every fast verifier, or those named, unless its certificate is current."""
    # Triton decides when a kernel is defined. TRITON_INTERPRET=0 certifies on a GPU that is there.
    os.environ.setdefault("TRITON_INTERPRET", "1")
    codes = []
    for name in () if is_listing else names or NAMES:
        reason = lacking(name)
        click.echo(f"{name}: {reason or 'its certificate is current'}")
        if reason is not None:
            codes.append(_certify(name, jobs))
            _list()
    if not codes:
        _list()
    sys.exit(gravest(codes))


def _list() -> None:
    """Write the list of the certificates that there are."""
    README.write_text(readme(present()), encoding="utf-8")


def _certify(name: str, jobs: int) -> int:
    options = ["--mode", "certify", "--jobs", str(jobs), "--output", str(EVIDENCE)]
    try:
        draftproof(["certify", name, *options], standalone_mode=False)
    except SystemExit as end:
        if code := int(end.code or 0):
            return code
    slim(name)
    return 0


if __name__ == "__main__":
    main()
