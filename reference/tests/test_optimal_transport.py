"""Optimal transport; `test_canonical` holds what the canonical decomposition adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.drafting import Siblings
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Row
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, emission_law, require_fit

exact = settings.get_profile("exact")
few = settings(exact, max_examples=50)

TRANSPORT = ALGORITHMS["optimal_transport"]

Instances = Callable[..., st.SearchStrategy[Instance]]
SiblingFormula = Callable[[str, Row, int], Law[Siblings]]
OneRow = Callable[..., Instance]


def bound(p: Row, drafted: Law[Siblings]) -> Rational:
    """1 + the least p(H) - Q(H) over all sets H, with Q(H) counted outcome by outcome."""
    tokens = range(len(p))
    sets = chain.from_iterable(combinations(tokens, size) for size in range(len(p) + 1))
    return 1 + min(
        total(p[token] for token in inside)
        - total(weight for drawn, weight in drafted.items() if set(drawn) <= set(inside))
        for inside in sets
    )


@pytest.mark.requirement("length.expected", "length.bounded")
@pytest.mark.parametrize("scheme", TRANSPORT.schemes)
@few
@given(data=st.data())
def test_one_position_reaches_the_bound_of_all_sets(
    scheme: str,
    drafted: Instances,
    one_position: list[tuple[int, Siblings]],
    sibling_formula: SiblingFormula,
    data: st.DataObject,
) -> None:
    instance = data.draw(drafted([scheme], shapes=one_position))
    p, q = instance.target(()), instance.draft(())
    value = expected_accepted(emission_law(TRANSPORT, instance))
    assert value == bound(p, sibling_formula(scheme, q, instance.drafts))
    for other in ALGORITHMS.values():
        try:
            require_fit(other, instance)
        except ValueError:
            continue
        if other.name != "k_seq":
            assert expected_accepted(emission_law(other, instance)) <= value


@pytest.mark.parametrize("scheme", ["without_replacement", "hub", "greedy"])
@few
@given(data=st.data())
def test_every_level_of_a_tree_reaches_its_own_bound(
    scheme: str, drafted: Instances, sibling_formula: SiblingFormula, data: st.DataObject
) -> None:
    shapes = [(2, (2, 2)), (3, (2, 2)), (2, (1, 2)), (3, (2, 1))]
    instance = data.draw(drafted([scheme], shapes=shapes))
    kept = emission_law(TRANSPORT, instance).map(lambda emission: emission.accepted)
    for x in instance.draft.reachable(1):
        if not x:
            continue
        goes_on = total(weight for accepted, weight in kept.items() if accepted[:1] == x)
        both = total(w for accepted, w in kept.items() if len(accepted) == 2 and accepted[:1] == x)
        law = sibling_formula(scheme, instance.draft(x), instance.widths[1])
        assert both == goes_on * bound(instance.target(x), law)


@few
@given(data=st.data())
def test_drafts_without_replacement_are_never_worse(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], shapes=one_position))
    other = replace(instance, scheme="without_replacement")
    with_it, without_it = (expected_accepted(emission_law(TRANSPORT, i)) for i in (instance, other))
    assert with_it <= without_it


def test_by_hand(one_row: OneRow) -> None:
    """1 + p(H) - Q(H) is least for H = {1}: 1 + 1/10 - 1/4."""
    instance = one_row("9/10 1/10", "1/2 1/2", drafts=2)
    assert expected_accepted(emission_law(TRANSPORT, instance)) == rational("17/20")
