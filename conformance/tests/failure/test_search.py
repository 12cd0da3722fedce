from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from torch import Tensor

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.failure.counterexample import explain, silently
from draftproof.conformance.failure.search import (
    Search,
    SearchUnavailable,
    Sought,
    badness,
    failed_instance,
    instances,
    search,
    search_findings,
    search_to_json,
)
from draftproof.conformance.failure.search import (
    settings as settings_of,
)
from draftproof.conformance.lanes.observe import EXACT, PROBE, observe
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.museum.mutants import gates
from draftproof.conformance.museum.mutants.verifiers import Block, Logits, Ragged
from draftproof.conformance.protocol.adapter import (
    DTYPES,
    Declaration,
    Program,
    Request,
    Result,
    declaration,
    program_of,
)
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED, Finding
from draftproof.conformance.requirements.laws import LAWS, judge
from draftproof.conformance.requirements.settings import (
    PLAIN,
    Setting,
    in_setting,
    smaller_settings,
)
from draftproof.conformance.run.campaign import Campaign, run
from draftproof.reference.extras import installation
from draftproof.reference.model import Instance
from draftproof.reference.rational import rational
from draftproof.spec import schema


class Token:
    """Token verification, right where nobody overrides it."""

    name, version, algorithm = "token", "1", "token"

    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return p / q

    def accepted(self, passed: Tensor) -> Tensor:
        return passed.long().cumprod(-1).sum(-1)

    def verify(self, request: Request) -> Result:
        path, q, p = (
            rows[:, 0] for rows in (request.draft_tokens, request.draft_probs, request.target_probs)
        )
        ratio = self.threshold(*(r.gather(-1, path[..., None])[..., 0] for r in (p[:, :-1], q)))
        accepted = self.accepted(torch.rand_like(ratio) < ratio)
        rows = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], 1)
        token = torch.multinomial(rows[torch.arange(len(path)), accepted], 1)[:, 0]
        return Result(accepted, torch.zeros_like(accepted), token)


class Shortcut(Token):
    """A token that is nearly sure is accepted without a coin."""

    def __init__(self, sure: float) -> None:
        self.sure = sure

    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return torch.where(p > self.sure, 2.0, p / q)


class GoesOn(Token):
    """What is accepted after a rejection counts."""

    def accepted(self, passed: Tensor) -> Tensor:
        return passed.long().sum(-1)


class Opaque(Token):
    """The coin's number leaves torch for Python, where the exact lane cannot follow it."""

    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return p / q + torch.randn(1) * 0


def searched(adapter: Any, **terms: Any) -> Search:
    return search(program_of(adapter), **terms)


HIDDEN = {"nearly sure": Shortcut(0.99), "sure": Shortcut(0.999), "goes on": GoesOn()}


@pytest.mark.parametrize("name", HIDDEN)
def test_it_finds_what_the_quick_cases_do_not(name: str) -> None:
    found = searched(HIDDEN[name], examples=120, seed=0, progress=silently)
    assert found.failed is not None
    assert found.failed_after is not None
    assert found.failed_after <= found.examples <= 120
    assert found.failed.finding.requirement == "law.lossless"
    program = in_setting(program_of(HIDDEN[name]), found.failed.setting)
    seen = observe(program, Case("again", "", "quick", found.failed.instance))
    assert judge(seen)[0].distance == found.failed.finding.distance


def test_the_quick_cases_do_not_see_a_shortcut() -> None:
    quick = [case for case in cases("quick") if case.instance.drafts == 1]
    found = [f for case in quick for f in judge(observe(program_of(HIDDEN["sure"]), case))]
    assert {finding.verdict for finding in found} == {PASS, SKIPPED}


def test_a_right_verifier_passes_with_room() -> None:
    found = searched(Token(), examples=40, seed=0, progress=silently)
    assert found.failed is None
    assert found.failed_after is None
    assert found.lane == EXACT
    assert set(found.worst) | set(found.skipped) == set(LAWS)
    assert found.skipped == {"length.optimal": "token claims no optimum"}
    assert 0 < badness(found.worst["law.lossless"].finding)[1] < 1 / 10
    for sought in found.worst.values():
        assert sought.finding.verdict == PASS


def test_a_seed_repeats_a_search() -> None:
    once, again = (
        searched(Shortcut(0.99), examples=20, seed=5, progress=silently) for _ in range(2)
    )
    assert once == again
    assert searched(Shortcut(0.99), examples=20, seed=6, progress=silently) != once


def test_the_failure_is_made_simple_enough_for_a_counterexample() -> None:
    adapter = Shortcut(0.5)
    found = searched(adapter, examples=40, seed=0, progress=silently)
    assert found.failed is not None
    assert found.failed.instance.vocabulary == 2
    assert found.failed.finding.distance is not None
    assert found.failed.finding.distance >= rational("1/100")
    small = explain(program_of(adapter), "law.lossless", found.failed.instance, progress=silently)
    assert small is not None
    assert (small.instance.vocabulary, small.instance.length) == (2, 1)


