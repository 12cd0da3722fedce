from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.drafting import Siblings
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Row
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import ONE, ZERO, Rational, positive_part, rational, total
from draftproof.reference.verifiers import ALGORITHMS, emission_law

exact = settings.get_profile("exact")
few = settings(exact, max_examples=50)

NAIVE = ALGORITHMS["naive_tree"]

Instances = Callable[..., st.SearchStrategy[Instance]]
SiblingFormula = Callable[[str, Row, int], Law[Siblings]]
OneRow = Callable[..., Instance]


def by_position(p: Row, q: Row, drafts: int) -> list[Rational]:
    """P(accept i) for i.i.d. siblings: min(p, q) + (p - q)+ (1 - (1 - q)^(K - 1))."""
    return [
        min(a, b) + positive_part(a - b) * (1 - (1 - b) ** (drafts - 1))
        for a, b in zip(p, q, strict=True)
    ]


@pytest.mark.requirement("length.expected")
@few
@given(data=st.data())
def test_what_one_position_accepts_of_iid_siblings(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], shapes=one_position))
    p, q = instance.target(()), instance.draft(())
    kept = emission_law(NAIVE, instance).map(lambda emission: emission.accepted)
    assert [kept[token,] for token in range(len(p))] == by_position(p, q, instance.drafts)


@few
@given(data=st.data())
def test_where_the_first_token_is_alone_levels_multiply(
    drafted: Instances, data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], shapes=[(2, (1, 2)), (3, (1, 2)), (3, (1, 3))]))
    kept = emission_law(NAIVE, instance).map(lambda emission: emission.accepted)
    first = by_position(instance.target(()), instance.draft(()), 1)
    for x in range(instance.vocabulary):
        below = by_position(instance.target((x,)), instance.draft((x,)), instance.drafts)
        for y, share in enumerate(below):
            assert kept[x, y] == first[x] * share


@pytest.mark.parametrize("scheme", NAIVE.schemes)
@few
@given(data=st.data())
def test_what_one_position_accepts(
    scheme: str,
    drafted: Instances,
    one_position: list[tuple[int, Siblings]],
    sibling_formula: SiblingFormula,
    data: st.DataObject,
) -> None:
    """The correction of the first sibling lands on each of the others as often as it is drawn."""
    instance = data.draw(drafted([scheme], shapes=one_position))
    p, q = instance.target(()), instance.draft(())
    over = [positive_part(a - b) for a, b in zip(p, q, strict=True)]
    accepted = [ZERO] * len(p)
    for siblings, weight in sibling_formula(scheme, q, instance.drafts).items():
        first = siblings[0]
        passes = min(ONE, p[first] / q[first])
        accepted[first] += weight * passes
        for token in set(siblings) if passes < 1 else ():
            accepted[token] += weight * (1 - passes) * over[token] / total(over)
    kept = emission_law(NAIVE, instance).map(lambda emission: emission.accepted)
    assert [kept[token,] for token in range(len(p))] == accepted


def test_by_hand(one_row: OneRow) -> None:
    """min(p, q) sums to 2/3; the other third is owed to token 1, which the second draft hits."""
    instance = one_row("1/3 2/3", "2/3 1/3", drafts=2)
    value = rational("2/3") + rational("1/3") * rational("1/3")
    assert expected_accepted(emission_law(NAIVE, instance)) == value


def test_a_first_sibling_with_another_law_biases_the_text(one_row: OneRow) -> None:
    """The greedy scheme's first token is fixed: verified as if drawn from q, it comes too often."""
    instance = one_row("1/2 1/4 1/4", "1/2 1/3 1/6", drafts=2, scheme="greedy")
    careless = replace(NAIVE, schemes=("greedy",))
    law = emission_law(careless, instance)
    assert continued(law, instance, 2) != instance.target.text(2)
