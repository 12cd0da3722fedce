from __future__ import annotations

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

TOKEN = ALGORITHMS["token"]


def weight(instance: Instance, prefix: Path) -> Rational:
    """P(accepted length >= i | path), for the prefix of i tokens: the product of min(1, p/q)."""
    p, q = instance.target, instance.draft
    steps = [(prefix[:i], token) for i, token in enumerate(prefix)]
    return prod((min(ONE, p(context)[t] / q(context)[t]) for context, t in steps), start=ONE)


def accepted_mass(instance: Instance, prefix: Path) -> Rational:
    """P(what is accepted starts with the prefix): the product of min(p, q)."""
    p, q = instance.target, instance.draft
    steps = [(prefix[:i], token) for i, token in enumerate(prefix)]
    return prod((min(p(context)[t], q(context)[t]) for context, t in steps), start=ONE)


@pytest.mark.requirement("length.expected")
@exact
@given(instance=...)
def test_the_accepted_length_on_every_path(instance: Instance) -> None:
    for path in instance.draft.text(instance.length):
        lengths = verification_law(TOKEN, instance, (path,)).map(lambda e: len(e.accepted))
        for i in range(instance.length + 1):
            at_least = total(lengths[length] for length in range(i, instance.length + 1))
            assert at_least == weight(instance, path[:i])


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
    assert emission_law(TOKEN, instance) == Law(emitted)


def test_the_motivating_example(motivating: Instance) -> None:
    assert expected_accepted(emission_law(TOKEN, motivating)) == rational("10/9")
