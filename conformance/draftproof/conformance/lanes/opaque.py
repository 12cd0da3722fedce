"""Exceptions of lanes that cannot see a program's use of randomness, or all of its draws."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy
import torch

from draftproof.reference import chance


class OpaqueRandomness(RuntimeError):
    """Error of a program whose use of randomness the exact lane cannot follow.

    `operator` names the operator or the generator, `source` the program's own line, as "file:line:
    text", or states that the line was not seen.
    """

    def __init__(self, operator: str, reason: str, source: str = "an unknown line") -> None:
        super().__init__(operator, reason, source)
        self.operator = operator
        self.reason = reason
        self.source = source

    def __str__(self) -> str:
        return f"{self.operator} {self.reason}\n  at {self.source}"


class FixedRandomness(OpaqueRandomness):
    """Error of a program that determined its own draws, so that it is not random."""


class TooManyRuns(RuntimeError):
    """Error of a program with more random outcomes than allowed."""


def require_own(error: BaseException) -> None:
    """Raise `OpaqueRandomness` for an error that the lane, and not the program, may have caused."""
    for check in CHECKS:
        check(error)


CHECKS: list[Callable[[BaseException], None]] = []
"""Checks that lanes apply to an error: a lane that watches a program may have caused it."""


def program_line() -> str:
    """Return the innermost line outside libraries and Draftproof, as 'file:line: text'."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(_NOT_THE_PROGRAM) and not _is_standard(frame.filename):
            return f"{_shown(frame.filename)}:{frame.lineno}: {frame.line}"
    return "an unknown line"


def _shown(filename: str) -> str:
    """Return a file's path from the current folder or an import: the same on every machine."""
    folders = [str(Path.cwd()), *filter(None, sys.path)]
    within = [os.path.relpath(filename, f) for f in folders if filename.startswith(f + os.sep)]
    return min(within, key=len, default=filename)


_NOT_THE_PROGRAM = tuple(
    str(Path(module).parent) + os.sep
    for module in (__file__, str(chance.__file__), str(torch.__file__), str(numpy.__file__))
)


def _is_standard(filename: str) -> bool:
    return filename.startswith(sysconfig.get_path("stdlib")) and "-packages" not in filename
