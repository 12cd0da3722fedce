"""The line of an adapter that an error came through, and its traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.exchange import Failure, raised, verified
from draftproof.conformance.protocol.adapter import declaration
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.conformance.protocol.raising import MOST_TOLD, place_of, told_of, tracebacks_shown

MINE = """\
import torch

def checked(rows):
    {fault}

def deep(n):
    return deeper(n + 1)

def deeper(n):
    return deep(n + 1)

class Mine:
    name, version, algorithm = "mine", "1", "token"

    @torch.no_grad()
    def verify(self, request):
        return checked(request.draft_tokens)
"""
CASE = next(case for case in cases("quick") if case.id == "generic.v2.l1")


def outcome(folder: Path, fault: str) -> Any:
    """Return what an adapter with a fault, which lies in a folder, makes of one row."""
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(MINE.format(fault=fault))
    adapter = load_adapter(f"{folder / 'mine.py'}:Mine")
    (found,) = verified(adapter, [(CASE.instance, ((0,),))], declaration(adapter))
    return found


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raise ValueError('no row')", "raised ValueError: no row (mine.py:4)"),
        ("raise AssertionError", "raised AssertionError: (mine.py:4)"),
        # Raised inside of torch, of a library, of Python: the line that called them.
        ("torch.empty(-1)", "(mine.py:4)"),
        ("import json; json.loads('{')", "(mine.py:4)"),
        # How deep it goes, and on which of two lines it ends, depends on who called.
        ("deep(0)", "raised RecursionError: maximum recursion depth exceeded (mine.py:17)"),
    ],
)
def test_an_error_is_told_with_the_adapters_own_line(
    tmp_path: Path, fault: str, words: str
) -> None:
    assert outcome(tmp_path, fault).what.endswith(words)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raise __import__('asyncio').CancelledError", "CancelledError: "),
        ("raise GeneratorExit", "GeneratorExit: "),
        ("raise type('Own', (BaseException,), {})('odd')", "Own: odd "),
        ("raise BaseExceptionGroup('two', [SystemExit(0)])", "BaseExceptionGroup: two"),
    ],
)
def test_what_is_no_exception_is_told_like_one(tmp_path: Path, fault: str, words: str) -> None:
    told = outcome(tmp_path, fault).what
    assert told.startswith(f"raised {words}")
    assert told.endswith("(mine.py:4)")


def test_an_interruption_is_the_users(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        outcome(tmp_path, "raise KeyboardInterrupt")


def test_an_error_whose_message_cannot_be_had_is_told_by_its_type(tmp_path: Path) -> None:
    fault = "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})"
    told = "raised Mute: its message cannot be had: __str__ raised ZeroDivisionError (mine.py:4)"
    assert outcome(tmp_path, fault) == Failure(told)


def test_a_long_message_is_cut() -> None:
    whole = "x" * MOST_TOLD
    assert told_of(ValueError(whole)) == f"ValueError: {whole}"
    told = told_of(ValueError(f"{whole}{'y' * 1234}"))
    assert told == f"ValueError: {whole}... (cut: 1,234 more characters)"


def test_the_same_error_has_the_same_words_in_every_folder(tmp_path: Path) -> None:
    fault = "raise ValueError(rows.shape)"
    assert outcome(tmp_path / "here", fault) == outcome(tmp_path / "there", fault)


def test_an_error_of_our_own_has_no_line() -> None:
    def verify(request: Any) -> Any:
        return None

    adapter = load_adapter("torch-token")
    object.__setattr__(adapter, "verify", verify)
    (found,) = verified(adapter, [(CASE.instance, ((0,),))], declaration(adapter))
    assert found == Failure("raised TypeError: verify must return a Result, got NoneType")
    assert place_of(ValueError()) == ""


def test_an_error_that_is_not_placed() -> None:
    with pytest.raises(ValueError, match="x") as caught:
        raise ValueError("x")
    assert raised(caught.value, placed=False) == "raised ValueError: x"
    assert raised(caught.value) == f"raised ValueError: x (test_raising.py:{caught.tb.tb_lineno})"


def test_an_error_that_is_raised_again_has_the_line_of_this_time(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "kept = ValueError('x')\n"
        "class Mine:\n"
        "    name, version, algorithm, calls = 'mine', '1', 'token', 0\n"
        "    def verify(self, request):\n"
        "        self.calls += 1\n"
        "        if self.calls == 1:\n"
        "            raise kept\n"
        "        raise kept\n"
    )
    adapter = load_adapter(f"{tmp_path / 'mine.py'}:Mine")
    asked = [(CASE.instance, ((0,),))]
    found = [verified(adapter, asked, declaration(adapter)) for _ in range(3)]
    lines = [outcome for (outcome,) in found]
    assert lines == [Failure(f"raised ValueError: x (mine.py:{line})") for line in (7, 8, 8)]


def test_a_file_of_a_package_is_named_with_it(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("def fail():\n    raise ValueError")
    made: dict[str, Any] = {"__name__": "engine"}
    exec(compile("def fail():\n    1 / 0", str(tmp_path / "__init__.py"), "exec"), made)
    with pytest.raises(ZeroDivisionError) as caught:
        made["fail"]()
    caught.value.__traceback__ = caught.value.__traceback__.tb_next  # type: ignore[union-attr]
    assert place_of(caught.value) == f"{tmp_path.name}/__init__.py:2"


def test_a_traceback_steers_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tracebacks_shown():
        outcome(tmp_path, "raise ValueError('\\x1b[2J' + chr(0x202e))")
    shown = capsys.readouterr().err
    assert "ValueError: \N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}\n" in shown


def test_a_traceback_is_no_command_to_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tracebacks_shown():
        outcome(tmp_path, "raise ValueError('mine' + chr(10) + '::error::' + '##' + '[error]')")
    shown = capsys.readouterr().err
    assert "ValueError: mine\n: :error: :## [error]\n" in shown


def test_a_traceback_is_shown_once_and_only_where_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = "raise ValueError('no row')"
    outcome(tmp_path, fault)
    assert capsys.readouterr().err == ""
    with tracebacks_shown():
        outcome(tmp_path, fault)
        outcome(tmp_path, fault)
    shown = capsys.readouterr().err
    assert shown.count("Traceback (most recent call last)") == 1
    assert f'File "{tmp_path / "mine.py"}", line 4, in checked' in shown
    outcome(tmp_path, fault)
    assert capsys.readouterr().err == ""
