"""Pipelines that write what their target writes, and pipelines that do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.museum.mutants import (
    BonusOfTheRawRow,
    RemembersWhatItRejected,
    WritesByTheRawRow,
)
from draftproof.conformance.museum.mutants.pipelines import Writing
from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.conformance.protocol.adapter import (
    DraftRequest,
    TextRequest,
    declaration,
    program_of,
)
from draftproof.conformance.requirements.finding import FAIL, INCONCLUSIVE, PASS, Finding
from draftproof.conformance.requirements.task import Terms
from draftproof.conformance.requirements.texts import (
    TextObservation,
    judge,
    judge_setting,
    observe_text,
    settings,
    tasks,
)
from draftproof.reference.law import Law
from draftproof.reference.rational import ONE, ZERO, rational

SETTINGS = {setting.id: setting for setting in settings()}


def judged(adapter: Any, setting: str, *, lane: str = "exact") -> Finding:
    (finding,) = judge_setting(SETTINGS[setting], program_of(adapter), Terms(lane, "quick"))
    return finding


@pytest.mark.requirement("text.lossless")
@pytest.mark.parametrize("setting", [s.id for s in SETTINGS.values() if s.mode == "quick"])
def test_a_right_pipeline_passes(setting: str) -> None:
    found = judged(Writing(), setting)
    assert (found.requirement, found.verdict, found.detail) == ("text.lossless", PASS, "")
    # A pass is within what rounding explains, of which no less is derived.
    assert found.distance is not None


@pytest.mark.requirement("text.lossless")
@pytest.mark.parametrize(
    ("pipeline", "setting", "told"),
    [
        (WritesByTheRawRow, "text.v3.h2.cold", "writes [1, 1] with probability 0.188679, its"),
        (BonusOfTheRawRow, "text.v3.h2.cold", "writes [1, 1] with probability 0.111607, its"),
        (RemembersWhatItRejected, "text.v3.h2.plain", "writes [2, 1] with probability 0.179687"),
    ],
)
def test_a_wrong_one_fails_and_the_worst_text_is_told(
    pipeline: type[Writing], setting: str, told: str
) -> None:
    found = judged(pipeline(), setting)
    assert found.verdict == FAIL
    assert found.detail.startswith(told)


@pytest.mark.requirement("text.lossless")
@pytest.mark.parametrize("pipeline", [WritesByTheRawRow, BonusOfTheRawRow])
def test_what_is_wrong_with_options_is_right_without(pipeline: type[Writing]) -> None:
    assert judged(pipeline(), "text.v3.h2.plain").verdict == PASS


class ThroughNumpy(Writing):
    """Takes its coins out of torch, where the exact lane cannot follow."""

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return torch.from_numpy(coins.numpy() < ratio.numpy())


class ThroughNumpyRaw(ThroughNumpy, WritesByTheRawRow):  # type: ignore[misc]  # made by a table
    """Does so, and declares the raw row."""


@pytest.mark.requirement("text.lossless")
def test_where_the_exact_lane_is_blind_the_probe_lane_decides() -> None:
    with pytest.raises(OpaqueRandomness):
        judged(ThroughNumpy(), "text.v3.h2.cold")
    assert judged(ThroughNumpy(), "text.v3.h2.cold", lane="probe").verdict == PASS
    assert judged(ThroughNumpyRaw(), "text.v3.h2.cold", lane="probe").verdict == FAIL


class Broken(Writing):
    """Writes what is no text."""

    def __init__(self, text: Any) -> None:
        self.text = text

    def generate(self, request: TextRequest) -> Tensor:
        if isinstance(self.text, Exception):
            raise self.text
        return torch.tensor(self.text)


RAISES = Broken.generate.__code__.co_firstlineno + 2


@pytest.mark.requirement("text.lossless")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ([0], "raised TypeError: generate must return a tensor [2], got [1]"),
        ([0, 3], "writes token 3, not in 0..2"),
        (ValueError("no text"), f"raised ValueError: no text (test_texts.py:{RAISES})"),
    ],
)
def test_what_is_no_text_fails_even_where_the_target_writes_none(text: Any, told: str) -> None:
    found = judged(Broken(text), "text.v3.h2.plain")
    assert (found.verdict, found.distance, found.detail) == (FAIL, ONE, told)


class MakesItsModels(Writing):
    """Draws its models in the first call, and keeps them beside itself."""

    made: dict[int, Tensor]

    def generate(self, request: TextRequest) -> Tensor:
        if not self.made:
            self.made[0] = torch.randn(3).softmax(-1)
        return torch.multinomial(self.made[0], request.horizon, replacement=True)


def test_models_that_are_made_in_the_first_call_are_not_its_randomness() -> None:
    MakesItsModels.made = {}
    before = torch.get_rng_state()
    found = judged(MakesItsModels(), "text.v3.h2.plain")
    assert (found.verdict, found.distance) == (PASS, ZERO)
    assert torch.equal(torch.get_rng_state(), before)


def seen(assisted: Law[Any], own: Law[Any], *, slack: str = "0") -> TextObservation:
    allowed = rational("1/1000")
    return TextObservation("by-hand", assisted, own, 2, rational(slack), allowed)


@pytest.mark.requirement("text.lossless")
def test_by_hand() -> None:
    fair = Law({(0,): rational("1/2"), (1,): rational("1/2")})
    bent = Law({(0,): rational("3/4"), (1,): rational("1/4")})
    assert judge(seen(fair, fair)).verdict == PASS
    found = judge(seen(bent, fair))
    assert (found.verdict, found.distance) == (FAIL, rational("1/4"))
    assert found.detail == "writes [0] with probability 0.75, its target by itself 0.5"
    assert judge(seen(fair, fair, slack="1/100")).verdict == INCONCLUSIVE


def test_a_text_that_is_never_written_is_told_as_well() -> None:
    fair = Law({(0,): rational("1/2"), (1,): rational("1/4"), (2,): rational("1/4")})
    found = judge(seen(Law({(1,): rational("1/2"), (2,): rational("1/2")}), fair))
    assert found.detail == "writes [0] with probability 0, its target by itself 0.5"


def test_only_who_generates_is_asked() -> None:
    assert not list(tasks(declaration(Token()), "certify"))
    quick, standard, full = (
        {task.case for task in tasks(declaration(Writing()), mode)}
        for mode in ("quick", "standard", "certify")
    )
    assert quick < standard < full
    assert full == set(SETTINGS)
    assert {setting.horizon for setting in SETTINGS.values()} == {2, 3}


class Watched(Writing):
    """Remembers what it is asked to draft with."""

    asked: list[DraftRequest]

    def processed(self, raw: Tensor, request: DraftRequest) -> Tensor:
        self.asked.append(request)
        return super().processed(raw, request)


def test_the_options_reach_the_pipeline() -> None:
    Watched.asked = []
    observe_text(program_of(Watched()), SETTINGS["text.v3.h2.all"])
    assert {(r.temperature, r.top_k, r.top_p) for r in Watched.asked} == {(2.0, 2, 0.9)}
    assert {r.length for r in Watched.asked} == {0, 1}
    assert {r.vocabulary for r in Watched.asked} == {3}
