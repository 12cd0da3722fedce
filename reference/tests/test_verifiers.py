from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings

from draftproof.reference.drafting import Drafts
from draftproof.reference.emission import Emission
from draftproof.reference.errors import InvalidInput, TokenOutOfRange, Unsupported, WrongShape
from draftproof.reference.model import Instance, instance_from_json
from draftproof.reference.process import expected_accepted
from draftproof.reference.verifiers import (
    ALGORITHMS,
    Algorithm,
    algorithm_named,
    emission_law,
    verification_law,
)

exact = settings.get_profile("exact")

every_algorithm = pytest.mark.parametrize(
    "algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.name
)


def refused(kind: type[Exception], message: str, call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        call()
    assert (type(refusal.value), str(refusal.value)) == (kind, message)


def test_the_table_names_every_algorithm() -> None:
    assert [algorithm_named(name).name for name in ALGORITHMS] == list(ALGORITHMS)
    refused(
        Unsupported,
        "unknown algorithm 'blocc'; known: block, token",
        lambda: algorithm_named("blocc"),
    )


@every_algorithm
@exact
@given(instance=...)
def test_what_is_emitted_was_drafted_up_to_the_next_token(
    algorithm: Algorithm, instance: Instance
) -> None:
    for path in instance.draft.text(instance.length):
        law = verification_law(algorithm, instance, (path,))
        assert law.expectation(lambda _: 1) == 1
        for emission in law:
            assert emission.path == 0
            assert emission.accepted == path[: len(emission.accepted)]
            assert emission.next_token in range(instance.vocabulary)


@every_algorithm
@exact
@given(instance=...)
def test_a_draft_that_is_the_target_is_accepted_whole(
    algorithm: Algorithm, instance: Instance
) -> None:
    instance = replace(instance, draft=instance.target)
    emitted = emission_law(algorithm, instance)
    assert expected_accepted(emitted) == instance.length
    assert emitted == instance.target.text(instance.length + 1).map(
        lambda text: Emission(0, text[:-1], text[-1])
    )


@every_algorithm
def test_a_draft_of_what_the_target_never_says_is_corrected_at_once(algorithm: Algorithm) -> None:
    instance = instance_from_json(
        {"vocabulary": 3, "length": 2, "target": ["1/3", "2/3", "0"], "draft": ["0", "0", "1"]}
    )
    assert emission_law(algorithm, instance) == instance.target.text(1).map(
        lambda text: Emission(0, (), text[0])
    )


@every_algorithm
@pytest.mark.parametrize(
    ("drafts", "kind", "message"),
    [
        ((), WrongShape, "the instance has 1 drafts, got 0 paths"),
        (((0,),), WrongShape, "path (0,) must have 2 tokens, has 1"),
        (((0, 0, 0),), WrongShape, "path (0, 0, 0) must have 2 tokens, has 3"),
        (
            ((0, 1),),
            WrongShape,
            "path (0, 1) has probability 0 under the draft: it cannot be drafted",
        ),
        (((0, 2),), TokenOutOfRange, "token 2 of context '0,2' in the draft is not in 0..1"),
        (((-1, 0),), TokenOutOfRange, "token -1 of context '-1,0' in the draft is not in 0..1"),
    ],
)
def test_drafts_that_cannot_be(
    algorithm: Algorithm, drafts: Drafts, kind: type[Exception], message: str
) -> None:
    instance = instance_from_json(
        {"vocabulary": 2, "length": 2, "target": ["1/2", "1/2"], "draft": ["1", "0"]}
    )
    refused(kind, message, lambda: verification_law(algorithm, instance, drafts))


@every_algorithm
def test_more_drafts_than_an_algorithm_takes(algorithm: Algorithm, motivating: Instance) -> None:
    message = f"{algorithm.name} verifies at most 1 path, got 2"
    instance = replace(motivating, drafts=2)
    refused(Unsupported, message, lambda: verification_law(algorithm, instance, ((0, 0), (0, 0))))
    refused(Unsupported, message, lambda: emission_law(algorithm, instance))


@every_algorithm
def test_fewer_paths_than_were_drafted(algorithm: Algorithm, motivating: Instance) -> None:
    message = "the instance has 2 drafts, got 1 paths"
    instance = replace(motivating, drafts=2)
    refused(WrongShape, message, lambda: verification_law(algorithm, instance, ((0, 0),)))
