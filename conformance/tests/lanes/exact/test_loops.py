"""Verifiers that are Python loops over rows, and take numbers out of tensors by `item()`."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases.large import large
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.exact._watch import Dispatch
from draftproof.conformance.lanes.observe import EXACT
from draftproof.conformance.protocol.adapter import Request, Result, program_of
from draftproof.conformance.requirements.finding import FAIL, PASS
from draftproof.conformance.requirements.large import judge_large
from draftproof.conformance.requirements.task import Terms

BATCHES = {batch.id: batch for batch in large("certify")}


class Loop:
    """Token verification, number by number."""

    name, version, algorithm = "loop", "1", "token"

    def verify(self, request: Request) -> Result:
        accepted, tokens = [], []
        for row in range(len(request.draft_tokens)):
            p, q, path = (
                each[row, 0]
                for each in (request.target_probs, request.draft_probs, request.draft_tokens)
            )
            kept = 0
            while kept < len(path):
                token = int(path[kept].item())
                ratio = p[kept, token].item() / q[kept, token].item()
                if torch.rand((), generator=request.generator).item() >= ratio:
                    break
                kept += 1
            weights = self.rest(row, p[kept], q[kept]) if kept < len(path) else p[kept]
            tokens.append(int(torch.multinomial(weights, 1, generator=request.generator)))
            accepted.append(kept)
        return Result(torch.tensor(accepted), torch.zeros(len(tokens)), torch.tensor(tokens))

    def rest(self, row: int, p: Tensor, q: Tensor) -> Tensor:
        return (p - q).clamp(min=0)


class LoopOfBlocks(Loop):
    """Draws from the target itself where it rejects a token behind the first 32 rows."""

    def rest(self, row: int, p: Tensor, q: Tensor) -> Tensor:
        return p if row >= 32 else super().rest(row, p, q)


def found(verifier: Any, batch: str) -> tuple[str, str]:
    """Return the verdict of `batch.large`, and what it says."""
    (finding,) = judge_large(BATCHES[batch], program_of(verifier), Terms(EXACT, "certify", 1))
    return finding.verdict, finding.detail


def test_a_loop_is_decided_by_the_exact_lane() -> None:
    assert found(Loop(), "large.b33.ends")[0] == PASS


def test_a_fault_behind_the_first_rows_of_a_loop_is_seen() -> None:
    assert found(LoopOfBlocks(), "large.b17.ends")[0] == PASS
    assert found(LoopOfBlocks(), "large.b33.ends")[0] == FAIL


# --- what a run costs ---------------------------------------------------------------------------


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the operators that pass the dispatcher from now on."""
    passed: list[str] = []
    dispatched = Dispatch.__torch_dispatch__

    def noted(self: Dispatch, func: Any, *args: Any) -> Any:
        passed.append(str(func))
        return dispatched(self, func, *args)

    monkeypatch.setattr(Dispatch, "__torch_dispatch__", noted)
    return passed


def test_ordinary_numbers_are_taken_past_the_dispatcher(operators: list[str]) -> None:
    table = torch.arange(24.0).view(2, 3, 4)

    def program() -> tuple[Any, ...]:
        row = table[1, 2]
        return (
            row[3].item(),
            int(table[0][..., 0][1]),
            float(table[1, 1:, None][0, 0, 0]),
            bool(table[0, 0, 0]),
        )

    assert [*exact_law(program).law] == [(23.0, 4, 16.0, False)]
    assert operators == []


def test_random_numbers_are_followed_through_views() -> None:
    def program() -> bool:
        u = torch.rand(2, 3)
        return bool(u[1, 1:][0].item() < 0.25) and bool(u[0, 0] < 0.5)

    weights = {outcome: str(weight) for outcome, weight in exact_law(program).law.items()}
    assert weights == {True: "1/8", False: "7/8"}


def test_a_choice_is_the_same_number_in_all_views() -> None:
    def program() -> tuple[float, ...]:
        drawn = torch.multinomial(torch.tensor([0.5, 0.0, 0.5]), 2, replacement=True)
        return (
            int(drawn[0]),
            drawn[0].item(),
            drawn[:1].item(),
            drawn.sum().item() - drawn[1].item(),
        )

    assert all(len({*outcome}) == 1 for outcome in exact_law(program).law)
    assert len(exact_law(program).law) == 2


@pytest.mark.parametrize("index", [5, (0, 5), (0, 0, 0), slice(None, None, -1)])
def test_an_index_that_is_refused_is_refused_in_torchs_words(index: Any) -> None:
    def program(made: Any) -> str:
        try:
            return str(made()[index])
        except (IndexError, ValueError) as error:
            return str(error)

    made = partial(torch.zeros, 2, 3)
    assert [*exact_law(partial(program, made)).law] == [program(made)]
