"""Traceability: from every requirement to its tests, mutants, engines, vectors and proofs.

The links of a requirement are collected from their sources: the markers of the tests, the museum of
mutants and its kill matrix, the matrix of released verifiers, the vectors, and the theorems. The
result is committed as spec/traceability.json, and a test compares it, so that no loss goes
unnoticed. `python -m building.traceability --write`, run in docs, replaces it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from building.links import OURS, met_in, source_link
from building.markdown import table
from building.markers import marked_tests, require_known
from building.pages import HOUSE
from draftproof.conformance.lanes.observe import RUN
from draftproof.conformance.museum.kill_matrix import KILLED
from draftproof.conformance.museum.mutants import MUTANTS, Mutant
from draftproof.conformance.report.markdown import in_line
from draftproof.conformance.requirements.finding import FAIL
from draftproof.reference.ledger import CLAIMS
from draftproof.reference.ledger.theorems import THEOREMS
from draftproof.spec import Requirement, requirements, validate, withdrawn

SNAPSHOT = "spec/traceability.json"
VECTORS = "spec/vectors"
KILL_MATRIX = "conformance/draftproof/conformance/report/kill_matrix.json"
ENGINES = "adapters/matrix/matrix.json"
JUDGING = "conformance/tests/"
"""Folder of the tests that check the judgement of the suite; others test our own verifiers."""

PROVED, TESTED, IMPLIED, EXTERNAL, NOT_APPLICABLE = (
    "proved for a shape",
    "tested",
    "implied",
    "external",
    "not applicable",
)
"""The states. "Proved for a shape" means a theorem for all p and q of a shape, and tests; "implied"
means that it follows from other requirements. The chapter gives the reason for the last two:
"*External:* why." and "*Not applicable:* why."."""

PROVES: Mapping[str, tuple[str, ...]] = {
    "lossless": ("law.lossless",),
    # The second iteration is on the modified target that the first one has left.
    "lossless_twice": ("law.lossless", "law.state"),
    "lossless_at_every_rho": ("law.lossless",),
    # It is met, and no bound on what can be accepted is exceeded.
    "optimal": ("length.optimal", "length.bounded"),
    # These compare algorithms with each other, which no requirement does.
    "at_least_token": (),
    "at_most_k_seq": (),
}
"""Requirements that each kind of theorem proves for its algorithm, as written in the reference."""


class Untested(ValueError):
    """Error of a requirement without a test that it is judged correctly."""


class NotCaught(ValueError):
    """Error of a mutant that names a requirement which, by the record, did not catch it."""


class StaleSnapshot(ValueError):
    """Error of a committed snapshot that differs from the current one; the message says how."""


@dataclass(frozen=True)
class Kill:
    """Mutant that a requirement catches, with the first lane and case that caught it."""

    mutant: Mutant
    lane: str
    case: str

    @property
    def is_of_the_field(self) -> bool:
        """True if its fault was found in real software, not only invented."""
        return set(self.mutant.source) != {OURS}


@dataclass(frozen=True)
class Engine:
    """Version of an implementation that fails a requirement.

    `cause` is the cause of the failure, `report` the name of the report to its maintainers; either
    may be empty.
    """

    row: str
    cause: str
    report: str


@dataclass(frozen=True)
class Vectors:
    """File of vectors, and the number of its vectors for a requirement."""

    file: str
    count: int


@dataclass(frozen=True)
class Trace:
    """All evidence on a requirement.

    `state` is one of the five states above, `reason` the reason for one of the last two. `tests`
    are named "conformance/tests/test_x.py::test_y", `proofs` are ids of the ledger.
    """

    requirement: Requirement
    state: str
    reason: str
    tests: tuple[str, ...]
    kills: tuple[Kill, ...]
    engines: tuple[Engine, ...]
    vectors: tuple[Vectors, ...]
    proofs: tuple[str, ...]


def traces(root: Path = HOUSE, *, mutants: Sequence[Mutant] = MUTANTS) -> tuple[Trace, ...]:
    """Return the trace of every requirement, in the order of the chapters.

    Raises `UnknownRequirement` for an unknown id, `UnreadableMarker`, `Untested` for a requirement
    without a test of its judgement, and `NotCaught`.
    """
    known = requirements()
    tests = marked_tests(root, known)
    kills = _kills(mutants, _read(root / KILL_MATRIX), known)
    engines = _engines(_read(root / ENGINES), known)
    vectors = _vectors(root, known)
    proofs = _proofs(known)
    found = []
    for identity, requirement in known.items():
        own = tests.get(identity, ())
        state, reason = _state(requirement, own, is_proved=bool(proofs[identity]))
        found.append(
            Trace(
                requirement,
                state,
                reason,
                own,
                tuple(kills[identity]),
                tuple(engines[identity]),
                tuple(vectors[identity]),
                tuple(proofs[identity]),
            )
        )
    return tuple(found)


def _state(requirement: Requirement, tests: Iterable[str], *, is_proved: bool) -> tuple[str, str]:
    for state in (NOT_APPLICABLE, EXTERNAL):
        if said := re.search(rf"^\*{state.capitalize()}:\* (.+)$", requirement.text, re.M):
            return state, said[1]
    if not any(map(_judges, tests)):
        raise Untested(
            f"{requirement.id} has no test in {JUDGING} that names it: a test that shows that the "
            f'suite judges it rightly is marked pytest.mark.requirement("{requirement.id}")'
        )
    if is_proved:
        return PROVED, ""
    return (IMPLIED if requirement.implied_by else TESTED), ""


def _judges(test: str) -> bool:
    return test.startswith(JUDGING)


def _kills(
    mutants: Sequence[Mutant], matrix: Mapping[str, Any], known: Collection[str]
) -> dict[str, list[Kill]]:
    cells = {each["id"]: each["cells"] for each in matrix["exhibits"]}
    found: dict[str, list[Kill]] = defaultdict(list)
    for mutant in mutants:
        for identity in mutant.must_fail:
            require_known(identity, known, f"mutant {mutant.id!r}")
            first = next(
                (
                    cell
                    for cell in cells.get(mutant.id, ())
                    if (cell["requirement"], cell["verdict"]) == (identity, KILLED)
                ),
                None,
            )
            if first is None:
                raise NotCaught(
                    f"mutant {mutant.id!r} names {identity!r}, but {KILL_MATRIX} has no lane and "
                    "case that caught it by that"
                )
            found[identity].append(Kill(mutant, first["lane"], first["case"]))
    return found


def _engines(matrix: Mapping[str, Any], known: Collection[str]) -> dict[str, list[Engine]]:
    found: dict[str, list[Engine]] = defaultdict(list)
    for row in matrix["rows"]:
        for each in row["judged"]["requirements"] if row["judged"] else ():
            if each["id"] in withdrawn():
                continue  # The row was judged by an older version of the specification.
            require_known(each["id"], known, f"{ENGINES}: {row['name']}")
            if each["verdict"] == FAIL:
                cause = row["cause"] or row["design"] or ""
                found[each["id"]].append(Engine(row["name"], cause, row["report"] or ""))
    return found


def _vectors(root: Path, known: Collection[str]) -> dict[str, list[Vectors]]:
    found: dict[str, list[Vectors]] = defaultdict(list)
    for file in sorted((root / VECTORS).glob("*/*.json")):
        path, counts = file.relative_to(root).as_posix(), defaultdict[str, int](int)
        for vector in _read(file)["vectors"]:
            for identity in vector["requirements"]:
                require_known(identity, known, f"{path}: {vector['id']}")
                counts[identity] += 1
        for identity, count in counts.items():
            found[identity].append(Vectors(path, count))
    return found


def _proofs(known: Collection[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, _, kind, *_ in THEOREMS:
        for identity in PROVES[kind]:
            require_known(identity, known, f"theorem.{name}")
            found[identity].append(f"theorem.{name}")
    return found


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


# --- the snapshot ------------------------------------------------------------------------------


def snapshot(found: Sequence[Trace]) -> str:
    """Return the traces in their committed form, which follows the schema "traceability".

    The snapshot omits everything that changes by itself: line numbers, times, texts, numbers of
    parametrised cases.
    """
    document = {"requirements": [_to_json(trace) for trace in found]}
    validate(document, "traceability")
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _to_json(trace: Trace) -> dict[str, Any]:
    return {
        "id": trace.requirement.id,
        "level": trace.requirement.level,
        "state": trace.state,
        "reason": trace.reason or None,
        "lanes": list(trace.requirement.lanes),
        "implied_by": list(trace.requirement.implied_by),
        "tests": list(trace.tests),
        "mutants": [
            {"id": kill.mutant.id, "lane": kill.lane, "case": kill.case} for kill in trace.kills
        ],
        "engines": [engine.row for engine in trace.engines],
        "vectors": [{"file": each.file, "count": each.count} for each in trace.vectors],
        "proofs": list(trace.proofs),
    }


def require_fresh(root: Path = HOUSE) -> None:
    """Raise `StaleSnapshot` unless the committed snapshot equals the current one, byte for byte."""
    file, now = root / SNAPSHOT, snapshot(traces(root))
    told = ["there is none"]
    if file.exists():
        then = file.read_text(encoding="utf-8")
        if then == now:
            return
        told = changes(json.loads(then), json.loads(now)) or ["it is written in another form"]
    raise StaleSnapshot(
        f"{SNAPSHOT} is not what is found now; if it should be, write it with "
        "`python -m building.traceability --write`, in docs, and commit it:\n" + "\n".join(told)
    )


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences of two snapshots, one per line."""
    before, after = (
        {each["id"]: each for each in document["requirements"]} for document in (then, now)
    )
    told = [f"{each} is no requirement any more" for each in before if each not in after]
    told += [f"{each} is a new requirement" for each in after if each not in before]
    for identity in (each for each in after if each in before):
        for key, value in after[identity].items():
            was = before[identity].get(key)
            if isinstance(value, list):
                lost, gained = _without(was or [], value), _without(value, was or [])
                told += [f"{identity}: {key} lose {each}" for each in lost]
                told += [f"{identity}: {key} gain {each}" for each in gained]
            elif was != value:
                told.append(f"{identity}: {key} was {was}, is {value}")
    return told


