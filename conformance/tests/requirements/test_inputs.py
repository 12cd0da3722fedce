"""Requirements of chapter 10 with verifiers that keep them and verifiers that break them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases import cases
from draftproof.conformance.failure.counterexample import silently
from draftproof.conformance.lanes.exchange import request
from draftproof.conformance.protocol.adapter import (
    INVALID_INPUTS,
    Request,
    Result,
    declaration,
    program_of,
)
from draftproof.conformance.requirements import inputs
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.inputs import (
    InputObservation,
    judge_inputs,
    observe_inputs,
)
from draftproof.conformance.requirements.task import Terms
from draftproof.conformance.run.certify import certify

HERE = Path(__file__)

CASE = next(case for case in cases("quick") if case.id == "generic.v2.l2")


# --- verifiers ----------------------------------------------------------------------------------


def at_every_row(bad: Tensor) -> bool:
    return bool(bad.any())


class Checked:
    """Token verification that checks its input; `seen` is how far a check of rows looks."""

    version, algorithm = "1", "token"
    seen: Callable[[Tensor], bool] = staticmethod(at_every_row)

    def __init__(self) -> None:
        self.name = type(self).__name__

    def check(self, request: Request) -> None:
        tokens, q, p = request.draft_tokens, request.draft_probs, request.target_probs
        rows, drafts, length = tokens.shape
        if q.shape[:3] != tokens.shape or p.shape != (rows, drafts, length + 1, q.shape[-1]):
            raise ValueError("shapes do not fit")
        if self.seen((tokens < 0) | (tokens >= q.shape[-1])):
            raise ValueError("no such token")
        for each in (q, p):
            if self.seen(each.isnan()) or self.seen(each < 0):
                raise ValueError("no probability")
            if self.seen((each.sum(-1) - 1).abs() > 1e-3):
                raise ValueError("does not sum to 1")

    def passes(self, coins: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return coins * q < p

    def verify(self, request: Request) -> Result:
        self.check(request)
        path, q, p = (
            request.draft_tokens[:, 0],
            request.draft_probs[:, 0],
            request.target_probs[:, 0],
        )
        said, drafted = (each.gather(-1, path[..., None])[..., 0] for each in (p[:, :-1], q))
        passed = self.passes(torch.rand_like(said), said, drafted)
        accepted = passed.long().cumprod(-1).sum(-1)
        row = torch.arange(len(p))
        draft = torch.cat([q, torch.zeros_like(p[:, :1])], 1)
        excess = (p - draft).clamp(min=0)[row, accepted]
        rows = torch.where(excess.sum(-1, keepdim=True) > 0, excess, p[row, accepted])
        return Result(accepted, torch.zeros_like(accepted), torch.multinomial(rows, 1)[:, 0])


class Loop(Checked):
    """The same in Python, position by position."""

    batch = False

    def accepts(self, p: float, q: float) -> bool:
        return bool(torch.rand(()).item() * q < p)

    def verify(self, request: Request) -> Result:
        self.check(request)
        path, q, p = (
            request.draft_tokens[0, 0],
            request.draft_probs[0, 0],
            request.target_probs[0, 0],
        )
        kept = 0
        while kept < len(path) and self.accepts(
            float(p[kept, path[kept]]), float(q[kept, path[kept]])
        ):
            kept += 1
        row = (p[kept] - q[kept]).clamp(min=0) if kept < len(path) else p[kept]
        if row.sum() == 0:
            row = p[kept]
        token = torch.multinomial(row, 1)
        return Result(torch.tensor([kept]), torch.tensor([0]), token)


class FirstPosition(Checked):
    """Looks at the first position of every row."""

    @staticmethod
    def seen(bad: Tensor) -> bool:
        return bool(bad[:, :, 0].any())


class FirstRow(Checked):
    """Looks at the first row of a batch."""

    @staticmethod
    def seen(bad: Tensor) -> bool:
        return bool(bad[0].any())


class DraftOnly(Loop):
    """Looks at the draft's rows, not at the target's."""

    def check(self, request: Request) -> None:
        if request.draft_probs.isnan().any() or (request.draft_probs < 0).any():
            raise ValueError("no probability")


class Trusting(Checked):
    """Checks nothing, and says so."""

    undefined = dict.fromkeys(INVALID_INPUTS, "the engine checks")

    def check(self, request: Request) -> None:
        pass


class AcceptsZeroOverZero(Checked):
    """0 / 0 is not above any coin, and so is not rejected."""

    def passes(self, coins: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return ~(p / q <= coins)


class LoopAcceptsUndrafted(Loop):
    """What cannot have been drafted is taken for certain."""

    def accepts(self, p: float, q: float) -> bool:
        return True if q == 0 else super().accepts(p, q)


class RaisesOnUndrafted(Loop):
    def accepts(self, p: float, q: float) -> bool:
        if q == 0:
            raise ValueError("a drafted token has no probability")
        return super().accepts(p, q)


class NaNForUndrafted(Checked):
    """The token after NaN is none."""

    def verify(self, request: Request) -> Result:
        found = super().verify(request)
        path, q = request.draft_tokens[:, 0], request.draft_probs[:, 0]
        lost = (q.gather(-1, path[..., None]) == 0).any(1)[:, 0]
        found.next_token.masked_fill_(lost, q.shape[-1])
        return found


# --- invalid input ------------------------------------------------------------------------------


@pytest.mark.requirement("input.rejected")
@pytest.mark.parametrize("kind", [Checked, Loop])
def test_every_invalid_input_is_rejected_by_whoever_looks_everywhere(kind: type[Any]) -> None:
    seen = observe_inputs(program_of(kind()), CASE)
    assert dict(seen.errors) == {
        "nan": "ValueError: no probability",
        "negative": "ValueError: no probability",
        "unnormalised": "ValueError: does not sum to 1",
        "shape": "ValueError: shapes do not fit",
        "token": "ValueError: no such token",
    }
    finding = judge_inputs(seen)
    assert (finding.verdict, finding.detail, finding.lane) == (PASS, "", "run")


@pytest.mark.requirement("input.rejected")
@pytest.mark.parametrize(
    ("kind", "silent"),
    [
        (
            FirstPosition,
            "nan (draft_probs[1, 0, 1] is NaN), negative (draft_probs[1, 0, 1] is negative), "
            "unnormalised (draft_probs[1, 0, 1] sums to 1/2)",
        ),
        (
            FirstRow,
            "nan (draft_probs[1, 0, 0] is NaN), negative (draft_probs[1, 0, 0] is negative), "
            "unnormalised (draft_probs[1, 0, 0] sums to 1/2)",
        ),
        (
            DraftOnly,
            "nan (target_probs[0, 0, 1] is NaN), negative (target_probs[0, 0, 0] is negative), "
            "unnormalised (draft_probs[0, 0, 0] sums to 1/2), "
            "shape (draft_probs has a row too few), token (draft_tokens[0, 0, 0] is -1)",
        ),
    ],
)
def test_a_check_that_does_not_look_everywhere_is_found(kind: type[Any], silent: str) -> None:
    finding = judge_inputs(observe_inputs(program_of(kind()), CASE))
    assert (finding.verdict, finding.detail) == (FAIL, f"accepted in silence: {silent}")


def test_an_input_is_invalid_in_one_way_only() -> None:
    """Rows that are negative sum to 1, rows that sum to something else are not negative."""
    given: dict[str, list[Request]] = {}
    for kind in ("negative", "unnormalised"):
        valid = request([(CASE.instance, ((0, 1),))], declaration(Checked()))
        given[kind] = [invalid for _, invalid in inputs._invalid(kind, valid)]
    for invalid in given["negative"]:
        for rows in (invalid.draft_probs, invalid.target_probs):
            assert (rows.sum(-1) == 1).all()
    for invalid in given["unnormalised"]:
        for rows in (invalid.draft_probs, invalid.target_probs):
            assert (rows >= 0).all()
    # Two rows of the draft and three of the target, each once or in three ways.
    assert [len(requests) for requests in given.values()] == [5, 15]


class Scripted:
    """Answers what it is told to answer."""

    name, version, algorithm = "scripted", "1", "token"

    def __init__(self, answer: Any, **attributes: Any) -> None:
        self.answer = answer
        self.__dict__.update(attributes)

    def verify(self, request: Request) -> Result:
        return self.answer(request)  # type: ignore[no-any-return]


def test_invalid_inputs_are_told_apart() -> None:
    def answer(request: Request) -> Result:
        if torch.isnan(request.draft_probs).any() or torch.isnan(request.target_probs).any():
            raise ValueError("not a number")
        if request.draft_probs.shape[2] + 1 != request.target_probs.shape[2]:
            raise ValueError("shapes do not fit")
        if request.draft_probs.shape[1::2] != request.target_probs.shape[1::2]:
            raise ValueError("paths or tokens do not fit")
        none = torch.zeros(len(request.draft_tokens), dtype=torch.int64)
        return Result(none, none, none)

    seen = observe_inputs(program_of(Scripted(answer, undefined={"token": "trusted"})), CASE)
    assert seen.errors == {
        "nan": "ValueError: not a number",
        "negative": None,
        "unnormalised": None,
        "shape": "ValueError: shapes do not fit",
        "token": None,
    }
    assert seen.undefined == {"token": "trusted"}


@pytest.mark.requirement("input.rejected")
def test_an_error_that_may_not_come_is_silence() -> None:
    """Half of all runs raise; the others end in silence, however rare they were."""

    def answer(request: Request) -> Result:
        if torch.rand(()) < 0.5:
            raise ValueError("by chance")
        none = torch.zeros(len(request.draft_tokens), dtype=torch.int64)
        return Result(none, none, none)

    assert set(observe_inputs(program_of(Scripted(answer)), CASE).errors.values()) == {None}


@pytest.mark.requirement("input.rejected")
def test_silence_is_excused_by_a_declaration_only() -> None:
    errors = {"nan": "ValueError: no", "shape": None, "token": None}
    where = {"shape": "a row too few", "token": "token 9"}
    undeclared = judge_inputs(InputObservation(errors, {"token": "trusted"}, where))
    assert (undeclared.verdict, undeclared.detail) == (
        FAIL,
        "accepted in silence: shape (a row too few)",
    )
    both = {"token": "trusted", "shape": "trusted"}
    declared = judge_inputs(InputObservation(errors, both, where))
    assert (declared.verdict, declared.detail) == (PASS, "declared undefined: shape, token")


# --- what cannot have been drafted --------------------------------------------------------------


def undrafted(kind: type[Any], lane: str = "exact") -> dict[str, Finding]:
    adapter = kind()
    program = program_of(adapter)
    tasks = inputs.tasks(program.declared, "quick")
    return {
        task.case: finding
        for task in tasks
        if task.requirements == ("input.undrafted",)
        for finding in task.judge(program, Terms(lane=lane, mode="quick"))
    }


@pytest.mark.requirement("input.undrafted")
@pytest.mark.parametrize("kind", [Checked, Loop, Trusting, RaisesOnUndrafted])
def test_raising_or_saying_what_the_target_can_say_passes(kind: type[Any]) -> None:
    found = undrafted(kind)
    assert len(found) == 6
    assert {finding.verdict for finding in found.values()} == {PASS}


@pytest.mark.requirement("input.undrafted")
@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        (AcceptsZeroOverZero, "drafted [0, 0], it accepts [0"),
        (LoopAcceptsUndrafted, "drafted [0, 0], it accepts [0"),
    ],
)
def test_accepting_what_neither_says_fails(kind: type[Any], detail: str) -> None:
    found = undrafted(kind)
    failed = {name for name, finding in found.items() if finding.verdict == FAIL}
    assert failed == {f"undrafted.unsaid.{place}" for place in ("first", "second", "both")}
    assert found["undrafted.unsaid.first"].distance == 1
    assert found["undrafted.unsaid.first"].detail.startswith(detail)


@pytest.mark.requirement("input.undrafted")
def test_what_is_no_emission_is_no_answer() -> None:
    found = undrafted(NaNForUndrafted)
    assert {finding.verdict for finding in found.values()} == {FAIL}
    assert found["undrafted.wanted.first"].detail == (
        "drafted [0, 0], it returned next token 3, not in 0..2"
    )


def test_the_drafts_are_what_they_are_called() -> None:
    for name, given, (path,) in inputs._undrafted():
        _, says, place = name.split(".")
        rows = [(given.draft(path[:i])[t], given.target(path[:i])[t]) for i, t in enumerate(path)]
        assert [q == 0 for q, _ in rows] == {
            "first": [True, False],
            "second": [False, True],
            "both": [True, True],
        }[place]
        for q, p in rows:
            assert q > 0 or (p > 0) == (says == "wanted")


# --- campaigns ----------------------------------------------------------------------------------


CERTIFIED: dict[str, set[str]] = {
    "LoopAcceptsUndrafted": {"input.undrafted"},
}


@pytest.mark.requirement("input.undrafted")
@pytest.mark.parametrize("name", CERTIFIED)
def test_a_campaign_finds_what_is_wrong_and_nothing_else(name: str) -> None:
    report = certify(f"{HERE}:{name}", mode="quick", seed=0, progress=silently)
    failed = {
        each.requirement.id for each in report.decisions if each.verdict not in ("pass", "skipped")
    }
    # What draws from the global generator is told so, and no more is asked here.
    assert failed - {"random.generator"} == CERTIFIED[name]
    assert report.verdict == "pass"  # with a warning: it is a recommendation