def test_findings_are_ready_for_a_campaign() -> None:
    found = searched(Shortcut(0.9), examples=40, seed=3, progress=silently)
    findings = {finding.requirement: finding for finding in search_findings(found)}
    assert list(findings) == list(LAWS)
    assert {finding.case for finding in findings.values()} == {"search"}
    lossless = findings["law.lossless"]
    assert lossless.verdict == FAIL
    assert lossless.detail.endswith(f"the worst of {found.examples} examples, seed 3")
    assert (lossless.lane, lossless.runs) == (EXACT, found.runs)
    assert findings["length.optimal"].verdict == SKIPPED
    assert findings["length.optimal"].detail == "token claims no optimum"
    assert found.failed is not None
    told = search_to_json(found)
    assert failed_instance(told, "law.lossless") == asked(found.failed)
    assert failed_instance(told, "law.reference") == asked(found.worst["law.reference"])


def asked(sought: Sought) -> Any:
    return sought.instance, sought.setting


def test_its_part_of_a_certificate_follows_the_schema() -> None:
    found = searched(Shortcut(0.9), examples=20, seed=0, progress=silently)
    part = search_to_json(found)
    certificate = {**schema("certificate"), "$ref": "#/$defs/search"}
    kept = {key: certificate[key] for key in ("$schema", "$id", "$defs", "$ref")}
    instances_too = Resource.from_contents(schema("instance"))
    registry = Registry[Any]().with_resource("instance.schema.json", instances_too)
    Draft202012Validator(kept, registry=registry).validate(part)
    assert part["worst"][0]["requirement"] == "law.lossless"
    assert part["worst"][0]["distance"] == float(found.worst["law.lossless"].finding.distance or 0)


def test_the_next_lane_takes_over_where_one_is_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = []

    def watched(program: Program, case: Case, *, lane: str) -> Any:
        lanes.append(lane)
        if lane == EXACT:
            raise OpaqueRandomness("here", "is hidden")
        return replace(observe(program, case), lane=lane)

    monkeypatch.setattr("draftproof.conformance.failure.search.observe", watched)
    found = searched(Token(), examples=5, seed=0, progress=silently)
    assert found.lane == PROBE
    assert lanes == [EXACT, *[PROBE] * (len(lanes) - 1)]
    assert {sought.finding.lane for sought in found.worst.values()} == {PROBE}


def test_where_no_lane_sees_the_adapter_the_reason_is_told() -> None:
    with pytest.raises(OpaqueRandomness, match=r"randn[\s\S]*torch\.randn\(1\) \* 0"):
        searched(Opaque(), examples=5, seed=0, lanes=[EXACT], progress=silently)


def test_what_raises_fails_and_does_not_end_the_search() -> None:
    class Broken(Token):
        def accepted(self, passed: Tensor) -> Tensor:
            raise RuntimeError("out of memory")

    found = searched(Broken(), examples=10, seed=0, progress=silently)
    assert found.worst["law.prefix"].finding.detail.startswith(
        "raised RuntimeError: out of memory ("
    )
    assert found.worst["law.prefix"].finding.distance == 1


def test_progress_is_shown_step_by_step_and_ends() -> None:
    shown: list[tuple[int, str]] = []
    steps: list[Any] = []

    def watched(over: Iterable[Any], count: int, title: str, *_: object) -> Iterable[Any]:
        shown.append((count, title))
        for step in over:
            steps.append(step)
            yield step
        steps.append("end")

    searched(Token(), examples=6, seed=0, progress=watched)
    assert shown == [(6, "search")]
    assert steps == [*range(6), "end"]


def test_nothing_is_written_into_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    searched(Token(), examples=3, seed=0, progress=silently)
    assert list(tmp_path.iterdir()) == []


def test_without_hypothesis_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(SearchUnavailable, match=re.escape(installation("search"))):
        searched(Token(), examples=1, seed=0, progress=silently)


def test_without_hypothesis_nothing_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    records: list[Any] = []
    with pytest.raises(SearchUnavailable):
        run(Campaign("torch-token", mode="quick", examples=1), keep=records.append)
    assert records == []


def test_an_unmeasured_finding_has_no_badness() -> None:
    with pytest.raises(ValueError, match=r"law\.prefix on search: nothing was measured"):
        badness(Finding("law.prefix", "search", SKIPPED))


def declared(**attributes: Any) -> Declaration:
    return replace(declaration(Token()), **attributes)


def proposed(declared: Declaration, count: int = 200) -> list[Instance]:
    met: list[Instance] = []

    @hypothesis_settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(instances(declared))
    def meet(instance: Instance) -> None:
        met.append(instance)

    meet()
    return met


def rows_of(instance: Instance) -> list[Any]:
    return [*instance.target.rows.values(), *instance.draft.rows.values()]


