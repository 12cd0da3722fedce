from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.drafting import sibling_law
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.ledger.quantities import subset_formula
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.acceptance_rate import (
    AcceptanceRate,
    acceptance_rate,
    best_rate,
    check,
    convexity_gap,
    sorted_prefix_rate,
)
from draftproof.reference.optimum.certified import NotOptimal
from draftproof.reference.rational import ONE, Rational, rational, total

exact = settings.get_profile("exact")
few = settings(exact, max_examples=60)

Siblings = tuple[int, ...]
SiblingFormula = Callable[[str, Row, int], Law[Siblings]]
Drafted = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]

SCHEMES = ["iid", "without_replacement", "hub", "greedy"]


def subsets(size: int) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(range(size), n) for n in range(size + 1)))


def bound(p: Row, drafted: Law[Siblings]) -> Rational:
    """1 + the least p(H) - Q(H) over all sets H, with Q(H) counted outcome by outcome."""
    return 1 + min(
        total(p[i] for i in inside)
        - total(weight for drawn, weight in drafted.items() if set(drawn) <= set(inside))
        for inside in subsets(len(p))
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@few
@given(data=st.data())
def test_the_rate_is_the_least_bound_of_all_sets(
    scheme: str,
    drafted: Drafted,
    one_position: list[tuple[int, Siblings]],
    sibling_formula: SiblingFormula,
    data: st.DataObject,
) -> None:
    instance = data.draw(drafted([scheme], shapes=one_position))
    p, q, width = instance.target(()), instance.draft(()), instance.drafts
    law = sibling_formula(scheme, q, width)
    best = acceptance_rate(instance)
    assert best.value == bound(p, law) == best_rate(p, law).value
    assert total(best.coupling.values()) == best.value
    assert subset_formula(instance) == best.value


@few
@given(data=st.data())
def test_any_joint_law_of_drafts_has_a_rate(data: st.DataObject) -> None:
    counts = data.draw(
        st.dictionaries(
            st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple),
            st.integers(1, 5),
            min_size=1,
        )
    )
    shares = data.draw(st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any))
    p = tuple(rational(share) / sum(shares) for share in shares)
    law = Law({drawn: rational(count) / sum(counts.values()) for drawn, count in counts.items()})
    best = best_rate(p, law)
    check(best, p, law)
    assert best.value == bound(p, law)


@pytest.mark.parametrize("scheme", ["iid", "without_replacement"])
@few
@given(data=st.data())
def test_one_sort_suffices_where_the_draft_law_is_convex(
    scheme: str, drafted: Drafted, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    instance = data.draw(drafted([scheme], shapes=one_position))
    p, q, width = instance.target(()), instance.draft(()), instance.drafts
    drawable = [token for token, weight in enumerate(q) if weight != 0]
    for x, y in combinations(drawable, 2):
        for base in subsets(len(q)):
            if x not in base and y not in base:
                assert convexity_gap(scheme, q, width, base, x, y) >= 0
                assert convexity_gap(scheme, q, width, base, y, x) >= 0
    assert sorted_prefix_rate(scheme, p, q, width) == acceptance_rate(instance).value


@pytest.mark.parametrize(
    ("target", "draft", "drafts", "scheme", "value"),
    [
        ("1/3 2/3", "2/3 1/3", 1, "iid", "2/3"),
        ("9/10 1/10", "1/2 1/2", 2, "iid", "17/20"),
        ("1/2 1/2 0", "1/5 1/20 3/4", 2, "iid", "7/16"),
        ("3/5 2/5", "1/2 1/2", 2, "iid", "1"),
        ("3/5 2/5", "1/2 1/2", 2, "without_replacement", "1"),
        ("0 1", "1 0", 2, "iid", "0"),
        ("0 1", "1 0", 2, "greedy", "0"),
        ("1/3 1/3 1/3", "1 0 0", 2, "hub", "1/3"),
    ],
)
def test_rates_by_hand(
    one_row: OneRow, target: str, draft: str, drafts: int, scheme: str, value: str
) -> None:
    instance = one_row(target, draft, drafts=drafts, scheme=scheme)
    assert acceptance_rate(instance).value == rational(value)


def test_more_than_one_drafted_token_is_unsupported(motivating: Instance) -> None:
    with pytest.raises(Unsupported) as refusal:
        acceptance_rate(motivating)
    assert str(refusal.value) == (
        "the acceptance rate is defined for a draft of 1 token, the instance has 2"
    )


# What proves nothing.

HALF = rational("1/2")
P = (rational("1/3"), rational("2/3"))
Q = (rational("2/3"), rational("1/3"))
LAW = sibling_law("iid", Q, 1)
RATE = best_rate(P, LAW)
GIVEN = dict(RATE.coupling)
BIT = rational("1/100")


def test_the_certificate_by_hand() -> None:
    assert {(0, (0,)): P[0], (1, (1,)): Q[1]} == GIVEN
    assert (RATE.value, RATE.capped) == (rational("2/3"), frozenset({0}))


@pytest.mark.parametrize(
    ("forged", "message"),
    [
        (replace(RATE, value=ONE), "coupling 2/3, cap 2/3 and value 1 differ"),
        (replace(RATE, capped=frozenset()), "coupling 2/3, cap 1 and value 2/3 differ"),
        (replace(RATE, capped=frozenset({1})), "coupling 2/3, cap 4/3 and value 2/3 differ"),
        (
            replace(RATE, coupling={**GIVEN, (0, (1,)): BIT}),
            "the coupling gives 1/100 to token 0 from (1,)",
        ),
        (
            replace(RATE, coupling={**GIVEN, (0, (0,)): -BIT}),
            "the coupling gives -1/100 to token 0 from (0,)",
        ),
        (
            replace(RATE, coupling={**GIVEN, (0, (0,)): HALF}),
            "the coupling gives token 0 more than the target does",
        ),
        (
            replace(RATE, coupling={**GIVEN, (1, (1,)): HALF}),
            "the coupling takes more from (1,) than is drafted",
        ),
        (
            replace(RATE, coupling={(0, (0,)): P[0]}),
            "coupling 1/3, cap 2/3 and value 2/3 differ",
        ),
    ],
)
def test_a_forged_certificate_is_refused(forged: AcceptanceRate, message: str) -> None:
    with pytest.raises(NotOptimal) as refusal:
        check(forged, P, LAW)
    assert str(refusal.value) == message
