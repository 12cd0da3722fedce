"""Wrong engines are caught by the requirement that their fault breaks; the correct one conforms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from draftproof.conformance.checkpoint.rows import read_rows
from draftproof.conformance.evidence.decision import report
from draftproof.conformance.evidence.records import Record
from draftproof.conformance.lanes.engine.asking import SETTINGS
from draftproof.conformance.museum.engines.engine import MuseumEngine
from draftproof.conformance.museum.engines.mutants import (
    MUTANTS,
    BlocksByFirst,
    ChunksFromZero,
    EngineMutant,
    ForcedAtTimes,
    OneNeighboursTemperature,
    ShiftedAfterResume,
)
from draftproof.conformance.run.answers import asked_of
from draftproof.conformance.run.engines import EngineCampaign, run


def judged(engine: MuseumEngine, folder: Path, *, tokens: int, seed: int = 1) -> Mapping[str, str]:
    """Return the verdict on each requirement, and on all of them."""
    campaign = EngineCampaign(
        rows=read_rows(folder / "rows.json"),
        place="museum",
        name=engine.name,
        version=engine.version,
        created="2026-01-01T00:00:00+00:00",
        seed=seed,
        settings=SETTINGS,
        draft_length=engine.draft_length,
        control="museum",
        tokens=tokens,
    )
    records: list[Record] = []
    run(campaign, asked_of(engine), known=(), keep=records.append)
    found = report(records)
    return {"": found.verdict, **{each.requirement.id: each.verdict for each in found.decisions}}


@pytest.mark.parametrize("memory", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_correct_engine_conforms(checkpoints: dict[int, Path], memory: int) -> None:
    folder = checkpoints[memory]
    verdicts = judged(MuseumEngine(folder, seed=memory), folder, tokens=200_000)
    assert {*verdicts.values()} == {"pass"}


SPARSE = (
    BlocksByFirst,
    ChunksFromZero,
    ForcedAtTimes,
    OneNeighboursTemperature,
    ShiftedAfterResume,
)


@pytest.mark.requirement(
    "engine.lossless", "engine.concurrent", "engine.parameters", "engine.length"
)
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            each, id=each.make.name, marks=[pytest.mark.nightly] if each.make in SPARSE else []
        )
        for each in MUTANTS
    ],
)
def test_a_mutant_is_caught_by_what_it_breaks(
    checkpoints: dict[int, Path], mutant: EngineMutant
) -> None:
    folder = checkpoints[mutant.memory]
    # A fault in a few tokens needs as many as `draftproof engine` asks for.
    tokens = 200_000 if mutant.make in SPARSE else 60_000
    verdicts = judged(mutant.make(folder, seed=3), folder, tokens=tokens)
    assert verdicts[mutant.breaks] == "fail"


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if m.memory > 1], ids=lambda mutant: mutant.make.name
)
def test_a_memory_of_1_does_not_show_what_needs_2(
    checkpoints: dict[int, Path], mutant: EngineMutant
) -> None:
    folder = checkpoints[1]
    verdicts = judged(mutant.make(folder, seed=3), folder, tokens=40_000)
    assert "fail" not in verdicts.values()
