from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Drafts, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law
from draftproof.reference.verifiers.descent import descend

exact = settings.get_profile("exact")
few = settings(exact, max_examples=60)

TARGET_FIRST = ALGORITHMS["target_first"]

Instances = Callable[..., st.SearchStrategy[Instance]]
PathFormula = Callable[[Instance], Law[Drafts]]
OneRow = Callable[..., Instance]


@few
@given(data=st.data())
def test_the_expected_length_on_iid_paths(drafted: Instances, data: st.DataObject) -> None:
    """The sum of P(x) (1 - (1 - Q(x))^K) over prefixes."""
    instance = data.draw(drafted(["iid"], trees=False))
    prefixes = [c for c in instance.draft.reachable(instance.length) if c]
    value = total(
        instance.target.joint(x) * (1 - (1 - instance.draft.joint(x)) ** instance.drafts)
        for x in prefixes
    )
    assert expected_accepted(emission_law(TARGET_FIRST, instance)) == value


@pytest.mark.requirement("length.expected")
@pytest.mark.parametrize("scheme", TARGET_FIRST.schemes)
@few
@given(data=st.data())
def test_a_prefix_is_accepted_if_it_is_said_and_drafted(
    scheme: str, drafted: Instances, path_formula: PathFormula, data: st.DataObject
) -> None:
    instance = data.draw(drafted([scheme]))
    paths = path_formula(instance)
    emitted = emission_law(TARGET_FIRST, instance)
    for prefix in instance.draft.reachable(instance.length):

        def starts(path: Path, prefix: Path = prefix) -> bool:
            return path[: len(prefix)] == prefix

        drawn = paths.probability(lambda drafts, starts=starts: any(map(starts, drafts)))  # type: ignore[misc]
        kept = emitted.probability(lambda emission, starts=starts: starts(emission.accepted))  # type: ignore[misc]
        assert kept == instance.target.joint(prefix) * drawn


def test_by_hand(one_row: OneRow) -> None:
    """A sure draft is followed as often as the target says it, however many copies there are."""
    instance = one_row("1/3 2/3", "0 1", length=2, drafts=3)
    assert expected_accepted(emission_law(TARGET_FIRST, instance)) == rational("10/9")


def until_drafted(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Where the target's token was not drafted, take a drafted one."""

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        token = chance.draw(p)
        return (token if token in siblings else siblings[0]), True

    return descend(rule, drafts, instance, chance)


def test_staying_on_the_drafts_biases_the_text(motivating: Instance) -> None:
    staying = Algorithm(name="staying", title="", source="", verify=until_drafted)
    law = emission_law(staying, motivating)
    assert continued(law, motivating, 3) != motivating.target.text(3)
