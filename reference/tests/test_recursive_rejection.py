from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import ONE, ZERO, Rational, positive_part, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law
from draftproof.reference.verifiers.descent import Rule, descend

exact = settings.get_profile("exact")
few = settings(exact, max_examples=50)

RECURSIVE = ALGORITHMS["recursive_rejection"]

Instances = Callable[..., st.SearchStrategy[Instance]]
SiblingFormula = Callable[[str, Row, int], Law[Siblings]]
OneRow = Callable[..., Instance]


def shared(p: Row, q: Row, width: int) -> Rational:
    """g of P(accept i) = min(p(i), g q(i)) for `width` i.i.d. tokens."""
    g = ZERO
    for _ in range(width):
        g = g + 1 - total(min(a, g * b) for a, b in zip(p, q, strict=True))
    return g


def tries(siblings: Siblings, p: Row, q: Row, replaced: bool) -> tuple[list[Rational], Row]:
    """The chance that each token is accepted, and the unscaled law of the correction."""
    accepted, alive, owed = [ZERO] * len(p), ONE, list(p)
    for i, token in enumerate(siblings):
        left = [ZERO if t in siblings[:i] and not replaced else x for t, x in enumerate(q)]
        law = [x / total(left) for x in left]
        passes = min(ONE, owed[token] / law[token])
        accepted[token] += alive * passes
        alive *= 1 - passes
        if alive == 0:
            return accepted, (ZERO,) * len(p)
        rest = [positive_part(a - b) for a, b in zip(owed, law, strict=True)]
        owed = [x / total(rest) for x in rest]
    return accepted, tuple(alive * x for x in owed)


@pytest.mark.requirement("length.expected")
@few
@given(data=st.data())
def test_what_one_position_accepts_with_replacement(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], shapes=one_position))
    p, q = instance.target(()), instance.draft(())
    law = emission_law(RECURSIVE, instance).map(lambda emission: emission.accepted)
    g = shared(p, q, instance.drafts)
    for token, (a, b) in enumerate(zip(p, q, strict=True)):
        assert law[token,] == min(a, g * b)


@pytest.mark.requirement("law.reference")
@pytest.mark.parametrize("scheme", RECURSIVE.schemes)
@few
@given(data=st.data())
def test_the_law_of_one_position(
    scheme: str,
    drafted: Instances,
    one_position: list[tuple[int, Siblings]],
    sibling_formula: SiblingFormula,
    data: st.DataObject,
) -> None:
    instance = data.draw(drafted([scheme], shapes=one_position))
    p, q = instance.target(()), instance.draft(())
    masses: dict[tuple[Path, int], Rational] = {}
    for siblings, weight in sibling_formula(scheme, q, instance.drafts).items():
        accepted, corrected = tries(siblings, p, q, scheme == "iid")
        for token in range(len(p)):
            for next_token, bonus in enumerate(instance.target((token,))):
                key = ((token,), next_token)
                masses[key] = masses.get(key, ZERO) + weight * accepted[token] * bonus
            masses[(), token] = masses.get(((), token), ZERO) + weight * corrected[token]
    law = emission_law(RECURSIVE, instance)
    assert law.map(lambda e: (e.accepted, e.next_token)) == Law(masses)


@few
@given(data=st.data())
def test_two_levels_of_a_tree(
    drafted: Instances, sibling_formula: SiblingFormula, data: st.DataObject
) -> None:
    """A token that is drafted n times among the siblings has n times as many below it."""
    shapes = [(2, (2, 1)), (3, (2, 1)), (2, (3, 1)), (3, (1, 2)), (2, (2, 2)), (3, (2, 2))]
    instance = data.draw(drafted(["iid"], shapes=shapes))
    p, q = instance.target(()), instance.draft(())
    kept = emission_law(RECURSIVE, instance).map(lambda emission: emission.accepted)
    for x in range(len(p)):
        expected = [ZERO] * len(p)
        for siblings, weight in sibling_formula("iid", q, instance.widths[0]).items():
            if x in siblings:
                accepted, _ = tries(siblings, p, q, replaced=True)
                below, drawn = instance.target((x,)), instance.draft((x,))
                g = shared(below, drawn, siblings.count(x) * instance.widths[1])
                for y, (a, b) in enumerate(zip(below, drawn, strict=True)):
                    expected[y] += weight * accepted[x] * min(a, g * b)
        assert [kept[x, y] for y in range(len(p))] == expected


def test_two_drafts_by_hand(one_row: OneRow) -> None:
    """g_1 = 1 and g_2 = 2 - 1/4: min(1/2, 7/20) + min(1/2, 7/80)."""
    instance = one_row("1/2 1/2 0", "1/5 1/20 3/4", drafts=2)
    assert expected_accepted(emission_law(RECURSIVE, instance)) == rational("7/16")


# What is wrong, and must be seen to be wrong.


def positive(p: Row, q: Row) -> Row:
    rest = tuple(positive_part(a - b) for a, b in zip(p, q, strict=True))
    return tuple(x / total(rest) for x in rest)


def tried(*, skips: bool = False, replaced: bool = True, renormalised: bool = True) -> Rule:
    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        for i, token in enumerate(siblings):
            if skips and token in siblings[:i]:
                continue
            left = tuple(ZERO if t in siblings[:i] and not replaced else x for t, x in enumerate(q))
            law = tuple(x / total(left) for x in left) if renormalised else left
            if chance.coin(min(ONE, p[token] / law[token])):
                return token, True
            p = positive(p, law)
        return chance.draw(p), False

    return rule


def by(rule: Rule) -> Algorithm:
    def verify(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        return descend(rule, drafts, instance, chance)

    return Algorithm(name="tried", title="", source="", verify=verify)


def text(algorithm: Algorithm, instance: Instance) -> Law[Path]:
    return continued(emission_law(algorithm, instance), instance, instance.length + 1)


P, Q = "4/11 7/22 7/22", "15/22 3/22 2/11"


def test_a_duplicate_that_is_skipped_biases_the_text(one_row: OneRow) -> None:
    instance = one_row(P, Q, drafts=2)
    law = emission_law(by(tried(skips=True)), instance).map(lambda emission: emission.tokens[0])
    expected = ("4/11", "147/484", "161/484")
    assert [law[token] for token in range(3)] == list(map(rational, expected))
    assert text(by(tried()), instance) == instance.target.text(2)


@pytest.mark.parametrize(
    "rule",
    [tried(replaced=True), tried(replaced=False, renormalised=False)],
    ids=["as if with replacement", "not renormalised"],
)
def test_drafts_without_replacement_have_another_law(rule: Rule, one_row: OneRow) -> None:
    instance = one_row(P, Q, drafts=2, scheme="without_replacement")
    assert text(by(rule), instance) != instance.target.text(2)
    assert text(by(tried(replaced=False)), instance) == instance.target.text(2)
