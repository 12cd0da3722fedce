"""Each requirement of chapter 8 with verifiers that keep it and verifiers that break it alone."""

from __future__ import annotations

import random
import re
from functools import cache
from math import log, prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases import cases
from draftproof.conformance.failure.counterexample import silently
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.protocol.adapter import (
    DraftRequest,
    DraftResult,
    Request,
    Result,
    declaration,
    program_of,
)
from draftproof.conformance.requirements import randomness
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.conformance.run.certify import certify
from draftproof.reference.drafting import draft_law
from draftproof.reference.verifiers import ALGORITHMS, verification_law
from draftproof.spec import requirements

HERE = Path(__file__)


# --- verifiers ----------------------------------------------------------------------------------


class Batched:
    """Token verification that draws all from the request's generator, by a race."""

    version, algorithm = "1", "token"

    def __init__(self) -> None:
        self.name = type(self).__name__

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return torch.empty_like(ratio).uniform_(generator=request.generator)

    def passes(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return coins < ratio

    def draw(self, rows: Tensor, accepted: Tensor, request: Request) -> Tensor:
        return (rows / torch.empty_like(rows).exponential_(generator=request.generator)).argmax(-1)

    def correction(self, target: Tensor, draft: Tensor) -> Tensor:
        excess = (target - draft).clamp(min=0)
        return torch.where(excess.sum(-1, keepdim=True) > 0, excess, target)

    def verify(self, request: Request) -> Result:
        path, q, p = (
            request.draft_tokens[:, 0],
            request.draft_probs[:, 0],
            request.target_probs[:, 0],
        )
        ratio = (p[:, :-1] / q).gather(-1, path[..., None])[..., 0]
        passed = self.passes(self.coins(ratio, request), ratio)
        accepted = passed.long().cumprod(-1).sum(-1)
        row = torch.arange(len(p))
        draft = torch.cat([q, torch.zeros_like(p[:, :1])], 1)
        rows = self.correction(p[row, accepted], draft[row, accepted])
        return Result(accepted, torch.zeros_like(accepted), self.draw(rows, accepted, request))


class Loop:
    """The same in Python: rows, positions, and scalars taken out of tensors."""

    version, algorithm, batch = "1", "token", False

    def __init__(self) -> None:
        self.name = type(self).__name__

    def coin(self, request: Request) -> Any:
        return torch.rand((), generator=request.generator).item()

    def passes(self, coin: Any, ratio: float) -> bool:
        return bool(coin < ratio)

    def draw(self, row: Tensor, request: Request) -> int:
        sums = row.cumsum(0)
        mark = torch.rand((), generator=request.generator) * sums[-1]
        last = int(row.nonzero()[-1])
        return min(int((sums <= mark).sum()), last)

    def verify(self, request: Request) -> Result:
        path, q, p = (
            request.draft_tokens[0, 0],
            request.draft_probs[0, 0],
            request.target_probs[0, 0],
        )
        kept = 0
        while kept < len(path):
            token = int(path[kept])
            if not self.passes(self.coin(request), float(p[kept, token]) / float(q[kept, token])):
                break
            kept += 1
        row = (p[kept] - q[kept]).clamp(min=0) if kept < len(path) else p[kept]
        if row.sum() == 0:
            row = p[kept]
        token = self.draw(row, request)
        return Result(torch.tensor([kept]), torch.tensor([0]), torch.tensor([token]))


class OnNoise(Batched):
    """All its noise comes with the request."""

    noise = {"coins": ("uniform", "L"), "race": ("exponential", "V")}  # noqa: RUF012  # as users write it

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        assert request.noise is not None
        return request.noise["coins"]

    def draw(self, rows: Tensor, accepted: Tensor, request: Request) -> Tensor:
        assert request.noise is not None
        return (rows / request.noise["race"]).argmax(-1)


class DrawsFromTheSystem(Loop):
    """Coins that no seed decides."""

    def coin(self, request: Request) -> float:
        return random.SystemRandom().random()


class KeepsAGenerator(Batched):
    """A generator of its own that goes on from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.own = torch.Generator().manual_seed(1)

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return torch.empty_like(ratio).uniform_(generator=self.own)


class GlobalCoins(Batched):
    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return torch.rand_like(ratio)


class PythonCoins(Loop):
    def coin(self, request: Request) -> float:
        return random.random()


class SeedsByState(Batched):
    """Moves no other stream, and depends on one."""

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        state = int(torch.get_rng_state().sum())
        drawn = super().coins(ratio, request)
        return (drawn + state / 997) % 1


class Blind(Batched):
    """Every result follows from the rows alone."""

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return torch.full_like(ratio, 0.5)

    def draw(self, rows: Tensor, accepted: Tensor, request: Request) -> Tensor:
        return rows.argmax(-1)


class KeepsCoins(Batched):
    """Coins are drawn by the first call and serve all others of the same shape."""

    kept: Tensor | None = None

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        if self.kept is None or self.kept.shape != ratio.shape:
            self.kept = super().coins(ratio, request)
        return self.kept


class KeepsCoin(Loop):
    """The same with one coin for every position, in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: tuple[Any, ...] = ()
        self.place = 0

    def coin(self, request: Request) -> Any:
        if len(self.kept) <= self.place:
            self.kept = (*self.kept, super().coin(request))
        self.place += 1
        return self.kept[self.place - 1]

    def verify(self, request: Request) -> Result:
        self.place = 0
        return super().verify(request)


class Drafter(Batched):
    """Drafts by races, and verifies with noise of its own."""

    clocks: Tensor | None = None

    def draft(self, request: DraftRequest) -> DraftResult:
        tokens = torch.zeros(request.rows, 0, dtype=torch.int64)
        rows, clocks = [], []
        for _ in range(request.length):
            rows.append(request.next_probs(tokens))
            clocks.append(torch.empty_like(rows[-1]).exponential_(generator=request.generator))
            tokens = torch.cat([tokens, (rows[-1] / clocks[-1]).argmax(-1)[:, None]], 1)
        self.clocks = torch.stack(clocks, 1)
        return DraftResult(tokens[:, None], torch.stack(rows, 1)[:, None])


class ReusesClocks(Drafter):
    """The race that drafted a token runs again for its correction."""

    def draw(self, rows: Tensor, accepted: Tensor, request: Request) -> Tensor:
        if self.clocks is None:
            return super().draw(rows, accepted, request)
        fresh = torch.empty_like(rows).exponential_(generator=request.generator)
        clocks = torch.cat([self.clocks, fresh[:, None]], 1)
        return (rows / clocks[torch.arange(len(rows)), accepted]).argmax(-1)


class LoopDrafter(Loop):
    """Drafts by an inverse distribution function, position by position."""

    marks: list[Any] | None = None

    def draft(self, request: DraftRequest) -> DraftResult:
        tokens = torch.zeros(1, 0, dtype=torch.int64)
        rows = []
        self.marks = []
        for _ in range(request.length):
            rows.append(request.next_probs(tokens)[0])
            self.marks.append(torch.rand((), generator=request.generator))
            token = int((rows[-1].cumsum(0) <= self.marks[-1]).sum())
            tokens = torch.cat([tokens, torch.tensor([[token]])], 1)
        return DraftResult(tokens[:, None], torch.stack(rows)[None, None])


class ReusesMarks(LoopDrafter):
    """The number that drafted a token is the coin that accepts it."""

    place = 0

    def coin(self, request: Request) -> Any:
        if self.marks is None:
            return super().coin(request)
        self.place += 1
        return self.marks[self.place - 1]


class AcceptsAtZero(Batched):
    """A coin of 0 passes against a chance of 0."""

    def passes(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return coins <= ratio


class LoopAcceptsAtZero(Loop):
    def passes(self, coin: Any, ratio: float) -> bool:
        return bool(coin <= ratio)


class FallsOffTheEnd(Loop):
    """The running sum of a row is searched with a number that can lie above it."""

    def draw(self, row: Tensor, request: Request) -> int:
        mark = torch.rand((), generator=request.generator)
        sums = (row / row.sum()).float().cumsum(0) * (1 - 2**-23)
        return int((sums <= mark).sum())


class LogOfNoise(Batched):
    """The logarithm of a uniform number that can be 0 decides a race of the correction."""

    def draw(self, rows: Tensor, accepted: Tensor, request: Request) -> Tensor:
        noise = torch.empty_like(rows).uniform_(generator=request.generator)
        return (rows.log() - (-noise.log()).log()).argmax(-1)


class TrustsRejection(Batched):
    """Where target and draft are equal, a coin of exactly 1 rejects, and leaves nothing."""

    def correction(self, target: Tensor, draft: Tensor) -> Tensor:
        return (target - draft).clamp(min=0)

    def draw(self, rows: Tensor, accepted: Tensor, request: Request) -> Tensor:
        return torch.multinomial(rows, 1, generator=request.generator)[:, 0]


class HalfRace(Batched):
    """A race in half precision, whose clocks ring at exactly 0 once in 2**25 draws on a CPU."""

    def draw(self, rows: Tensor, accepted: Tensor, request: Request) -> Tensor:
        half = torch.empty_like(rows, dtype=torch.float16)
        return (rows / half.exponential_(generator=request.generator)).argmax(-1)


# What the exact lane cannot follow.
BLIND = (DrawsFromTheSystem, KeepsAGenerator, PythonCoins, SeedsByState, HalfRace)


# --- what they come to --------------------------------------------------------------------------


@cache
def of_task(kind: type[Any], name: str, lane: str) -> list[Finding]:
    (task,) = (task for task in tasks_of(kind, name) if task.case == name)
    return task.judge(program_of(kind()), Terms(lane=lane, mode="quick"))


def judged(kind: type[Any], requirement: str) -> list[Finding]:
    """Return the findings of a requirement, each by the first lane that decides it."""
    return [
        finding
        for task in tasks_of(kind, "")
        if requirement in task.requirements
        for finding in of_task(kind, task.case, task.lanes[0])  # type: ignore[arg-type]  # a type is hashable
        if finding.requirement == requirement
    ]


def iterations(kind: type[Any]) -> list[Finding]:
    """Return the findings of `random.iterations`, each by the exact lane or, if blind, counted."""
    found: list[Finding] = []
    for task in tasks_of(kind, "iterations."):
        try:
            found += task.judge(program_of(kind()), Terms(lane="exact", mode="quick"))
        except OpaqueRandomness:
            found += task.judge(program_of(kind()), Terms(lane="sample", mode="quick"))
    return found


def tasks_of(kind: type[Any], name: str) -> list[Task]:
    tasks = randomness.tasks(declaration(kind()), "quick")
    return [task for task in tasks if task.case.startswith(name)]


def verdicts(kind: type[Any], requirement: str) -> set[str]:
    return {finding.verdict for finding in judged(kind, requirement)}


def details(kind: type[Any], requirement: str) -> str:
    return "; ".join(each.detail for each in judged(kind, requirement) if each.detail)


REQUIREMENTS = (
    "random.reproducible",
    "random.generator",
    "random.calls",
    "random.boundary",
    "random.one",
)


@pytest.mark.requirement(
    "random.reproducible", "random.generator", "random.calls", "random.boundary", "random.one"
)
@pytest.mark.parametrize("kind", [Batched, Loop, OnNoise])
def test_what_is_right_passes(kind: type[Any]) -> None:
    for requirement in REQUIREMENTS:
        assert verdicts(kind, requirement) == {"pass"}


@pytest.mark.requirement("random.iterations")
@pytest.mark.parametrize("kind", [Drafter, LoopDrafter])
def test_a_drafter_with_noise_of_its_own_passes(kind: type[Any]) -> None:
    found = iterations(kind)
    assert [each.case for each in found] == ["iterations.three-tokens", "iterations.two-tokens"]
    assert {(each.verdict, each.lane) for each in found} == {("pass", "exact")}


@pytest.mark.requirement("random.iterations")
@pytest.mark.parametrize("kind", [ReusesClocks, ReusesMarks])
def test_a_drafter_whose_noise_is_used_again_fails(kind: type[Any]) -> None:
    assert "fail" in {each.verdict for each in iterations(kind)}


def test_a_verifier_without_a_drafter_is_not_asked_for_iterations() -> None:
    assert tasks_of(Batched, "iterations.") == []


WRONG = {
    DrawsFromTheSystem: {"random.reproducible", "random.generator"},
    KeepsAGenerator: {"random.reproducible", "random.generator"},
    GlobalCoins: {"random.generator"},
    PythonCoins: {"random.generator"},
    SeedsByState: {"random.generator"},
    Blind: {"random.generator"},
    KeepsCoins: {"random.calls"},
    KeepsCoin: {"random.calls"},
    AcceptsAtZero: {"random.boundary"},
    LoopAcceptsAtZero: {"random.boundary"},
    FallsOffTheEnd: {"random.boundary", "random.one"},
    LogOfNoise: {"random.boundary", "random.one"},
    HalfRace: {"random.boundary"},
    TrustsRejection: {"random.one"},
}


@pytest.mark.requirement(
    "random.reproducible", "random.generator", "random.calls", "random.boundary", "random.one"
)
@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_fails_by_what_it_breaks(kind: type[Any]) -> None:
    seen = [each for each in REQUIREMENTS if each != "random.calls" or kind not in BLIND]
    failed = {each for each in seen if "fail" in verdicts(kind, each)}
    assert failed == WRONG[kind]


# --- single runs --------------------------------------------------------------------------------


@pytest.mark.requirement("random.generator")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (GlobalCoins, "moves torch's global generator"),
        (PythonCoins, "moves Python's random module"),
        (Blind, "never draws from the request's generator"),
        (SeedsByState, "depends on more than the request's generator: generic.v3.l2, drafted ["),
    ],
)
def test_a_generator_that_should_not_be_used_is_named(kind: type[Any], words: str) -> None:
    assert details(kind, "random.generator").startswith(words)


