"""What is noted of a law that is compared: the request as it reached the verifier."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from draftproof.conformance.cases import cases
from draftproof.conformance.cases.long import drafted, uncertain
from draftproof.conformance.cases.tail import crowds
from draftproof.conformance.lanes.compared import (
    Compared,
    described,
    note,
    noting,
    noting_nothing,
)
from draftproof.conformance.lanes.exchange import request
from draftproof.conformance.lanes.observe import EXACT, PROBE, joint_laws, observe
from draftproof.conformance.museum.mutants.verifiers import Checked
from draftproof.conformance.protocol.adapter import Program, program_of
from draftproof.conformance.requirements import layouts
from draftproof.conformance.requirements._one_law import AskedOtherwise
from draftproof.conformance.requirements.calls import (
    _consecutive,
    _sequences,
    judge_calls,
    judge_sequence,
)
from draftproof.conformance.requirements.laws import judge_case
from draftproof.conformance.requirements.layouts import laid_out
from draftproof.conformance.requirements.tail import Crowd
from draftproof.conformance.requirements.task import Terms
from draftproof.reference.drafting import draft_law
from draftproof.reference.rational import ZERO

TERMS = Terms(EXACT, "quick")


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(Checked())


def case(name: str) -> object:
    return next(each for each in cases("quick") if each.id == name)


def test_a_request_is_described_by_what_it_has(program: Program) -> None:
    asked = request([drafted(uncertain("x", 5, {0, 4}))] * 3, program.declared)
    seen = described(program.adapter, asked)
    assert (seen.rows, seen.length, seen.drafts, seen.vocabulary) == (3, 5, 1, 4)
    assert (seen.dtype, seen.device, seen.layout) == ("float32", "cpu", "contiguous")
    assert (seen.generator, seen.call, seen.atoms) == ("given", 1, 3)
    assert 0 < (seen.smallest_q or 0) < 1
    assert (seen.ragged, seen.logits, seen.trees) == (False, False, False)


def test_rows_are_as_hard_as_the_tensors_have_them(program: Program) -> None:
    asked = request([drafted(uncertain("x", 2, {0}))], program.declared)
    draft, target = asked.draft_probs.clone(), asked.target_probs.clone()
    draft[0, 0, 0], target[0, 0, 0] = (
        torch.tensor(row) for row in ([0.25, 0.75, 0, 0], [0.125, 0.125, 0.5, 0.25])
    )
    draft[0, 0, 1] = target[0, 0, 1]
    seen = described(program.adapter, replace(asked, draft_probs=draft, target_probs=target))
    assert (seen.atoms, seen.smallest_q, seen.distance) == (4, 0.25, 0.75)


def test_padding_is_no_part_of_a_row(program: Program) -> None:
    short, long = (drafted(uncertain("x", length, {0})) for length in (1, 4))
    declared = replace(program.declared, ragged=True)
    seen = described(program.adapter, request([short, long], declared))
    assert (seen.length, seen.ragged) == (4, True)
    alone = described(program.adapter, request([long, long], declared))
    assert not alone.ragged
    assert (seen.atoms, seen.smallest_q, seen.distance) == (
        alone.atoms,
        alone.smallest_q,
        alone.distance,
    )


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("transposed", "strided"),
        ("sliced", "strided"),
        ("offset", "offset"),
        ("stepped", "strided"),
        ("interleaved", "strided"),
        ("expanded", "expanded"),
    ],
)
def test_a_layout_is_that_which_reaches_the_verifier(
    program: Program, name: str, layout: str
) -> None:
    asked = request([drafted(uncertain("x", 2, {0}))] * 2, program.declared)
    adapter = AskedOtherwise(program.adapter, partial(laid_out, name))
    assert described(adapter, asked).layout == layout
    assert described(program.adapter, asked).layout == "contiguous"


def test_a_generator_is_the_one_that_reaches_the_verifier(program: Program) -> None:
    asked = request([drafted(uncertain("x", 2, {0}))], program.declared)
    without = AskedOtherwise(program.adapter, partial(replace, generator=None))
    assert described(without, asked).generator == "none"


def test_a_vocabulary_is_as_large_as_the_verifier_gets_it(program: Program) -> None:
    found = crowds("ranges", 8193)
    crowd = program_of(Crowd(program, found.kinds, 0))
    first, *_ = draft_law(found.instance)
    seen = described(crowd.adapter, request([(found.instance, first)], crowd.declared))
    assert (seen.vocabulary, seen.atoms) == (8193, 8193)


# --- what a task notes --------------------------------------------------------------------------


def test_every_law_is_noted_however_it_is_known(program: Program) -> None:
    """Once for each draft of the case; a law that is cached is noted as one that is computed."""
    one = case("generic.v2.l2")
    with noting() as first:
        observe(program, one)  # type: ignore[arg-type]
    with noting() as again:
        observe(program, one)  # type: ignore[arg-type]
    assert first.laws == again.laws
    assert first.laws.total() == 4
    assert {each.length for each in first.laws} == {2}


def test_what_is_observed_for_several_tasks_is_noted_by_each(program: Program) -> None:
    one, other = (case(name) for name in ("generic.v2.l1", "generic.v2.l2"))
    terms = replace(TERMS, lane=PROBE)
    noted = []
    for each in (one, other):
        with noting() as laws:
            judge_case(each, (each,), program, terms)  # type: ignore[arg-type]
        noted.append(laws)
    with noting() as again:
        judge_case(one, (one,), program, terms)  # type: ignore[arg-type]
    assert again.laws == noted[0].laws
    assert again.resolution == noted[0].resolution > ZERO
    assert {each.length for each in noted[1].laws} == {2}


def test_a_layout_that_is_asked_for_is_given(program: Program) -> None:
    """A tensor without equal entries cannot be expanded: then it would be judged as it was."""
    given = {}
    for task in layouts.tasks(program.declared, "standard"):
        with noting() as noted:
            task.judge(program, TERMS)
        most = max(each.rows for each in noted.laws)
        given[task.case.split(".")[1]] = {each.layout for each in noted.laws if each.rows == most}
    strided = ("transposed", "sliced", "stepped", "interleaved")
    assert given == {
        **{name: {"strided"} for name in strided},
        "offset": {"offset"},
        "expanded": {"expanded"},
    }


def test_calls_are_numbered(program: Program) -> None:
    with noting() as noted:
        judge_calls("longer", _consecutive()["longer"], program, TERMS)
        behind = {each.id: each for each in _sequences(program.declared, "standard")}
        judge_sequence(behind["calls.sequence.4"], program, TERMS)
    assert {each.call for each in noted.laws} == {1, 2, 5}
    assert {(each.rows, each.length) for each in noted.laws if each.call == 5} == {(1, 3)}


def test_nothing_is_noted_where_nobody_asks(program: Program) -> None:
    rows = [drafted(uncertain("x", 1, {0}))]
    with noting() as noted, noting_nothing():
        joint_laws(program, [rows], lane=EXACT)
        note([described(program.adapter, request(rows, program.declared))])
    assert not noted.laws
    joint_laws(program, [rows], lane=EXACT)


def test_a_blind_lane_leaves_nothing(program: Program) -> None:
    with noting() as noted:
        joint_laws(program, [[drafted(uncertain("x", 1, {0}))]], lane=EXACT)
        assert all(isinstance(each, Compared) for each in noted.laws)
        noted.forget()
    assert not noted.laws