def _without(some: Sequence[Any], others: Sequence[Any]) -> list[str]:
    """Return the items that are not among the others, in words."""
    return [
        ", ".join(map(str, each.values())) if isinstance(each, dict) else str(each)
        for each in some
        if each not in others
    ]


# --- the page ----------------------------------------------------------------------------------


def page() -> str:
    """Return the page that links every requirement to its evidence."""
    found = (*_here().values(),)
    return "\n".join((_INTRODUCTION, _table(found), *map(_section, found)))


_INTRODUCTION = f"""# Traceability

What stands behind each requirement. The same is committed as
[`{SNAPSHOT}`]({source_link(SNAPSHOT)}): no requirement loses its last test, no test names
what is no requirement, and nothing here changes, without the tests failing.

- *proved for a shape*: a theorem says it of an algorithm as the reference writes it, for all p and
  q of one V, L and K; and it is tested. What Coq has proved for every V, L and K is of programs in
  Coq, and stands in the ledger.
- *tested*: tests show that the suite fails what breaks it and passes what keeps it.
- *implied*: it follows from other requirements; and it is tested.
- *external*, *not applicable*: something else decides it, or nothing does, for the reason given.

Tests in `conformance` show that the suite judges a requirement rightly; those in `reference` and
`adapters`, that our own verifiers keep it. A mutant is a verifier that is wrong on purpose and has
to be caught; a proof is of the reference's text, and of no implementation under test.
"""


