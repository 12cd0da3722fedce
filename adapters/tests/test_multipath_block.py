"""Greedy multi-path block verification against the exact reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.adapters.fast.verifier import FastVerifier
from draftproof.conformance.adapter import declaration
from draftproof.conformance.cases import Case, cases
from draftproof.conformance.finding import PASS, SKIPPED
from draftproof.conformance.observe import observe
from draftproof.conformance.requirements.laws import fits, judge
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import rational

VERIFIER = FastVerifier("multipath_block")
CASES = [
    case
    for case in cases("quick")
    if fits(case, declaration(VERIFIER)) and case.instance.drafts == 2
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_requirement_holds_on_the_cases(case: Case) -> None:
    findings = judge(observe(VERIFIER, case))
    assert {finding.verdict for finding in findings} <= {PASS, SKIPPED}


def rows(vocabulary: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Rows in 8ths, zeros and point masses included."""
    marks = st.lists(st.integers(0, 8), min_size=vocabulary - 1, max_size=vocabulary - 1)
    return marks.map(
        lambda cuts: tuple(
            rational(b - a) / 8 for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 8], strict=True)
        )
    )


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Two drafts of one token of three, or of two tokens of two: the reference is exact."""
    vocabulary, length = draw(st.sampled_from([(1, 2), (2, 2), (3, 1)]))
    contexts: list[tuple[int, ...]] = [()]
    for context in contexts:
        if len(context) < length:
            contexts.extend((*context, token) for token in range(vocabulary))
    return Instance(
        Model("target", vocabulary, {c: draw(rows(vocabulary)) for c in contexts}),
        Model("draft", vocabulary, {c: draw(rows(vocabulary)) for c in contexts}),
        length=length,
        drafts=2,
    )


@settings(max_examples=10, deadline=None, derandomize=True)
@given(instance=instances())
def test_every_requirement_holds_on_every_drawn_instance(instance: Instance) -> None:
    findings = judge(observe(VERIFIER, Case("drawn", "", "full", instance)))
    assert {finding.verdict for finding in findings} <= {PASS, SKIPPED}
