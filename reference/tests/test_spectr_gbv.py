from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Drafts, Siblings
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.acceptance_rate import acceptance_rate
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law, verification_law

exact = settings.get_profile("exact")
few = settings(exact, max_examples=60)

SPECTR_GBV = ALGORITHMS["spectr_gbv"]

Instances = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]


def accepted_mass(instance: Instance, prefix: Path) -> Rational:
    """p(x) (1 - (1 - min(q(x) / p(x), 1))^K)."""
    p, q = instance.target.joint(prefix), instance.draft.joint(prefix)
    return p * (1 - (1 - min(q / p, ONE)) ** instance.drafts) if p else ZERO


@pytest.mark.requirement("length.expected")
@few
@given(data=st.data())
def test_every_prefix_is_accepted_as_the_theorem_says(
    drafted: Instances, data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], trees=False))
    emitted = emission_law(SPECTR_GBV, instance)
    prefixes = list(instance.draft.reachable(instance.length))
    for prefix in prefixes:
        kept = emitted.probability(lambda e, prefix=prefix: e.accepted[: len(prefix)] == prefix)  # type: ignore[misc]
        assert kept == accepted_mass(instance, prefix)
    assert expected_accepted(emitted) == total(accepted_mass(instance, x) for x in prefixes) - 1


@pytest.mark.requirement("law.state")
@few
@given(data=st.data())
def test_the_rows_that_are_left_behind_are_what_is_owed(
    drafted: Instances, data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], trees=False))

    def owed(text: Path) -> Rational:
        return instance.target.joint(text) - accepted_mass(instance, text)

    for left in emission_law(SPECTR_GBV, instance):
        for context, row in left.modified:
            text = left.tokens + context
            masses = [owed((*text, token)) for token in range(instance.vocabulary)]
            assert [x * total(masses) for x in row] == masses


@few
@given(data=st.data())
def test_one_position_is_no_better_than_the_optimum(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], shapes=one_position))
    assert expected_accepted(emission_law(SPECTR_GBV, instance)) <= acceptance_rate(instance).value


def value(algorithm: str, instance: Instance) -> Rational:
    return expected_accepted(emission_law(ALGORITHMS[algorithm], instance))


def test_it_is_not_the_optimum(one_row: OneRow) -> None:
    instance = one_row("9/10 1/10", "1/2 1/2", drafts=2)
    assert value("spectr_gbv", instance) == rational("37/45")
    assert acceptance_rate(instance).value == rational("17/20")


def test_it_can_lose_to_recursive_rejection(one_row: OneRow) -> None:
    instance = one_row("1/2 1/2 0", "1/5 1/20 3/4", drafts=2)
    assert value("spectr_gbv", instance) == rational("83/200")
    assert value("recursive_rejection", instance) == rational("7/16")


def test_the_order_of_the_drafts_does_not_matter(motivating: Instance) -> None:
    drafts: Drafts = ((0, 0), (1, 0))
    instance = Instance(motivating.target, motivating.draft, length=2, drafts=2)
    forwards, backwards = (
        verification_law(SPECTR_GBV, instance, paths).map(lambda e: (e.accepted, e.next_token))
        for paths in (drafts, drafts[::-1])
    )
    assert forwards == backwards


# What is wrong, and must be seen to be wrong.


def released_loop(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Test every draft of one token with A(x) / P(x was drafted), as the released code does."""
    tokens = range(instance.vocabulary)
    accepted = [accepted_mass(instance, (token,)) for token in tokens]
    drawn = [1 - (1 - x) ** instance.drafts for x in instance.draft(())]
    for token in drafts.siblings(()):
        if chance.coin(accepted[token] / drawn[token]):
            return emission(drafts, (token,), chance.draw(instance.target((token,))))
    owed = [instance.target(())[token] - accepted[token] for token in tokens]
    return emission(drafts, (), chance.draw(owed))


def test_the_released_loop_accepts_more_than_any_lossless_verifier(one_row: OneRow) -> None:
    """A draft's chance leaves out that another draft may have been accepted before it."""
    instance = one_row("1/2 1/2", "9/10 1/10", drafts=2)
    law = emission_law(Algorithm(name="loop", title="", source="", verify=released_loop), instance)
    assert expected_accepted(law) > acceptance_rate(instance).value == rational("69/100")
    assert continued(law, instance, 2) != instance.target.text(2)
