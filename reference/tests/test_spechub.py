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
from draftproof.reference.rational import ONE, Rational, positive_part, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law
from draftproof.reference.verifiers.descent import descend

exact = settings.get_profile("exact")
few = settings(exact, max_examples=80)

SPECHUB = ALGORITHMS["spechub"]
PAIRS = [(2, (2,)), (3, (2,)), (4, (2,))]

Instances = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]


def hub_of(q: Row) -> int:
    return q.index(max(q))


def by_position(p: Row, q: Row) -> list[Rational]:
    """P(accept the hub) = p; elsewhere min(p, q / (1 - q(hub)))."""
    hub = hub_of(q)
    return [
        a if token == hub else min(a, b / (1 - q[hub]) if b else b)
        for token, (a, b) in enumerate(zip(p, q, strict=True))
    ]


@pytest.mark.requirement("length.expected")
@few
@given(data=st.data())
def test_what_one_position_accepts(drafted: Instances, data: st.DataObject) -> None:
    instance = data.draw(drafted(["hub"], shapes=PAIRS))
    p, q = instance.target(()), instance.draft(())
    law = emission_law(SPECHUB, instance)
    kept = law.map(lambda emission: emission.accepted)
    assert [kept[token,] for token in range(len(p))] == by_position(p, q)
    assert expected_accepted(law) == acceptance_rate(instance).value == total(by_position(p, q))
    # The hub is never a correction.
    assert not any(not e.accepted and e.next_token == hub_of(q) for e in law)


@few
@given(data=st.data())
def test_levels_of_a_tree_multiply(drafted: Instances, data: st.DataObject) -> None:
    instance = data.draw(drafted(["hub"], shapes=[(2, (2, 2)), (3, (2, 2))]))
    kept = emission_law(SPECHUB, instance).map(lambda emission: emission.accepted)
    first = by_position(instance.target(()), instance.draft(()))
    for x in instance.draft.reachable(1):
        if x:
            below = by_position(instance.target(x), instance.draft(x))
            assert [kept[(*x, y)] for y in range(len(below))] == [first[x[0]] * b for b in below]


@few
@given(data=st.data())
def test_the_single_tokens_below_a_pair_are_verified_as_such(
    drafted: Instances, data: st.DataObject
) -> None:
    instance = data.draw(drafted(["hub"], shapes=[(2, (2, 1)), (3, (2, 1))]))
    kept = emission_law(SPECHUB, instance).map(lambda emission: emission.accepted)
    first = by_position(instance.target(()), instance.draft(()))
    for x in instance.draft.reachable(1):
        if x:
            below = map(min, instance.target(x), instance.draft(x))
            assert [kept[(*x, y)] for y in range(instance.vocabulary)] == [
                first[x[0]] * b for b in below
            ]


@few
@given(data=st.data())
def test_where_the_hub_outweighs_the_disagreement_it_beats_rejection(
    drafted: Instances, data: st.DataObject
) -> None:
    """q(a) / (1 - q(a)) >= TV(p, q) suffices against i.i.d. drafts, q(a) >= TV against others."""
    instance = data.draw(drafted(["hub"], shapes=PAIRS))
    p, q = instance.target(()), instance.draft(())
    distance = 1 - total(map(min, p, q))
    value = expected_accepted(emission_law(SPECHUB, instance))

    def rejection(scheme: str) -> Rational:
        drawn = replace(instance, scheme=scheme)
        return expected_accepted(emission_law(ALGORITHMS["recursive_rejection"], drawn))

    if max(q) >= distance * (1 - max(q)):
        assert value >= rejection("iid")
    if max(q) >= distance:
        assert value >= rejection("without_replacement")


@pytest.mark.parametrize(
    ("target", "draft", "value"),
    [
        ("1/3 1/3 1/3", "0 1 0", "1/3"),  # the hub alone is drafted
        ("1/3 1/3 1/3", "1/3 1/3 1/3", "1"),
        ("1/2 1/4 1/4", "1/2 1/2 0", "3/4"),  # of equals the smaller token is the hub
        ("1/4 1/2 1/4", "1/2 1/2 0", "3/4"),
        ("0 1/2 1/2", "1/2 1/4 1/4", "1"),
        ("0 1", "1 0", "0"),
    ],
)
def test_values_by_hand(one_row: OneRow, target: str, draft: str, value: str) -> None:
    instance = one_row(target, draft, drafts=2, scheme="hub")
    assert expected_accepted(emission_law(SPECHUB, instance)) == rational(value)


# What is wrong, and must be seen to be wrong.


def hubbed(*, swapped: bool = False, own_law: bool = True, takes_turns: bool = True) -> Algorithm:
    """Return SpecHub with a part of it exchanged, its four passes written pair by pair."""

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        hub = hub_of(q)
        others = [token for token in range(len(q)) if token != hub and q[token]]
        second = {i: q[i] for i in others}
        first = {i: q[hub] * q[i] / ((1 - q[hub]) if own_law else 1) for i in others}
        passes = [first, second] if swapped else [second, first]
        owed = dict(enumerate(p))
        keeps: dict[tuple[int, int], Rational] = {}
        unused: list[Rational] = []
        for number, offered in enumerate(passes):
            left = {i: positive_part(x - owed[i]) for i, x in offered.items()}
            for i, x in offered.items():
                keeps[number, i] = min(ONE, owed[i] / x)
            owed |= {i: positive_part(owed[i] - x) for i, x in offered.items()}
            unused.append(total(left.values()))
        hub_keeps = [ONE, ONE]
        for number in (1, 0):
            if unused[number]:
                hub_keeps[number] = min(ONE, owed[hub] / unused[number])
            if takes_turns:
                owed[hub] = positive_part(owed[hub] - unused[number])
        is_second = siblings[0] == hub
        number = int(is_second != swapped)
        other = siblings[1] if is_second else siblings[0]
        if chance.coin(keeps[number, other]):
            return other, True
        if chance.coin(hub_keeps[number]):
            return hub, True
        return chance.draw([owed[token] for token in range(len(p))]), False

    def verify(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        return descend(rule, drafts, instance, chance)

    return Algorithm(name="hubbed", title="", source="", verify=verify)


def is_lossless(algorithm: Algorithm, instance: Instance) -> bool:
    law = emission_law(algorithm, instance)
    return continued(law, instance, 2) == instance.target.text(2)


def test_the_hub_s_capacity_is_shared_out_and_counted_once(one_row: OneRow) -> None:
    instance = one_row("1/4 1/4 1/2", "1/2 3/8 1/8", drafts=2, scheme="hub")
    assert emission_law(hubbed(), instance) == emission_law(SPECHUB, instance)
    assert is_lossless(hubbed(swapped=True), instance)
    assert not is_lossless(hubbed(own_law=False), instance)
    assert not is_lossless(hubbed(takes_turns=False), instance)
