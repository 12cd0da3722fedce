from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256

import pytest
import torch

from draftproof.conformance.adapter import DTYPES
from draftproof.conformance.cases import TIERS, Case, batches, cases
from draftproof.reference.drafting import SCHEMES, draft_law
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, instance_to_json
from draftproof.reference.rational import exactly, rational
from draftproof.reference.rows import excess

ALL = cases("full")
HALF = rational("1/2")


def test_tiers_contain_each_other() -> None:
    ids = [{case.id for case in cases(tier)} for tier in TIERS]
    assert ids[0] < ids[1] < ids[2]
    assert len(ids[2]) == len(ALL)


def test_an_unknown_tier_is_refused() -> None:
    with pytest.raises(Unsupported, match="unknown tier 'huge'; known: quick, standard, full"):
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
    instances = [i for case in cases("standard") if (i := case.instance).drafts > 1]
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

    The law is not needed to see it, which takes long for three paths: the support is.
    """
    for case in ALL:
        if case.instance.drafts > 1 and case.instance.scheme != "iid":
            support = sum(q != 0 for q in case.instance.draft(()))
            assert support >= case.instance.drafts, case.id


def test_siblings_repeat_where_they_are_independent() -> None:
    """To skip a token that was rejected before shows only if the residual is not even."""
    concentrated = next(c.instance for c in ALL if c.id == "several.iid.concentrated.k2")
    repeated = draft_law(concentrated).probability(lambda drafts: len(set(drafts)) == 1)
    assert repeated > HALF
    owed = excess(concentrated.target(()), concentrated.draft(()))
    assert len(set(owed)) == 3


def test_batches_have_several_rows_and_names_of_their_own() -> None:
    ids = [{batch.id for batch in batches(tier)} for tier in TIERS]
    assert ids[0] < ids[1] <= ids[2]
    assert len(ids[2]) == len(batches("full"))
    assert all(len(batch.rows) > 1 for batch in batches("full"))


def test_cases_stay_what_they_were() -> None:
    """A case id stands for its rows for ever, since certificates name cases by id.

    A case that must change gets a new id; then, and only then, a digest is renewed.
    """
    single = [case for case in ALL if case.instance.drafts == 1]
    several = [case for case in ALL if case.instance.drafts > 1]
    assert digest(single) == "78d964704873e51a"
    assert digest(several) == "0ca793d716767ce1"
    assert len({case.id for case in ALL}) == len(ALL)


def digest(some: list[Case]) -> str:
    written = sha256()
    for case in sorted(some, key=lambda case: case.id):
        written.update(json.dumps([case.id, instance_to_json(case.instance)]).encode())
    return written.hexdigest()[:16]