def test_what_is_not_reproducible_is_told_by_draft_and_outcome() -> None:
    told = details(KeepsAGenerator, "random.reproducible")
    assert told.startswith("generic.v3.l2, drafted [")
    assert ", then accepts [" in told


@pytest.mark.requirement("random.reproducible")
def test_coins_that_are_kept_are_reproducible() -> None:
    """After the first call; what is wrong with them is that calls are not independent."""
    assert verdicts(KeepsCoins, "random.reproducible") == {"pass"}
    assert verdicts(KeepsCoins, "random.boundary") == {"pass"}


def test_global_generators_are_left_as_they_were() -> None:
    before = (random.getstate(), torch.get_rng_state().tolist())
    judged(PythonCoins, "random.reproducible")
    judged(PythonCoins, "random.boundary")
    assert (random.getstate(), torch.get_rng_state().tolist()) == before


@pytest.mark.parametrize("algorithm", ["token", "block"])
def test_results_that_are_drawn_afresh_do_not_agree_by_chance(algorithm: str) -> None:
    """The figure that `judge_runs` states: four pairs of all drafts alike, below 1e-30."""
    known = {case.id: case.instance for case in cases("quick")}
    alike = [
        float(sum(w * w for w in law.weights.values()))
        for name in ("generic.v3.l2", "banked", "zeros.both")
        for drafts in draft_law(known[name])
        for law in [verification_law(ALGORITHMS[algorithm], known[name], drafts)]
    ]
    assert len(alike) == 22
    assert sum(each < 1 for each in alike) == 19
    assert prod(alike) ** 4 < 1e-30


