"""The envelope: what hides behind a length, a batch, a layout, a call or a missing generator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from draftproof.conformance.cases.large import large
from draftproof.conformance.cases.long import long
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.museum.mutants.gates import GATED
from draftproof.conformance.museum.mutants.verifiers import Ragged
from draftproof.conformance.protocol.adapter import Program, program_of
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.task import Terms

ASKED_BY = {
    "length": "law.long",
    "position": "law.long",
    "batch": "batch.large",
    "row": "batch.large",
    "equal": "batch.large",
    "strided": "input.layout",
    "generator": "random.default",
    "call": "random.calls",
    "growing": "random.calls",
}


def findings(program: Program, requirement: str) -> Iterator[Finding]:
    for task in plan(program.declared, "quick"):
        if requirement in task.requirements and "exact" in task.lanes:
            yield from task.judge(program, Terms("exact", "quick", 1))


@pytest.mark.parametrize("requirement", sorted({*ASKED_BY.values()}))
@pytest.mark.parametrize("name", ["ragged", "torch-block", "torch-multipath-block"])
def test_what_is_right_passes(name: str, requirement: str) -> None:
    program = program_of(Ragged()) if name == "ragged" else load_program(name)
    found = [*findings(program, requirement)]
    assert found
    assert {each.verdict for each in found} == {PASS}, [each.case for each in found]


HIDDEN = [f"{fault}-behind-{gate}" for gate in ASKED_BY for fault in ("residual", "row", "ratio")]


@pytest.mark.parametrize("name", HIDDEN)
def test_what_hides_behind_a_gate_is_found(name: str) -> None:
    """By the requirement that asks behind it, and in the fault's own dimension."""
    mutant = GATED[name]
    assert mutant.breaks == ASKED_BY[name.split("-behind-")[1]]
    found = [*findings(program_of(mutant.make()), mutant.breaks)]
    assert FAIL in {each.verdict for each in found}


def test_a_seed_of_its_own_is_refused() -> None:
    """The exact lane says why it cannot see the verifier; another one decides."""
    with pytest.raises(OpaqueRandomness, match="seed 0"):
        [*findings(program_of(GATED["seed-behind-length"].make()), "law.long")]


def test_few_contexts_can_be_written() -> None:
    """However long a draft is, so that its law is small."""
    for group in long("certify"):
        for case in group.cases:
            length = case.instance.length
            assert len(case.instance.target.rows) <= 64 * (length + 1)
            uncertain = {
                len(context) for context, row in case.instance.target.rows.items() if max(row) < 1
            }
            assert len(uncertain) == 2


def test_two_rows_of_a_large_batch_are_uncertain() -> None:
    for batch in large("certify"):
        uncertain = [
            place
            for place, (instance, _) in enumerate(batch.rows)
            if any(max(row) < 1 for row in instance.target.rows.values())
        ]
        assert len(uncertain) == 2, batch.id
    assert {len(batch.rows) for batch in large("certify")} == {6, 9, 17, 33, 65, 257, 1024}