def _table(found: Sequence[Trace]) -> str:
    head = ["requirement", "level", "state", "lanes", "tests", "vectors", "mutants", "proofs"]
    rows = [
        [
            f"[{trace.requirement.title}](#trace.{trace.requirement.id})<br>`{trace.requirement.id}`",
            trace.requirement.level,
            trace.state,
            ", ".join(trace.requirement.lanes),
            *map(str, _counts(trace).values()),
        ]
        for trace in found
    ]
    return table(head, rows, align="llllrrrr") + "\n"


def _counts(trace: Trace) -> dict[str, int]:
    return {
        "tests": len(trace.tests),
        "vectors": sum(each.count for each in trace.vectors),
        "mutants": len(trace.kills),
        "proofs": len(trace.proofs),
    }


def _section(trace: Trace) -> str:
    required = trace.requirement
    why = f": {trace.reason}" if trace.reason else ""
    implied = ", ".join(f"[](#{each})" for each in required.implied_by)
    told = [
        f"### {required.title} {{ #trace.{required.id} }}",
        f"[`{required.id}`](#{required.id}) · {required.level} · {trace.state}{why} · "
        f"{', '.join(required.lanes)}",
        *([f"It follows from {implied}."] if implied else []),
        *_list("Tests of the suite", _tests(t for t in trace.tests if _judges(t))),
        *_list("Tests of our own verifiers", _tests(t for t in trace.tests if not _judges(t))),
        *_list("Mutants", (f"{_mutant(k)}; {_caught(k)}." for k in trace.kills)),
        *_list("Engines that failed it", _failures(trace.engines)),
        *_list("Vectors", (f"{_link(each.file)}: {each.count}" for each in trace.vectors)),
        *_list("Proofs", (f"`{each}`: {in_line(CLAIMS[each].statement)}" for each in trace.proofs)),
    ]
    return "\n\n".join(told) + "\n"