# --- consecutive calls and iterations -----------------------------------------------------------


@pytest.mark.requirement("random.calls")
def test_coins_that_are_kept_make_calls_dependent_in_the_exact_and_the_sample_lane() -> None:
    verdicts_of = {f.case: f.verdict for f in judged(KeepsCoins, "random.calls")}
    # A buffer of another shape is drawn anew.
    assert verdicts_of == {
        "calls.same": "fail",
        "calls.different": "fail",
        "calls.longer": "pass",
        "calls.sequence.1": "pass",
        "calls.sequence.3": "pass",
    }
    details = {f.case: f.detail for f in judged(KeepsCoins, "random.calls")}
    assert re.fullmatch(
        r"drafted \[0, 1\], it accepts \[.*\], next token \d; then, drafted \[0, 1\], it accepts "
        r"\[.*\], next token \d: both with probability 0\.\d+, and 0\.\d+ if calls are independent",
        details["calls.same"],
    )
    assert details["calls.longer"] == ""
    (task,) = tasks_of(KeepsCoins, "calls.same")
    (finding,) = task.judge(program_of(KeepsCoins()), Terms(lane="sample", mode="quick"))
    assert (finding.verdict, finding.lane) == ("fail", "sample")


@pytest.mark.requirement("random.calls")
def test_calls_pass_in_the_sample_lane_too() -> None:
    (task,) = tasks_of(Batched, "calls.same")
    (finding,) = task.judge(program_of(Batched()), Terms(lane="sample", mode="quick"))
    assert (finding.verdict, finding.lane) == ("pass", "sample")
    assert finding.sampled is not None
    assert finding.sampled.bound < 0.03


