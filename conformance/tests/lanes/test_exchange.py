from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.exchange import (
    Failure,
    as_given,
    outcomes,
    raised,
    request,
    verified,
    with_noise,
)
from draftproof.conformance.protocol.adapter import Declaration, Request, Result, declaration
from draftproof.reference.emission import Emission
from draftproof.reference.errors import WrongShape
from draftproof.reference.rational import rational, total

CASES = {case.id: case for case in cases("standard")}
TWO = CASES["generic.v2.l2"].instance
ONE = CASES["generic.v2.l1"].instance


def declared(**attributes: Any) -> Declaration:
    return declaration(
        SimpleNamespace(name="a", version="1", algorithm="token", verify=print, **attributes)
    )


def test_dyadic_rows_are_given_exactly() -> None:
    case = CASES["generic.v3.l2"]
    assert as_given(case.instance, declared(dtype="bfloat16")) == case.instance


def test_thirds_are_given_as_the_floats_that_they_become() -> None:
    given = as_given(CASES["motivating"].instance, declared())
    # 1/3 and 2/3 are rounded alike, so normalising makes the row exact again.
    assert given.target(()) == (rational("1/3"), rational("2/3"))


def test_logits_are_given_as_their_exact_softmax() -> None:
    case = CASES["zeros.both"]
    given = as_given(case.instance, declared(logits=True))
    for context, row in given.target.rows.items():
        assert total(row) == 1
        nominal = case.instance.target(context)
        assert [weight == 0 for weight in row] == [weight == 0 for weight in nominal]
        gap = max(abs(a - b) for a, b in zip(row, nominal, strict=True))
        # A logit of size 3 is rounded by at most 2**-23, and moves its weight by that share.
        assert 0 < gap < rational(2) ** -22


@pytest.mark.parametrize("shift", [1e4, -1e4])
def test_shifted_logits_are_given_with_the_rounding_of_their_shift(shift: float) -> None:
    given = as_given(TWO, declared(logits=True), shift=shift)
    for context, row in given.target.rows.items():
        assert total(row) == 1
        gap = abs(row[0] - TWO.target(context)[0])
        # Floats near 10**4 are 2**-10 apart: each logit is off by 2**-11, which moves a weight of
        # at most 1/4 = p(1 - p) by twice that share.
        assert gap <= rational(2) ** -12


def test_short_rows_are_padded_for_a_ragged_adapter() -> None:
    asked = request([(TWO, ((0, 1),)), (ONE, ((1,),))], declared(ragged=True))
    assert asked.lengths is not None
    assert asked.lengths.tolist() == [2, 1]
    assert asked.draft_tokens.tolist() == [[[0, 1]], [[1, -1]]]
    assert asked.draft_probs[1].isnan().tolist() == [[[False] * 2, [True] * 2]]
    assert asked.target_probs[1].isnan().tolist() == [[[False] * 2, [False] * 2, [True] * 2]]


def test_only_who_takes_logits_is_given_them() -> None:
    asked = request([(TWO, ((0, 1),))], declared())
    assert (asked.draft_logits, asked.target_logits, asked.lengths) == (None, None, None)
    asked = request([(TWO, ((0, 1),))], declared(logits=True), shift=3.0)
    assert asked.draft_logits is not None
    assert torch.equal(asked.draft_logits, asked.draft_probs.log() + 3)


def test_only_who_takes_trees_is_told_how_they_branch() -> None:
    tree = CASES["tree.iid.v2.b2x2"].instance
    drafts = ((0, 1), (0, 0), (1, 1), (1, 0))
    assert request([(tree, drafts)] * 2, declared(trees=True)).branching == (2, 2)
    assert request([(tree, drafts)], declared()).branching is None
    assert request([(TWO, ((0, 1),))], declared(trees=True)).branching is None


def test_paths_that_share_a_node_are_given_equal_rows() -> None:
    tree = CASES["tree.iid.v2.b2x2"].instance
    asked = request([(tree, ((0, 1), (0, 0), (1, 1), (1, 0)))], declared(trees=True))
    q, p = asked.draft_probs[0], asked.target_probs[0]
    assert torch.equal(q[0], q[1])
    assert torch.equal(q[2], q[3])
    assert torch.equal(p[0, :2], p[1, :2])
    assert not torch.equal(q[0, 1], q[2, 1])
    assert not torch.equal(p[0, 2], p[1, 2])


def test_rows_that_branch_differently_are_refused() -> None:
    tree = CASES["tree.iid.v2.b2x2"].instance
    flat = replace(tree, branching=())
    drafts = ((0, 1), (0, 0), (1, 1), (1, 0))
    with pytest.raises(WrongShape) as refused:
        request([(tree, drafts), (flat, drafts)], declared(trees=True))
    assert str(refused.value) == (
        "the rows of a request must branch alike: one has [2, 2] tokens after contexts of each "
        "depth, another []"
    )


def test_noise_has_the_law_and_the_shape_that_were_asked_for() -> None:
    noise = {"coins": ("uniform", "K", "L"), "race": ("exponential", "V"), "pair": ("uniform", 2)}
    of = declared(noise=noise)
    rows = [(TWO, ((0, 1),))] * 3
    asked = with_noise(request(rows, of), of)
    assert asked.noise is not None
    shapes = {name: list(drawn.shape) for name, drawn in asked.noise.items()}
    assert shapes == {"coins": [3, 1, 2], "race": [3, 2], "pair": [3, 2]}
    assert all(((drawn >= 0) & (drawn < 1)).all() for drawn in (asked.noise["coins"],))
    again = with_noise(request(rows, of), of).noise
    # A fresh generator has one seed: what is drawn depends on nothing else.
    assert again is not None
    assert all(torch.equal(again[name], drawn) for name, drawn in asked.noise.items())
    assert with_noise(request(rows, declared()), declared()).noise is None


def test_paths_that_share_what_was_accepted_are_one() -> None:
    instance = replace(TWO, drafts=2)
    drafts = ((0, 1), (0, 0))
    column = torch.tensor
    read = outcomes(
        (column([1, 1, 2]), column([0, 1, 1]), column([1, 1, 1])), [(instance, drafts)] * 3
    )
    assert read == (Emission(0, (0,), 1), Emission(0, (0,), 1), Emission(1, (0, 0), 1))


def test_an_error_is_the_outcome_of_every_row() -> None:
    def verify(asked: Request) -> Result:
        raise IndexError("7")

    adapter = SimpleNamespace(name="a", version="1", algorithm="token", verify=verify)
    read = verified(adapter, [(TWO, ((0, 1),))] * 2, declared())
    line = verify.__code__.co_firstlineno + 1
    assert read == (Failure(f"raised IndexError: 7 (test_exchange.py:{line})"),) * 2


def test_an_error_is_told_without_addresses() -> None:
    """What is not the same in two runs would make evidence that nobody can repeat."""
    words = raised(TypeError(f"no row: {object()}"))
    assert words == "raised TypeError: no row: <object object at 0x...>"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": 0, "next_token": 0}, "SimpleNamespace has no accepted_length"),
        ({"accepted_length": 0}, "SimpleNamespace has no path and no next_token"),
        ({}, "verify must return a Result, got SimpleNamespace"),
    ],
)
def test_a_missing_field_is_named(given: Any, message: str) -> None:
    adapter = SimpleNamespace(
        name="a", version="1", algorithm="token", verify=lambda asked: SimpleNamespace(**given)
    )
    (found,) = verified(adapter, [(TWO, ((0, 1),))], declared())
    assert isinstance(found, Failure)
    assert found.what.endswith(message)
