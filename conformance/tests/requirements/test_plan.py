"""Tasks that are alike share walks: what each comes to is what it comes to by itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.lanes import cache, observe
from draftproof.conformance.lanes.cache import LawCache, caching, foreseeing
from draftproof.conformance.lanes.observe import BLINDNESS, EXACT
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.protocol.adapter import (
    Program,
    Request,
    Result,
    declaration,
    program_of,
)
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.plan import coming, plan
from draftproof.conformance.requirements.task import Task, Terms, is_asked

CASES = ("generic.v2.*", "zeros.*", "equal", "extreme.opposed", "extreme.scattered", "batch.pair*")

TERMS = Terms(EXACT, "quick", seed=1, cases=CASES)


class Token:
    """Token verification; subclasses choose how coins are made."""

    version, algorithm = "1", "token"

    def __init__(self) -> None:
        self.name = type(self).__name__

    def coins(self, ratio: Tensor, _target: Tensor) -> Tensor:
        return torch.rand_like(ratio)

    def verify(self, request: Request) -> Result:
        path, q, p = (
            each[:, 0] for each in (request.draft_tokens, request.draft_probs, request.target_probs)
        )
        said, drafted = (rows.gather(-1, path[..., None])[..., 0] for rows in (p[:, :-1], q))
        ratio = said / drafted
        accepted = (self.coins(ratio, p) < ratio).long().cumprod(-1).sum(-1)
        row = torch.arange(len(p))
        excess = (p - torch.cat([q, torch.zeros_like(p[:, :1])], 1)).clamp(min=0)[row, accepted]
        rows = torch.where(excess.sum(-1, keepdim=True) > 0, excess, p[row, accepted])
        return Result(accepted, torch.zeros_like(accepted), torch.multinomial(rows, 1)[:, 0])


def alike(adapter: Any) -> Iterator[Task]:
    """Yield some of the tasks that say what they will ask for."""
    tasks = plan(declaration(adapter), "quick")
    return (task for task in tasks if task.asks is not None and is_asked(task.case, CASES))


def judged(adapter: Any, task: Task) -> list[Finding] | str:
    try:
        return task.judge(program_of(adapter), TERMS)
    except BLINDNESS as error:
        return type(error).__name__


def by_themselves(adapter: Any) -> list[list[Finding] | str]:
    return [judged(adapter, task) for task in alike(adapter)]


def in_a_campaign(adapter: Any) -> list[list[Finding] | str]:
    ahead = partial(coming, declaration(adapter), "quick", CASES)
    with caching(LawCache(adapter)), foreseeing(ahead):
        return [judged(adapter, task) for task in alike(adapter)]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the requests of every computation of laws."""
    counts: list[int] = []
    original = observe._computed

    def counting(program: Program, requests: Any, *given: Any) -> Any:
        counts.append(len(requests))
        return original(program, requests, *given)

    monkeypatch.setattr(observe, "_computed", counting)
    return counts


def test_what_a_task_finds_does_not_depend_on_those_that_are_walked_with_it(
    computed: list[int],
) -> None:
    apart = by_themselves(Token())
    alone = len(computed)
    computed.clear()
    assert in_a_campaign(Token()) == apart
    assert 2 * len(computed) < alone
    assert all(count <= cache._MOST_TOGETHER for count in computed)


def test_a_task_asks_for_what_it_said_that_it_would_ask_for() -> None:
    """None is computed in vain, and nothing again."""
    program = program_of(Token())
    for task in alike(program.adapter):
        assert task.asks is not None
        said = {(*rows, declared) for rows, declared in task.asks(program.declared)}
        known = LawCache(program.adapter)
        with caching(known):
            known.ahead = lambda *_: []  # type: ignore[method-assign]
            task.judge(program, TERMS)
        assert said <= known._laws.keys()


class SortsNoise(Token):
    """Cannot be seen through where a target is the draft."""

    def coins(self, ratio: Tensor, _target: Tensor) -> Tensor:
        coins = torch.rand_like(ratio)
        return coins.sin() if (ratio == 1).all() else coins


def test_a_task_that_cannot_be_seen_blinds_no_other() -> None:
    apart = by_themselves(SortsNoise())
    assert in_a_campaign(SortsNoise()) == apart
    assert OpaqueRandomness.__name__ in apart
    assert sum(isinstance(each, str) for each in apart) < len(apart) / 2


class Remembers(Token):
    """Accepts everything from the second case on: it keeps, past its copies, what it met first."""

    first: list[Tensor] = []  # noqa: RUF012  # that all share it is its fault

    def coins(self, ratio: Tensor, target: Tensor) -> Tensor:
        coins = torch.rand_like(ratio)
        if not self.first:
            self.first.append(target.clone())
        is_known = self.first[0].shape == target.shape and bool((self.first[0] == target).all())
        return coins if is_known else 0 * coins


def test_a_program_that_remembers_other_cases_is_not_taken_for_right() -> None:
    Remembers.first.clear()
    found = in_a_campaign(Remembers())
    assert any(
        isinstance(each, str) or any(own.verdict == FAIL for own in each) for each in found[1:]
    )
    Remembers.first.clear()


class Wrong(Token):
    """Accepts a little too often where the target has a zero."""

    def coins(self, ratio: Tensor, target: Tensor) -> Tensor:
        coins = torch.rand_like(ratio)
        return torch.where((target == 0).any(), 0.99 * coins, coins)


def test_a_fault_is_told_of_the_cases_that_have_it() -> None:
    apart = by_themselves(Wrong())
    assert in_a_campaign(Wrong()) == apart
    verdicts = {own.case: own.verdict for each in apart for own in each if not isinstance(own, str)}
    assert verdicts["zeros.both.float32"] == FAIL
    assert verdicts["generic.v2.l2.float32"] == PASS