def test_pairs_of_an_unknown_algorithm_cannot_be_sampled() -> None:
    adapter: Any = Batched()
    adapter.algorithm = "ours"
    (task,) = tasks_of(Batched, "calls.same")
    (finding,) = task.judge(program_of(adapter), Terms(lane="sample", mode="quick"))
    assert finding.verdict == "skipped"
    assert "does not know 'ours'" in finding.detail


def test_coins_of_an_earlier_run_do_not_confuse_the_exact_lane() -> None:
    """One object is judged over and over; its own attributes are never drawn on."""
    adapter = KeepsCoins()
    program = program_of(adapter)
    (task,) = tasks_of(KeepsCoins, "calls.same")
    first = task.judge(program, Terms(lane="exact", mode="quick"))
    assert task.judge(program, Terms(lane="exact", mode="quick")) == first
    assert adapter.kept is None


@pytest.mark.requirement("random.iterations")
def test_a_race_that_runs_twice_is_decided_by_counting() -> None:
    """The exact lane refuses it, and says why; the counts are far from what they should be."""
    tasks = tasks_of(ReusesClocks, "iterations.three-tokens")
    with pytest.raises(OpaqueRandomness, match="already decided another race"):
        tasks[0].judge(program_of(ReusesClocks()), Terms(lane="exact", mode="quick"))
    (finding,) = tasks[0].judge(program_of(ReusesClocks()), Terms(lane="sample", mode="quick"))
    assert (finding.verdict, finding.lane) == ("fail", "sample")
    assert finding.sampled is not None
    assert finding.sampled.log_evidence >= -log(1e-9)
    (finding,) = tasks[0].judge(program_of(Drafter()), Terms(lane="sample", mode="quick"))
    assert finding.verdict == "pass"


