from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.acceptance_rate import acceptance_rate
from draftproof.reference.optimum.k_seq_factor import least_factor
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import ONE, Rational, positive_part, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law
from draftproof.reference.verifiers.descent import descend
from draftproof.reference.verifiers.k_seq import k_seq

exact = settings.get_profile("exact")
few = settings(exact, max_examples=40)

K_SEQ = ALGORITHMS["k_seq"]
GRID = rational(1) / 2**64

Instances = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]


def at(rho: Rational) -> Algorithm:
    return replace(K_SEQ, verify=partial(k_seq, rho=rho))


def each(p: Row, q: Row, rho: Rational) -> Rational:
    """The chance that one draft is accepted."""
    return total(min(a / rho, b) for a, b in zip(p, q, strict=True))


def slack(p: Row, q: Row, drafts: int, rho: Rational) -> Rational:
    """What is not negative from rho* on: rho b - (1 - (1 - b)^K)."""
    b = each(p, q, rho)
    return rho * b - 1 + (1 - b) ** drafts


def shares(p: Row, q: Row, drafts: int, rho: Rational) -> list[Rational]:
    """P(accept i): 1 - (1 - b)^K, shared in proportion to min(p / rho, q)."""
    b = each(p, q, rho)
    any_of_them = 1 - (1 - b) ** drafts
    return [
        any_of_them * min(x / rho, y) / b if b else rational(0) for x, y in zip(p, q, strict=True)
    ]


factors = st.integers(0, 24).map(lambda n: 1 + rational(n) / 12)


@pytest.mark.requirement("law.lossless", "length.expected")
@few
@given(data=st.data(), rho=factors)
def test_what_a_given_factor_accepts(
    drafted: Instances,
    one_position: list[tuple[int, Siblings]],
    data: st.DataObject,
    rho: Rational,
) -> None:
    instance = data.draw(drafted(["iid"], shapes=one_position))
    p, q, drafts = instance.target(()), instance.draft(()), instance.drafts
    accepted = shares(p, q, drafts, rho)
    owed = [x - share for x, share in zip(p, accepted, strict=True)]
    if slack(p, q, drafts, rho) < 0:
        # A token that the draft offers enough of would be owed less than nothing.
        is_short = any(0 < x <= rho * y for x, y in zip(p, q, strict=True))
        assert min(owed) < 0 or not is_short
        with pytest.raises(Unsupported):
            emission_law(at(rho), instance)
        return
    assert min(owed) >= 0
    law = emission_law(at(rho), instance)
    kept = law.map(lambda emission: emission.accepted)
    assert [kept[token,] for token in range(len(p))] == accepted
    corrected = law.map(lambda e: e.next_token if not e.accepted else -1)
    assert [corrected[token] for token in range(len(p))] == owed
    assert continued(law, instance, 2) == instance.target.text(2)


