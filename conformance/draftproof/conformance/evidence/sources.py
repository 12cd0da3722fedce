"""Sources: the files whose code runs when an adapter is called, from any distribution.

A certificate has the digest of the `files` that an adapter declares. A wrapper that declares only
itself would have the same digest whatever it wraps; so Draftproof watches some calls, and keeps the
digest of every file that took part.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import torch

from draftproof.conformance.cases import Case
from draftproof.conformance.evidence.traces import PACKAGES, VERSIONED, suite_folders, untraced
from draftproof.conformance.lanes._streams import seeded
from draftproof.conformance.lanes.exchange import Asked, as_given, as_loaded, verified
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.protocol.loading import files_of
from draftproof.reference.drafting import draft_law
from draftproof.reference.model import Instance


@dataclass(frozen=True)
class Source:
    """File that took part, and the name and version of its distribution, if any."""

    file: str
    """Its import path, wherever it is installed; its name if it is not imported."""
    sha256: str
    distribution: str | None
    version: str | None
    declared: bool
    """True if the adapter lists the file in its `files`."""


def sources(program: Program, asked: Iterable[Case]) -> list[Source]:
    """Return the files whose code runs in calls of one row, a call for each case, sorted by name.

    Files of Python, of the suite, and of the libraries that the environment names are left out.
    Every call is made twice, and only the second is watched: code that runs only the first time, to
    fill a cache, depends on earlier calls. A compiled library is listed if a module that ran has
    imported or loaded it, or if torch has loaded it. A harness runs in a different process, so its
    files are unknown.
    """
    adapter, declared = program.adapter, program.declared
    rows = [_row(each.instance, declared) for each in asked]
    seen: dict[str, str] = {}
    with seeded(0):
        for row in rows:
            verified(as_loaded(adapter), [row], declared)
        with _watched(seen):
            for row in rows:
                verified(as_loaded(adapter), [row], declared)
    seen = {name: module for name, module in seen.items() if _counts(name)}
    for name in [*seen.values()]:
        seen |= _compiled(sys.modules.get(name))
    seen |= dict.fromkeys(map(str, torch.ops.loaded_libraries), "")
    own = {file.resolve() for file in files_of(adapter)}
    found = {Path(name).resolve(): module for name, module in seen.items() if _counts(name)}
    with untraced():
        listed = [_source(file, module, declared=file in own) for file, module in found.items()]
    return sorted(listed, key=lambda each: (each.file, each.sha256))


def _row(instance: Instance, declared: Declaration) -> Asked:
    return instance, next(iter(draft_law(as_given(instance, declared))))


@contextmanager
def _watched(seen: dict[str, str]) -> Iterator[None]:
    """Collect the files of all functions called in the block, with their modules' names."""

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen[frame.f_code.co_filename] = str(frame.f_globals.get("__name__", ""))

    # Whose garbage is collected meanwhile is chance.
    collects = gc.isenabled()
    before, before_in_threads = sys.getprofile(), threading.getprofile()
    gc.disable()
    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield
    finally:
        # A profiler that is written in C cannot be set again: it has ended when ours began.
        sys.setprofile(before if callable(before) else None)
        threading.setprofile(before_in_threads)
        if collects:
            gc.enable()


def _compiled(module: ModuleType | None) -> dict[str, str]:
    """Return the files of compiled code that a module refers to, and their modules' names."""
    found = {}
    for value in list(vars(module).values()) if module else ():
        if isinstance(value, ctypes.CDLL):
            found[str(value._name)] = ""
            continue
        name = value.__name__ if isinstance(value, ModuleType) else _home(value)
        file = str(getattr(sys.modules.get(name), "__file__", ""))
        if file.endswith(tuple(EXTENSION_SUFFIXES)):
            found[file] = name
    return found


def _home(value: Any) -> str:
    name = getattr(type(value) if not callable(value) else value, "__module__", None)
    return name if isinstance(name, str) else ""


def _counts(name: str) -> bool:
    file = Path(name)
    return file.is_file() and not any(file.resolve().is_relative_to(f) for f in _left_out())


@cache
def _left_out() -> tuple[Path, ...]:
    """Return the folders of Python, of the suite, and of the libraries in the environment."""
    modules = (sys.modules.get(name) for name in VERSIONED)
    libraries = [Path(each.__file__).resolve().parent for each in modules if each and each.__file__]
    standard = Path(sysconfig.get_path("stdlib")).resolve()
    python = [each for each in standard.iterdir() if each.name not in PACKAGES]
    return (*map(Path, suite_folders()), *libraries, *python)


def _source(file: Path, module: str, *, declared: bool) -> Source:
    place = _imported_as(file, module)
    name, version = _distribution(file, place.partition("/")[0])
    return Source(place, sha256(file.read_bytes()).hexdigest(), name, version, declared)


def _imported_as(file: Path, module: str) -> str:
    """Return the path of a file below the folder in which its module was found."""
    known = getattr(sys.modules.get(module), "__file__", None)
    if known is None or Path(known).resolve() != file:
        return file.name
    packages = module.split(".") if file.stem == "__init__" else module.split(".")[:-1]
    return "/".join((*packages, file.name))


def _distribution(file: Path, package: str) -> tuple[str, str] | tuple[None, None]:
    """Return the name and version of the distribution that installed a file, if one did."""
    package = package.removesuffix(".py")
    for name in sorted(set(_distributions().get(package, ()))):
        found = distribution(name)
        if any(Path(str(each.locate())).resolve() == file for each in found.files or ()):
            return name, found.version
    return None, None


_distributions = cache(packages_distributions)
