from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from draftproof.conformance.report import terminal
from draftproof.conformance.report.terminal import (
    console,
    print_catalogue,
    print_certificate,
    print_law,
    shown_progress,
    shown_status,
)


def shown(width: int, *, terminal: bool) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width, force_terminal=terminal, highlight=False), file


LAW = {
    "algorithm": "block",
    "lossless": True,
    "expected_accepted": "11/9",
    "law": [{"path": 0, "accepted": [0, 1], "next": 1, "probability": "1/27"}],
}


def test_brackets_are_text_and_no_markup() -> None:
    out, file = shown(80, terminal=False)
    print_law(out, LAW)
    assert "E[accepted length] = 11/9, lossless" in file.getvalue()
    out, file = shown(80, terminal=False)
    print_catalogue(out, {"things": [{"name": "[red]x[/red]"}]})
    assert "[red]x[/red]" in file.getvalue()


@pytest.mark.parametrize("width", [20, 60, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    out, file = shown(width, terminal=True)
    print_law(out, LAW)
    print_catalogue(out, {"things": [{"name": "x" * 50, "reason": "y " * 40}]})
    lines = Text.from_ansi(file.getvalue()).split()
    assert max(line.cell_len for line in lines) <= width


@pytest.mark.parametrize("width", [30, 60, 100])
def test_an_envelope_fits_a_narrow_terminal(certificate: Any, envelope: Any, width: int) -> None:
    out, file = shown(width, terminal=True)
    print_certificate(out, certificate(envelope=envelope), Path("mine.json"))
    # The last line holds a path, which stays in one piece.
    lines = [line for line in Text.from_ansi(file.getvalue()).split() if ".json" not in line.plain]
    assert max(line.cell_len for line in lines) <= width
    told = " ".join(" ".join(line.plain for line in lines).split())
    assert "B 1 and 1,024; K 1; V 3 and 262,144; float32; contiguous, strided" in told
    assert "outside: rows of different lengths; K above 1" in told


def test_short_progress_is_silent_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list(shown_progress([1, 2, 3], 3, "[title]")) == [1, 2, 3]
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def fast_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which a minute takes a second."""
    monkeypatch.setattr(terminal, "monotonic", lambda: 60 * time.monotonic())
    monkeypatch.setattr(terminal, "Event", Sixtieth)


class Sixtieth:
    """Event that waits a sixtieth of the time."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.set = self._event.set

    def wait(self, seconds: float) -> bool:
        return self._event.wait(max(seconds, 0) / 60)


@pytest.mark.usefixtures("fast_clock")
def test_where_there_is_no_terminal_progress_has_a_line_a_minute_also_during_a_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def steps() -> Iterator[int]:
        yield 1
        time.sleep(2.5)
        yield 2

    assert [*shown_progress(steps(), 2, "[title]", ["quick", "slow"])] == [1, 2]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[:3] == [
        f"[title]: 1 of 2 after {since}, at slow" for since in ("10 s", "1 min", "2 min")
    ]


@pytest.mark.usefixtures("fast_clock")
def test_where_there_is_no_terminal_a_status_has_a_line_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with shown_status("[title]") as tell:
        time.sleep(0.5)
        tell("[done]")
        time.sleep(1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[:2] == ["[title] after 10 s", "[title]: [done] after 1 min"]


@pytest.mark.usefixtures("fast_clock")
def test_progress_ends_with_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    def steps() -> Iterator[int]:
        yield 1
        raise ValueError("no second step")

    before = threading.active_count()
    with pytest.raises(ValueError, match="no second step"):
        list(shown_progress(steps(), 2, "title"))
    assert threading.active_count() == before
    assert capsys.readouterr() == ("", "")


def test_a_broken_pipe_is_not_a_verdict() -> None:
    with pytest.raises(BrokenPipeError):
        console().on_broken_pipe()
