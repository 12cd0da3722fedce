from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.drafting import Drafts
from draftproof.reference.emission import Emission
from draftproof.reference.errors import InvalidInput, TokenOutOfRange, Unsupported, WrongShape
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, instance_from_json
from draftproof.reference.process import expected_accepted
from draftproof.reference.verifiers import (
    ALGORITHMS,
    Algorithm,
    algorithm_named,
    emission_law,
    require_fit,
    verification_law,
)

exact = settings.get_profile("exact")
few = settings(exact, max_examples=40)
fewer = settings(exact, max_examples=15)

Instances = Callable[..., st.SearchStrategy[Instance]]
PathFormula = Callable[[Instance], Law[Drafts]]
OneRow = Callable[..., Instance]

every_algorithm = pytest.mark.parametrize(
    "algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.name
)
every_several = pytest.mark.parametrize(
    ("algorithm", "scheme"),
    [
        (algorithm, scheme)
        for algorithm in ALGORITHMS.values()
        if algorithm.most_drafts is None
        for scheme in algorithm.schemes
    ],
    ids=lambda value: value.name if isinstance(value, Algorithm) else value,
)


def refused(kind: type[Exception], message: str, call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        call()
    assert (type(refusal.value), str(refusal.value)) == (kind, message)


def test_the_table_names_every_algorithm() -> None:
    assert [algorithm_named(name).name for name in ALGORITHMS] == list(ALGORITHMS)
    refused(
        Unsupported,
        "unknown algorithm 'blocc', did you mean 'block'?",
        lambda: algorithm_named("blocc"),
    )
    refused(
        Unsupported,
        f"unknown algorithm 'magic'; known: {', '.join(sorted(ALGORITHMS))}",
        lambda: algorithm_named("magic"),
    )


# What is emitted.


@pytest.mark.requirement("law.prefix")
@every_algorithm
@few
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


@pytest.mark.requirement("law.prefix")
@every_several
@fewer
@given(data=st.data())
def test_drafts_that_are_drawn_when_asked_for_are_no_other_drafts(
    algorithm: Algorithm,
    scheme: str,
    drafted: Instances,
    path_formula: PathFormula,
    data: st.DataObject,
) -> None:
    """What is accepted starts a path, and the path is the first one that starts with it."""
    shapes = [(2, (2,)), (3, (3,)), (3, (2,)), (2, (2, 1)), (3, (2, 1)), (2, (2, 2)), (2, (1, 2))]
    instance = data.draw(drafted([scheme], shapes=shapes, trees=algorithm.trees))

    def verified(drafts: Drafts) -> Law[Emission]:
        law = verification_law(algorithm, instance, drafts)
        for emission in law:
            accepted = emission.accepted
            starts = [i for i, path in enumerate(drafts) if path[: len(accepted)] == accepted]
            assert emission.path == starts[0]
        return law

    assert path_formula(instance).then(verified) == emission_law(algorithm, instance)


FAMILIES = {
    "token": (
        "recursive_rejection",
        "k_seq",
        "naive_tree",
        "spechub",
        "greedy_draft",
        "optimal_transport",
        "canonical",
    ),
    "block": (
        "multipath_block",
        "traversal",
        "mixed_multipath_block",
        "scored_multipath_block",
    ),
    "greedy_block": ("spectr_gbv", "recursive_greedy_block", "scored_greedy_block"),
}


def test_every_algorithm_but_target_first_is_one_of_three_with_one_draft() -> None:
    named = {name for single, names in FAMILIES.items() for name in (single, *names)}
    assert named | {"target_first"} == set(ALGORITHMS)


@pytest.mark.parametrize(
    ("name", "single"), [(name, single) for single in FAMILIES for name in FAMILIES[single]]
)
@few
@given(instance=...)
def test_with_one_draft_only_three_algorithms_are_left(
    name: str, single: str, instance: Instance
) -> None:
    algorithm = ALGORITHMS[name]
    expected = emission_law(ALGORITHMS[single], instance)
    for scheme in ("iid", "without_replacement", "hub", "greedy"):
        assert emission_law(algorithm, replace(instance, scheme=scheme)) == expected


# A draft that agrees is not always accepted whole: these follow the target, or a skewed draft.
WASTEFUL = ("target_first", "multipath_block", "mixed_multipath_block")


@every_algorithm
@few
@given(instance=...)
def test_a_draft_that_is_the_target_is_accepted_whole(
    algorithm: Algorithm, instance: Instance
) -> None:
    instance = replace(instance, draft=instance.target)
    emitted = emission_law(algorithm, instance)
    if algorithm.name == "target_first":
        return
    assert expected_accepted(emitted) == instance.length
    assert emitted == instance.target.text(instance.length + 1).map(
        lambda text: Emission(0, text[:-1], text[-1])
    )


@every_several
@fewer
@given(data=st.data())
def test_several_drafts_of_the_target_itself_are_not_all_refused(
    algorithm: Algorithm, scheme: str, drafted: Instances, data: st.DataObject
) -> None:
    if algorithm.name in WASTEFUL:
        return
    instance = data.draw(drafted([scheme], trees=algorithm.trees, longest=2))
    emitted = emission_law(algorithm, replace(instance, draft=instance.target))
    assert expected_accepted(emitted) == instance.length


@pytest.mark.requirement("law.support")
@every_algorithm
def test_a_draft_of_what_the_target_never_says_is_corrected_at_once(
    algorithm: Algorithm, one_row: OneRow
) -> None:
    instance = one_row("1/3 2/3 0", "0 0 1", length=2)
    corrected = instance.target.text(1).map(lambda text: text[0])
    for drafts in (1, 2) if algorithm.most_drafts is None else (1,):
        for scheme in algorithm.schemes:
            law = emission_law(algorithm, replace(instance, drafts=drafts, scheme=scheme))
            # What is owed is the whole target, in the first token and in what follows it.
            assert law.map(lambda emission: emission.next_token) == corrected
            assert {emission.accepted for emission in law} == {()}


# What is refused.


@every_algorithm
@pytest.mark.parametrize(
    ("drafts", "kind", "message"),
    [
        ((), WrongShape, "the instance has 1 drafts, got 0 paths"),
        (((0, 0), (0, 0)), WrongShape, "the instance has 1 drafts, got 2 paths"),
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
    algorithm: Algorithm,
    drafts: Drafts,
    kind: type[Exception],
    message: str,
    one_row: OneRow,
) -> None:
    instance = one_row("1/2 1/2", "1 0", length=2)
    refused(kind, message, lambda: verification_law(algorithm, instance, drafts))


@pytest.mark.parametrize("name", ["token", "block", "greedy_block"])
def test_more_drafts_than_an_algorithm_takes(name: str, motivating: Instance) -> None:
    message = f"{name} verifies at most 1 path, got 2"
    algorithm, instance = ALGORITHMS[name], replace(motivating, drafts=2)
    refused(Unsupported, message, lambda: verification_law(algorithm, instance, ((0, 0), (0, 0))))
    refused(Unsupported, message, lambda: emission_law(algorithm, instance))


@pytest.mark.parametrize(
    ("name", "scheme", "message"),
    [
        (
            "recursive_rejection",
            "hub",
            "recursive_rejection verifies several drafts of the scheme 'iid' or "
            "'without_replacement', got 'hub'",
        ),
        (
            "naive_tree",
            "greedy",
            "naive_tree verifies several drafts of the scheme 'iid' or 'without_replacement' or "
            "'hub', got 'greedy'",
        ),
        (
            "k_seq",
            "without_replacement",
            "k_seq verifies several drafts of the scheme 'iid', got 'without_replacement'",
        ),
        ("spechub", "iid", "spechub verifies several drafts of the scheme 'hub', got 'iid'"),
        (
            "greedy_draft",
            "hub",
            "greedy_draft verifies several drafts of the scheme 'greedy', got 'hub'",
        ),
        (
            "traversal",
            "greedy",
            "traversal verifies several drafts of the scheme 'iid' or 'without_replacement', "
            "got 'greedy'",
        ),
    ],
)
def test_a_scheme_that_an_algorithm_does_not_take(
    name: str, scheme: str, message: str, motivating: Instance
) -> None:
    instance = replace(motivating, drafts=2, scheme=scheme)
    refused(Unsupported, message, lambda: emission_law(ALGORITHMS[name], instance))
    refused(Unsupported, message, lambda: verification_law(ALGORITHMS[name], instance, ()))


@every_algorithm
def test_every_pair_of_algorithm_and_instance_fits_or_is_refused(
    algorithm: Algorithm, motivating: Instance
) -> None:
    for scheme in ("iid", "without_replacement", "hub", "greedy"):
        for drafts, branching in ((1, ()), (2, ()), (2, (1, 2)), (2, (2, 1)), (4, (2, 2))):
            instance = replace(motivating, drafts=drafts, scheme=scheme, branching=branching)
            fits = drafts == 1 or (
                algorithm.most_drafts is None
                and scheme in algorithm.schemes
                and (algorithm.trees or branching in ((), (2, 1)))
            )
            if fits:
                require_fit(algorithm, instance)
            else:
                with pytest.raises(Unsupported):
                    require_fit(algorithm, instance)


@pytest.mark.parametrize(
    "name", [name for name, algorithm in ALGORITHMS.items() if not algorithm.trees]
)
def test_a_tree_where_paths_are_taken(name: str, motivating: Instance) -> None:
    instance = replace(motivating, drafts=2, branching=(1, 2))
    message = f"{name} verifies paths that branch at the root only, got branching [1, 2]"
    refused(Unsupported, message, lambda: emission_law(ALGORITHMS[name], instance))


@every_algorithm
def test_an_unknown_scheme(algorithm: Algorithm, motivating: Instance) -> None:
    message = "unknown drafting scheme 'best'; known: iid, without_replacement, hub, greedy"
    instance = replace(motivating, scheme="best")
    refused(Unsupported, message, lambda: emission_law(algorithm, instance))
    refused(Unsupported, message, lambda: verification_law(algorithm, instance, ((0, 0),)))


@pytest.mark.parametrize("name", ["optimal_transport", "target_first"])
def test_fewer_paths_than_were_drafted(name: str, motivating: Instance) -> None:
    message = "the instance has 2 drafts, got 1 paths"
    instance = replace(motivating, drafts=2)
    algorithm = ALGORITHMS[name]
    refused(WrongShape, message, lambda: verification_law(algorithm, instance, ((0, 0),)))


@pytest.mark.parametrize("scheme", ["without_replacement", "hub", "greedy"])
def test_fewer_paths_where_the_support_runs_out(scheme: str, one_row: OneRow) -> None:
    instance = one_row("1/3 2/3", "1 0", drafts=2, scheme=scheme)
    assert verification_law(ALGORITHMS["optimal_transport"], instance, ((0,),)) == emission_law(
        ALGORITHMS["optimal_transport"], instance
    )


def test_a_document_is_verified_as_it_was_written() -> None:
    document = {
        "vocabulary": 2,
        "length": 2,
        "scheme": "tree",
        "branching": [2, 2],
        "target": ["1/3", "2/3"],
        "draft": ["1/2", "1/2"],
    }
    instance = instance_from_json(document)
    assert instance.widths == (2, 2)
    law = emission_law(ALGORITHMS["recursive_rejection"], instance)
    assert {emission.path for emission in law} <= {0, 1, 2, 3}
