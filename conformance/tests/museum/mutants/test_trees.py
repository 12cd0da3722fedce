"""Faults of trees: each is caught by a quick case that branches, and some by no other case."""

from __future__ import annotations

import pytest

from draftproof.conformance.museum.mutants import EXHIBITS, trees
from draftproof.conformance.museum.mutants.mutant import Mutant
from draftproof.conformance.protocol.adapter import Adapter, program_of
from draftproof.conformance.requirements import drafting, laws
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED, Finding
from draftproof.conformance.requirements.task import Terms


def judged(adapter: Adapter, *, of_trees: bool) -> list[Finding]:
    """Return the findings on the quick cases of trees, or on all the others."""
    program = program_of(adapter)
    return [
        finding
        for task in (
            *laws.tasks(program.declared, "quick"),
            *drafting.tasks(program.declared, "quick"),
        )
        if (task.case.startswith("tree.") or ".b1x2." in task.case) == of_trees
        for finding in task.judge(program, Terms("exact", "quick"))
    ]


def test_what_they_are_made_from_is_right_on_trees() -> None:
    found = judged(trees.Tree(), of_trees=True)
    assert {each.verdict for each in found} == {PASS, SKIPPED}
    assert {each.requirement for each in found if each.verdict == SKIPPED} == {"length.optimal"}


@pytest.mark.parametrize("exhibit", trees.MUTANTS, ids=lambda exhibit: exhibit.id)
def test_each_is_caught_by_what_it_breaks(exhibit: Mutant) -> None:
    found = judged(exhibit.make(), of_trees=True)
    failing = {each.requirement for each in found if each.verdict == FAIL}
    assert {*exhibit.must_fail} <= failing


@pytest.mark.parametrize(
    "name",
    [
        "tree-as-independent-paths",
        "skips-duplicates-below-the-root",
        "drafts-paths-for-a-tree",
    ],
)
def test_some_are_seen_by_trees_alone(name: str) -> None:
    found = judged(EXHIBITS[name].make(), of_trees=False)
    assert {each.verdict for each in found} == {PASS, SKIPPED}
