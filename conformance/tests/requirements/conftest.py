"""Findings of one requirement, as a campaign has them, and verifiers that are right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from draftproof.conformance.museum.mutants.verifiers import Ragged
from draftproof.conformance.protocol.adapter import Program, program_of
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.task import Terms
from draftproof.conformance.run.judging import judge

Findings = Callable[..., list[Finding]]
Right = Callable[[str], Program]


@pytest.fixture
def right() -> Right:
    """Load a verifier that is right by its name."""
    return lambda name: program_of(Ragged()) if name == "ragged" else load_program(name)


@pytest.fixture
def findings() -> Findings:
    """Judge the cases that begin with a prefix, each by the strongest lane that sees it."""

    def found(
        program: Program, requirement: str, mode: str = "certify", *, cases: str = ""
    ) -> list[Finding]:
        return [
            finding
            for task in plan(program.declared, mode)
            if requirement in task.requirements and task.case.startswith(cases)
            for finding in judge(
                program, task, Terms("exact", mode, 1), blind={}, sampled=True
            ).findings
        ]

    return found
