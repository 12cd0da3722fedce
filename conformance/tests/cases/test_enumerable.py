from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from draftproof.conformance.cases.enumerable import require_solvable
from draftproof.conformance.cli import cli
from draftproof.reference.errors import TooLarge
from draftproof.reference.model import instance_from_json


def document(vocabulary: int, length: int, drafts: int) -> dict[str, Any]:
    row = [f"1/{vocabulary}"] * vocabulary
    return {
        "vocabulary": vocabulary,
        "length": length,
        "drafts": drafts,
        "target": row,
        "draft": row,
    }


@pytest.mark.parametrize(
    "size", [(2, 10, 1), (2, 6, 5), (3, 4, 3), (100, 1, 2), (30, 1, 3), (5, 2, 6)]
)
def test_optima_of_minutes_are_solved(size: tuple[int, int, int]) -> None:
    require_solvable(instance_from_json(document(*size)))


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((2, 10, 5), "for at most 640 prefixes of drafted paths times drafts, not for 10,230"),
        ((2, 6, 10), "for at most 640 prefixes of drafted paths times drafts, not for 1,260"),
        ((32, 1, 3), "for at most 30,000 ways to draw the tokens after one context, not for 32,76"),
    ],
)
def test_optima_of_hours_are_refused(size: tuple[int, int, int], message: str) -> None:
    with pytest.raises(TooLarge, match=f"the optimum of several drafts is computed {message}"):
        require_solvable(instance_from_json(document(*size)))


def test_long_numbers_count() -> None:
    long = document(2, 6, 2)
    long["target"] = [f"1/{10**120}", f"{10**120 - 1}/{10**120}"]
    message = (
        "at most 80 prefixes of drafted paths times drafts, with numbers of 121 digits, not for 252"
    )
    with pytest.raises(TooLarge, match=message):
        require_solvable(instance_from_json(long))


@pytest.mark.parametrize("command", ["optimum", "compare"])
def test_nobody_waits_for_an_optimum_of_hours(tmp_path: Path, command: str) -> None:
    path = tmp_path / "large.json"
    path.write_text(json.dumps(document(2, 10, 5)))
    started = time.process_time()
    ran = CliRunner().invoke(cli, [command, str(path)])
    assert time.process_time() - started < 10
    assert ran.exit_code == 2
    assert "at most 640 prefixes of drafted paths times drafts, not for 10,230" in " ".join(
        ran.stderr.split()
    )
