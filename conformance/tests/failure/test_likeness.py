from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases import cases
from draftproof.conformance.failure import likeness as likenesses
from draftproof.conformance.failure.likeness import Likeness, likeness, likeness_to_json
from draftproof.conformance.lanes.observe import PROBE, observe
from draftproof.conformance.museum.mutants import CONTROLS, EXHIBITS, MUTANTS, gates
from draftproof.conformance.museum.mutants.verifiers import Block, Token, at
from draftproof.conformance.protocol.adapter import Declaration, program_of
from draftproof.conformance.report import words
from draftproof.conformance.requirements import large, layouts, long, randomness
from draftproof.conformance.requirements.finding import FAIL, Finding
from draftproof.conformance.requirements.laws import fits, judge
from draftproof.conformance.requirements.task import Terms
from draftproof.reference.rational import rational
from draftproof.spec import schema

SUSPECTS = (*MUTANTS, *CONTROLS)
ONE_ROW = ("generic.v2.l2", "generic.v3.l2", "banked")


def of_one_row(adapter: Any, ids: tuple[str, ...] = ONE_ROW) -> Likeness | None:
    """Return the likeness of a verifier by a few cases of one row."""
    program = program_of(adapter)
    chosen = [each for each in cases("quick") if each.id in ids and fits(each, program.declared)]
    findings = [finding for case in chosen for finding in judge(observe(program, case))]
    return likeness(program, findings, SUSPECTS, mode="quick")


RECOGNISED = (
    *("bonus-from-draft", "corrects-from-target", "rejects-everything", "rejects-one-late"),
    *("crashes-on-rejection", "target-one-row-late", "searches-unnormalised"),
    *("block-without-cap", "block-without-draft-rows", "accepts-nothing"),
)


@pytest.mark.parametrize("name", RECOGNISED)
def test_an_exhibit_is_recognised_as_itself(name: str) -> None:
    found = of_one_row(EXHIBITS[name].make())
    assert found is not None
    most = max(found.matches.values())
    best = [fault for fault, count in found.matches.items() if count == most]
    assert name in best
    assert most == len(found.cases)
    assert len(best) == 1, f"{name} is told with its equals: {best}"


@pytest.mark.parametrize(("most", "compared"), [(20_000, 2), (1, 1)])
def test_a_fault_is_recognised_on_the_probe_lane(
    monkeypatch: pytest.MonkeyPatch, most: int, compared: int
) -> None:
    """Cases of two vocabularies are probed apart: as many as there are runs for, or one."""
    monkeypatch.setattr(likenesses, "MOST_PROBED", most)
    program = program_of(EXHIBITS["corrects-from-target"].make())
    chosen = [case for case in cases("standard") if case.id in ("generic.v2.l2", "zeros.draft")]
    assert len({case.instance.vocabulary for case in chosen}) == len(chosen) == 2
    findings = [each for case in chosen for each in judge(observe(program, case, lane=PROBE))]
    found = likeness(program, findings, SUSPECTS, mode="standard")
    assert found is not None
    assert found.matches == {"corrects-from-target": compared}
    assert len(found.cases) == compared


def test_equals_are_told_together() -> None:
    """Rows that are likely enough for typical acceptance are always accepted."""
    found = of_one_row(EXHIBITS["typical-acceptance"].make())
    assert found is not None
    count = len(found.cases)
    assert found.matches == {"accepts-everything": count, "typical-acceptance": count}


def test_a_fault_of_several_drafts_is_recognised() -> None:
    name, case = "forgets-the-residual", "several.iid.v3.l1.k2"
    found = of_one_row(EXHIBITS[name].make(), (case,))
    assert found is not None
    assert found.cases == (case,)
    assert found.matches == {name: 1}


class Odd(Token):
    """Wrong in a way that nobody has seen before."""

    name = "odd"

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return (at(p, path) / at(q, path)).square() * 0.875

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return (p - q).clamp(min=0) + q.square()


def test_what_is_wrong_in_its_own_way_matches_nothing() -> None:
    found = of_one_row(Odd())
    assert found is not None
    assert found.matches == {}
    assert found.compared > 50
    told = {"likeness": likeness_to_json(found)}
    count = f"{found.compared} known faults on {len(found.cases)} cases"
    assert [*words.likely_cause(told)] == [f"Matches no known fault: differs from {count}."]


def test_a_right_verifier_is_compared_with_nothing() -> None:
    assert of_one_row(Token()) is None


class TokenAsBlock(Token):
    algorithm = "block"