class Misshapen(Drafter):
    def draft(self, request: DraftRequest) -> DraftResult:
        drafted = super().draft(request)
        return DraftResult(drafted.draft_tokens[0], drafted.draft_probs)


class OutOfVocabulary(Drafter):
    def draft(self, request: DraftRequest) -> DraftResult:
        drafted = super().draft(request)
        return DraftResult(drafted.draft_tokens + 9, drafted.draft_probs)


class DraftsNothing(Drafter):
    def draft(self, request: DraftRequest) -> Any:
        return None


@pytest.mark.parametrize("kind", [Misshapen, OutOfVocabulary, DraftsNothing])
def test_what_drafts_nothing_uses_nothing_again(kind: type[Any]) -> None:
    """With one object as with two: `draft.declared` says what is wrong with it. Counts do, too."""
    assert {each.verdict for each in iterations(kind)} == {"pass"}
    (task,) = tasks_of(kind, "iterations.three-tokens")
    (finding,) = task.judge(program_of(kind()), Terms(lane="sample", mode="quick"))
    assert finding.verdict == "fail"


# --- the ends of the noise ----------------------------------------------------------------------


def test_the_smallest_noise_that_does_it_is_told() -> None:
    assert details(AcceptsAtZero, "random.boundary").startswith(
        "uniform_ gives 0 (number 0 of 2): drafted ["
    )
    assert "rand gives 0.99999994: drafted [" in details(FallsOffTheEnd, "random.boundary")
    assert "exponential_ gives 0 (number" in details(HalfRace, "random.boundary")


@pytest.mark.requirement("random.boundary")
def test_what_ordinary_noise_leads_to_is_not_the_ends_fault() -> None:
    class BonusFromDraft(Batched):
        """Says what the target never says, with any noise."""

        def correction(self, target: Tensor, draft: Tensor) -> Tensor:
            return torch.ones_like(target)

    assert verdicts(BonusFromDraft, "random.boundary") == {"pass"}


def test_noise_that_comes_from_elsewhere_is_not_reached() -> None:
    class Elsewhere(Loop):
        def coin(self, request: Request) -> float:
            return random.random()

        def draw(self, row: Tensor, request: Request) -> int:
            return int(torch.multinomial(row, 1))

    found = judged(Elsewhere, "random.boundary")
    assert {each.verdict for each in found} == {"skipped"}
    assert found[0].detail == "it draws no such noise by torch's operators, and takes none"


# --- campaigns ----------------------------------------------------------------------------------


CERTIFIED: dict[str, set[str]] = {
    "KeepsCoin": {"random.calls"},
    "ReusesMarks": {"random.iterations"},
    "LoopAcceptsAtZero": {"random.boundary"},
}


@pytest.mark.requirement("random.calls", "random.iterations", "random.boundary")
@pytest.mark.parametrize("name", CERTIFIED)
def test_a_campaign_finds_what_is_wrong_and_nothing_else(name: str) -> None:
    report = certify(f"{HERE}:{name}", mode="quick", seed=0, progress=silently)
    failed = {
        each.requirement.id for each in report.decisions if each.verdict not in ("pass", "skipped")
    }
    # These verifiers draw from the global generator and trust their caller: no more is asked here.
    advice = {"random.generator", "random.one", "input.rejected", "input.undrafted"}
    assert failed - advice == CERTIFIED[name]
    is_must = any(requirements()[each].level == "MUST" for each in CERTIFIED[name])
    assert report.verdict == ("fail" if is_must else "pass")


def test_a_result_may_be_a_namespace() -> None:
    """What an adapter returns need not be ours."""

    class Plain(Batched):
        def verify(self, request: Request) -> Any:
            found = super().verify(request)
            return SimpleNamespace(**vars(found))

    assert verdicts(Plain, "random.reproducible") == {"pass"}
