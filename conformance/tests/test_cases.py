from __future__ import annotations

import json
from hashlib import sha256

import pytest
import torch

from draftproof.conformance.adapter import DTYPES
from draftproof.conformance.cases import TIERS, Case, batches, cases
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import instance_to_json
from draftproof.reference.rational import exactly, rational

ALL = cases("full")


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


def test_batches_mix_cases_and_places() -> None:
    sizes = [len(batch.rows) for batch in batches("standard")]
    assert sizes == [2, 2, 2, 3, 5]
    assert len(batches("quick")) == 3


def test_cases_stay_what_they_were() -> None:
    """A case id stands for its rows for ever, since certificates name cases by id.

    A case that must change gets a new id; then, and only then, this digest is renewed.
    """
    digest = sha256()
    for case in sorted(ALL, key=lambda case: case.id):
        digest.update(json.dumps([case.id, instance_to_json(case.instance)]).encode())
    assert digest.hexdigest()[:16] == "78d964704873e51a"
