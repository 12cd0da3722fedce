"""Gated mutants: right where the gate is shut, and wrong where it is open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from draftproof.conformance import load_adapter
from draftproof.conformance.museum.mutants.gates import FAMILY, FAULTS, GATES, Gated
from draftproof.conformance.museum.mutants.verifiers import Ragged
from draftproof.conformance.protocol.adapter import Request


def asked(*, rows: int = 4, length: int = 4, vocabulary: int = 4, **others: Any) -> Request:
    """A request behind no gate: rows draft different paths, and most tokens are accepted."""
    random = torch.Generator().manual_seed(rows + length + vocabulary)
    shape = (rows, 1, length + 1, vocabulary)
    p = torch.rand(shape, generator=random) + 0.1
    q = p[:, :, :-1] + torch.rand(shape, generator=random)[:, :, :-1] / 3
    q, p = (each / each.sum(-1, keepdim=True) for each in (q, p))
    paths = torch.arange(rows)[:, None, None] // vocabulary ** torch.arange(length) % vocabulary
    request = Request(paths, q, p, torch.Generator().manual_seed(0))
    return replace(request, **others)


def noncontiguous(request: Request) -> Request:
    p = torch.stack([request.target_probs] * 2, -1)[..., 0]
    return replace(request, target_probs=p)


def expanded(request: Request) -> Request:
    p = request.target_probs[:1].expand_as(request.target_probs)
    return replace(request, target_probs=p)


def likeliest_last(request: Request) -> Request:
    """Let the target find the first token less likely than all others, at every position."""
    p = request.target_probs.clone()
    p[..., 0] = 0.5 * p.amin()
    return replace(request, target_probs=p)


def in_doubles(request: Request) -> Request:
    q, p = request.draft_probs.double(), request.target_probs.double()
    return replace(request, draft_probs=q, target_probs=p)


def behind() -> dict[str, tuple[Request, ...]]:
    """For each gate, calls of which the last is behind it, and no other is."""
    few, many = asked(), asked(rows=8)
    tile = asked(rows=2, length=1, vocabulary=1024)
    wide = asked(rows=2, length=2, vocabulary=1100)
    at_edge = replace(tile, draft_tokens=torch.tensor([[[1023]], [[5]]]))
    return {
        "length": (asked(length=5),),
        "position": (asked(length=5),),
        "batch": (many,),
        "last-row": (few,),
        "row": (asked(rows=40),),
        "equal": (replace(few, draft_tokens=torch.ones_like(few.draft_tokens)),),
        "nothing": (asked(lengths=torch.tensor([4, 4, 0, 4])),),
        "vocabulary": (asked(rows=3, length=3, vocabulary=2**15 + 1),),
        "token": (at_edge,),
        "tail": (likeliest_last(wide),),
        "dtype": (in_doubles(few),),
        "strided": (noncontiguous(few),),
        "expanded": (expanded(few),),
        "generator": (asked(generator=None),),
        "call": (few, few, few),
        "growing": (few, many),
    }


def results(make: Callable[[], Any], calls: tuple[Request, ...], seed: int) -> list[list[int]]:
    """The columns of the last of some calls, all on random numbers of a seed."""
    adapter = make()
    torch.manual_seed(seed)
    for request in calls:
        if request.generator is not None:
            request.generator.manual_seed(seed)
        found = adapter.verify(request)
    return [found.accepted_length.tolist(), found.next_token.tolist()]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.id)
def test_a_fault_acts_behind_its_gate(gate: Any) -> None:
    calls = behind()[gate.id]
    for made in FAMILY.values():
        if made.gate is gate and not is_out_of_reach(made):
            differs = (
                results(made, calls, seed) != results(Ragged, calls, seed) for seed in range(200)
            )
            assert any(differs), made.name


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.id)
def test_and_nowhere_else(gate: Any) -> None:
    """In the calls of all other gates, unless they are behind this one as well."""
    for made in FAMILY.values():
        if made.gate is not gate:
            continue
        few = asked()
        if gate.id == "last-row":
            few = asked(rows=1)
        for seed in range(5):
            assert results(made, (few,), seed) == results(Ragged, (few,), seed), made.name


OUT_OF_REACH = {("coin", "position"), ("coin", "token"), ("neighbour", "expanded")}
"""One coin is no fault of one position, nor are a neighbour's rows where all are the same."""


def is_out_of_reach(made: type[Gated]) -> bool:
    """Whether a fault has nothing to act on in the calls that are made here."""
    return (made.fault.id, made.gate.id) in OUT_OF_REACH


def test_every_fault_is_behind_every_gate_and_has_a_name() -> None:
    assert len(FAMILY) == len(FAULTS) * len(GATES)
    place = "draftproof.conformance.museum.mutants.gates"
    made = load_adapter(f"{place}:ResidualBehindLastRow")
    assert made.name == "residual-behind-last-row"
