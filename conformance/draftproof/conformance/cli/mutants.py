"""Command that tests the suite itself on known faults: `mutants` prints the kill matrix."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import randbits
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import (
    as_json,
    echo,
    read_json,
    show,
    stop,
    usage_errors,
    written_to,
)
from draftproof.conformance.evidence.whole_file import write_whole
from draftproof.conformance.report.words import recorded_kill_matrix, trial
from draftproof.reference.extras import installation
from draftproof.spec import MalformedDocument, validate


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--run", "is_run", is_flag=True, help="Judge all again, in about ten minutes.")
@click.option("--gated", is_flag=True, help="Judge every fault behind every gate.")
@options.lanes(help="Lanes, each used alone. [default: exact]")
@options.mode(help="Cases to judge.")
@options.seed
@options.jobs(help="Number of processes.")
@click.option("--record", type=options.FILE, help="Update this record, keeping its settings.")
@as_json
@click.pass_context
def mutants(
    context: click.Context,
    ids: tuple[str, ...],
    is_run: bool,
    gated: bool,
    lanes: tuple[str, ...],
    mode: str,
    seed: int | None,
    jobs: int,
    record: Path | None,
    as_json: bool,
) -> None:
    """Print verifiers with one known fault each, most of them seen in real engines.

    Prints the requirement, lane and case that catch each mutant; controls are correct and must
    pass. Without an argument, it prints the record of this version. IDs, --run and the options of
    judging judge them now; --gated judges faults that act only behind a gate, such as a length or
    a layout. --record updates a record, which is the output of --json.
    """
    given = {
        name
        for name in ("lanes", "mode", "seed", "jobs")
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    if record is None and not (ids or is_run or gated or given):
        _show_record(as_json=as_json)
        return
    if record is not None:
        if given - {"jobs"}:
            raise click.UsageError(
                "--record sets the lanes, mode and seed: leave out --lane, --mode and --seed"
            )
        known = read_json(str(record))
        with usage_errors(MalformedDocument):
            validate(known, "mutants")
        lanes, mode, seed = tuple(known["lanes"]), known["mode"], known["seed"]
    try:
        from draftproof.conformance.museum.kill_matrix import kill_matrix
        from draftproof.conformance.museum.mutants import EXHIBITS
        from draftproof.conformance.museum.mutants.gates import GATED
        from draftproof.conformance.report import terminal
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        stop(f"mutants needs PyTorch: {installation('torch')}", 3)
    known_ids = {**EXHIBITS, **GATED}
    for name in ids:
        if name not in known_ids:
            raise click.UsageError(f"there is no mutant or control {name!r}")
    asked = tuple(dict.fromkeys(lanes)) or ("exact",)
    seed = randbits(48) if seed is None else seed
    rows = kill_matrix(
        [known_ids[name] for name in dict.fromkeys(ids) or (GATED if gated else EXHIBITS)],
        lanes=asked,
        mode=mode,
        seed=seed,
        jobs=jobs,
        progress=terminal.shown_progress,
    )
    document: dict[str, Any] = {
        "mode": mode,
        "lanes": list(asked),
        "seed": seed,
        "exhibits": [_document(row) for row in rows],
    }
    if record is not None:
        with written_to(record):
            write_whole(_with_rows(known, document["exhibits"], [*known_ids]), record)
    printed = _print_gates if gated and not ids else partial(_print, in_full=bool(ids))
    show(document, "mutants", printed, as_json=as_json)
    sys.exit(0 if all(row.caught for row in rows) else 1)


def _show_record(*, as_json: bool) -> None:
    """Print the kill matrix that ships with this version."""
    show(recorded_kill_matrix(), "mutants", partial(_print, in_full=False), as_json=as_json)
    if not as_json:
        echo("Recorded for this version. `draftproof mutants --run` judges all of them again.")


def _with_rows(record: Mapping[str, Any], rows: Sequence[Any], ids: Sequence[str]) -> str:
    """Return a record with its rows replaced by these, one per line, in the order of `ids`."""
    found = {each["id"]: each for each in (*record["exhibits"], *rows)}
    lines = (json.dumps(found[name], separators=(",", ":")) for name in ids if name in found)
    head = json.dumps({**record, "exhibits": []}, separators=(",", ":")).removesuffix("]}")
    return f"{head}\n" + ",\n".join(lines) + "\n]}\n"


def _document(row: Any) -> dict[str, Any]:
    from draftproof.conformance.museum.mutants import Mutant

    exhibit = row.exhibit
    return {
        "id": exhibit.id,
        "kind": "mutant" if isinstance(exhibit, Mutant) else "control",
        "what": exhibit.what,
        "why": exhibit.why,
        "source": list(exhibit.source),
        "must_fail": list(exhibit.must_fail),
        "as_it_must": row.caught,
        "cells": [
            {
                "requirement": cell.requirement,
                "lane": cell.lane,
                "verdict": cell.verdict,
                "case": cell.finding.case,
                "distance": _float(cell.finding.distance),
                "allowed": _float(cell.finding.allowed),
                "cases": cell.cases,
                "detail": cell.finding.detail,
            }
            for cell in row.cells
        ],
    }


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


# --- the terminal --------------------------------------------------------------------------

_KILLED, _SURVIVED = "killed", "survived"

# Below this many columns the sources are left out.
_NARROW = 120


def _print(out: Console, document: Mapping[str, Any], *, in_full: bool) -> None:
    """Print a table of mutants and one of controls; `in_full`, each in words instead."""
    from draftproof.conformance.report.terminal import ruled

    shown = document["exhibits"]
    if in_full:
        for exhibit in shown:
            _print_in_full(out, exhibit)
    else:
        for kind, columns in (
            ("mutant", ("mutant", "breaks", "killed by")),
            ("control", ("control", "must fail", "fails")),
        ):
            table = ruled(out, *columns, *(("source",) if out.width >= _NARROW else ()))
            for exhibit in (each for each in shown if each["kind"] == kind):
                cells = [_name(exhibit), ", ".join(exhibit["must_fail"]) or "nothing"]
                cells.append("\n".join(_killed(exhibit)))
                table.add_row(*cells, *([_source(exhibit)] if out.width >= _NARROW else []))
            if table.row_count:
                out.print(table)
    _print_trial(out, document)


def _print_gates(out: Console, document: Mapping[str, Any]) -> None:
    """Print a table of the faults behind gates, with the fate of each."""
    from draftproof.conformance.report.terminal import ruled

    fates: dict[str, dict[str, str]] = {}
    for exhibit in document["exhibits"]:
        fault, gate = exhibit["id"].split("-behind-")
        fates.setdefault(f"{gate}\n[dim]{exhibit['must_fail'][0]}[/]", {})[fault] = _fate(exhibit)
    table = ruled(out, "gate", *dict.fromkeys(fault for row in fates.values() for fault in row))
    for gate, row in fates.items():
        table.add_row(gate, *row.values())
    out.print(table)
    _print_trial(out, document)


def _fate(exhibit: Mapping[str, Any]) -> str:
    """Return the verdict of the requirement that a mutant breaks, on the lane that decides."""
    if exhibit["as_it_must"]:
        return "[green]killed[/]"
    (must,) = exhibit["must_fail"]
    verdicts = [cell["verdict"] for cell in exhibit["cells"] if cell["requirement"] == must]
    verdict = next((each for each in verdicts if each != "blind"), "blind")
    return f"[{'yellow' if verdict == 'blind' else 'bold red'}]{verdict}[/]"


def _print_trial(out: Console, document: Mapping[str, Any]) -> None:
    tried, wrong = trial(document)
    missed = f"[bold red]wrong results: {', '.join(wrong)}[/]"
    out.print(f"{tried}: {missed if wrong else '[green]all as required[/]'}")


def _print_in_full(out: Console, exhibit: Mapping[str, Any]) -> None:
    out.print(f"{_name(exhibit)}: {escape(exhibit['what'])}")
    out.print(f"  {escape(exhibit['why'])}")
    for source in exhibit["source"]:
        out.print(f"  {escape(source)}", soft_wrap=True)
    must = ", ".join(exhibit["must_fail"]) or "nothing"
    out.print(f"  {'breaks' if exhibit['kind'] == 'mutant' else 'must fail'}: {must}")
    for cell in exhibit["cells"]:
        reason = f"; {escape(cell['detail'])}" if cell["detail"] else ""
        out.print(f"  {_cell(cell)}{reason}")


def _name(exhibit: Mapping[str, Any]) -> str:
    name = str(exhibit["id"])
    return name if exhibit["as_it_must"] else f"[bold red]{name}[/]"


def _source(exhibit: Mapping[str, Any]) -> str:
    first, *others = (source.removeprefix("https://") for source in exhibit["source"])
    return escape(first) + (f" and {len(others)} more" if others else "")


def _killed(exhibit: Mapping[str, Any]) -> list[str]:
    """Return the cells that killed an exhibit, and those that should have and did not."""
    must = exhibit["must_fail"]
    return [
        _cell(cell)
        for cell in exhibit["cells"]
        if cell["requirement"] in must or (not must and cell["verdict"] == _KILLED)
    ] or ["[green]nothing[/]" if exhibit["kind"] == "control" else "[bold red]not judged[/]"]


def _cell(cell: Mapping[str, Any]) -> str:
    where = f"{cell['lane']} {cell['case']}"
    if cell["verdict"] == _KILLED:
        measured = "" if cell["distance"] is None else f" by {cell['distance']:.2g}"
        return f"{cell['requirement']} on {where}{measured}"
    style = "bold red" if cell["verdict"] == _SURVIVED else "yellow"
    return f"[{style}]{cell['requirement']} {cell['verdict']}[/] on {where}"
