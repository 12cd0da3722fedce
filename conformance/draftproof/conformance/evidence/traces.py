"""Traces: the files and the variables that a program under test has read, each with its digest.

A finding is true of the program as it was. An adapter declares files, but what it imports, opens
and asks of its environment counts as well, so all of it is recorded while it is loaded and judged:

* the source of every module that is loaded, but for Python's own, the suite's, and the libraries
  whose versions a key has;
* every file that is opened to be read, and every compiled library that is loaded;
* every variable of the environment that Python asks for.

A program that starts another one, or reaches over a network, is one whose results hang on what
cannot be recorded: its findings are never taken from a store. What leaves no trace is said on the
page about stores: the clock, whether a file is there that is not opened, variables that compiled
code reads by itself.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import draftproof.conformance
import draftproof.reference
import draftproof.spec
from draftproof.conformance.evidence.keys import libraries


@dataclass(frozen=True)
class Trace:
    """What was read: files by path and variables by name, each with its SHA-256, None if absent.

    `closed` says why nothing of it may be taken from a store, empty if it may.
    """

    files: Mapping[str, str | None]
    variables: Mapping[str, str | None]
    closed: str = ""

    def changed(self) -> str | None:
        """Return what is no longer as it was read, or why that is not known; None if all is."""
        if self.closed:
            return self.closed
        for file, was in self.files.items():
            if _digest_of(file) != was:
                return file
        for name, was in self.variables.items():
            if _digest_of_variable(name) != was:
                return f"the variable {name}"
        return None


@contextmanager
def traced() -> Iterator[None]:
    """Record what is opened, loaded and asked for meanwhile, in this thread and in others."""
    _begin()
    _RECORDING.append(True)
    try:
        yield
    finally:
        _RECORDING.pop()


def trace() -> Trace:
    """Return what this process has read while it was traced, and the modules that it has.

    Of each file it has the digest that it had when it was first in a trace of this process.
    """
    size = len(sys.modules), len(_OPENED), len(_ASKED), len(_CLOSED)
    if size not in _LAST:
        files = {*_modules(), *(name for name in list(_OPENED) if not _is_left_out(name))}
        _LAST.clear()
        _LAST[size] = Trace(
            {name: _first_digest_of(name) for name in sorted(files)},
            {name: was for name, was in sorted(_ASKED.items()) if was != _SET},
            next(iter(_CLOSED), ""),
        )
    return _LAST[size]


_LAST: dict[tuple[int, ...], Trace] = {}
"""The last trace, by how much there was to trace."""
_RECORDING: list[bool] = []
_OPENED: dict[str, None] = {}
_ASKED: dict[str, str | None] = {}
_CLOSED: dict[str, None] = {}


@cache
def _begin() -> None:
    """Listen to what Python audits, and to what is asked of the environment: for good."""
    sys.addaudithook(_heard)
    kind = type(os.environ)
    get, contains, walk, put = kind.__getitem__, kind.__contains__, kind.__iter__, kind.__setitem__

    def traced_get(environment: Any, name: Any) -> Any:
        if _RECORDING and not (_is_walk(sys._getframe(1)) and _is_installed(_asking())):
            _ask(environment, name)
        return get(environment, name)

    def traced_contains(environment: Any, name: Any) -> bool:
        _ask(environment, name)
        return contains(environment, name)

    # Who walks through all of them may look at any. Libraries look for those of their own, which
    # they read by name then.
    def traced_walk(environment: Any) -> Iterator[str]:
        if _RECORDING and not _is_installed(_asking()):
            for name in (_NAMES, *walk(environment)):
                _ask(environment, name)
        return walk(environment)

    # What a program sets itself is no input, unless it has been read before.
    def traced_put(environment: Any, name: Any, value: Any) -> None:
        if _RECORDING and _is_of_process(environment):
            _ASKED.setdefault(os.fsdecode(name), _SET)
        put(environment, name, value)

    kind.__getitem__, kind.__contains__ = traced_get, traced_contains  # type: ignore[method-assign]
    kind.__iter__, kind.__setitem__ = traced_walk, traced_put  # type: ignore[method-assign]


def _is_walk(frame: FrameType) -> bool:
    """Return whether a variable is read by Python's own code that goes through all of them."""
    return frame.f_code.co_name in ("__iter__", "copy") and _is_standard(frame.f_code.co_filename)


def _ask(environment: Any, name: Any) -> None:
    """Record the value of a variable that is read for the first time."""
    if _RECORDING and isinstance(name, (str, bytes)) and _is_of_process(environment):
        called = os.fsdecode(name)
        if called not in _ASKED:
            _ASKED[called] = _SET  # reading its value asks for it again
            _ASKED[called] = _digest_of_variable(called)


