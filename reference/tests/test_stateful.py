from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.errors import InvalidInput, Unsupported
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum import stateful
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import rational, total
from draftproof.reference.verifiers import ALGORITHMS, emission_law, require_fit

exact = settings.get_profile("exact")
SEVERAL = [(2, (2,)), (3, (2,)), (2, (2, 1)), (2, (2, 2)), (3, (2, 1)), (2, (3, 1))]


def test_the_motivating_example(motivating: Instance) -> None:
    assert stateful(motivating).value == rational("12/9")


@exact
@given(instance=...)
def test_greedy_block_reaches_the_optimum_of_one_draft(instance: Instance) -> None:
    optimum = stateful(instance)
    shared = {
        x: min(instance.target.joint(x), instance.draft.joint(x))
        for x in instance.draft.reachable(instance.length)
        if x
    }
    assert optimum.budget == shared
    assert optimum.value == total(shared.values())
    assert optimum.value == expected_accepted(emission_law(ALGORITHMS["greedy_block"], instance))


@pytest.mark.requirement("length.bounded")
@settings(exact, max_examples=40)
@given(data=st.data())
def test_no_verifier_exceeds_it(drafted: Any, data: st.DataObject) -> None:
    instance = data.draw(drafted(shapes=SEVERAL))
    best = stateful(instance).value
    for name, algorithm in ALGORITHMS.items():
        try:
            require_fit(algorithm, instance)
        except InvalidInput:
            continue
        assert expected_accepted(emission_law(algorithm, instance)) <= best, name


@pytest.mark.requirement("length.bounded")
@settings(exact, max_examples=40)
@given(data=st.data())
def test_it_is_the_best_coupling_of_the_drafts_with_a_text(
    drafted: Any, data: st.DataObject
) -> None:
    """The transport program over all drafts and all texts, without any theory of either.

    HiGHS answers in floats, to its tolerance of 1e-7 on every constraint and price; with fewer
    than 100 of either and no value above 3, that is less than 1e-4 in the sum.
    """
    instance = data.draw(drafted(shapes=SEVERAL))
    assert abs(float(stateful(instance).value) - best_coupling(instance)) < 1e-4


def best_coupling(instance: Instance) -> float:
    drafts, text = draft_law(instance), instance.target.text(instance.length)
    pairs = [(d, x) for d in drafts for x in text]
    rows = [[float(d == drawn) for drawn, _ in pairs] for d in drafts]
    columns = [[float(x == said) for _, said in pairs] for x in text]
    found = linprog(
        [-shared(d, x) for d, x in pairs],
        A_ub=rows + columns,
        b_ub=[*(float(drafts[d]) for d in drafts), *(float(text[x]) for x in text)],
    )
    return float(-found.fun)


def shared(drafts: Drafts, text: Path) -> int:
    """Return the length of the longest prefix of the text that is drafted."""
    sizes = range(len(text) + 1)
    return max(size for path in drafts for size in sizes if path[:size] == text[:size])


def test_an_unknown_scheme_is_unsupported(motivating: Instance) -> None:
    with pytest.raises(Unsupported, match="unknown drafting scheme 'magic'"):
        stateful(replace(motivating, scheme="magic"))