def test_another_algorithm_is_named() -> None:
    found = of_one_row(TokenAsBlock())
    assert found is not None
    assert found.matches["token verification"] == len(found.cases)
    # A mutant of the museum is the same.
    assert found.matches["block-flag-ignored"] == len(found.cases)
    told = {"likeness": likeness_to_json(found)}
    count = len(found.cases)
    alike = f"(identical on {count} of {count} cases): check "
    first, second, seen = words.likely_cause({"likeness": {**told["likeness"], "left_out": []}})
    runs = "which algorithm runs: the adapter declares block."
    assert first == f"Looks like `token verification` {alike}{runs}"
    reaches = "whether the option for block verification reaches the verifier."
    assert second == f"or like `block-flag-ignored` {alike}{reaches}"
    assert seen == "Seen in vllm-project/vllm-ascend#15673."


class Heated(Token):
    def seen(self, path: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        return q, (p.log() / 1.5).softmax(-1)


class Exchanged(Token):
    def seen(self, path: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        return p[:, :-1], torch.cat([q, p[:, -1:]], 1)


class BlockExchanged(Block, Exchanged):
    name = "block-exchanged"


@pytest.mark.parametrize(
    ("adapter", "confusion"),
    [
        (Heated(), "the target at temperature 1.5"),
        (Exchanged(), "target and draft exchanged"),
        (BlockExchanged(), "target and draft exchanged"),
    ],
)
def test_common_confusions_are_named(adapter: Any, confusion: str) -> None:
    found = of_one_row(adapter)
    assert found is not None
    assert found.matches == {confusion: len(found.cases)}


BASES = {
    "Residual": "corrects-from-target",
    "Coin": "one-coin-for-all-positions",
    "Bonus": "bonus-from-draft",
}
"""The exhibits of the museum whose faults are behind gates, too."""

GATED = {
    "Length": (long, ("long.l5.d1", "long.l8.d4")),
    "Batch": (large, ("large.b6.d1", "large.b6.ends")),
    "Strided": (layouts, ("layout.transposed.generic.v3.l2",)),
    "Generator": (randomness, ("default.generic.v3.l2",)),
}
"""Modules of requirements that ask behind a gate, and cases of theirs."""


def failing(adapter: Any, module: Any, ids: tuple[str, ...]) -> tuple[Declaration, list[Finding]]:
    program = program_of(adapter)
    terms = Terms("exact", "quick", 0, 1e-9)
    tasks = [task for task in module.tasks(program.declared, "quick") if task.case in ids]
    findings = [finding for task in tasks for finding in task.judge(program, terms)]
    return program.declared, [each for each in findings if each.verdict == FAIL]


@pytest.mark.parametrize("gate", GATED)
@pytest.mark.parametrize("base", BASES)
def test_a_gated_fault_is_recognised_where_it_acts(base: str, gate: str) -> None:
    adapter = getattr(gates, f"{base}Behind{gate}")
    _, findings = failing(adapter(), *GATED[gate])
    if not findings:
        pytest.skip("its fault does not show on these cases")
    found = likeness(program_of(adapter()), findings, SUSPECTS, mode="quick")
    assert found is not None
    assert found.matches.get(BASES[base]) == max(found.matches.values())


def test_a_case_that_fails_by_rounding_is_not_compared() -> None:
    allowed = rational("1/1000")
    near = Finding("law.lossless", "banked", FAIL, 3 * allowed, allowed, "exact")
    program = program_of(EXHIBITS["bonus-from-draft"].make())
    assert likeness(program, [near], SUSPECTS, mode="quick") is None


def test_what_is_left_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftproof.conformance.failure.likeness.MOST_RUNS", 0)
    found = of_one_row(EXHIBITS["bonus-from-draft"].make())
    assert found is not None
    assert len(found.left_out) > 40
    *_, last = words.likely_cause({"likeness": likeness_to_json(found)})
    assert last.startswith(f"{len(found.left_out)} known faults were not compared: `")
    assert last.endswith(f"` and {len(found.left_out) - 3} more.")


def test_its_part_of_a_certificate_follows_the_schema() -> None:
    found = of_one_row(EXHIBITS["bonus-from-draft"].make())
    assert found is not None
    part = schema("certificate")["$defs"]["likeness"]
    told = likeness_to_json(found)
    assert set(told) == set(part["required"])
    assert told["matches"] == [
        {
            "fault": "bonus-from-draft",
            "identical": len(found.cases),
            "check": "which row the bonus is drawn from: the target's row L, "
            "not a row of the draft",
            "seen_in": [],
        }
    ]


def test_every_mutant_says_what_to_check() -> None:
    unsaid = [each.id for each in MUTANTS if not each.check or each.check.endswith(".")]
    assert unsaid == []
