"""What stateful verifiers leave behind: several iterations of right ones and of wrong ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.museum import mutants
from draftproof.conformance.museum.mutants.verifiers import GreedyBlock
from draftproof.conformance.protocol import reference
from draftproof.conformance.protocol.adapter import (
    Adapter,
    Request,
    Result,
    declaration,
    program_of,
)
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.states import tasks
from draftproof.conformance.requirements.task import Terms
from draftproof.conformance.run.certify import certify
from draftproof.reference.rational import rational

# Coins are compared with the nearest float64, 2^-54 away, some 30 of them on a path of a run.
ROUNDED = rational("1/2") ** 48


def judged(adapter: Adapter, chain: str, *, lane: str = "exact") -> Finding:
    program = program_of(adapter)
    (task,) = (t for t in tasks(program.declared, "quick") if t.case == f"states.{chain}")
    (finding,) = task.judge(program, Terms(lane, "quick"))
    assert (finding.requirement, finding.case) == ("law.state", task.case)
    return finding


def chains(**declared: Any) -> list[str]:
    """The chains that an adapter is judged by."""
    adapter = {"name": "a", "version": "1", "algorithm": "greedy_block", "verify": print}
    given = declaration(SimpleNamespace(**{**adapter, **declared}))
    return [task.case.removeprefix("states.") for task in tasks(given, "quick")]


SINGLE = ["two-tokens", "three-tokens", "nested", "zeros", "equal"]


def test_chains_are_those_that_the_adapter_takes() -> None:
    assert chains() == [*SINGLE, "rows"]
    assert chains(batch=False) == SINGLE
    assert chains(algorithm="recursive_greedy_block", max_drafts=2) == [
        *SINGLE,
        "two-drafts",
        "rows",
    ]


def test_a_stateless_verifier_is_not_asked() -> None:
    assert chains(algorithm="block") == []
    assert chains(algorithm="unknown") == []


# --- right ones -----------------------------------------------------------------------------


@pytest.mark.requirement("law.state")
@pytest.mark.parametrize("chain", [*SINGLE, "two-drafts", "rows"])
def test_the_reference_leaves_what_it_says(chain: str) -> None:
    finding = judged(reference.recursive_greedy_block, chain)
    assert finding.verdict == PASS
    assert finding.distance is not None
    assert finding.distance < ROUNDED


@pytest.mark.requirement("law.state")
@pytest.mark.parametrize("chain", ["three-tokens", "rows"])
def test_floats_in_batches_are_right_up_to_rounding(chain: str) -> None:
    finding = judged(GreedyBlock(), chain)
    assert finding.verdict == PASS
    assert finding.distance is not None
    assert 0 < finding.distance < rational("1/1000000")


@pytest.mark.requirement("law.state")
def test_the_probe_lane_sees_the_same() -> None:
    assert judged(GreedyBlock(), "zeros", lane="probe").verdict == PASS
    exact, probe = (judged(mutants.LeavesNoState(), "zeros", lane=x) for x in ("exact", "probe"))
    assert (exact.verdict, probe.verdict) == (FAIL, FAIL)
    assert exact.distance is not None
    assert probe.distance is not None
    assert abs(exact.distance - probe.distance) < rational("1/1000000")


def test_rounding_grows_with_every_block_within_a_block() -> None:
    """By hand for V = 2 and L = 3: in units, r = 0, 12, 108, so w = 6, 78, 654, e = 8, 104, 872."""
    declared = declaration(GreedyBlock())
    units = [
        3 * (3 * e + 8 + w + 2) + r + 4 for r, w, e in ((0, 6, 8), (12, 78, 104), (108, 654, 872))
    ]
    for before, roundings in enumerate(units):
        allowed = allowed_distance(declared, 2, 3, before=before)
        assert allowed == roundings * rational("1/2") ** 24
    finding = judged(GreedyBlock(), "nested")
    assert finding.allowed == sum(units) * rational("1/2") ** 24


# --- wrong ones -----------------------------------------------------------------------------


@pytest.mark.requirement("law.state")
def test_a_failure_says_what_was_drafted_emitted_and_left() -> None:
    """V = 3, P = (1/4, 9/16, 3/16) and Q = (5/8, 1/8, 1/4) in every context, by hand.

    Rejecting [0, 0] at once says a 1: the ratio is 9/2. The modified row is that of
    (9/2 P - Q)+ = (1/2, 77/32, 19/32): it is M = (1/7, 11/16, 19/112). Drafted [0, 0] again, the
    text of both has the ratio 4/25 by P, and the test of the first token passes with 1/7: nothing
    is kept with probability 21/25 6/7 = 18/25. By M the ratios are 8/35 and 16/175; the test passes
    with (8/35 9/16 - 1/8) / (8/35 9/16 - 1/8 + 27/35) = 1/217, and nothing is kept with 159/175
    216/217. Either way the next token is a 1.
    """
    path = "drafted [0, 0], it accepts [], next token 1"
    text = f"iteration 2: {path}; then {path}, with probability 0.72, should be 0.904384, told "
    ignored = judged(mutants.IgnoresItsState(), "three-tokens")
    assert (ignored.verdict, ignored.detail) == (FAIL, f"{text}ratio [4.5], left [1]")
    nothing = judged(mutants.LeavesNoState(), "three-tokens")
    assert (nothing.verdict, nothing.detail) == (FAIL, f"{text}of no state")


@pytest.mark.requirement("law.state")
@pytest.mark.parametrize(
    ("mutant", "chain"),
    [
        (mutants.ForgetsOuterBlocks, "nested"),
        (mutants.RatioOfTheTargetsOwnRows, "nested"),
        (mutants.StatesOfOtherRows, "rows"),
    ],
)
def test_blocks_within_blocks_and_rows_in_another_order_are_needed(
    mutant: type[GreedyBlock], chain: str
) -> None:
    assert judged(mutant(), "three-tokens").verdict == PASS
    assert judged(mutant(), chain).verdict == FAIL


class Remembers(GreedyBlock):
    """Keeps what it leaves to itself."""

    memory: dict[str, Tensor] | None = None

    def told(self, request: Request) -> tuple[Tensor, Tensor]:
        if self.memory is not None and request.state is not None:
            return self.memory["ratio"], self.memory["left"]
        ratio, left = super().told(request)
        return torch.ones_like(ratio), torch.zeros_like(left)

    def state(self, request: Request, result: Result) -> dict[str, Tensor] | None:
        self.memory = super().state(request, result)
        return {"empty": torch.zeros(len(request.draft_tokens))}


class Misshapen(GreedyBlock):
    """Leaves one state for all rows."""

    def state(self, request: Request, result: Result) -> dict[str, Tensor] | None:
        return {"ratio": torch.ones(7, 1)}


class Listed(GreedyBlock):
    """Leaves something that is no mapping."""

    def state(self, request: Request, result: Result) -> dict[str, Tensor] | None:
        return [torch.ones(1)]  # type: ignore[return-value]  # that is what is wrong


class Random(GreedyBlock):
    """Leaves a random number of no use."""

    def state(self, request: Request, result: Result) -> dict[str, Tensor] | None:
        state = super().state(request, result)
        assert state is not None
        return {**state, "noise": torch.rand(len(request.draft_tokens))}


@pytest.mark.requirement("law.state")
def test_what_an_adapter_keeps_to_itself_does_not_count() -> None:
    finding = judged(Remembers(), "three-tokens")
    assert finding.verdict == FAIL
    assert finding.detail.endswith(", told empty [0.0]")


@pytest.mark.requirement("law.state")
@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        (Misshapen(), "Result.state['ratio'] must be a tensor [1, ...], got [7, 1]"),
        (Listed(), "Result.state must map names to tensors, got list"),
    ],
)
def test_what_is_no_state_is_an_error_of_the_adapter(adapter: Adapter, message: str) -> None:
    finding = judged(adapter, "zeros")
    assert finding.verdict == FAIL
    assert f"it raised TypeError: {message}, with probability 1, should be 0" in finding.detail


def test_a_state_without_a_finite_law_is_not_seen_through() -> None:
    with pytest.raises(OpaqueRandomness, match="is continuous: it has no finite law"):
        judged(Random(), "zeros")


def test_a_campaign_judges_it() -> None:
    name = f"{mutants.__name__}:LeavesNoState"
    report = certify(name, mode="quick", lanes=("exact",), only=("law.state", "law.prefix"))
    verdicts = {decision.requirement.id: decision.verdict for decision in report.decisions}
    assert verdicts == {"law.state": FAIL, "law.prefix": PASS}
    assert report.counterexample is None
