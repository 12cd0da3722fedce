"""The conformance matrix: what the world's verifiers were seen to do, version by version.

A row is a version of an implementation, for one algorithm. Every row is judged by `certify`, like
any adapter, in a process of its own: engines are imported with parts of them left out, and what one
leaves out another may need. What a row says is read off its certificate.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftproof.conformance.evidence.certificate import CONCLUSIONS, read_certificate
from draftproof.conformance.evidence.records import EvidenceError
from draftproof.conformance.requirements.finding import (
    CANNOT_RUN,
    FAIL,
    FAILS_EVERYWHERE,
    PARTIAL,
    PASS,
    UNFETCHED,
)
from draftproof.spec import FileTooLarge, require_small, validate
from draftproof.spec.reading import MOST_DEPTH, MOST_DIGITS

SEED = 0
"""Of what is sampled: a matrix can be made again."""


class InvalidRows(ValueError):
    """A file has no rows that can be judged; the message says what is wrong, and where."""


MOST_TOML = 2**18
"""The most bytes of a file of rows. The one that ships has a 16th of that."""

# Python's reader takes time by the square of the parts of a key.
_LONG_KEY = re.compile(rb"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){16}""")

_MALFORMED, _UNJUDGED = 5, 3
"""What `certify` exits with where there is other evidence already, and where it cannot judge."""

_UNDECIDED = "could not be judged"


@dataclass(frozen=True)
class MatrixRow:
    """An implementation of somebody's, and how it is judged."""

    name: str
    """Its own among the rows: "engine-part@version", say."""
    engine: str
    version: str
    algorithm: str
    adapter: str = ""
    """Where its adapter is, empty if it has none."""
    mode: str = "quick"
    cases: tuple[str, ...] = ()
    """Patterns of the cases that it is asked, as in `Campaign`, none for all of the mode."""
    why: str = ""
    """Why it is not asked the others."""
    lanes: tuple[str, ...] = ()
    """The lanes that may decide, none for all."""
    note: str = ""
    """What stands here for what it would use in its engine."""
    design: str = ""
    """Why it is no fault that it is lossy: it was made so, and says so."""
    cause: str = ""
    """What its fault is, where it has one that is understood."""
    report: str = ""
    """The name of the report of its fault, and of the script that shows it."""
    missing: str = ""
    """Why it cannot be run here at all."""
    unfetched: str = ""
    """Why it cannot be fetched."""


@dataclass(frozen=True)
class JudgedRow:
    """The outcome of a row: its certificate, or the way in which it has none, with the reason."""

    row: MatrixRow
    certificate: Mapping[str, Any] | None = None
    outcome: str = ""
    reason: str = ""


def read_rows(content: bytes, name: str) -> list[MatrixRow]:
    """Return the rows of a TOML file, which follows the schema "rows". Raises `InvalidRows`."""
    if len(content) > MOST_TOML:
        raise InvalidRows(f"{name} has more than {MOST_TOML:,} bytes, the most that are read")
    if _LONG_KEY.search(content):
        raise InvalidRows(f"{name} has a key of more than 16 parts, the most that are read")
    try:
        document = _parsed(content.decode("utf-8"))
        validate(document, "rows")
    except ValueError as error:
        raise InvalidRows(f"{name} has no rows: {error}") from None
    rows = [
        MatrixRow(**{key: _frozen(value) for key, value in each.items()})
        for each in document["row"]
    ]
    twice = sorted(name for name, times in Counter(row.name for row in rows).items() if times > 1)
    if twice:
        raise InvalidRows(f"{name} has more than one row called {', '.join(twice)}")
    return rows


def _parsed(text: str) -> dict[str, Any]:
    """Return the document in TOML. Raises `FileTooLarge` beyond JSON's limits, and `ValueError`."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise FileTooLarge(
            f"it has more than {MOST_DEPTH} lists and tables in each other, the most that are read"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        # Python reads no number of thousands of digits.
        raise FileTooLarge(_LONG_NUMBER) from None
    require_small(document)
    if any(abs(number) >= 10**MOST_DIGITS for number in _integers(document)):
        raise FileTooLarge(_LONG_NUMBER)
    return document


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _integers(each)


_LONG_NUMBER = f"a number of it has more than {MOST_DIGITS} digits, the most that are read"


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def judged(rows: Sequence[MatrixRow], folder: Path, *, jobs: int = 1) -> Iterator[JudgedRow]:
    """Judge rows, `jobs` at a time, and yield what becomes of each as it is done.

    Evidence goes to the folder, and what lies there already is not judged again. Raises `OSError`
    if it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(_judged, row, folder / row.name) for row in rows]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for each in waiting:
                each.cancel()


def _judged(row: MatrixRow, folder: Path) -> JudgedRow:
    if row.missing:
        return JudgedRow(row, outcome=CANNOT_RUN, reason=row.missing)
    if row.unfetched:
        return JudgedRow(row, outcome=UNFETCHED, reason=row.unfetched)
    run = _certified(row, folder, "--resume")
    if run.returncode == _MALFORMED:
        # What lies there is of another version, suite or machine.
        run = _certified(row, folder)
    made = sorted(folder.glob("*.json"))
    if run.returncode in (_UNJUDGED, _MALFORMED) or not made:
        return JudgedRow(row, outcome=_outcome(run), reason=_reason(run.stderr))
    try:
        return JudgedRow(row, read_certificate(made[0]))
    except EvidenceError as error:
        return JudgedRow(row, outcome=_UNDECIDED, reason=str(error))


