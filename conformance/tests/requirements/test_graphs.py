"""Captured calls: not asked without CUDA, and stale noise is told from fresh."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from draftproof.conformance.lanes.exchange import Failure
from draftproof.conformance.protocol.adapter import Program
from draftproof.conformance.requirements.finding import SKIPPED, Finding
from draftproof.conformance.requirements.graphs import fault_of

Findings = Callable[..., list[Finding]]
Right = Callable[[str], Program]

pytestmark = pytest.mark.requirement("device.graph")


def test_a_cpu_captures_nothing(findings: Findings, right: Right) -> None:
    (found,) = findings(right("ragged"), "device.graph")
    assert (found.verdict, found.applies) == (SKIPPED, False)
    assert found.detail == "graphs are captured on CUDA, and its device is 'cpu'"


def test_stale_noise_and_failures_are_told() -> None:
    fresh = [(number, number % 7) for number in range(100)]
    assert fault_of(fresh) == ""
    assert fault_of([fresh[0]] * 100) == "99 of 100 replays emit what the replay before emitted"
    assert fault_of([*fresh, (Failure("returned next token 9, not in 0..2"),)]) == (
        "returned next token 9, not in 0..2"
    )
