"""Command that explains a failed certificate and writes a script to reproduce it: `explain`."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import as_json, read_certificate, show, stop, written_to
from draftproof.conformance.evidence.whole_file import write_output
from draftproof.conformance.report.reproduction import (
    BrokenCounterexample,
    NotReproducible,
    asked_rows,
    raised_share,
    script,
)
from draftproof.conformance.report.words import worst_first


@click.command()
@click.argument("certificate", metavar="CERTIFICATE.json")
@click.option(
    "--script", "output", type=options.NEW_FILE, help="Write a script that reproduces the failure."
)
@click.option("--traceback", is_flag=True, help="Run the script and show its traceback.")
@as_json
def explain(certificate: str, output: Path | None, traceback: bool, as_json: bool) -> None:
    """Explain a failed certificate ("-" reads standard input).

    Prints the likely cause, the smallest counterexample with its probabilities, the failed
    requirements, and a script that reproduces it with only torch and the adapter.
    """
    found = _read(certificate)
    document = _explanation(found, certificate)
    if output is not None:
        _write(document, output)
    if traceback:
        _trace(document)
    from draftproof.conformance.report.explanation import print_explanation

    show(document, "explain", print_explanation, as_json=as_json)


def _read(file: str) -> Mapping[str, Any]:
    """Read a certificate and check that its counterexample is consistent."""
    found: Mapping[str, Any] = read_certificate(file)["predicate"]["draftproof"]
    try:
        if found["counterexample"] is not None:
            asked_rows(found["counterexample"])
    except BrokenCounterexample as error:
        stop(f"malformed evidence: {file}: {error}", 5)
    return found


def _explanation(found: Mapping[str, Any], file: str) -> dict[str, Any]:
    place = _from_anywhere(found["adapter"]["place"], file)
    found = {**found, "adapter": {**found["adapter"], "place": place}}
    adapter, shown = found["adapter"], found["counterexample"]
    title = f"by draftproof explain {Path(file).name}"
    try:
        if shown is not None:
            title = f"{adapter['name']}: {shown['requirement']} fails; written {title}"
        text, reason = script(found, title), ""
    except NotReproducible as error:
        text, reason = None, str(error)
    if shown is None and found["verdict"] == "does not conform":
        reason = _without_counterexample(found)
    return {
        "adapter": f"{adapter['name']} {adapter['version']}",
        "verdict": found["verdict"],
        "failures": [
            {
                **{name: each[name] for name in ("id", "level", "verdict")},
                **{name: each["worst"][name] for name in ("case", "detail")},
            }
            for each in worst_first(found["requirements"])
            if each["verdict"] not in ("pass", "skipped")
        ],
        "likeness": found.get("likeness"),
        "counterexample": shown,
        "script": text,
        "reason": reason,
    }


def _trace(document: Mapping[str, Any]) -> None:
    """Run the script of a counterexample that raises an error, which prints its traceback."""
    shown = document["counterexample"]
    if document["script"] is None or not raised_share(shown):
        reason = document["reason"] or "the counterexample raises no error"
        raise click.UsageError(f"no traceback to show: {reason}")
    # Where the program is, and what it imports, is found from here, as it was by `certify`.
    command = [sys.executable, "-c", document["script"]]
    subprocess.run(command, stdout=sys.stderr.fileno(), check=False)  # noqa: S603  # as asked


def _from_anywhere(place: str, certificate: str) -> str:
    """Return the place of an adapter with an absolute path, if its file is found.

    The search covers the current folder, the certificate's folder and the folders above it: all up
    to the root of its repository, or one if it is in none.
    """
    name, _, attribute = place.rpartition(":")
    if not name.endswith(".py"):
        return place
    beside = [] if certificate == "-" else [*Path(certificate).resolve().parents]
    root = next((depth for depth, folder in enumerate(beside) if (folder / ".git").exists()), 1)
    for folder in (Path.cwd(), *beside[: root + 1]):
        if (file := folder / name).is_file():
            return f"{file.resolve()}:{attribute}"
    return place


def _without_counterexample(found: Mapping[str, Any]) -> str:
    """Return why a failed certificate has no counterexample, and the command to run."""
    # A SHOULD that is missed is not why it does not conform.
    failed = next(each for each in worst_first(found["requirements"]) if each["verdict"] == "fail")
    place = found["adapter"]["place"]
    if "://" in place:
        return (
            f"the certificate has no counterexample: a server is judged by its tokens, not by its "
            f"calls. {failed['id']} fails on {failed['worst']['case']}: {failed['worst']['detail']}"
        )
    again = ["draftproof", "certify", place, "--mode", found["mode"]]
    if found["mode"] != "certify":
        again += ["--case", failed["worst"]["case"]]
    return (
        f"the certificate has no counterexample: Draftproof reduces only failures of single calls "
        f"and of batches, on the exact or the probe lane. {failed['id']} fails on case "
        f"{failed['worst']['case']}; to judge this case again, run: {shlex.join(again)}"
    )


def _write(document: Mapping[str, Any], output: Path) -> None:
    if document["script"] is None:
        raise click.UsageError(f"no script to write: {document['reason']}")
    with written_to(output):
        write_output(document["script"], output)
