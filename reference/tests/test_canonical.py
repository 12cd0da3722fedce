from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.drafting import Drafts, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Row
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, emission_law, verification_law

exact = settings.get_profile("exact")
few = settings(exact, max_examples=60)

CANONICAL = ALGORITHMS["canonical"]

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


@pytest.mark.requirement("length.expected")
@pytest.mark.parametrize("scheme", CANONICAL.schemes)
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
    law = sibling_formula(scheme, instance.draft(()), instance.drafts)
    value = expected_accepted(emission_law(CANONICAL, instance))
    assert value == bound(instance.target(()), law)


@pytest.mark.parametrize("scheme", CANONICAL.schemes)
@few
@given(data=st.data())
def test_what_is_refused_is_corrected_whatever_was_drafted(
    scheme: str,
    drafted: Instances,
    one_position: list[tuple[int, Siblings]],
    sibling_formula: SiblingFormula,
    data: st.DataObject,
) -> None:
    """Token verification of the selected sibling knows its law only, not the others."""
    instance = data.draw(drafted([scheme], shapes=one_position))
    p = instance.target(())
    kept = emission_law(CANONICAL, instance).map(lambda emission: emission.accepted)
    owed = [a - kept[token,] for token, a in enumerate(p)]
    assert min(owed) >= 0
    for siblings in sibling_formula(scheme, instance.draft(()), instance.drafts):
        drafts: Drafts = tuple((token,) for token in siblings)
        law: Law[Emission] = verification_law(CANONICAL, instance, drafts)
        refused = [total(w for e, w in law.items() if e.tokens == (t,)) for t in range(len(p))]
        assert all(e.accepted[0] in siblings for e in law if e.accepted)
        assert [x * total(owed) for x in refused] == [total(refused) * x for x in owed]


def test_by_hand(one_row: OneRow) -> None:
    instance = one_row("9/10 1/10", "1/2 1/2", drafts=2)
    assert expected_accepted(emission_law(CANONICAL, instance)) == rational("17/20")
