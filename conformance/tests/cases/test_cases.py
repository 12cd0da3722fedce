from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256

import pytest
import torch

from draftproof.conformance.cases import Case, batches, cases
from draftproof.conformance.cases.trees import ways_to_draft
from draftproof.conformance.protocol.adapter import DTYPES
from draftproof.conformance.protocol.modes import MODES
from draftproof.reference.drafting import SCHEMES, draft_law
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, instance_to_json
from draftproof.reference.rational import exactly, rational
from draftproof.reference.rows import excess
from draftproof.reference.verifiers import ALGORITHMS, require_fit

ALL = cases("certify")
HALF = rational("1/2")


def test_modes_contain_each_other() -> None:
    ids = [{case.id for case in cases(mode)} for mode in MODES]
    assert ids[0] < ids[1] < ids[2]
    assert len(ids[2]) == len(ALL)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(Unsupported, match="unknown mode 'huge'; known: quick, standard, certify"):
        cases("huge")


@pytest.mark.parametrize(
    "case",
    [case for case in ALL if case.id not in ("motivating", "near-one.sure")],
    ids=lambda case: case.id,
)
def test_rows_are_exact_in_every_dtype(case: Case) -> None:
    for model in (case.instance.target, case.instance.draft):
        for row in model.rows.values():
            for dtype in DTYPES:
                floats = torch.tensor([float(w) for w in row], dtype=getattr(torch, dtype))
                assert [exactly(x) for x in floats.tolist()] == list(row)


def test_no_probability_is_smaller_than_the_tolerance_of_logits_counts_on() -> None:
    for case in ALL:
        for model in (case.instance.target, case.instance.draft):
            for row in model.rows.values():
                assert all(weight == 0 or weight >= rational("1/2048") for weight in row)


