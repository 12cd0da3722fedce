"""Dimensions that meet: what needs two of them, and what ties places that are far apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from draftproof.conformance.lanes.compared import noting
from draftproof.conformance.museum.mutants.gates import FAULTS, Calls, Gate, gated
from draftproof.conformance.museum.mutants.verifiers import Ragged
from draftproof.conformance.protocol.adapter import Program, Request, program_of
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.requirements import crossed
from draftproof.conformance.requirements.crossed import covering, settings
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.settings import Setting, entries
from draftproof.conformance.requirements.task import Task, Terms


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.integers(2, 6))
def test_every_pair_that_fits_meets(sizes: list[int], most: int) -> None:
    """Pairs that do not fit beside what is plain of all else are left out, and no others."""
    values = [range(size) for size in sizes]

    def fits(row: tuple[Any, ...]) -> bool:
        return bool(sum(row) <= most)

    rows = covering(values, fits)
    assert all(map(fits, rows))
    met = {pair for row in rows for pair in combinations(enumerate(row), 2)}
    owed = {
        ((i, v), (j, w))
        for i, j in combinations(range(len(sizes)), 2)
        for v in values[i]
        for w in values[j]
        if v + w <= most
    }
    assert owed <= met


@pytest.mark.parametrize("name", ["torch-block", "triton-block", "torch-multipath-block"])
def test_what_is_asked_is_taken(name: str) -> None:
    """Every layout, and no request larger than lanes can follow."""
    declared = load_program(name).declared
    asked = settings(declared)
    assert {each.layout for each in asked} >= {*declared.layouts} - {"contiguous"}
    assert all(entries(each) <= 2**14 for each in asked)
    assert all(each.rows > 1 for each in asked if each.empty)
    assert {each.generator for each in asked} == {True, False}


def test_one_row_a_call_is_asked_alone() -> None:
    class One(Ragged):
        batch = False
        ragged = False

    assert {each.rows for each in settings(program_of(One()).declared)} == {1}


def _tasks(program: Program) -> Iterator[Task]:
    yield from crossed.tasks(program.declared, "certify")


def _failed(program: Program, tasks: Iterator[Task]) -> list[Finding]:
    found = [each for task in tasks for each in task.judge(program, Terms("exact", "certify", 1))]
    assert found
    return [each for each in found if each.verdict != PASS]


def test_what_is_right_passes_everywhere() -> None:
    assert not _failed(program_of(Ragged()), _tasks(program_of(Ragged())))


def test_a_law_is_noted_with_the_call_that_it_is_of() -> None:
    """Behind two earlier calls it is that of the third; what only tells whether to ask is none."""
    program, setting = program_of(Ragged()), Setting(calls=2, tokens=61)
    with noting() as noted:
        (found,) = crossed.judge_crossed(1, setting, program, Terms("exact", "certify", 1))
    assert found.verdict == PASS
    assert {(law.call, law.vocabulary) for law in noted.laws} == {(3, 65)}


def _is_large(request: Request, calls: Calls) -> dict[str, bool]:
    rows, _, length = request.draft_tokens.shape
    return {
        "length": length >= 5,
        "rows": rows >= 3,
        "tokens": request.target_probs.shape[-1] >= 5,
        "layout": not request.target_probs.is_contiguous(),
        "generator": request.generator is None,
        "dtype": request.target_probs.dtype == torch.float64,
        "calls": calls.count >= 1,
        "lengths": request.lengths is not None and bool((request.lengths != length).any()),
    }


@pytest.mark.parametrize(
    "pair",
    [*combinations(["length", "rows", "tokens", "layout", "generator", "dtype", "calls"], 2)],
)
def test_a_fault_that_needs_two_dimensions_is_found(pair: tuple[str, str]) -> None:
    """By a requirement on one of them, whatever the other dimensions are."""

    def opens(request: Request, calls: Calls) -> Tensor:
        large = _is_large(request, calls)
        return torch.tensor([[all(large[each] for each in pair)]])

    gate = Gate("-and-".join(pair), "where both are", "law.long", opens)
    program = program_of(gated(FAULTS[0], gate)())
    failed = _failed(program, _tasks(program))
    assert FAIL in {each.verdict for each in failed}
    assert all("asked " in each.detail for each in failed)


# --- far apart -----------------------------------------------------------------------------------


class Shared(Ragged):
    """Token verification in which some coins are those of other rows or positions."""

    def __init__(self, name: str, places: Callable[[int], int], side: int) -> None:
        self.name, self._places, self._side = name, places, side

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        """Return coins of which some are those of other places."""
        coins = super().coins(ratio, request)
        own = [self._places(place) for place in range(coins.shape[self._side])]
        return coins.index_select(self._side, torch.tensor(own, dtype=torch.long))


def _from(distance: int, first: int) -> Callable[[int], int]:
    return lambda place: place - distance if place >= first else place


FAR = {
    "every-32nd-position": (lambda place: place % 32, 1, "long.l33.d32"),
    "every-12th-position": (lambda place: place % 12, 1, "long.l33.ruler"),
    "five-before": (_from(5, 13), 1, "long.l33.ruler"),
    "every-10th-row": (lambda place: place % 10, 0, "large.b65.short"),
    "every-48th-row": (lambda place: place % 48, 0, "large.b65.short"),
    "every-128th-row": (lambda place: place % 128, 0, "large.b257.d128"),
}


@pytest.mark.parametrize("name", FAR)
def test_what_ties_places_far_apart_is_found(name: str) -> None:
    places, side, case = FAR[name]
    program = program_of(Shared(name, places, side))
    tasks = (each for each in plan(program.declared, "certify") if each.case == case)
    assert [each.verdict for each in _failed(program, tasks)] == [FAIL]


class Stale(Ragged):
    """Token verification that draws the coins of a shape once."""

    name = "stale"

    def __init__(self) -> None:
        self._kept: dict[tuple[int, ...], Tensor] = {}

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        """Return the coins of this shape, in batches of three and more."""
        coins = super().coins(ratio, request)
        return coins if len(coins) < 3 else self._kept.setdefault(tuple(coins.shape), coins)


class Deduplicated(Ragged):
    """Token verification in which equal requests of a batch share their coins."""

    name = "deduplicated"

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        """Return for each row the coins of the first that is equal."""
        coins = super().coins(ratio, request)
        given = [request.draft_tokens, request.draft_probs, request.target_probs]
        rows = torch.cat([each.reshape(len(coins), -1).double() for each in given], 1)
        return coins[(rows[:, None] == rows[None]).all(-1).long().argmax(-1)]


class WrongSecond(Ragged):
    """Token verification that is wrong where an id of an end of text is drafted, in a later row."""

    name = "wrong-second"

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        """Return the target's row where such an id is drafted."""
        is_end = (path == 128_009) & (torch.arange(len(path))[:, None] > 0)
        return torch.where(is_end[..., None], p, super().residual(p, q, path))


@pytest.mark.parametrize(
    ("made", "case"),
    [
        (Stale, "calls.again"),
        (Deduplicated, "large.b6.drafted"),
        (WrongSecond, "tail.special.v128256"),
    ],
)
def test_what_one_case_alone_shows_is_found(made: type[Ragged], case: str) -> None:
    program, right = program_of(made()), program_of(Ragged())
    asked = [each for each in plan(program.declared, "certify") if each.case == case]
    assert FAIL in {each.verdict for each in _failed(program, iter(asked))}
    assert not _failed(right, iter(asked))


def test_what_is_beside_empty_rows_is_found() -> None:
    """In large batches, where the certain rows draft nothing."""

    def opens(request: Request, _: Calls) -> Tensor:
        many = len(request.draft_tokens) >= 9
        return torch.tensor([[many and request.lengths is not None and 0 in request.lengths]])

    program = program_of(
        gated(FAULTS[0], Gate("empty", "among empty rows", "batch.large", opens))()
    )
    asked = [each for each in plan(program.declared, "certify") if each.case.endswith(".empty")]
    assert FAIL in {each.verdict for each in _failed(program, iter(asked))}
    right = program_of(Ragged())
    assert not _failed(right, iter(asked))