def _certified(row: MatrixRow, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        *(sys.executable, "-c", "from draftproof.conformance.cli import main; main()"),
        *("certify", "--mode", row.mode, "--seed", str(SEED)),
        *("--output", str(folder), "--json", *options),
        *(f"--case={pattern}" for pattern in row.cases),
        *(f"--lane={lane}" for lane in row.lanes),
        # A name is no option, whatever it begins with.
        *("--", row.adapter),
    ]
    # Rows are judged side by side; kernels are interpreted where there is no GPU for them.
    own = {"OMP_NUM_THREADS": "1", **({} if _has_gpu() else {"TRITON_INTERPRET": "1"})}
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **own})  # noqa: S603  # ours


def _has_gpu() -> bool:
    try:
        import torch
    except ModuleNotFoundError:
        # Without PyTorch every row says what is to be installed.
        return False
    return torch.cuda.is_available()


def _outcome(run: subprocess.CompletedProcess[str]) -> str:
    """Return in which way a row did not run, as `certify` tells; a crash leaves no document."""
    if run.returncode == _MALFORMED:
        return _UNDECIDED
    try:
        errors = json.loads(run.stdout)["errors"]
    except ValueError:
        return CANNOT_RUN
    return str(errors[0]["state"]) if errors else CANNOT_RUN


def _reason(said: str) -> str:
    """Return the last error of what a command said."""
    errors = [line for line in said.splitlines() if line.startswith("Error: ")]
    return (
        errors[-1].removeprefix("Error: ") if errors else said.strip()[-300:] or "it said nothing"
    )


# --- what the matrix says ----------------------------------------------------------------------


PASSES, PASSES_SOME = CONCLUSIONS[PASS], CONCLUSIONS[PARTIAL]
"""The outcome of a row that passes; which cases it was asked stands beside it."""


def line(found: JudgedRow) -> dict[str, Any]:
    """Return a line of the matrix, as its file has it."""
    row = found.row
    told = {name: vars(row)[name] for name in ("name", "engine", "version", "algorithm")}
    told |= {name: vars(row)[name] or None for name in ("note", "design", "cause", "report")}
    if found.certificate is None:
        return {**told, "outcome": found.outcome, "reason": found.reason, "judged": None}
    said = found.certificate["predicate"]["draftproof"]
    return {
        **told,
        "outcome": PASSES if said["verdict"] == PASSES_SOME else said["verdict"],
        "reason": None,
        "judged": {
            "created": said["created"],
            "mode": said["mode"],
            "cases": list(row.cases),
            "why": row.why or None,
            "asked": said.get("asked"),
            "planned": said.get("planned"),
            "suite": found.certificate["predicate"]["configuration"][1]["digest"]["sha256"],
            "subject": found.certificate["subject"][0]["digest"]["sha256"],
            "lengths": _lengths(said),
            "requirements": [_requirement(each) for each in said["requirements"]],
            "counterexample": said["counterexample"],
        },
    }


def _requirement(decision: Mapping[str, Any]) -> dict[str, Any]:
    worst = decision["worst"]
    lanes = {each["lane"] for each in decision["findings"] if each["verdict"] in (PASS, FAIL)}
    return {
        **{name: decision[name] for name in ("id", "level", "verdict")},
        "lanes": sorted(lane for lane in lanes if lane),
        **{name: worst[name] for name in ("distance", "allowed", "case", "detail")},
    }


def _lengths(said: Mapping[str, Any]) -> dict[str, float] | None:
    """Return E[accepted length] as observed, and its optimum, each on average over the cases."""
    seen = [
        finding["lengths"]
        for decision in said["requirements"]
        if decision["id"] == "length.bounded"
        for finding in decision["findings"]
        if finding["lengths"] is not None
    ]
    if not seen:
        return None
    return {name: sum(each[name] for each in seen) / len(seen) for name in ("observed", "optimum")}


def not_judged(found: Sequence[JudgedRow], *, named: bool) -> list[MatrixRow]:
    """Return the rows without a verdict that should have one.

    Where rows were `named`, each of them should. Else those should that have an adapter, and that
    do more than fail on every case, which is what they were seen to do.
    """
    return [
        each.row
        for each in found
        if each.certificate is None
        and (named or (each.row.adapter and each.outcome != FAILS_EVERYWHERE))
    ]


def changes(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return in what lines that were judged both times differ, in words, and what is not there."""
    told, own = [], {each["name"]: each for each in now}
    for then in before:
        name = then["name"]
        if name not in own:
            told.append(f"{name} is no row any more")
        elif then["judged"] and own[name]["judged"]:
            told += [
                f"{name}: {change}" for change in _changed(then["judged"], own[name]["judged"])
            ]
    return told


def _changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    was, is_now = (
        {each["id"]: each["verdict"] for each in judged["requirements"]} for judged in (then, now)
    )
    for identity in sorted({*was, *is_now}):
        before, after = (each.get(identity, "not there") for each in (was, is_now))
        if before != after:
            yield f"{identity} was {before}, and is {after}"
