"""Judging: what one task comes to where lanes cannot see a verifier."""

from __future__ import annotations

import pytest
import torch

from draftproof.conformance.lanes.opaque import FixedRandomness, OpaqueRandomness
from draftproof.conformance.museum.mutants.gates import FAULTS, Gate, gated
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.requirements.finding import ERROR, PASS, SKIPPED
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.task import Terms
from draftproof.conformance.run.judging import judge

SEED = next(fault for fault in FAULTS if fault.id == "seed")

HUGE = Gate(
    "huge",
    "where V is above 65,536",
    "number.tail",
    lambda request, _: torch.tensor([[request.target_probs.shape[-1] > 2**16]]),
)


@pytest.mark.parametrize(
    ("case", "verdict"), [("tail.edges.v50257", PASS), ("tail.edges.v151936", ERROR)]
)
def test_what_is_fixed_behind_a_gate_is_not_skipped(case: str, verdict: str) -> None:
    """Samples cannot decide the case, and the verifier's numbers are random elsewhere."""
    program = program_of(gated(SEED, HUGE)())
    (task,) = (each for each in plan(program.declared, "standard") if each.case == case)
    terms = Terms("", "standard", 1)
    (found,) = judge(program, task, terms, blind={}, sampled=True).findings
    assert found.verdict == verdict
    if verdict == ERROR:
        assert "manual_seed fixes what is drawn (seed 0)" in found.detail
    # Where a lane is blind to all of a verifier, samples decide what they can.
    reason = {"exact": "it seeds its numbers"}
    (found,) = judge(program, task, terms, blind=reason, sampled=True).findings
    assert found.verdict == SKIPPED
    assert found.detail == "samples cannot decide it: they count buckets and ranges"


def test_what_is_fixed_cannot_be_seen_through() -> None:
    assert issubclass(FixedRandomness, OpaqueRandomness)
