from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.acceptance_rate import acceptance_rate
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law
from draftproof.reference.verifiers.descent import descend
from draftproof.reference.verifiers.token import accept_or_correct

exact = settings.get_profile("exact")
few = settings(exact, max_examples=60)

GREEDY = ALGORITHMS["greedy_draft"]

Instances = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]


def by_position(p: Row, q: Row, drafts: int) -> list[Rational]:
    """P(accept i) = p(i) on the K - 1 most probable tokens, else min(p(i), q(i) / (1 - q(A)))."""
    fixed = sorted((t for t in range(len(q)) if q[t]), key=lambda t: (-q[t], t))[: drafts - 1]
    left = 1 - total(q[token] for token in fixed)
    return [
        a if token in fixed else min(a, b / left if b else b)
        for token, (a, b) in enumerate(zip(p, q, strict=True))
    ]


@pytest.mark.requirement("length.expected")
@few
@given(data=st.data())
def test_what_one_position_accepts(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    instance = data.draw(drafted(["greedy"], shapes=[*one_position, (4, (4,))]))
    p, q = instance.target(()), instance.draft(())
    law = emission_law(GREEDY, instance)
    kept = law.map(lambda emission: emission.accepted)
    shares = by_position(p, q, instance.drafts)
    assert [kept[token,] for token in range(len(p))] == shares
    assert expected_accepted(law) == acceptance_rate(instance).value == total(shares)


@few
@given(data=st.data())
def test_levels_of_a_tree_multiply(drafted: Instances, data: st.DataObject) -> None:
    shapes = [(2, (2, 1)), (3, (2, 1)), (2, (2, 2)), (3, (2, 2)), (3, (3, 2))]
    instance = data.draw(drafted(["greedy"], shapes=shapes))
    kept = emission_law(GREEDY, instance).map(lambda emission: emission.accepted)
    first = by_position(instance.target(()), instance.draft(()), instance.widths[0])
    for x in instance.draft.reachable(1):
        if x:
            below = by_position(instance.target(x), instance.draft(x), instance.widths[1])
            assert [kept[(*x, y)] for y in range(len(below))] == [first[x[0]] * b for b in below]


@few
@given(data=st.data())
def test_two_drafts_are_spechub_s_and_are_accepted_as_often(
    drafted: Instances, data: st.DataObject
) -> None:
    instance = data.draw(drafted(["greedy"], shapes=[(2, (2,)), (3, (2,)), (4, (2,))]))
    mine = emission_law(GREEDY, instance).map(lambda e: (e.accepted, e.next_token))
    hub = replace(instance, scheme="hub")
    its = emission_law(ALGORITHMS["spechub"], hub).map(lambda e: (e.accepted, e.next_token))
    assert mine == its


@pytest.mark.parametrize(
    ("target", "draft", "drafts", "value"),
    [
        ("1/2 1/4 1/4", "1/2 1/3 1/6", 2, "1"),
        ("1/3 0 2/3", "1/2 1/3 1/6", 2, "2/3"),
        ("1/3 1/3 1/3", "1/2 0 1/2", 3, "2/3"),  # the support runs out
        ("1/3 1/3 1/3", "0 1 0", 3, "1/3"),
        ("1/4 1/4 1/4 1/4", "1/4 1/4 1/4 1/4", 4, "1"),
        ("1/2 1/2 0 0", "0 0 1/2 1/2", 3, "0"),
    ],
)
def test_values_by_hand(one_row: OneRow, target: str, draft: str, drafts: int, value: str) -> None:
    instance = one_row(target, draft, drafts=drafts, scheme="greedy")
    assert expected_accepted(emission_law(GREEDY, instance)) == rational(value)


def as_if_drawn_from_all_of_q(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        token, _ = accept_or_correct(siblings[-1:], p, q, chance)
        return token, token in siblings

    return descend(rule, drafts, instance, chance)


def test_a_last_sibling_with_another_law_biases_the_text(one_row: OneRow) -> None:
    instance = one_row("1/2 1/4 1/4", "1/2 1/3 1/6", drafts=2, scheme="greedy")
    wrong = Algorithm(name="wrong", title="", source="", verify=as_if_drawn_from_all_of_q)
    law = emission_law(wrong, instance)
    assert continued(law, instance, 2) != instance.target.text(2)
