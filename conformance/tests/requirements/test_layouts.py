"""Layouts: the same law in each, and an error in those that are excluded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from draftproof.conformance.lanes.exchange import request
from draftproof.conformance.museum.mutants.gates import GATED
from draftproof.conformance.museum.mutants.verifiers import Ragged, Supplied
from draftproof.conformance.protocol.adapter import LAYOUTS as NAMES
from draftproof.conformance.protocol.adapter import (
    Declaration,
    Program,
    Request,
    Result,
    declaration,
    program_of,
)
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.layouts import LAID, laid_out
from draftproof.reference.drafting import draft_law

Findings = Callable[..., list[Finding]]
Right = Callable[[str], Program]

LAYOUT = "input.layout"

pytestmark = pytest.mark.requirement("input.layout")


def requested(declared: Declaration, case: str = "generic.v3.l2") -> Request:
    from draftproof.conformance.cases import cases

    instance = next(each.instance for each in cases("quick") if each.id == case)
    return request([(instance, drafts) for drafts in draft_law(instance)], declared)


@pytest.mark.parametrize("name", ["ragged", "torch-block", "torch-multipath-block", "transformers"])
def test_what_is_right_passes(findings: Findings, right: Right, name: str) -> None:
    found = [*findings(right(name), LAYOUT)]
    assert {n[1] for each in found if (n := each.case.split("."))[0] == "layout"} == {*LAID}
    assert {each.verdict for each in found} == {PASS}, [each.case for each in found]


def test_an_interpreted_kernel_passes(findings: Findings, right: Right) -> None:
    assert {each.verdict for each in findings(right("triton-token"), LAYOUT)} == {PASS}


def test_noise_is_laid_out_too(findings: Findings) -> None:
    assert {each.verdict for each in findings(program_of(Supplied()), LAYOUT)} == {PASS}


def test_every_layout_has_the_same_numbers_elsewhere_in_memory() -> None:
    declared = declaration(Ragged())
    asked = requested(declared, "motivating")
    assert {*LAID} == {*NAMES} - {"contiguous"}
    for name in LAID:
        laid = laid_out(name, asked)
        for field in ("draft_tokens", "draft_probs", "target_probs", "lengths"):
            assert torch.equal(getattr(laid, field), getattr(asked, field)), (name, field)
        p = laid.target_probs
        assert not p.is_contiguous() or p.storage_offset() > 0, name


def test_a_single_path_is_transposed_and_expanded() -> None:
    """Where B = 1, too: its positions and tokens change places, and equal rows are one."""
    asked = requested(declaration(Ragged()), "motivating")
    one = replace(
        asked,
        draft_tokens=asked.draft_tokens[:1],
        draft_probs=asked.draft_probs[:1],
        target_probs=asked.target_probs[:1],
        lengths=None,
    )
    transposed = laid_out("transposed", one).target_probs
    assert transposed.stride(2) < transposed.stride(3)
    assert laid_out("expanded", one).target_probs.stride(2) == 0


class Forgetful(Ragged):
    """Takes the pointer, and forgets the strides."""

    name = "forgetful"

    def rows(self, request: Request) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        path, q, p = super().rows(request)
        flat = request.target_probs
        if 0 not in flat.stride():
            p = flat.as_strided((p.numel(),), (1,), flat.storage_offset()).view(p.shape)
        return path, q, p


class Choosy(Forgetful):
    """Says what it takes, and refuses all else."""

    name = "choosy"
    layouts = ("contiguous", "offset", "expanded")

    def verify(self, request: Request) -> Result:
        if not request.target_probs.is_contiguous() and 0 not in request.target_probs.stride():
            raise ValueError("rows must be contiguous")
        return super().verify(request)


class Silent(Forgetful):
    """Says what it takes, and answers all else."""

    name = "silent"
    layouts = ("contiguous", "offset", "expanded")


def verdicts(findings: Findings, made: type[Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in findings(program_of(made()), LAYOUT):
        found.setdefault(each.case.split(".")[1], set()).add(each.verdict)
    return found


def test_a_forgotten_stride_is_found(findings: Findings) -> None:
    found = verdicts(findings, Forgetful)
    wrong = {name for name, verdict in found.items() if FAIL in verdict}
    assert wrong == {"transposed", "sliced", "stepped", "interleaved"}


def test_what_is_excluded_must_be_refused(findings: Findings) -> None:
    assert {verdict for each in verdicts(findings, Choosy).values() for verdict in each} == {PASS}
    found = verdicts(findings, Silent)
    assert all(found[name] == {FAIL} for name in ("transposed", "sliced", "stepped"))
    assert found["offset"] == found["expanded"] == {PASS}
    (first, *_) = findings(program_of(Silent()), LAYOUT, cases="layout.sliced")
    assert first.detail == ("excludes the layout 'sliced', and returns a result of a request in it")


HIDDEN = [name for name in GATED if name.split("-behind-")[1] in ("strided", "expanded")]


@pytest.mark.parametrize("name", HIDDEN)
def test_every_fault_is_found_behind_a_layout(findings: Findings, name: str) -> None:
    assert GATED[name].breaks == LAYOUT
    assert FAIL in {each.verdict for each in findings(program_of(GATED[name].make()), LAYOUT)}