def _is_of_process(environment: Any) -> bool:
    """Return whether variables are those of this process, and not of a copy."""
    return environment is os.environ or environment is getattr(os, "environb", None)


_NAMES = "*"
"""What stands for the names of all variables, which no variable is called."""

_SET = "set by the program"
"""What stands for a variable that was set before it was read."""


def _asking() -> str:
    """Return the file of the code that asks something of Python's own modules."""
    frame: FrameType | None = sys._getframe(2)
    file = ""
    while frame is not None and _is_standard(file := frame.f_code.co_filename):
        frame = frame.f_back
    return file


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _RECORDING:
        return
    if event == "open":
        name, _, flags = arguments
        # What is written is no input, and what is open already was recorded when it was opened.
        is_read = not (flags & (os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        if isinstance(name, (str, bytes, os.PathLike)) and is_read:
            _OPENED[str(Path(os.fsdecode(name)).absolute())] = None
    elif event == "ctypes.dlopen":
        if isinstance(arguments[0], str) and os.sep in arguments[0]:
            _OPENED[str(Path(arguments[0]).absolute())] = None
    elif event in _BEYOND:
        _CLOSED.setdefault(f"it {_BEYOND[event]}")


_BEYOND = {
    "subprocess.Popen": "starts other programs",
    "os.system": "starts other programs",
    "os.exec": "starts other programs",
    "os.posix_spawn": "starts other programs",
    "os.spawn": "starts other programs",
    "socket.connect": "reaches over a network",
}
"""What Python audits of that whose result nothing here tells."""


def _modules() -> Iterator[str]:
    """Yield the files of the modules that are loaded, but for those that a key has."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not _is_left_out(file):
            yield str(Path(file).absolute())


@cache
def _is_left_out(name: str) -> bool:
    """Return whether a file is Python's, the suite's, of a library with a version, or no file."""
    path = os.path.realpath(name)
    if name.endswith(".pyc") or any(path.startswith(f"{place}{os.sep}") for place in _elsewhere()):
        return True
    return _is_standard(name) or path in _installed() or Path(path).is_dir()


def _is_installed(name: str) -> bool:
    """Return whether a file is of an installed library."""
    return _is_left_out(name) or not set(PACKAGES).isdisjoint(Path(name).parts)


@cache
def _is_standard(name: str) -> bool:
    """Return whether a file is one of Python's own modules, frozen ones among them."""
    standard = f"{os.path.realpath(sysconfig.get_path('stdlib'))}{os.sep}"
    path = os.path.realpath(name)
    is_below = path.startswith(standard) and not path[len(standard) :].startswith(PACKAGES)
    return is_below or name.startswith("<frozen ")


@cache
def _elsewhere() -> tuple[str, ...]:
    """Return the folders of which keys say enough: the suite's, of libraries, and the system's."""
    return (*suite_folders(), *filter(None, map(_folder, VERSIONED)), "/proc", "/sys", "/dev")


def suite_folders() -> list[str]:
    """Return the folders of the suite's rooms."""
    rooms = (draftproof.conformance, draftproof.reference, draftproof.spec)
    return [os.path.realpath(next(iter(room.__path__))) for room in rooms]


VERSIONED = ("torch", "triton", "numpy", "scipy", "sympy")
"""Packages of which keys, and the environment of a certificate, have the versions."""

PACKAGES = ("site-packages", "dist-packages")
"""The folders of others inside of Python's own."""


def _folder(name: str) -> str:
    """Return the folder of a package, which may not have been imported yet, empty without one."""
    found = find_spec(name)
    return str(Path(found.origin).resolve().parent) if found and found.origin else ""


@cache
def _installed() -> frozenset[str]:
    """Return the files of the libraries whose versions a key has."""
    found: list[str] = []
    for name in libraries():
        if name not in (*VERSIONED, "draftproof"):
            try:
                listed = distribution(name).files or ()
            except PackageNotFoundError:
                continue
            found += [os.path.realpath(str(each.locate())) for each in listed]
    return frozenset(found)


def _digest_of(file: str) -> str | None:
    try:
        return sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return None


_first_digest_of = cache(_digest_of)


def _digest_of_variable(name: str) -> str | None:
    own = [known for known, was in _ASKED.items() if was == _SET]
    every = "\n".join(sorted(set(os.environ) - set(own)))
    value = every if name == _NAMES else os.environ.get(name)
    return None if value is None else sha256(os.fsencode(value)).hexdigest()
