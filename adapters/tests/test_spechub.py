"""SpecHub: which token is the hub, what it is offered, and what a wrong one is told by."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import FastVerifier
from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import mass
from draftproof.adapters.fast.inputs import InvalidRequest, from_request
from draftproof.conformance.cases import Case
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import Request, program_of
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import rational


def batch(p: list[float], q: list[float], pair: list[int], *, requests: int) -> Batch:
    """Return requests with this pair, whose bonus is always token 0."""
    target = torch.tensor([p, [1.0] + [0.0] * (len(p) - 1)]).expand(requests, 2, -1, -1)
    draft = torch.tensor([[q]]).expand(requests, 2, -1, -1)
    paths = torch.tensor(pair)[None, :, None].expand(requests, -1, -1)
    return from_request(Request(paths, draft, target), most_drafts=2)


@pytest.mark.parametrize("form", ["torch", "triton"])
def test_the_hub_is_the_smaller_of_equals(form: str) -> None:
    """By hand, with q = 1/2, 1/2 and p = 3/4, 1/4: pairs (1, 0) have 1/2, and serve the 1/4 of 1.

    Were 1 the hub, they would serve 0 first.
    """
    noise = torch.tensor([[0.4999, 0.0, 0.0], [0.5001, 0.0, 0.0]], dtype=torch.float64)
    given = batch([0.75, 0.25], [0.5, 0.5], [1, 0], requests=2)
    result = FastVerifier("spechub", form=form).of(given, noise)
    assert result.accepted_length.tolist() == [1, 1]
    assert result.path.tolist() == [0, 1]


@pytest.mark.parametrize("form", ["torch", "triton"])
def test_more_than_a_pair_is_refused(form: str) -> None:
    rows = torch.tensor([0.5, 0.25, 0.25])
    paths = torch.tensor([0, 1, 2])[None, :, None]
    given = Request(paths, rows.expand(1, 3, 1, 3), rows.expand(1, 3, 2, 3))
    with pytest.raises(InvalidRequest, match=r"spechub takes at most 2 siblings .* got 3"):
        FastVerifier("spechub", form=form).verify(given)


@pytest.mark.parametrize("form", ["torch", "triton"])
def test_the_other_token_of_a_pair_is_measured_by_its_pairs(form: str) -> None:
    """By hand, with the hub 0 of q = 1/2, 1/4, 1/4 and p = 1/4, 1/2, 1/4.

    Pairs (1, 0) have 1/4 and serve all of it; pairs (0, 1) have 1/4, the 1/4 that is left of
    token 1, too. Pairs (2, 0) have 1/4 and serve it; pairs (0, 2) find nothing owed, so the hub is
    offered 1/4, which is what it is owed.
    """
    p, q = [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]
    largest = 1 - 2**-53
    for pair, path in (([1, 0], 0), ([0, 1], 1), ([2, 0], 0), ([0, 2], 0)):
        noise = torch.tensor([[largest, largest, 0.0]], dtype=torch.float64)
        result = FastVerifier("spechub", form=form).of(batch(p, q, pair, requests=1), noise)
        assert result.accepted_length.tolist() == [1]
        assert result.path.tolist() == [path]


@pytest.mark.parametrize("form", ["torch", "triton"])
def test_the_hub_can_be_the_correction(form: str) -> None:
    """By hand, with the hub 0 of q = 1/2, 1/2 and p = 1: its pairs (0, 1) offer it 1/2, and pairs
    (1, 0) as much, so it is always accepted; a coin of 1, which is none, leaves it the correction.
    """
    noise = torch.tensor([[0.0, 0.9, 0.5], [1.0, 1.0, 0.5]], dtype=torch.float64)
    given = batch([1.0, 0.0], [0.5, 0.5], [1, 0], requests=2)
    result = FastVerifier("spechub", form=form).of(given, noise)
    assert result.accepted_length.tolist() == [1, 0]
    assert result.next_token.tolist() == [0, 0]


INSTANCE = Instance(
    Model("target", 3, {(): tuple(rational(f"{x}/8") for x in (3, 4, 1))}, context_free=True),
    Model("draft", 3, {(): tuple(rational(f"{x}/8") for x in (4, 1, 3))}, context_free=True),
    length=1,
    drafts=2,
    scheme="hub",
)


def verdicts() -> dict[str, str]:
    findings = judge(
        observe(program_of(FastVerifier("spechub")), Case("own", "", "certify", INSTANCE))
    )
    return {finding.requirement: finding.verdict for finding in findings}


def test_it_is_right() -> None:
    assert set(verdicts().values()) <= {PASS, SKIPPED}


@pytest.mark.requirement("law.lossless", "law.reference")
def test_a_wrong_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub is offered what it should not be: half of every mass that is refused."""

    def half(p: Tensor, q: Tensor, a: Tensor, c: Tensor | None = None, *, out: Tensor) -> Tensor:
        return mass(p, q, a, c, out=out) / 2

    monkeypatch.setattr("draftproof.adapters.fast.spechub.mass", half)
    found = verdicts()
    assert found["law.lossless"] == found["law.reference"] == FAIL
