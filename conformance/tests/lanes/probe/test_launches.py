"""Programs of Triton's interpreter are replayed as they were interpreted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("triton_launches.py")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    if find_spec("triton") is None:
        pytest.skip("triton is not to be had on this platform")
    run = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize(
    "kernel",
    [
        *("plain", "looking", "reading", "paired", "bounded"),
        *("attributed", "given", "warning"),
    ],
)
def test_programs_are_replayed(report: dict[str, Any], kernel: str) -> None:
    """With other pointers, integers and numbers to look at; memory is written to and read again.

    Globals that a function of the kernel's reads, what it reads of a type of named tuples, of a
    module and of a function, and constants that are equal but not the same, make kinds of their
    own.
    """
    found = report[kernel]
    assert found["differ"] == 0
    assert found["refused"] == []
    assert found["checked"] == found["kinds"] > 0


def test_programs_are_replayed_at_other_places_of_other_grids(report: dict[str, Any]) -> None:
    """In the interpreter's order: each one reads what the one before wrote."""
    found, programs = report["gridded"], 16 * 4 * (1 + 3 + 5 + 9)
    assert (found["differ"], found["refused"]) == (0, [])
    assert found["checked"] == found["kinds"] == 4
    assert found["made"] > 0.9 * programs


def test_a_program_that_raises_an_error_ends_its_launch(report: dict[str, Any]) -> None:
    """The programs before it have written, and the ones after it have not."""
    assert report["stopping"]["differ"] == 0


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("combining", "a reduction has a function of its own"),
        ("turning", "Python looks at a number within a step"),
        ("summing", "Python looks at a number within a step"),
        ("launching", "a kernel launches another"),
        ("adding_at_once", "create_atomic_rmw reads and writes at once"),
    ],
)
def test_what_cannot_be_recorded_is_interpreted(
    report: dict[str, Any], kernel: str, reason: str
) -> None:
    assert report[kernel]["differ"] == 0
    assert report[kernel]["refused"] == [reason]


@pytest.mark.parametrize(
    "kernel",
    [
        *("wrapped", "making", "importing", "handling", "telling"),
        *("of_environment", "of_list", "of_kernel", "of_semantic", "of_an_impostor", "owned"),
        *("catching_assertion", "catching_number", "of_frame", "printing", "addressed", "deep"),
    ],
)
def test_what_reads_where_nobody_sees_it_is_interpreted(
    report: dict[str, Any], kernel: str
) -> None:
    assert (report[kernel]["differ"], report[kernel]["kinds"]) == (0, 0)


@pytest.mark.parametrize("kernel", ["counting", "tallying"])
def test_a_kernel_that_has_a_past_is_interpreted(report: dict[str, Any], kernel: str) -> None:
    assert report[kernel]["kinds"] == 0


@pytest.mark.parametrize("kernel", ["defaulting", "of_type", "of_semantics_own", "inner"])
def test_launches_change_with_what_triton_and_types_have(
    report: dict[str, Any], kernel: str
) -> None:
    """The defaults of named tuples, attributes of Triton's objects, and what its code calls."""
    assert report[kernel]["differ"] == 0


def test_a_function_that_does_not_see_triton_raises_an_error(report: dict[str, Any]) -> None:
    assert report["unseeing"]["differ"] == 0


def test_programs_are_checked_at_random_and_all_that_arguments_hold(
    report: dict[str, Any],
) -> None:
    """A recording that leaves out a write is refused, at whatever program it is checked.

    Of three launches of three programs, the first program is interpreted, eight are replayed.
    """
    assert report["unwritten"]["refused"] == ["a program that was replayed wrote something else"]
    assert report["unwritten"]["made"] == 9


def test_a_program_that_is_replayed_wrongly_is_caught(report: dict[str, Any]) -> None:
    assert report["spoilt"]["differ"] == 0
    assert report["spoilt"]["refused"] == ["a program that was replayed wrote something else"]


def test_launches_are_interpreted_where_that_is_asked_for(report: dict[str, Any]) -> None:
    assert (report["interpreted"]["differ"], report["interpreted"]["kinds"]) == (0, 0)


def test_ways_that_do_not_come_again_are_recorded_no_longer(report: dict[str, Any]) -> None:
    """What was recorded is replayed as before."""
    all_ways, first_ways = report["wandering"], report["wandering on"]
    assert all_ways["differ"] == first_ways["differ"] == 0
    assert all_ways["refused"] == first_ways["refused"] == []
    assert first_ways["branches"] < all_ways["branches"] / 2


def test_a_launch_on_many_numbers_is_interpreted(report: dict[str, Any]) -> None:
    assert (report["large"]["differ"], report["large"]["kinds"]) == (0, 0)
