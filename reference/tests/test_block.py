from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given, settings

from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import ONE, Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, emission_law, verification_law

exact = settings.get_profile("exact")

BLOCK, TOKEN = ALGORITHMS["block"], ALGORITHMS["token"]


def weight(instance: Instance, prefix: Path) -> Rational:
    """P(accepted length >= i | path[:i]) for this prefix: the least product of its last p/q."""
    p, q = instance.target, instance.draft
    ratios = [p(prefix[:i])[token] / q(prefix[:i])[token] for i, token in enumerate(prefix)]
    return min(prod(ratios[start:], start=ONE) for start in range(len(prefix) + 1))


def accepted_mass(instance: Instance, prefix: Path) -> Rational:
    """P(what is accepted starts with the prefix): all that target and draft both can give."""
    if not prefix:
        return ONE
    parent, token = prefix[:-1], prefix[-1]
    affordable = accepted_mass(instance, parent) * instance.target(parent)[token]
    return min(affordable, instance.draft.joint(prefix))


def at_least(accepted: int, instance: Instance, path: Path) -> Rational:
    """P(accepted length >= i | path)."""
    law = verification_law(BLOCK, instance, (path,))
    return law.probability(lambda emission: len(emission.accepted) >= accepted)


@pytest.mark.requirement("length.expected")
@exact
@given(instance=...)
def test_the_accepted_length_on_every_prefix(instance: Instance) -> None:
    paths = instance.draft.text(instance.length)
    for prefix in instance.draft.reachable(instance.length):
        reached = total(
            drafted * at_least(len(prefix), instance, path)
            for path, drafted in paths.items()
            if path[: len(prefix)] == prefix
        )
        assert reached == instance.draft.joint(prefix) * weight(instance, prefix)


def test_later_tokens_decide_whether_a_prefix_is_kept(motivating: Instance) -> None:
    assert weight(motivating, (0,)) == rational("1/2")
    assert at_least(1, motivating, (0, 0)) == rational("1/4")
    assert at_least(1, motivating, (0, 1)) == 1


@pytest.mark.requirement("law.reference")
@exact
@given(instance=...)
def test_the_law_of_what_is_emitted(instance: Instance) -> None:
    """A correction takes what the target gives to the token, less what is accepted with it."""
    emitted = {}
    for accepted in instance.draft.reachable(instance.length):
        mass, is_full = accepted_mass(instance, accepted), len(accepted) == instance.length
        for token, p in enumerate(instance.target(accepted)):
            kept = 0 if is_full else accepted_mass(instance, (*accepted, token))
            emitted[Emission(0, accepted, token)] = mass * p - kept
    assert emission_law(BLOCK, instance) == Law(emitted)


@exact
@given(instance=...)
def test_block_accepts_every_prefix_at_least_as_often_as_token(instance: Instance) -> None:
    block, token = emission_law(BLOCK, instance), emission_law(TOKEN, instance)
    for prefix in instance.draft.reachable(instance.length):

        def is_kept(emission: Emission, prefix: Path = prefix) -> bool:
            return emission.accepted[: len(prefix)] == prefix

        assert block.probability(is_kept) >= token.probability(is_kept)
    assert expected_accepted(block) >= expected_accepted(token)


@exact
@given(instance=...)
def test_block_and_token_are_one_where_one_token_is_drafted(instance: Instance) -> None:
    instance = replace(instance, length=1)
    for path in instance.draft.text(1):
        assert verification_law(BLOCK, instance, (path,)) == verification_law(
            TOKEN, instance, (path,)
        )


def test_the_motivating_example(motivating: Instance) -> None:
    assert expected_accepted(emission_law(BLOCK, motivating)) == rational("11/9")
