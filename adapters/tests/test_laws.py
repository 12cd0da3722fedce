"""Every requirement on laws, of verifiers whose laws are quick to compute: on cases, and drawn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.adapters.fast import TEXTS, FastVerifier
from draftproof.conformance.cases import Case, cases
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import declaration, program_of
from draftproof.conformance.requirements.finding import PASS, SKIPPED
from draftproof.conformance.requirements.laws import fits, judge
from draftproof.reference.model import Instance

SINGLE = ("token", "block", "greedy_block")
PAIRS = (
    "multipath_block",
    "mixed_multipath_block",
    "scored_multipath_block",
    "scored_greedy_block",
    "recursive_greedy_block",
    "traversal",
    "traversal_without_replacement",
)


def on_cases(name: str) -> list[tuple[str, Case]]:
    """Return the quick cases, of two paths where there are several: those of more take minutes."""
    declared = declaration(FastVerifier(name))
    fitting = [case for case in cases("quick") if fits(case, declared)]
    return [(name, c) for c in fitting if name in SINGLE or c.instance.drafts == 2]


def holds(name: str, case: Case) -> None:
    findings = judge(observe(program_of(FastVerifier(name)), case))
    assert {finding.verdict for finding in findings} <= {PASS, SKIPPED}


@pytest.mark.requirement(
    "law.lossless",
    "law.reference",
    "law.support",
    "law.prefix",
    "length.expected",
    "length.bounded",
    "length.optimal",
    "random.fresh",
)
@pytest.mark.parametrize(
    ("name", "case"),
    [each for name in (*SINGLE, *PAIRS) for each in on_cases(name)],
    ids=lambda given: given.id if isinstance(given, Case) else given,
)
def test_every_requirement_holds_on_the_cases(name: str, case: Case) -> None:
    holds(name, case)


@pytest.mark.requirement(
    "law.lossless",
    "law.reference",
    "law.support",
    "law.prefix",
    "length.expected",
    "length.bounded",
    "length.optimal",
    "random.fresh",
)
@pytest.mark.parametrize("name", SINGLE)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_requirement_holds_on_every_drawn_instance(
    name: str, drawn: Any, data: st.DataObject
) -> None:
    shape = st.tuples(st.integers(1, 3), st.integers(1, 2))
    instance: Instance = data.draw(drawn(shape))
    holds(name, Case("drawn", "", "certify", instance))


# Without replacement a row of one token has no pair: these are left to the cases.
@pytest.mark.requirement(
    "law.lossless",
    "law.reference",
    "law.support",
    "law.prefix",
    "length.expected",
    "length.bounded",
    "length.optimal",
    "random.fresh",
)
@pytest.mark.parametrize("name", [name for name in PAIRS if TEXTS[name].scheme == "iid"])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_requirement_holds_on_every_drawn_instance_of_two_drafts(
    name: str, drawn: Any, data: st.DataObject
) -> None:
    """Two drafts of one token of three, or of two tokens of two, that part anywhere."""
    shapes = [(1, 2), (2, 2), (3, 1)]
    trees = [(2, 2, (1, 2))] if TEXTS[name].trees else []
    instance = data.draw(drawn(st.sampled_from([*shapes, *trees]), drafts=2))
    holds(name, Case("drawn", "", "certify", instance))
