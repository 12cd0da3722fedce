"""The greedy draft's verifier: what goes on at a fixed sibling, and what a wrong one is told by."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import FastVerifier
from draftproof.adapters.fast.excess import mass
from draftproof.adapters.fast.inputs import from_request
from draftproof.conformance.cases import Case
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import Request, program_of
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import rational


@pytest.mark.parametrize("form", ["torch", "triton"])
def test_a_correction_on_a_fixed_sibling_goes_on(form: str) -> None:
    """By hand: 0 and 1 are fixed, 2 was drawn from 1/2, 1/2 on 2 and 3, and p = 2, 2, 1, 3 / 8.

    It is accepted with 1/4. A refusal leaves 1/4 to 0, 1/4 to 1, and nothing to 2 or 3 but what
    p - q / r says: 3/8 - 1/2 of 3 is nothing, so half of the marks say 0, the others 1.
    """
    p, q = torch.tensor([0.25, 0.25, 0.125, 0.375]), torch.tensor([0.5, 0.25, 0.125, 0.125])
    paths = torch.tensor([0, 1, 2])[None, :, None].expand(4, -1, -1)
    bonus = torch.tensor([0.0, 0.0, 0.0, 1.0])
    target = torch.stack([p, bonus]).expand(4, 3, 2, 4)
    given = from_request(Request(paths, q.expand(4, 3, 1, 4), target), most_drafts=8)
    noise = torch.tensor(
        [[0.2499, 0.9, 0.5], [0.2501, 0.4999, 0.5], [0.2501, 0.5001, 0.5], [0.9, 1 - 2**-53, 0.5]],
        dtype=torch.float64,
    )
    result = FastVerifier("greedy_draft", form=form).of(given, noise)
    assert result.accepted_length.tolist() == [1, 1, 1, 1]
    assert result.path.tolist() == [2, 0, 1, 1]
    assert result.next_token.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("form", ["torch", "triton"])
def test_a_correction_elsewhere_is_none_of_the_siblings(form: str) -> None:
    """By hand: of five equal tokens 0 is fixed, 1 was drawn from the others; p = 1/2 on 0 and 4.

    1 is refused always, which leaves 1/2 to 0, and 1/2 - 1/4 to 4: two thirds of the marks say 0.
    The others are for 4 alone, although more is left of p than of q / r on 0, too.
    """
    p, q = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.5]), torch.full((5,), 0.2)
    paths = torch.tensor([0, 1])[None, :, None].expand(3, -1, -1)
    target = torch.stack([p, p]).expand(3, 2, 2, 5)
    given = from_request(Request(paths, q.expand(3, 2, 1, 5), target), most_drafts=8)
    noise = torch.tensor(
        [[0.0, 2 / 3 - 1e-4, 0.0], [0.0, 2 / 3 + 1e-4, 0.0], [0.0, 2 / 3 + 1e-4, 0.9]],
        dtype=torch.float64,
    )
    result = FastVerifier("greedy_draft", form=form).of(given, noise)
    assert result.accepted_length.tolist() == [1, 0, 0]
    assert result.next_token.tolist() == [0, 4, 4]


INSTANCE = Instance(
    Model("target", 4, {(): tuple(rational(f"{x}/8") for x in (2, 1, 4, 1))}, context_free=True),
    Model("draft", 4, {(): tuple(rational(f"{x}/8") for x in (4, 2, 1, 1))}, context_free=True),
    length=1,
    drafts=2,
    scheme="greedy",
)


def verdicts() -> dict[str, str]:
    findings = judge(
        observe(program_of(FastVerifier("greedy_draft")), Case("own", "", "certify", INSTANCE))
    )
    return {finding.requirement: finding.verdict for finding in findings}


def test_it_is_right() -> None:
    assert set(verdicts().values()) <= {PASS, SKIPPED}


@pytest.mark.requirement("law.lossless", "law.reference")
def test_a_wrong_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last sibling is measured by q, not by q without the fixed ones."""

    def unscaled(
        p: Tensor, q: Tensor, a: Tensor, c: Tensor | None = None, *, out: Tensor
    ) -> Tensor:
        return mass(p, q, a, None, out=out)

    monkeypatch.setattr("draftproof.adapters.fast.greedy_draft.mass", unscaled)
    found = verdicts()
    assert found["law.lossless"] == found["law.reference"] == FAIL