def trace_of(identity: str) -> Trace:
    """Return the evidence on a requirement of this checkout. Raises `UnknownRequirement`."""
    found = _here()
    require_known(identity, found, "what is asked for")
    return found[identity]


def evidence_of(identity: str) -> str:
    """Return a summary of the evidence on a requirement: the faults of the field, and counts.

    Raises `UnknownRequirement`.
    """
    trace = trace_of(identity)
    met = (kill for kill in trace.kills if kill.is_of_the_field)
    faults = [*_failures(trace.engines), *(f"{_mutant(kill)}." for kill in met)]
    # Details, which are shut until they are asked for: of losslessness there are many.
    listed = "".join(f"\n    - {fault}" for fault in faults)
    told = [f'??? bug "Faults of the field: {len(faults)}"\n{listed}'] if faults else [_NONE]
    counts = ", ".join(
        f"{count} {name.removesuffix('s') if count == 1 else name}"
        for name, count in _counts(trace).items()
    )
    told.append(f"*Evidence:* {trace.state}; [{counts}](#trace.{identity}).")
    return "\n\n".join(told) + "\n"


_NONE = "*Faults of the field:* none is on record; its mutants are our own thought."


@cache
def _here() -> Mapping[str, Trace]:
    return {trace.requirement.id: trace for trace in traces()}


def _list(title: str, lines: Iterable[str]) -> list[str]:
    """Return a titled list as a paragraph, no paragraph for an empty list."""
    listed = "\n".join(f"- {line}" for line in lines)
    return [f"*{title}:*\n\n{listed}"] if listed else []


def _tests(tests: Iterable[str]) -> list[str]:
    """Return tests file by file, each with a link to its definition."""
    files: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        file, _, name = test.partition("::")
        defined = name.rpartition("::")[2]
        files[file].append(f"[`{name}`]({source_link(file, defined)})")
    return [f"{_link(file)}: {', '.join(names)}" for file, names in files.items()]


def _mutant(kill: Kill) -> str:
    sources = ", ".join(met_in(each) for each in kill.mutant.source if each != OURS)
    met = f"Met in {sources}" if sources else "Our own thought"
    return f"`{kill.mutant.id}`: {in_line(kill.mutant.what)} {met}"


def _caught(kill: Kill) -> str:
    return f"caught {'by single runs' if kill.lane == RUN else f'on {kill.lane}'}, `{kill.case}`"


def _failures(engines: Iterable[Engine]) -> list[str]:
    """Return engines; versions that fail for the same reason share a line."""
    rows: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for each in engines:
        name, _, version = each.row.partition("@")
        rows[name, each.cause, each.report].append(version)
    return [
        f"{name} {', '.join(versions)}{f': {in_line(cause)}' if cause else '.'}{_report(report)}"
        for (name, cause, report), versions in rows.items()
    ]


def _report(name: str) -> str:
    return f" [Report]({source_link(f'adapters/matrix/reports/{name}.md')})." if name else ""


def _link(file: str) -> str:
    return f"[`{file}`]({source_link(file)})"


def main(arguments: Sequence[str]) -> None:
    """Write the snapshot, with --write; otherwise check that the committed one is current."""
    if [*arguments] == ["--write"]:
        (HOUSE / SNAPSHOT).write_text(snapshot(traces(HOUSE)), encoding="utf-8")
        return
    if arguments:
        sys.exit(f"unknown arguments {' '.join(arguments)}; known: --write")
    try:
        require_fresh(HOUSE)
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
