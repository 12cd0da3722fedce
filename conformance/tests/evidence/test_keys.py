"""Keys: what a finding depends on is in them, and nothing that chance decides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.conformance.evidence import closure as closures
from draftproof.conformance.evidence import keys
from draftproof.conformance.evidence.closure import TABLE
from draftproof.conformance.evidence.keys import code_key, content, environment_key, tree_root
from draftproof.conformance.protocol.adapter import Declaration, declaration
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.verifiers import ALGORITHMS, Algorithm

DECLARED = declaration(load_adapter("torch-block"))
TASKS = plan(DECLARED, "quick")
TERMS = Terms("", "quick", seed=7)


def key(task: Task = TASKS[0], lane: str | None = "exact", **changed: Any) -> str:
    asked: dict[str, Any] = {"declared": DECLARED, "subject": "0" * 64, "terms": TERMS, "blind": ()}
    return code_key(task, lane=lane, **(asked | changed))


def key_with(entry: Algorithm) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(ALGORITHMS, entry.name, entry)
        return key()


def test_an_algorithm_more_is_nothing_to_the_others() -> None:
    """A table that has one more entry, in its text and in fact, has the same keys."""
    known = key()
    with pytest.MonkeyPatch.context() as patched:
        own = closures._digest_of
        patched.setattr(closures, "_digest_of", lambda name: own(name) + (name == TABLE) * "!")
        patched.setitem(ALGORITHMS, "new", replace(ALGORITHMS["token"], name="new"))
        assert key() == known


def test_every_task_has_a_key_of_its_own() -> None:
    assert len({key(task, None) for task in TASKS}) == len(TASKS)


CHANGES: dict[str, Callable[[], str]] = {
    "the lane": lambda: key(lane="probe"),
    "a lane that was asked before": lambda: key(lane="probe", blind=("exact",)),
    "the adapter's files": lambda: key(subject="1" * 64),
    "what it declares": lambda: key(declared=replace(DECLARED, at_once=2)),
    "the seed": lambda: key(terms=replace(TERMS, seed=8)),
    "the share of false alarms": lambda: key(terms=replace(TERMS, false_alarm=1e-10)),
    "the case": lambda: key(TASKS[1]),
    "the algorithm's entry": lambda: key_with(replace(ALGORITHMS["block"], reads_all=True)),
    "the requirements": lambda: key(replace(TASKS[0], requirements=("law.lossless",))),
}


def test_what_a_finding_depends_on_changes_its_key() -> None:
    found = {told: changed() for told, changed in CHANGES.items()} | {"nothing": key()}
    assert len({*found.values()}) == len(found)
    assert found["nothing"] == key()


def test_a_number_of_a_case_changes_its_key() -> None:
    (case, alike) = TASKS[0].judge.args  # type: ignore[attr-defined]  # it is a partial
    rows = case.instance.target.rows
    other = replace(case.instance.target, rows={k: tuple(reversed(row)) for k, row in rows.items()})
    changed = replace(case, instance=replace(case.instance, target=other))
    judged = partial(TASKS[0].judge.func, changed, alike)  # type: ignore[attr-defined]
    assert key(replace(TASKS[0], judge=judged)) != key()


def test_another_process_has_the_same_keys() -> None:
    """Hashes of strings and the order of sets are other ones there."""
    program = (
        "from draftproof.conformance.evidence.keys import code_key\n"
        "from conformance.tests.evidence.test_keys import key\n"
        "print(key())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "5", "PYTHONPATH": ".", "PATH": ""},
    )
    assert ran.stdout.strip() == key()


def test_the_environment_is_the_same_once_joblib_is_imported() -> None:
    program = """
import os
from draftproof.conformance.evidence.keys import environment_key
before = environment_key()
import joblib
assert environment_key() == before, {*os.environ}
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_environment_has_what_floats_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = environment_key()
    assert environment_key() == before
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    after = environment_key()
    assert after != before
    monkeypatch.setenv("UNRELATED", "77")
    assert environment_key() == after
    monkeypatch.setattr(keys, "libraries", lambda: {"torch": "0.0.1"})
    assert environment_key() != after


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=2), each, max_size=2)
    ),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_values_that_differ_have_other_content(one: Any, other: Any) -> None:
    same = repr(one) == repr(other)
    assert (content(one) == content(other)) == same


def test_a_value_without_content_is_refused() -> None:
    with pytest.raises(TypeError, match="a generator has no content that can be hashed"):
        content(each for each in "ab")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8])
def test_the_root_hangs_on_every_leaf_and_on_their_order(count: int) -> None:
    leaves = [f"{n:064}" for n in range(count)]
    roots = {tree_root(leaves), tree_root([*leaves, "9" * 64])}
    roots |= {tree_root([*leaves[:n], "8" * 64, *leaves[n + 1 :]]) for n in range(count)}
    assert len(roots) == count + 2
    assert count < 2 or tree_root(leaves[::-1]) not in roots


def test_a_declaration_has_content() -> None:
    assert Declaration.__qualname__ in content(DECLARED)[0]
