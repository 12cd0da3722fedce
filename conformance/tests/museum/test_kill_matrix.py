"""The kill matrix: what it says of the killed, of survivors, of the unseen, and of controls."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from draftproof.conformance.failure.counterexample import silently
from draftproof.conformance.museum.kill_matrix import KillRow, kill_matrix
from draftproof.conformance.museum.mutants import EXHIBITS, Control, Mutant
from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.conformance.protocol.adapter import Request


def judged(*exhibits: Mutant | Control, lanes: tuple[str, ...] = ("exact",)) -> tuple[KillRow, ...]:
    return kill_matrix(exhibits, lanes=lanes, mode="quick", seed=0, progress=silently)


def verdicts(row: KillRow) -> dict[tuple[str, str], str]:
    return {(cell.requirement, cell.lane): cell.verdict for cell in row.cells}


def mutant(name: str) -> Mutant:
    found = EXHIBITS[name]
    assert isinstance(found, Mutant)
    return found


RIGHT = replace(mutant("corrects-from-target"), id="right", make=Token, must_fail=("law.lossless",))


def test_a_mutant_is_killed_by_the_first_case_that_shows_it() -> None:
    (row,) = judged(mutant("accepts-everything"))
    assert row.caught
    cells = {cell.requirement: cell for cell in row.cells}
    # On the way, whatever else fails on the same case is told.
    assert set(cells) == {"law.lossless", "law.reference", "length.expected", "length.bounded"}
    assert {cell.finding.case for cell in row.cells} == {"generic.v2.l1"}
    assert {cell.cases for cell in row.cells} == {1}


def test_a_right_verifier_survives_as_a_mutant() -> None:
    (row,) = judged(RIGHT)
    assert not row.caught
    assert verdicts(row) == {("law.lossless", "exact"): "survived"}
    assert row.cells[0].cases > 5


def test_a_mutant_that_is_killed_by_another_requirement_only_is_not_caught() -> None:
    (row,) = judged(replace(mutant("corrects-from-target"), must_fail=("length.bounded",)))
    assert not row.caught
    assert verdicts(row)["length.bounded", "exact"] == "survived"
    assert verdicts(row)["law.lossless", "exact"] == "killed"


def test_all_that_must_catch_it_must() -> None:
    (row,) = judged(
        replace(mutant("corrects-from-target"), must_fail=("law.lossless", "length.bounded"))
    )
    assert not row.caught


def test_what_a_lane_cannot_decide_is_judged_on_one_that_can() -> None:
    (row,) = judged(mutant("accepts-at-equality"))
    assert row.caught
    assert verdicts(row)["random.boundary", "probe"] == "killed"


def test_what_single_runs_decide_needs_no_lane() -> None:
    (row,) = judged(mutant("zeroes-in-place"))
    assert row.caught
    assert verdicts(row) == {("input.unchanged", "run"): "killed"}


class TakesNoiseOut(Token):
    """Takes noise out of torch, where the exact lane cannot follow, and corrects from p."""

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return torch.from_numpy(coins.numpy() < ratio.numpy())

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return p


def test_a_blind_lane_says_so_and_another_one_decides() -> None:
    (row,) = judged(replace(RIGHT, make=TakesNoiseOut))
    assert row.caught
    seen = verdicts(row)
    assert seen["law.lossless", "exact"] == "blind"
    assert seen["law.lossless", "probe"] == "killed"
    blind = next(cell for cell in row.cells if cell.verdict == "blind")
    assert blind.finding.detail.startswith("OpaqueRandomness: ")
    assert blind.cases == 1


def test_every_lane_that_is_asked_for_must_kill() -> None:
    (row,) = judged(mutant("corrects-from-target"), lanes=("exact", "probe"))
    assert row.caught
    assert verdicts(row)["law.lossless", "exact"] == "killed"
    assert verdicts(row)["law.lossless", "probe"] == "killed"


def control(make: type[Token], *fails: str) -> Control:
    return Control("control", "Stands here.", "it is a test", ("draftproof",), fails, make)


class AlwaysTrue(Token):
    """Accepts everything."""

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return torch.ones_like(coins, dtype=torch.bool)


class Rejects(Token):
    """Draws from the target, whatever was drafted."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        return path, torch.where(q > 0, 0.0, q), p

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return torch.zeros_like(coins, dtype=torch.bool)


def test_a_control_is_spared_by_all_requirements_or_fails_as_it_must() -> None:
    right, slow, undeclared, lossy, wanted = judged(
        control(Token),
        control(Rejects, "law.reference", "length.expected"),
        control(Rejects),
        control(AlwaysTrue, "law.reference"),
        control(Token, "law.reference"),
    )
    assert right.caught
    assert {cell.verdict for cell in right.cells} == {"survived"}
    assert slow.caught
    assert verdicts(slow)["law.lossless", "exact"] == "survived"
    assert verdicts(slow)["length.bounded", "exact"] == "survived"
    assert not undeclared.caught
    assert not lossy.caught
    assert not wanted.caught


class Opaque(Token):
    """Is right, but decides where the exact lane cannot follow."""

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return torch.from_numpy(coins.numpy() < ratio.numpy())


def test_what_could_not_be_looked_at_is_not_spared() -> None:
    (row,) = judged(control(Opaque))
    assert not row.caught
    assert verdicts(row)["law.lossless", "exact"] == "blind"