@few
@given(data=st.data())
def test_the_least_factor_accepts_what_the_paper_says_to_within_the_grid(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    """With rho* in (rho - 2^-64, rho], g = (1 - (1 - b)^K) / b grows with rho and is at most rho,
    so P(accept i) = g min(p / rho, q) is at most min(p, rho q), and at least
    (rho* / rho) min(p, rho* q).
    """
    instance = data.draw(drafted(["iid"], shapes=one_position))
    p, q, drafts = instance.target(()), instance.draft(()), instance.drafts
    rho = least_factor(p, q, drafts)
    assert 1 <= rho <= drafts
    assert slack(p, q, drafts, rho) >= 0
    below = rho if slack(p, q, drafts, rho) == 0 else rho - GRID
    assert rho == 1 or slack(p, q, drafts, rho - GRID) < 0
    kept = emission_law(K_SEQ, instance).map(lambda emission: emission.accepted)
    for token, (x, y) in enumerate(zip(p, q, strict=True)):
        assert below / rho * min(x, below * y) <= kept[token,] <= min(x, rho * y)


@few
@given(data=st.data())
def test_it_lies_between_recursive_rejection_and_the_optimum(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    """The optimum is at most 1 / (1 - (1 - 1/K)^K) times as much. Rounding rho costs 2^-64."""
    instance = data.draw(drafted(["iid"], shapes=one_position))
    value = expected_accepted(emission_law(K_SEQ, instance))
    recursive = expected_accepted(emission_law(ALGORITHMS["recursive_rejection"], instance))
    best = acceptance_rate(instance).value
    assert recursive - GRID <= value <= best
    drafts = instance.drafts
    assert value >= (1 - (1 - rational(1) / drafts) ** drafts) * best - GRID


@pytest.mark.parametrize(
    ("target", "draft", "drafts", "rho"),
    [
        ("3/4 1/4", "1 0", 2, "3/2"),  # rho^2 - 2 rho + 3/4
        ("5/8 3/8", "3/4 1/4", 2, "5/4"),  # rho^2 - 7/4 rho + 5/8
        ("1/3 2/3", "1/3 2/3", 3, "1"),  # the target itself
        ("1 0", "0 1", 3, "1"),  # nothing in common: every factor will do
        ("0 1", "1/2 1/2", 2, "3/2"),  # b = 1/2 where p exceeds rho q
        ("0 1", "1/2 1/2", 3, "7/4"),
        ("1/3 2/3", "2/3 1/3", 1, "1"),
        ("1", "1", 3, "1"),
    ],
)
def test_rational_factors(one_row: OneRow, target: str, draft: str, drafts: int, rho: str) -> None:
    instance = one_row(target, draft, drafts=drafts)
    p, q = instance.target(()), instance.draft(())
    assert least_factor(p, q, drafts) == rational(rho)


def test_an_irrational_factor_is_the_next_multiple_of_two_to_the_minus_64(
    one_row: OneRow,
) -> None:
    """rho* = (3/2 + sqrt(37/20)) / 2, the larger root of rho^2 - 3/2 rho + 1/10."""
    instance = one_row("9/10 1/10", "1/2 1/2", drafts=2)
    rho = least_factor(instance.target(()), instance.draft(()), 2)
    assert (rho * 2**64).denominator == 1

    def parabola(x: Rational) -> Rational:
        return x**2 - rational("3/2") * x + rational("1/10")

    assert parabola(rho - GRID) < 0 < parabola(rho)
    assert rho > rational("3/4")


@few
@given(data=st.data(), rho=factors)
def test_every_larger_factor_is_lossless_and_accepts_less(
    drafted: Instances,
    one_position: list[tuple[int, Siblings]],
    data: st.DataObject,
    rho: Rational,
) -> None:
    instance = data.draw(drafted(["iid"], shapes=one_position))
    p, q, drafts = instance.target(()), instance.draft(()), instance.drafts
    least = least_factor(p, q, drafts)
    assert (rho >= least) == (slack(p, q, drafts, rho) >= 0)
    assume(rho >= least)
    best, other = (expected_accepted(emission_law(a, instance)) for a in (K_SEQ, at(rho)))
    assert other <= best


# What is wrong, and must be seen to be wrong.


@pytest.mark.parametrize("rho", ["1", "149/100", "-1"])
def test_a_smaller_factor_is_refused(rho: str, one_row: OneRow) -> None:
    instance = one_row("3/4 1/4", "1 0", drafts=2)
    with pytest.raises(Unsupported) as refusal:
        emission_law(at(rational(rho)), instance)
    assert str(refusal.value) == f"K-SEQ needs a rho of at least rho* = 1.5 here, got {rho}"


def carelessly(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Use rho = 1, and cut off what is owed less than nothing."""

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        for token in siblings:
            if chance.coin(min(ONE, p[token] / q[token])):
                return token, True
        left = [
            positive_part(x - y) for x, y in zip(p, shares(p, q, len(siblings), ONE), strict=True)
        ]
        return chance.draw(left if any(left) else p), False

    return descend(rule, drafts, instance, chance)


def test_a_smaller_factor_biases_the_text(one_row: OneRow) -> None:
    instance = one_row("1/2 1/4 1/4", "1/4 1/2 1/4", drafts=2)
    law = emission_law(replace(K_SEQ, verify=carelessly), instance)
    assert continued(law, instance, 2) != instance.target.text(2)
