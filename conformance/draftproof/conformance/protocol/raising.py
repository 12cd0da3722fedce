"""Errors of adapters: the adapter's line that raised them, and their tracebacks on demand."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, TracebackType

from draftproof.conformance.protocol.adapter import AdapterLost
from draftproof.conformance.protocol.printable import printable, unobeyed

_ASKED = "DRAFTPROOF_TRACEBACK"
"""Environment variable that makes worker processes show tracebacks."""


MOST_TOLD = 4_000
"""Maximum number of characters of an error's message in evidence and on terminals."""


def caught(error: BaseException) -> BaseException:
    """Return an error that the program under test is responsible for; raise all others again.

    That includes errors that are not an `Exception`, such as `asyncio.CancelledError` and
    `SystemExit`. An interruption comes from the user, and the caller that judges a harness handles
    its loss.
    """
    if isinstance(error, (KeyboardInterrupt, AdapterLost)):
        raise error
    return error


def told_of(error: BaseException) -> str:
    """Return the type and the message of an error, on one line and cut after `MOST_TOLD`.

    Addresses are removed, since no run repeats them.
    """
    name = type(error).__name__
    try:
        message = _ADDRESS.sub("0x...", str(error))
    except BaseException as another:
        message = f"its message cannot be had: __str__ raised {type(caught(another)).__name__}"
    cut = len(message) - MOST_TOLD
    more = f"... (cut: {cut:,} more characters)" if cut > 0 else ""
    return printable(f"{name}: {message[:MOST_TOLD]}{more}")


def shown(value: object) -> str:
    """Return the `repr` of a value of the program under test, on one line and cut."""
    try:
        text = repr(value)
    except BaseException as error:
        text = f"a {type(value).__name__} whose __repr__ raised {type(caught(error)).__name__}"
    return printable(text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}...")


MOST_SHOWN = 200
"""Maximum number of characters of a value in a message."""


def is_told(error: BaseException) -> bool:
    """Return True if an error has a message; a program's own `__str__` may itself raise."""
    try:
        str(error)
    except BaseException as another:
        caught(another)
        return False
    return True


_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


def place_of(error: BaseException) -> str:
    """Return the adapter's own line that an error came through, as 'file.py:12', or ''.

    It is the innermost line in the file of the outermost frame outside Draftproof and libraries.
    The name has no folders, so the same error has the same place wherever the file is.
    """
    frames = [(code, line) for code, line, name in _frames(error) if not _is_library(name)]
    # A decorator of some package may stand around an adapter, which may be installed itself.
    own = [each for each in frames if "-packages" not in each[0].co_filename] or frames
    if not own:
        return ""
    file = own[0][0].co_filename
    within = [line for code, line in own if code.co_filename == file]
    # How deep a recursion goes depends on who calls; where it began does not.
    line = within[0 if isinstance(error, RecursionError) else -1]
    path = Path(file)
    is_package = path.name == "__init__.py"
    return f"{f'{path.parent.name}/' if is_package else ''}{path.name}:{line}"


def _frames(error: BaseException) -> Iterator[tuple[CodeType, int, str]]:
    """Yield the code, the line and the module of each frame, outermost first."""
    at: TracebackType | None = error.__traceback__
    start = at and at.tb_frame.f_code
    first = at
    # An error that is raised again drags along the frames of the times before.
    while at is not None and (at is first or at.tb_frame.f_code is not start):
        yield at.tb_frame.f_code, at.tb_lineno, str(at.tb_frame.f_globals.get("__name__"))
        at = at.tb_next


def _is_library(module: str) -> bool:
    """Return True if a module is Python's, torch's, numpy's, or Draftproof's."""
    top = module.partition(".")[0]
    ours = module.startswith(("draftproof.conformance", "draftproof.reference"))
    return ours or top in ("torch", "numpy") or top in sys.stdlib_module_names


@contextmanager
def tracebacks_shown() -> Iterator[None]:
    """Show the traceback of every adapter error, in this process and the processes it starts."""
    before = os.environ.get(_ASKED)
    os.environ[_ASKED] = "1"
    _SEEN.clear()
    try:
        yield
    finally:
        os.environ.pop(_ASKED)
        if before is not None:
            os.environ[_ASKED] = before


def show(error: BaseException, words: str) -> None:
    """Print the traceback of an error, if enabled, once per process for the same message."""
    if _ASKED in os.environ and words not in _SEEN:
        _SEEN.add(words)
        text = "".join(traceback.format_exception(error))
        # The message and the source of a program may steer a terminal, or command a log.
        sys.stderr.write("\n".join(unobeyed(printable(each)) for each in text.split("\n")))


_SEEN: set[str] = set()
