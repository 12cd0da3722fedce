"""Conformance matrix: verdicts on released verifiers, version by version.

A row is a version of an implementation, for one algorithm. `certify` judges every row, like any
adapter, in a process of its own: engines are imported without some of their parts, and one engine
may need a part that another engine leaves out. The figures of a row come from its certificate.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftproof.conformance.evidence.certificate import CONCLUSIONS, read_certificate
from draftproof.conformance.evidence.grade import graded
from draftproof.conformance.evidence.records import EvidenceError
from draftproof.conformance.matrix.forks import Ended, Forks, forks
from draftproof.conformance.protocol.packages import interpreting
from draftproof.conformance.requirements.finding import (
    CANNOT_RUN,
    ERROR,
    FAIL,
    FAILS_EVERYWHERE,
    PARTIAL,
    PASS,
    UNFETCHED,
)
from draftproof.spec import FileTooLarge, require_small, validate
from draftproof.spec.reading import MOST_DEPTH, MOST_DIGITS

SEED = 0
"""Seed for sampled tests, fixed so that a matrix can be reproduced."""


class InvalidRows(ValueError):
    """Error of a file without valid rows; the message says what is wrong, and where."""


MOST_TOML = 2**18
"""Maximum size of a file of rows, in bytes; the shipped file has a 16th of that."""

# Python's reader takes time by the square of the parts of a key.
_LONG_KEY = re.compile(rb"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){16}""")

_MALFORMED, _UNJUDGED = 5, 3
"""Exit codes of `certify`: the folder has different evidence; the adapter cannot be judged."""

_UNDECIDED = "could not be judged"


@dataclass(frozen=True)
class MatrixRow:
    """One version of an implementation, and how the suite judges it."""

    name: str
    """The name, unique among the rows: "engine-part@version", say."""
    engine: str
    version: str
    algorithm: str
    adapter: str = ""
    """The place of the adapter, empty for a row without one."""
    mode: str = "quick"
    cases: tuple[str, ...] = ()
    """Patterns of the cases to judge, as in `Campaign`; empty for all cases of the mode."""
    why: str = ""
    """The reason why the other cases are not judged."""
    lanes: tuple[str, ...] = ()
    """The lanes that may decide; empty for all."""
    note: str = ""
    """The stubs for parts of the engine that the verifier would use."""
    design: str = ""
    """The documented design that makes the verifier lossy, so that the loss is not a fault."""
    certain: str = ""
    """The reason why the engine's drafts are certain, so that it loses nothing by its rule."""
    unreachable: str = ""
    """The reason why no user of the release reaches the verifier."""
    cause: str = ""
    """The cause of its fault, if it has a fault and the cause is known."""
    report: str = ""
    """The name of the report on its fault, and of the script that reproduces it."""
    missing: str = ""
    """The reason why the verifier cannot run here at all."""
    unfetched: str = ""
    """The reason why the verifier cannot be fetched."""


@dataclass(frozen=True)
class JudgedRow:
    """The outcome of a row: its certificate, or else the kind of outcome and the reason."""

    row: MatrixRow
    certificate: Mapping[str, Any] | None = None
    outcome: str = ""
    reason: str = ""


def read_rows(content: bytes, name: str) -> list[MatrixRow]:
    """Return the rows of a TOML file, which follows the schema "rows". Raises `InvalidRows`."""
    if len(content) > MOST_TOML:
        raise InvalidRows(f"{name} exceeds the limit of {MOST_TOML:,} bytes")
    if _LONG_KEY.search(content):
        raise InvalidRows(f"{name} has a key of more than 16 parts, which is the limit")
    try:
        document = _parsed(content.decode("utf-8"))
        validate(document, "rows")
    except ValueError as error:
        raise InvalidRows(f"{name} has no valid rows: {error}") from None
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
            f"it nests lists and tables more than {MOST_DEPTH} deep, which is the limit"
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


