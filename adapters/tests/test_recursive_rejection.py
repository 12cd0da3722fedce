"""Recursive rejection sampling: the masses behind its trials, and what a wrong one is told by."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

from draftproof.adapters.fast import FastVerifier
from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.inputs import from_request
from draftproof.conformance.cases import Case
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import Request, Result, program_of
from draftproof.conformance.requirements.finding import FAIL
from draftproof.conformance.requirements.laws import judge
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import rational

WITH, WITHOUT = "recursive_rejection", "recursive_rejection_without_replacement"


def batch(p: list[float], q: list[float], tokens: list[int], *, requests: int = 1) -> Batch:
    """Return requests with these siblings, whose bonus is always token 0."""
    target = torch.tensor([p, [1.0] + [0.0] * (len(p) - 1)]).expand(requests, len(tokens), -1, -1)
    draft = torch.tensor([[q]]).expand(requests, len(tokens), -1, -1)
    paths = torch.tensor(tokens)[None, :, None].expand(requests, -1, -1)
    return from_request(Request(paths, draft, target), most_drafts=8)


def verified(name: str, given: Batch, noise: list[list[float]], form: str) -> Result:
    return FastVerifier(name, form=form).of(given, torch.tensor(noise, dtype=torch.float64))


@pytest.mark.parametrize("form", ["torch", "triton"])
def test_copies_of_a_refused_token_are_not_accepted_later(form: str) -> None:
    """The first refusal leaves nothing to siblings that are the same, however low their coins."""
    noise = [[0.5, *[0.0] * 7, 0.5], [0.75, *[0.0] * 7, 0.0], [0.25, *[0.0] * 7, 0.0]]
    given = batch([0.5, 0.5], [1.0, 0.0], [0] * 8, requests=3)
    result = verified(WITH, given, noise, form)
    assert result.accepted_length.tolist() == [0, 0, 1]
    assert result.next_token.tolist() == [1, 1, 0]


@pytest.mark.parametrize("form", ["torch", "triton"])
def test_the_second_sibling_is_measured_by_what_the_first_has_left(form: str) -> None:
    """Of q = 1, 2**-30, 2**-31 the last two are drawn second with 2/3 and 1/3, not 0/0.

    p - q leaves them 1/4 and 1/4, the half of 1/2 each: so the more probable is accepted with
    (1/2) / (2/3) = 3/4, the other always.
    """
    p, q = [0.5, 0.25, 0.25], [1.0, 2.0**-30, 2.0**-31]
    for second, coins, accepted in ((1, (0.7499, 0.7501), [1, 0]), (2, (0.0, 1 - 2**-53), [1, 1])):
        given = batch(p, q, [0, second], requests=2)
        result = verified(WITHOUT, given, [[0.5, coin, 0.0] for coin in coins], form)
        assert result.accepted_length.tolist() == accepted


@pytest.mark.parametrize("form", ["torch", "triton"])
@pytest.mark.parametrize("name", [WITH, WITHOUT])
def test_a_residual_that_is_void_is_drawn_from_the_target(name: str, form: str) -> None:
    """A coin of 1 is no number in [0, 1): it refuses a token although p = q."""
    given = batch([0.25, 0.75], [0.25, 0.75], [0, 1], requests=2)
    result = verified(name, given, [[1.0, 1.0, 0.2], [1.0, 1.0, 0.3]], form)
    assert result.accepted_length.tolist() == [0, 0]
    assert result.next_token.tolist() == [0, 1]


@pytest.mark.parametrize("form", ["torch", "triton"])
@pytest.mark.parametrize("name", [WITH, WITHOUT])
def test_what_is_drafted_without_probability_is_accepted_if_it_is_owed(
    name: str, form: str
) -> None:
    noise = [[0.9, 0.9, 0.0], [0.0, 0.0, 0.0]]
    given = batch([0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [2, 1], requests=2)
    result = verified(name, given, noise, form)
    assert result.accepted_length.tolist() == [1, 1]
    assert result.path.tolist() == [1, 1]


def case(scheme: str) -> Case:
    """Return a case in which the second sibling can be refused, with and without replacement."""
    target = tuple(rational(f"{weight}/16") for weight in (0, 8, 3, 5))
    draft = tuple(rational(f"{weight}/16") for weight in (8, 2, 2, 4))
    instance = Instance(
        Model("target", 4, {(): target}, context_free=True),
        Model("draft", 4, {(): draft}, context_free=True),
        length=1,
        drafts=2,
        scheme=scheme,
    )
    return Case("second", "", "certify", instance)


@pytest.mark.parametrize(
    ("name", "broken", "wrong"),
    [
        # The residual's mass, which is not 1.
        (WITH, "mass", lambda p, q, a, c, out: torch.ones_like(a)),
        # What siblings before have left, which is not all.
        (
            WITHOUT,
            "_left",
            lambda siblings, q, out: torch.ones_like(siblings.tokens, dtype=q.dtype),
        ),
    ],
    ids=["mass", "left"],
)
def test_a_wrong_one_is_found(
    name: str, broken: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("draftproof.adapters.fast.recursive_rejection")
    monkeypatch.setattr(module, broken, wrong)
    verifier = FastVerifier(name)
    findings = judge(observe(program_of(verifier), case(verifier.scheme)))
    failed = {finding.requirement for finding in findings if finding.verdict == FAIL}
    assert {"law.lossless", "law.reference"} <= failed
