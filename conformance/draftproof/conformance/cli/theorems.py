"""Commands for theorems about all p and q of a shape, and for the ledger: `prove`, `claims`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import (
    as_json,
    echo,
    errors_of,
    line_of,
    print_json,
    read_json,
    show,
    stop,
    usage_errors,
    written_to,
)
from draftproof.conformance.evidence.whole_file import write_output
from draftproof.conformance.protocol.loading import load_algorithm
from draftproof.reference import proof
from draftproof.reference.drafting import SCHEMES
from draftproof.reference.errors import InvalidInput
from draftproof.reference.ledger import (
    CLAIMS,
    Claim,
    ClaimFailed,
    check,
    claim_named,
    claim_to_json,
)
from draftproof.reference.model import Instance, instance_to_json
from draftproof.reference.proof import NotAProof, Refutation, Theorem, Unproven
from draftproof.reference.verifiers import ALGORITHMS, emission_law
from draftproof.spec import MalformedDocument, validate


@click.command()
@click.argument("algorithm", required=False)
@click.option("--vocabulary", type=click.IntRange(min=1), help="Vocabulary size V.")
@click.option("--length", type=click.IntRange(min=1), help="Draft length L.")
@options.defaulted("--drafts", type=click.IntRange(min=1), default=1, help="Number of drafts K.")
@options.defaulted("--scheme", type=click.Choice(tuple(SCHEMES)), default="iid")
@options.defaulted("--claim", default="lossless", help="Claim to prove; they are listed above.")
@click.option("--output", type=click.Path(path_type=Path), help="File for the proof's record.")
@click.option("--check", "checked", metavar="FILE", help="Check the record of a proof instead.")
@as_json
def prove(
    algorithm: str | None,
    output: Path | None,
    checked: str | None,
    as_json: bool,
    **shape: Any,
) -> None:
    r"""Prove a claim about ALGORITHM for all p and q of a shape, or refute it.

    ALGORITHM is a name from `draftproof list algorithms`, or a function at ./file.py:function.
    Draftproof runs it on symbols: every comparison splits the space of all p and q into cells, and
    in each cell the claim is an identity of polynomials.

    \b
    The claims, about the algorithm:
      lossless               its output has the target's distribution
      lossless_twice         so has that of two iterations
      at_least_token         it accepts at least as much as token verification
      optimal                for L = 1: no stateless verifier accepts more
      lossless_at_every_rho  for L = 1 and k_seq: lossless for every factor
      at_most_k_seq          for L = 1: it accepts at most as much as k_seq

    Exit codes: 0 proved, 1 refuted, 3 the function failed, 4 neither.
    """
    if checked is not None:
        if algorithm is not None:
            raise click.UsageError("--check cannot be combined with an ALGORITHM")
        _check_record(checked, as_json=as_json)
    elif algorithm is None or shape["vocabulary"] is None or shape["length"] is None:
        raise click.UsageError("give an ALGORITHM, --vocabulary and --length; or --check FILE")
    else:
        if output is not None and algorithm not in ALGORITHMS and ":" in algorithm:
            raise click.UsageError(
                "a record names an algorithm of `draftproof list algorithms`; prove your own "
                "function without --output"
            )
        found = _found(algorithm, **shape)
        if isinstance(found, Refutation):
            _print_refutation(found, algorithm, as_json=as_json)
        _print_theorem(found, output, as_json=as_json)


def _found(algorithm: str, **shape: Any) -> Theorem | Refutation:
    """Prove or refute; print any other outcome and exit."""
    from draftproof.conformance.report import terminal

    with errors_of(algorithm), terminal.shown_status(f"proving {algorithm}") as tell:
        try:
            return proof.prove(
                load_algorithm(algorithm),
                watch=lambda steps: tell(f"{steps:,} steps"),
                **shape,
            )
        except Unproven as error:
            echo(f"Neither proved nor refuted: {shorten(str(error), 600)}", err=True)
            sys.exit(4)


def _print_refutation(found: Refutation, algorithm: str, *, as_json: bool) -> NoReturn:
    line = _failing_line(algorithm, found.instance) if found.reason else ""
    echo(f"Refuted: {found}{line}", err=True)
    instance = instance_to_json(found.instance)
    if as_json:
        print_json(instance, "instance")
    else:
        echo(f"counterexample: {json.dumps(instance)}")
    sys.exit(1)


def _failing_line(algorithm: str, instance: Instance) -> str:
    """Return the line of the user's own file that fails on an instance, or ''."""
    try:
        emission_law(load_algorithm(algorithm), instance)
    except Exception as error:
        return line_of(error)
    return ""


def _print_theorem(theorem: Theorem, output: Path | None, *, as_json: bool) -> None:
    if not as_json:
        echo(f"Proved: {theorem}")
    if not as_json and output is None:
        return
    with usage_errors(InvalidInput):
        document = proof.record(theorem)
    validate(document, "proof")
    if as_json:
        print_json(document, None, indent=None)
    if output is not None:
        with written_to(output):
            write_output(json.dumps(document) + "\n", output)


def _check_record(file: str, *, as_json: bool) -> None:
    document = read_json(file)
    try:
        validate(document, "proof")
        theorem = proof.check(document)
    except (MalformedDocument, NotAProof) as error:
        stop(f"{file} is not a proof: {error}", 5)
    if as_json:
        print_json({"theorem": str(theorem)}, None)
    else:
        echo(f"Checked: {theorem}")


@click.command()
@click.argument("ids", nargs=-1, metavar="[CLAIM]...")
@click.option("--check", "derive", is_flag=True, help="Derive the claims again, and compare.")
@as_json
def claims(ids: tuple[str, ...], derive: bool, as_json: bool) -> None:
    """Print the ledger of claims about verification, each with the kind of its evidence.

    With CLAIMs, print only these. A claim is mechanised (Coq has checked its theorems), proved for
    a shape (for all p and q of one V, L and K), argued (in prose), holds (on the instances that
    were examined) or refuted. No claim is stronger than the claims it rests on.
    """
    from draftproof.conformance.report import terminal

    with usage_errors(InvalidInput):
        chosen = [claim_named(name) for name in ids] or list(CLAIMS.values())
    documents = [claim_to_json(claim) for claim in chosen]
    if derive:
        pairs = list(zip(chosen, documents, strict=True))
        for claim, document in terminal.shown_progress(pairs, len(pairs), "claims"):
            document |= _derived_again(claim)
    show({"claims": documents}, "claims", terminal.print_claims, as_json=as_json)
    if any(document.get("failure") for document in documents):
        sys.exit(1)


def _derived_again(claim: Claim) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        check(claim)
        failure = None
    except ClaimFailed as error:
        failure = str(error)
    return {"seconds": round(time.perf_counter() - started, 3), "failure": failure}