_LONG_NUMBER = f"it has a number of more than {MOST_DIGITS} digits, which is the limit"


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def judged(rows: Sequence[MatrixRow], folder: Path, *, jobs: int = 1) -> Iterator[JudgedRow]:
    """Judge rows, `jobs` at a time, and yield the outcome of each row as soon as it is known.

    Evidence goes to the folder; rows with existing evidence are not judged again. Raises `OSError`
    if the evidence cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Rows are judged side by side; kernels are interpreted where there is no GPU for them.
    own = {"OMP_NUM_THREADS": "1", **interpreting()}
    with forks(jobs, own) as commands, ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(_judged, commands, row, folder / row.name) for row in rows]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for each in waiting:
                each.cancel()


def _judged(commands: Forks, row: MatrixRow, folder: Path) -> JudgedRow:
    if row.missing:
        return JudgedRow(row, outcome=CANNOT_RUN, reason=row.missing)
    if row.unfetched:
        return JudgedRow(row, outcome=UNFETCHED, reason=row.unfetched)
    # A run that resumes asks no store for the row as a whole.
    resumed = ["--resume"] if folder.exists() else []
    run = _certified(commands, row, folder, *resumed)
    if run.code == _MALFORMED and resumed:
        # What lies there is of another version, suite or machine.
        run = _certified(commands, row, folder)
    made = sorted(folder.glob("*.json"))
    has_run = run.code != _MALFORMED and _errors(run) == []
    if not has_run or not made:
        return JudgedRow(row, outcome=_outcome(run), reason=_reason(run.stderr))
    try:
        certificate = read_certificate(made[0])
    except EvidenceError as error:
        return JudgedRow(row, outcome=_UNDECIDED, reason=str(error))
    if run.code == _UNJUDGED:
        return JudgedRow(row, outcome=_UNDECIDED, reason=_error_in(certificate))
    return JudgedRow(row, certificate)


def _certified(commands: Forks, row: MatrixRow, folder: Path, *options: str) -> Ended:
    return commands.run(
        [
            *("certify", "--mode", row.mode, "--seed", str(SEED)),
            *("--output", str(folder), "--json", *options),
            *(f"--case={pattern}" for pattern in row.cases),
            *(f"--lane={lane}" for lane in row.lanes),
            # A name is no option, whatever it begins with.
            *("--", row.adapter),
        ]
    )


def _outcome(run: Ended) -> str:
    """Return the kind of outcome of a row that did not run; a crash prints no document."""
    if run.code == _MALFORMED:
        return _UNDECIDED
    errors = _errors(run)
    return str(errors[0]["state"]) if errors else CANNOT_RUN


def _errors(run: Ended) -> list[dict[str, Any]] | None:
    """Return the adapters that could not run, as printed; None if the command crashed."""
    try:
        errors: list[dict[str, Any]] = json.loads(run.stdout)["errors"]
    except ValueError:
        return None
    return errors


def _error_in(certificate: Mapping[str, Any]) -> str:
    """Return the first error that leaves a certificate without a verdict, and its case."""
    for decision in certificate["predicate"]["draftproof"]["requirements"]:
        for finding in decision["findings"]:
            if finding["verdict"] == ERROR:
                return f"{decision['id']}, case {finding['case']}: {finding['detail']}"
    return "its certificate has no verdict"


def _reason(said: str) -> str:
    """Return the last error in the output of a command."""
    errors = [line for line in said.splitlines() if line.startswith("Error: ")]
    return (
        errors[-1].removeprefix("Error: ")
        if errors
        else said.strip()[-300:] or "it printed nothing"
    )


# --- what the matrix says ----------------------------------------------------------------------


PASSES, PASSES_SOME = CONCLUSIONS[PASS], CONCLUSIONS[PARTIAL]
"""The outcomes of a row that passes, the second on some cases only; the row names these cases."""


def line(found: JudgedRow) -> dict[str, Any]:
    """Return a line of the matrix, following the schema of its file."""
    row = found.row
    told = {name: vars(row)[name] for name in ("name", "engine", "version", "algorithm")}
    told |= {
        name: vars(row)[name] or None
        for name in ("note", "design", "certain", "unreachable", "cause", "report")
    }
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
            "grade": graded(said["requirements"]),
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
    """Return the means over the cases of E[accepted length], as observed and at the optimum."""
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
    """Return the rows that should have a verdict and have none.

    If rows were `named`, each of them should have a verdict. Otherwise every row with an adapter
    should have one, unless the adapter fails on every case.
    """
    return [
        each.row
        for each in found
        if each.certificate is None
        and (named or (each.row.adapter and each.outcome != FAILS_EVERYWHERE))
    ]


def changes(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the differences between lines judged both times, in words, and the missing lines."""
    told, own = [], {each["name"]: each for each in now}
    for then in before:
        name = then["name"]
        if name not in own:
            told.append(f"{name}: row removed")
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
        before, after = (each.get(identity, "absent") for each in (was, is_now))
        if before != after:
            yield f"{identity} was {before}, is now {after}"
