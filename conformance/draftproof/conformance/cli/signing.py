"""Command that signs certificates: `sign`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import echo, stop, usage_errors, written_to
from draftproof.conformance.evidence.whole_file import write_output


@click.command()
@options.certificate_files
@click.option(
    "--key", required=True, type=options.FILE, help="PEM file with an Ed25519 private key."
)
def sign(certificates: tuple[Path, ...], key: Path) -> None:
    """Sign certificates; write each to a DSSE envelope beside it, NAME.dsse.json.

    A signature identifies the judge: a workflow that alone has the private key. `openssl genpkey
    -algorithm ed25519` makes a key; `draftproof check-certificate NAME.dsse.json --key PUBLIC.pem`
    checks the signature.
    """
    from draftproof.conformance.evidence.certificate import parsed_certificate
    from draftproof.conformance.evidence.envelope import InvalidKey, signed
    from draftproof.conformance.evidence.records import EvidenceError, bytes_of

    for path in certificates:
        try:
            content = bytes_of(path)
            parsed_certificate(content, str(path))
            with usage_errors(InvalidKey):
                envelope = signed(content, key)
        except EvidenceError as error:
            stop(f"{type(error).__name__}: {error}", 5)
        place = path.with_suffix(".dsse.json")
        with written_to(place):
            write_output(json.dumps(envelope, indent=2) + "\n", place)
        echo(f"{place}: signed by key {envelope['signatures'][0]['keyid'][:16]}")