def test_the_kinds_that_a_toy_model_needs_are_there() -> None:
    instances = [case.instance for case in cases("standard")]

    def some(kind: object) -> bool:
        return any(kind(i) for i in instances)  # type: ignore[operator]

    assert some(lambda i: i.vocabulary == 1)
    assert some(lambda i: i.length == 1)
    assert some(lambda i: i.vocabulary == 4 and i.length == 3)
    assert some(lambda i: i.target(()) == i.draft(()))
    assert some(
        lambda i: all(p == 0 or q == 0 for p, q in zip(i.target(()), i.draft(()), strict=True))
    )
    assert some(lambda i: 1 in i.target(()))
    assert some(lambda i: 1 in i.draft(()))
    assert some(lambda i: 0 in i.target(()) and 0 in i.draft(()))
    assert some(lambda i: max(i.target(())) > rational("0.99"))
    assert some(lambda i: len(set(i.target(()))) < len(i.target(())))
    assert some(lambda i: len(set(i.target.rows.values())) == len(i.target.rows) > 1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_several_drafts_of_every_scheme_meet_what_one_does(scheme: str) -> None:
    instances = [case.instance for case in cases("standard") if case.id.startswith("several.")]
    instances = [i for i in instances if i.scheme == scheme]

    def some(kind: Callable[[Instance], bool]) -> bool:
        return any(map(kind, instances))

    assert {i.drafts for i in instances} == ({2} if scheme == "hub" else {2, 3})
    assert {(i.vocabulary, i.length) for i in instances} >= {(2, 1), (3, 1), (4, 1), (2, 2), (3, 2)}
    assert some(lambda i: i.target(()) == i.draft(()))
    assert some(
        lambda i: all(p == 0 or q == 0 for p, q in zip(i.target(()), i.draft(()), strict=True))
    )
    assert some(lambda i: 1 in i.target(()))
    assert some(lambda i: 0 in i.target(()) and 0 in i.draft(()))
    assert some(lambda i: len(set(i.draft(()))) == 1)
    assert some(lambda i: max(i.draft(())) >= rational("3/4"))


def test_as_many_paths_as_are_asked_for_are_always_drawn() -> None:
    """The tensors of a request have room for K paths; a scheme that runs out of tokens has fewer.

    The law is not needed to see it, which takes long for three paths: the supports are.
    """
    for case in ALL:
        drawn = case.instance
        if drawn.drafts > 1 and drawn.scheme != "iid":
            for context in drawn.draft.reachable(drawn.length - 1):
                support = sum(q != 0 for q in drawn.draft(context))
                assert support >= drawn.widths[len(context)], case.id


def test_siblings_repeat_where_they_are_independent() -> None:
    """To skip a token that was rejected before shows only if the residual is not even."""
    concentrated = next(c.instance for c in ALL if c.id == "several.iid.concentrated.k2")
    repeated = draft_law(concentrated).probability(lambda drafts: len(set(drafts)) == 1)
    assert repeated > HALF
    owed = excess(concentrated.target(()), concentrated.draft(()))
    assert len(set(owed)) == 3


TREES = [case for case in ALL if case.id.startswith("tree.")]


def test_only_trees_branch_and_all_of_them_do() -> None:
    assert {case.id for case in ALL if case.instance.branching} == {case.id for case in TREES}
    for case in TREES:
        assert case.id.startswith(f"tree.{case.instance.scheme}.")
        assert case.id.endswith(f".b{'x'.join(map(str, case.instance.branching))}")


@pytest.mark.parametrize(
    ("scheme", "shapes"),
    [
        ("iid", {(2, 2), (1, 2), (2, 1), (3, 2), (2, 2, 2)}),
        ("without_replacement", {(2, 2), (1, 2), (2, 1), (3, 2), (2, 2, 2)}),
        ("hub", {(2, 2), (1, 2), (2, 1), (2, 2, 2)}),
        ("greedy", {(2, 2), (1, 2), (2, 1), (3, 2), (2, 2, 2)}),
    ],
)
def test_every_scheme_has_trees_of_many_shapes(scheme: str, shapes: set[tuple[int, ...]]) -> None:
    own = [case.instance for case in TREES if case.instance.scheme == scheme]
    assert {tree.branching for tree in own} >= shapes
    for tree in own:
        for algorithm in ALGORITHMS.values():
            if algorithm.trees and scheme in algorithm.schemes and algorithm.most_drafts is None:
                require_fit(algorithm, tree)


def test_trees_can_be_enumerated() -> None:
    for case in TREES:
        ways = ways_to_draft(case.instance)
        assert ways <= 2_000, case.id
        if ways <= 64:
            assert len(draft_law(case.instance)) == ways, case.id


def test_quick_trees_are_few() -> None:
    for scheme in SCHEMES:
        quick = [c for c in cases("quick") if c.id.startswith(f"tree.{scheme}.")]
        assert 3 <= len(quick) <= 4
        assert sum(ways_to_draft(case.instance) for case in quick) <= 200


def test_siblings_of_trees_repeat_at_the_root_and_below_it() -> None:
    """A residual that is even, or of one token, shows no sibling that is skipped or tried twice."""
    trees = {case.id: case.instance for case in TREES}
    concentrated = trees["tree.iid.concentrated.b1x2"]
    for context in concentrated.draft.reachable(1):
        owed = excess(concentrated.target(context), concentrated.draft(context))
        assert len(set(owed)) == 3
    repeated = draft_law(trees["tree.iid.repeated.b2x2"])
    assert repeated.probability(lambda paths: len({path[0] for path in paths}) == 1) > HALF
    # Below the copies of one node, what is drawn differs.
    assert repeated.probability(lambda p: p[0][0] == p[2][0] and set(p[:2]) != set(p[2:])) > 0


def test_trees_have_what_a_toy_model_needs_below_the_root() -> None:
    standard = [case.instance for case in cases("standard") if case.id.startswith("tree.iid.")]

    def some(kind: Callable[[Instance], bool]) -> bool:
        return any(map(kind, standard))

    assert some(lambda i: (i.target((0,)) == i.draft((0,))) != (i.target((1,)) == i.draft((1,))))
    assert some(
        lambda i: all(p * q == 0 for p, q in zip(i.target((0,)), i.draft((0,)), strict=True))
    )
    assert some(lambda i: 0 in i.target((0,)) and 0 in i.draft((0,)))
    assert some(lambda i: 1 in i.draft((0,)))
    assert some(lambda i: 1 in i.target((0,)))


def test_batches_have_several_rows_and_names_of_their_own() -> None:
    ids = [{batch.id for batch in batches(mode)} for mode in MODES]
    assert ids[0] < ids[1] <= ids[2]
    assert len(ids[2]) == len(batches("certify"))
    assert all(len(batch.rows) > 1 for batch in batches("certify"))


def test_cases_stay_what_they_were() -> None:
    """A case id stands for its rows for ever, since certificates name cases by id.

    A case that must change gets a new id; then, and only then, a digest is renewed.
    """
    single = [case for case in ALL if case.instance.drafts == 1]
    several = [case for case in ALL if case.id.startswith("several.")]
    trees = [case for case in ALL if case.id.startswith("tree.")]
    assert digest(single) == "78d964704873e51a"
    assert digest(several) == "0c47ab93d2d40333"
    assert digest(trees) == "5721ac4ce167b98d"
    assert len(single) + len(several) + len(trees) == len(ALL)
    assert len({case.id for case in ALL}) == len(ALL)


def digest(some: list[Case]) -> str:
    written = sha256()
    for case in sorted(some, key=lambda case: case.id):
        written.update(json.dumps([case.id, instance_to_json(case.instance)]).encode())
    return written.hexdigest()[:16]
