"""Closures: what judges a task, and nothing else, is in its digest."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from cProfile import Profile
from pathlib import Path
from typing import Any

import pytest

import draftproof.conformance
import draftproof.reference
from draftproof.conformance.evidence import closure as closures
from draftproof.conformance.evidence.closure import LANES, TABLE, closure
from draftproof.conformance.evidence.keys import JUDGE
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.task import Terms
from draftproof.conformance.run.judging import judge
from draftproof.reference.verifiers import ALGORITHMS

LAWS = "draftproof.conformance.requirements.laws"
BLOCK = "draftproof.reference.verifiers.block"


def of_laws(*lanes: str) -> frozenset[str]:
    return closure([LAWS, JUDGE], lanes=lanes, algorithm=BLOCK)


@pytest.mark.parametrize(
    "room", ["cli", "report", "matrix", "museum", "pytest_plugin", "failure", "run.campaign"]
)
def test_what_judges_nothing_is_in_no_closure(room: str) -> None:
    every = of_laws("exact", "probe", "sample")
    assert not [name for name in every if name.startswith(f"draftproof.conformance.{room}")]
    assert not [name for name in every if name.startswith("draftproof.reference.ledger")]


def test_a_lane_is_in_the_closure_of_what_it_decides_alone() -> None:
    exact, probe = of_laws("exact"), of_laws("exact", "probe")
    assert {".".join(name.split(".")[2:4]) for name in probe - exact} == {"lanes.probe"}
    assert not [name for name in exact for place in LANES["probe"] if name.startswith(place)]
    assert "draftproof.conformance.lanes.exact._walk" in exact


def test_of_the_algorithms_the_one_that_is_asked_is_there() -> None:
    beside = {name for name in of_laws("exact") if name.startswith(f"{TABLE}.")}
    assert beside == {BLOCK}
    assert TABLE in of_laws("exact")


def test_a_changed_file_changes_the_digests_of_what_it_is_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def digests() -> list[str]:
        return [
            closures.digest([LAWS, JUDGE], lanes=lanes, algorithm=BLOCK)
            for lanes in (("exact",), ("exact", "probe"))
        ]

    before, own = digests(), closures._digest_of
    changed = "draftproof.conformance.lanes.probe._search"
    monkeypatch.setattr(closures, "_digest_of", lambda name: own(name) + (name == changed) * "!")
    after = digests()
    assert before[0] == after[0]
    assert before[1] != after[1]


SOURCE = b'''"""Module."""
X = 1
"""Attribute."""


class A:
    """Class."""

    def f(self):
        """One
        and more."""
        return (
            """no docstring"""
        )


def g(): "short"; return "kept"
'''


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        (b"Module.", b"Another\nmodule.", True),
        (b"Attribute.", "\N{GREEK SMALL LETTER TAU}".encode(), True),
        (b"Class.", b"", True),
        (b"and more.", b"and\n\nless.", True),
        (b"short", b"s", True),
        (b"no docstring", b"none", False),
        (b"kept", b"lost", False),
        (b"X = 1", b"X = 2", False),
        (b'        """One\n        and more."""\n', b"", True),
        (b"return (\n", b"return (\n\n", False),
    ],
)
def test_docstrings_are_no_code(before: bytes, after: bytes, is_same: bool) -> None:
    changed = SOURCE.replace(before, after)
    assert changed != SOURCE
    is_found_same = closures.without_docstrings(SOURCE) == closures.without_docstrings(changed)
    assert is_found_same == is_same


def test_nothing_that_judges_reads_docstrings() -> None:
    """Names alone are kept there, of attributes that nobody reads."""
    named = [
        f"{name}: {each.attr}"
        for name in of_laws("exact", "probe", "sample")
        for each in ast.walk(ast.parse(closures._file(name).read_bytes()))
        if isinstance(each, ast.Attribute) and each.attr in ("__doc__", "getdoc", "getsource")
    ]
    assert not named


@contextmanager
def running(files: set[str]) -> Iterator[None]:
    """Collect the files of all functions that run meanwhile."""
    profile = Profile()
    with profile:
        yield
    # What is written in C has a name in place of code.
    codes = [entry.code for entry in profile.getstats()]
    files |= {code.co_filename for code in codes if not isinstance(code, str)}


def modules(files: set[str]) -> set[str]:
    """Return the names of those modules of the suite that files are of."""
    found = set()
    for room in (draftproof.conformance, draftproof.reference):
        folder = Path(room.__path__[0])
        for file in map(Path, files):
            if file.is_relative_to(folder):
                parts = (room.__name__, *file.relative_to(folder).with_suffix("").parts)
                found.add(".".join(parts).removesuffix(".__init__"))
    return found


# What runs while a module is imported for the first time says nothing of a task.
IMPORTED_LATE = {
    "draftproof.conformance",
    "draftproof.conformance.lanes.probe",
    "draftproof.reference",
    "draftproof.reference.extras",
}


@pytest.mark.parametrize("name", ["torch-block", "torch-token", "torch-multipath-block"])
@pytest.mark.parametrize("lane", ["exact", "probe"])
def test_all_that_runs_while_a_task_is_judged_is_in_its_closure(name: str, lane: str) -> None:
    """One task of each kind, by each lane. What ran and is not there would change unseen."""
    program = load_program(name)
    algorithm = ALGORITHMS[program.declared.algorithm].verify.__module__
    terms = Terms("", "quick", 0)
    judged: dict[tuple[str, ...], int] = {}
    for task in plan(program.declared, "quick"):
        lanes = [each for each in task.lanes if each in (lane, "run")]
        judged[task.requirements] = judged.get(task.requirements, 0) + bool(lanes)
        if not lanes or judged[task.requirements] > 1:
            continue
        blind = {each: "left out" for each in task.lanes if each not in lanes}
        files: set[str] = set()
        with running(files):
            judge(program, task, terms, blind=blind, sampled=False)
        calls = {closures_of(task.judge), JUDGE}
        expected = closure(calls, lanes=lanes, algorithm=algorithm)
        assert modules(files) - IMPORTED_LATE <= expected, task.case
    assert len(judged) > 8


def closures_of(call: Any) -> str:
    return closures_of(call.func) if hasattr(call, "func") else str(call.__module__)


def test_no_import_is_overlooked() -> None:
    """Imports are found in the text; Python's own parser finds no other."""
    for room in (draftproof.conformance, draftproof.reference):
        for file in sorted(Path(room.__path__[0]).rglob("*.py")):
            nodes = [*ast.walk(ast.parse(file.read_bytes()))]
            imported = {each.module for each in nodes if isinstance(each, ast.ImportFrom)}
            imported |= {
                n.name for each in nodes if isinstance(each, ast.Import) for n in each.names
            }
            ours = {name for name in imported if name and name.startswith("draftproof.")}
            (name,) = modules({str(file)})
            assert {each for each in ours if each.count(".") > 1} <= closures._imports(name), name
