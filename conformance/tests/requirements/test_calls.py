"""Consecutive calls: independent, and told which of them spoil a later one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from draftproof.conformance.museum.mutants.gates import GATED
from draftproof.conformance.museum.mutants.verifiers import Ragged
from draftproof.conformance.protocol.adapter import Program, Request, program_of
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding

Findings = Callable[..., list[Finding]]
Right = Callable[[str], Program]

CALLS = "random.calls"

pytestmark = pytest.mark.requirement("random.calls")


@pytest.mark.parametrize("name", ["ragged", "torch-block", "torch-multipath-block", "transformers"])
def test_what_is_right_passes(findings: Findings, right: Right, name: str) -> None:
    found = [*findings(right(name), CALLS)]
    assert len(found) == 12
    assert {each.verdict for each in found} == {PASS}, [each.case for each in found]


HIDDEN = [name for name in GATED if name.split("-behind-")[1] in ("call", "growing")]


@pytest.mark.parametrize("name", HIDDEN)
def test_every_fault_is_found_behind_other_calls(findings: Findings, name: str) -> None:
    assert GATED[name].breaks == CALLS
    found = findings(program_of(GATED[name].make()), CALLS, "quick", cases="calls.sequence")
    assert FAIL in {each.verdict for each in found}


def test_the_fewest_calls_that_spoil_one_are_told(findings: Findings) -> None:
    adapter = program_of(GATED["ratio-behind-growing"].make())
    (found,) = findings(adapter, CALLS, cases="calls.sequence.3")
    assert found.detail.startswith(
        "a call of B = 8, L = 4 behind B = 1, L = 2, of one adapter: drafted "
    )
    adapter = program_of(GATED["ratio-behind-call"].make())
    (found,) = findings(adapter, CALLS, cases="calls.sequence.3")
    assert "behind B = 1, L = 2 and B = 4, L = 3, of one adapter" in found.detail


class Kept(Ragged):
    """Keeps its coins for the next call that needs no more of them."""

    name = "kept"

    def __init__(self) -> None:
        self.kept = torch.zeros(0)

    def coins(self, ratio: torch.Tensor, request: Request) -> torch.Tensor:
        if self.kept.numel() < ratio.numel():
            self.kept = super().coins(ratio, request).flatten()
        return self.kept[: ratio.numel()].view(ratio.shape)


def test_coins_that_are_kept_tie_two_calls(findings: Findings) -> None:
    """Each has its own law, so only their joint law shows it."""
    found = {each.case: each.verdict for each in findings(program_of(Kept()), CALLS)}
    assert found["calls.sequence.4"] == PASS
    assert found["calls.both.0.4"] == PASS  # the calls between are longer: new coins are drawn
    assert found["calls.same"] == FAIL