def test_instances_are_of_every_kind() -> None:
    met = proposed(declared())
    assert {i.vocabulary for i in met} == {2, 3, 4}
    assert {i.length for i in met} == {1, 2, 3}
    assert {i.drafts for i in met} == {1}
    rows = [row for instance in met for row in rows_of(instance)]
    assert any(0 in row for row in rows)
    assert any(row[0] == row[1] != 0 for row in rows)
    assert any(rational("0.999") < max(row) < 1 for row in rows)
    assert any(max(row) == 1 for row in rows)
    pairs = [(i.target(()), i.draft(())) for i in met]
    assert any(p == q for p, q in pairs)
    assert any(0 < abs(p[0] - q[0]) < rational("1/10000") for p, q in pairs)
    ratios = [p / q for pair in pairs for p, q in zip(*pair, strict=True) if p and q]
    assert max(ratios) >= 2**16
    assert min(ratios) <= rational("1/2") ** 16
    assert {i.target.context_free for i in met} == {True, False}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("logits", [False, True])
def test_rows_are_exact_in_every_dtype(dtype: str, logits: bool) -> None:
    for instance in proposed(declared(dtype=dtype, logits=logits), 60):
        for row in rows_of(instance):
            floats = [float(weight) for weight in row]
            assert torch.tensor(floats, dtype=getattr(torch, dtype)).tolist() == floats
            assert not logits or all(w == 0 or w >= rational("1/2048") for w in row)


@pytest.mark.parametrize("scheme", ["iid", "without_replacement", "hub", "greedy"])
def test_two_drafts_are_proposed_where_they_are_taken(scheme: str) -> None:
    met = proposed(declared(max_drafts=2, scheme=scheme), 60)
    assert {(i.drafts, i.scheme) for i in met} == {(1, "iid"), (2, scheme)}


# --- settings --------------------------------------------------------------------------------

GATES = {
    "Length": "before",
    "Position": "before",
    "Batch": "rows",
    "LastRow": "rows",
    "Row": "rows",
    "Strided": "layout",
    "Generator": "generator",
    "Call": "calls",
    "Vocabulary": "tokens",
}
"""The dimension of a setting in which each gate is."""

TRIES = 200
"""Within so many tries each of these gates is found, with the seeds of these tests."""


@pytest.mark.parametrize("gate", GATES)
def test_a_fault_behind_a_gate_is_found_and_told_without_what_does_not_matter(gate: str) -> None:
    program = program_of(getattr(gates, f"ResidualBehind{gate}")())
    found = search(program, examples=TRIES, seed=0, progress=silently)
    assert found.failed is not None
    small = explain(program, "law.lossless", found.failed.instance, setting=found.failed.setting)
    assert small is not None
    others = {each.name for each in fields(Setting)} - {GATES[gate], "row"}
    assert getattr(small.setting, GATES[gate]) != getattr(PLAIN, GATES[gate])
    assert {getattr(small.setting, each) == getattr(PLAIN, each) for each in others} == {True}
    assert small.words[1].startswith("asked ")


def test_the_smallest_length_and_batch_are_found() -> None:
    (case,) = (each for each in cases("quick") if each.id == "generic.v3.l2")
    for gate, setting, least in (
        ("Length", Setting(before=30, rows=9, row=4), Setting(before=4)),
        ("Batch", Setting(rows=9, row=8, generator=False), Setting(rows=6)),
    ):
        program = program_of(getattr(gates, f"ResidualBehind{gate}")())
        found = explain(program, "law.lossless", case.instance, setting=setting)
        assert found is not None
        length = found.setting.before + found.instance.length
        assert length == 5 if gate == "Length" else found.setting == least


SETTINGS = (
    Setting(before=7, rows=9, row=4, tokens=1, calls=3, layout="expanded", generator=False),
    Setting(before=4),
    Setting(rows=6, row=5, layout="transposed"),
    Setting(tokens=1021, dtype="float64"),
)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("adapter", [Ragged(), Block(), Logits()])
def test_a_right_verifier_is_right_in_every_setting(adapter: Any, setting: Setting) -> None:
    (case,) = (each for each in cases("quick") if each.id == "generic.v3.l2")
    found = judge(observe(in_setting(program_of(adapter), setting), case))
    assert {finding.verdict for finding in found} <= {PASS, SKIPPED}


def test_settings_grow_smaller_to_the_plain_one() -> None:
    setting = SETTINGS[0]
    for _ in range(20):
        smaller = [*smaller_settings(setting)]
        assert setting not in smaller
        assert all(each.row < each.rows for each in smaller)
        setting = smaller[0] if smaller else setting
    assert setting == PLAIN


def test_an_adapter_of_one_row_is_asked_for_one() -> None:
    met = []

    @hypothesis_settings(max_examples=60, derandomize=True, database=None, deadline=None)
    @given(settings_of(declared(batch=False, dtypes=("float32", "float64", "bfloat16"))))
    def meet(setting: Setting) -> None:
        met.append(setting)

    meet()
    assert {each.rows for each in met} == {1}
    # In bfloat16 the rows would not sum to 1.
    assert {each.dtype for each in met} == {"", "float64"}


class Unsure(Token):
    """Accepts nothing for certain, so that the runs of certain rows multiply."""

    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return p / q / 2


def test_what_is_unsure_of_certain_rows_is_asked_in_no_setting() -> None:
    found = searched(Unsure(), examples=12, seed=0, progress=silently)
    assert {sought.setting for sought in found.worst.values()} == {PLAIN}
