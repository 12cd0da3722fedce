"""A twin's boxes are believed of a program as far as it has them, and spare it calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, tensor

from draftproof.adapters.fast import FastVerifier
from draftproof.conformance.cases import cases
from draftproof.conformance.lanes import probe
from draftproof.conformance.lanes.observe import PROBE, observe
from draftproof.conformance.lanes.probe import (
    OpaqueRandomness,
    ProbedLaw,
    TooManyRuns,
    _confirm,
    probed_laws,
)
from draftproof.conformance.protocol.adapter import Request, Result, program_of
from draftproof.conformance.requirements.laws import judge
from draftproof.reference.emission import Emission
from draftproof.reference.rational import rational

HELD_BACK = 128
THRESHOLDS = (0.25, 0.5, 0.625)

Verify = Callable[[Sequence[int]], list[Any]]


class Counted:
    """A program that accepts while coins are below thresholds, and then draws one of three."""

    def __init__(
        self, thresholds: Sequence[float] = THRESHOLDS, sums: Sequence[float] = (0.125, 0.375)
    ) -> None:
        self.thresholds, self.sums = thresholds, sums
        self.calls = 0

    def __call__(self, subjects: Sequence[int]) -> list[Any]:
        self.calls += 1
        coins, draws = torch.rand(len(subjects), 3), torch.rand(len(subjects), 1)
        scales = 1 / (1 + tensor(subjects)[:, None])
        return self.told(coins < tensor(self.thresholds) * scales, draws)

    def told(self, passed: Tensor, draws: Tensor) -> list[Any]:
        accepted = passed.int().cumprod(1).sum(1)
        tokens = (draws >= tensor(self.sums)).sum(1)
        tokens = torch.where(accepted == 3, 0, tokens)
        return list(zip(accepted.tolist(), tokens.tolist(), strict=True))


def laws(verify: Verify, twin: Verify | None = None) -> tuple[ProbedLaw[Any], ...]:
    return probed_laws(
        verify, 3, batched=True, vocabulary=3, held_back=HELD_BACK, at_once=4096, twin=twin
    )


def same(found: Sequence[ProbedLaw[Any]], expected: Sequence[ProbedLaw[Any]]) -> bool:
    pairs = zip(found, expected, strict=True)
    return all(dict(a.law.items()) == dict(b.law.items()) for a, b in pairs)


def test_a_twin_spares_most_calls_and_changes_no_law() -> None:
    alone, led = Counted(), Counted()
    assert same(laws(led, Counted()), laws(alone))
    assert led.calls < alone.calls / 2


@pytest.mark.parametrize("ulps", [1, 3, 100])
def test_walls_that_are_near_are_moved(ulps: int) -> None:
    """As many numbers of the noise further on, or before."""
    moved = [each + ulps * 2.0**-24 * (-1) ** i for i, each in enumerate(THRESHOLDS)]
    alone, led = Counted(moved), Counted(moved)
    assert same(laws(led, Counted()), laws(alone))
    assert led.calls < alone.calls


class Finer(Counted):
    """Draws in double precision."""

    def __call__(self, subjects: Sequence[int]) -> list[Any]:
        self.calls += 1
        coins = torch.rand(len(subjects), 3, dtype=torch.float64)
        draws = torch.rand(len(subjects), 1, dtype=torch.float64)
        scales = 1 / (1 + tensor(subjects, dtype=torch.float64)[:, None])
        return self.told(coins < tensor(self.thresholds, dtype=torch.float64) * scales, draws)


def test_what_single_precision_rounds_is_near_in_double_precision() -> None:
    """A wall one rounding of float32 further on is 2**29 numbers of the noise away."""
    moved = [each + 2.0**-24 for each in THRESHOLDS]
    alone, led = Finer(moved), Finer(moved)
    assert same(laws(led, Finer()), laws(alone))
    assert led.calls < alone.calls / 2


class LessOften(Counted):
    """Has a wall that its twin has not."""

    def told(self, passed: Tensor, draws: Tensor) -> list[Any]:
        return super().told(passed & (draws < 0.9), draws)


class Folded(Counted):
    """Does elsewhere in the same boxes what its twin does not."""

    def told(self, passed: Tensor, draws: Tensor) -> list[Any]:
        found = super().told(passed, draws)
        lows = (draws < 0.05)[:, 0].tolist()
        return [
            (a, 2) if low and a == 0 else (a, t) for (a, t), low in zip(found, lows, strict=True)
        ]


class AtTheEnd(Counted):
    """Differs from its twin where the last coin is the number 0 alone."""

    def __call__(self, subjects: Sequence[int]) -> list[Any]:
        self.calls += 1
        coins, draws = torch.rand(len(subjects), 3), torch.rand(len(subjects), 1)
        passed = coins < tensor(self.thresholds) / (1 + tensor(subjects)[:, None])
        passed[:, 0] &= coins[:, 2] != 0
        return self.told(passed, draws)


class Elsewhere(Counted):
    """Has another threshold where the last coin lies between two numbers."""

    def __call__(self, subjects: Sequence[int]) -> list[Any]:
        self.calls += 1
        coins, draws = torch.rand(len(subjects), 3), torch.rand(len(subjects), 1)
        thresholds = tensor(self.thresholds).repeat(len(subjects), 1)
        thresholds[:, 0] -= 0.125 * ((coins[:, 2] > 0.375) & (coins[:, 2] < 0.9375))
        return self.told(coins < thresholds / (1 + tensor(subjects)[:, None]), draws)


OTHERS: list[Callable[[], Counted]] = [
    Elsewhere,
    lambda: Counted((0.25, 0.5, 0.75)),
    lambda: Counted((0.5, 0.25, 0.625)),
    lambda: Counted(sums=(0.375, 0.5)),
    lambda: Counted((0.0, 0.5, 0.625)),
    lambda: Counted((1.0, 0.5, 0.625)),
    LessOften,
    Folded,
    AtTheEnd,
]


@pytest.mark.parametrize("other", OTHERS)
def test_what_a_twin_does_not_do_is_found_as_without_it(other: Callable[[], Counted]) -> None:
    found = laws(other(), Counted())
    assert same(found, laws(other()))
    assert not same(found, laws(Counted()))


@pytest.mark.parametrize("other", [*OTHERS, lambda: Counted([t + 2.0**-20 for t in THRESHOLDS])])
def test_what_was_moved_last_is_not_believed_unasked(
    monkeypatch: pytest.MonkeyPatch, other: Callable[[], Counted]
) -> None:
    monkeypatch.setattr(_confirm, "_ROUNDS", 1)
    assert same(laws(other(), Counted()), laws(other()))


@pytest.mark.parametrize("other", OTHERS)
def test_a_wrong_twin_changes_no_law(other: Callable[[], Counted]) -> None:
    assert same(laws(Counted(), other()), laws(Counted()))


def test_a_wall_that_only_a_twin_has_is_left_out() -> None:
    """A factor that is 1 but for its rounding refuses at the last numbers, or nowhere."""
    nearly = Counted((0.25, 1 - 2.0**-22, 0.625))
    alone, led = Counted((0.25, 1.0, 0.625)), Counted((0.25, 1.0, 0.625))
    assert same(one(led, nearly), one(alone))
    assert led.calls < alone.calls


def one(verify: Verify, twin: Verify | None = None) -> tuple[ProbedLaw[Any], ...]:
    """Return the law of the first subject, whose thresholds are as they stand."""
    return probed_laws(
        verify, 1, batched=True, vocabulary=3, held_back=HELD_BACK, at_once=4096, twin=twin
    )


MANY = 40


def many(verify: Verify, twin: Verify | None) -> tuple[ProbedLaw[Any], ...]:
    return probed_laws(
        verify, MANY, batched=True, vocabulary=3, held_back=HELD_BACK, at_once=64, twin=twin
    )


def test_subjects_share_where_walls_were_found() -> None:
    """The rows that each takes fall, and no law changes."""
    moved = [each + 2.0**-20 for each in THRESHOLDS]

    def alike(thresholds: Sequence[float]) -> Verify:
        program = Counted(thresholds)
        return lambda subjects: program([0] * len(subjects))

    found = many(alike(moved), alike(THRESHOLDS))
    assert same(found, many(alike(moved), None))
    runs = [law.runs for law in found]
    first, others = runs[:: probe._WAVE], [r for i, r in enumerate(runs) if i % probe._WAVE]
    assert max(others) < min(first)


@pytest.mark.parametrize("other", OTHERS)
def test_a_fault_behind_one_of_many_drafts_is_found(other: Callable[[], Counted]) -> None:
    """Each is tried at fewer points, where all are judged as one law."""
    right, wrong, drawn = Counted(), other(), list[Tensor]()
    draw = torch.rand

    def kept(*shape: int) -> Tensor:
        drawn.append(draw(*shape))
        return drawn[-1]

    def verify(subjects: Sequence[int]) -> list[Any]:
        rows = [0] * len(subjects)
        with patch.object(torch, "rand", kept):
            rights = right(rows)
        with patch.object(torch, "rand", lambda *_: drawn.pop(0)):
            wrongs = wrong(rows)
        each = zip(subjects, rights, wrongs, strict=True)
        return [fault if subject == 7 else good for subject, good, fault in each]

    found = probed_laws(
        verify,
        MANY,
        batched=True,
        vocabulary=3,
        at_once=4096,
        twin=lambda subjects: Counted()([0] * len(subjects)),
        shares=[rational(1) / MANY] * MANY,
    )
    expected = [*one(Counted())] * MANY
    expected[7] = one(other())[0]
    assert same(found, expected)


@pytest.mark.parametrize("is_twin_dear", [True, False])
def test_subjects_that_take_too_long_are_not_searched(
    monkeypatch: pytest.MonkeyPatch, is_twin_dear: bool
) -> None:
    twin = Counted() if is_twin_dear else says_always_the_same
    monkeypatch.setattr(probe, "_MOST_IN_ALL", 1_000 if is_twin_dear else 10_000)
    program = Counted()
    with pytest.raises(TooManyRuns, match=r"^40 subjects need some [0-9,]+ rows in all$"):
        many(program, twin)
    assert program.calls < 5 or not is_twin_dear


def raises(_: Sequence[int]) -> list[Any]:
    raise ValueError("not today")


def draws_more(subjects: Sequence[int]) -> list[Any]:
    torch.rand(len(subjects), 2)
    return Counted()(subjects)


def draws_in_halves(subjects: Sequence[int]) -> list[Any]:
    coins = torch.rand(len(subjects), 3, dtype=torch.float16)
    draws = torch.rand(len(subjects), 1)
    return Counted().told(coins < tensor(THRESHOLDS), draws)


def says_always_the_same(subjects: Sequence[int]) -> list[Any]:
    Counted()(subjects)
    return [(0, 0)] * len(subjects)


def draws_unseen(subjects: Sequence[int]) -> list[Any]:
    found = Counted()(subjects)
    return found if torch.dropout(torch.ones(1), 0.5, train=True) else found[::-1]


@pytest.mark.parametrize(
    "twin", [raises, draws_more, draws_in_halves, says_always_the_same, draws_unseen]
)
def test_a_twin_of_no_use_is_not_used(twin: Verify) -> None:
    assert same(laws(Counted(), twin), laws(Counted()))


def test_what_is_refused_is_refused_with_a_twin() -> None:
    keeps: list[float] = []

    def remembers(subjects: Sequence[int]) -> list[Any]:
        keeps.append(1.0)
        found = Counted()(subjects)
        return [(len(keeps), *each) for each in found]

    with pytest.raises(OpaqueRandomness):
        laws(remembers, Counted())


def test_rows_that_disturb_each_other_are_run_alone() -> None:
    def one_coin(subjects: Sequence[int]) -> list[Any]:
        coins = torch.rand(len(subjects), 3)
        return Counted().told(coins[:1].expand_as(coins) < tensor(THRESHOLDS), coins[:, :1])

    found = laws(one_coin, Counted())
    assert same(found, laws(one_coin))


def test_races_of_a_twin_are_searched() -> None:
    def race(subjects: Sequence[int]) -> list[Any]:
        clocks = torch.empty(len(subjects), 3).exponential_()
        return (tensor([0.5, 0.25, 0.25]) / clocks).argmax(1).tolist()

    for with_twin, alone in zip(laws(race, race), laws(race), strict=True):
        allowed = with_twin.resolution + alone.resolution
        assert with_twin.law.total_variation(alone.law) <= allowed


# --- adapters ----------------------------------------------------------------------------------


class Twinned(FastVerifier):
    """Block verification that is led by its right form, and may be wrong itself."""

    def __init__(self, fault: Callable[[Request, Result], Result], *, is_led: bool) -> None:
        super().__init__("block")
        self._fault = fault
        if is_led:
            self.same_as = "torch-block"

    def verify(self, request: Request) -> Result:
        return self._fault(request, super().verify(request))


def right(_: Request, result: Result) -> Result:
    return result


def repeats_the_last_token(request: Request, result: Result) -> Result:
    last = request.draft_tokens[:, 0, -1]
    is_full = result.accepted_length == request.draft_tokens.shape[-1]
    return replace(result, next_token=torch.where(is_full, last, result.next_token))


def says_another_token_after_none(_: Request, result: Result) -> Result:
    is_none = (result.accepted_length == 0) & (result.next_token == 1)
    return replace(result, next_token=torch.where(is_none, 0, result.next_token))


def keeps_one_less(_: Request, result: Result) -> Result:
    return replace(
        result, accepted_length=torch.where(result.accepted_length == 2, 1, result.accepted_length)
    )


@pytest.mark.parametrize(
    "fault", [right, repeats_the_last_token, says_another_token_after_none, keeps_one_less]
)
def test_an_adapter_has_the_law_that_it_has_alone(
    fault: Callable[[Request, Result], Result],
) -> None:
    case = next(each for each in cases("quick") if each.id == "generic.v2.l2")
    led, alone = (
        observe(program_of(Twinned(fault, is_led=is_led)), case, lane=PROBE)
        for is_led in (True, False)
    )
    assert led.observed == alone.observed
    assert all(
        isinstance(said, Emission) for law in led.observed.values() for said, _ in law.items()
    )
    (found,) = (each for each in judge(led) if each.requirement == "law.lossless")
    assert (found.verdict == "pass") is (fault is right)
