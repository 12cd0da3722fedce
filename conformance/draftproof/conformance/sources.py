"""Sources: the files whose code runs when an adapter is asked, whoever wrote them.

What an adapter declares as its `files` has its digest in the certificate. A wrapper that declares
itself alone would have the same digest whatever it wraps; so a campaign watches a few calls, and
keeps the digest of every file that took part.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from types import FrameType
from typing import Any

import draftproof.conformance
import draftproof.reference
import draftproof.spec
from draftproof.conformance.adapter import Adapter, declaration
from draftproof.conformance.cases import cases
from draftproof.conformance.exchange import as_given, as_loaded, verified
from draftproof.conformance.lanes._streams import seeded
from draftproof.conformance.loading import files_of
from draftproof.conformance.requirements.laws import fits
from draftproof.reference.drafting import draft_law

_ELSEWHERE = ("torch", "numpy", "scipy", "triton", "sympy", "mpmath", "gmpy2")
"""Packages that the environment of a certificate names."""


@dataclass(frozen=True)
class Source:
    """A file that took part, and the distribution and version that it came with, if any."""

    file: str
    """Its path below the folder that Python found it in; its name, where that is not known."""
    sha256: str
    distribution: str | None
    version: str | None
    declared: bool
    """Whether the adapter has it among its `files`."""


def sources(adapter: Adapter) -> list[Source]:
    """Return the files whose code runs in a call of each quick case that fits, by their names.

    Not those of Python itself, of the suite, and of the libraries that the environment names. Of a
    compiled module it is the file that was imported. A harness is another process, and has none.
    """
    declared = declaration(adapter)
    seen: set[str] = set()
    with seeded(0), _watched(seen):
        for case in cases("quick"):
            if fits(case, declared):
                drafts = next(iter(draft_law(as_given(case.instance, declared))))
                verified(as_loaded(adapter), [(case.instance, drafts)], declared)
    own = {str(file.resolve()) for file in files_of(adapter)}
    files = sorted({str(Path(name).resolve()) for name in seen if Path(name).is_file()})
    return [_source(Path(file), declared=file in own) for file in files if _counts(file)]


@contextmanager
def _watched(seen: set[str]) -> Iterator[None]:
    """Collect the files of all functions that are called meanwhile, in Python or compiled."""

    def called(frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)
        elif event == "c_call":
            module = sys.modules.get(getattr(function, "__module__", None) or "")
            seen.add(getattr(module, "__file__", None) or "")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(before)


def _counts(file: str) -> bool:
    return not any(Path(file).is_relative_to(folder) for folder in _not_asked())


@cache
def _not_asked() -> tuple[Path, ...]:
    """Return the folders of Python, of the suite, and of what the environment names."""
    rooms = (draftproof.conformance, draftproof.reference, draftproof.spec)
    own = [Path(room.__path__[0]).resolve() for room in rooms]
    libraries = (sys.modules.get(name) for name in _ELSEWHERE)
    found = [Path(lib.__file__).resolve().parent for lib in libraries if lib and lib.__file__]
    standard = Path(sysconfig.get_path("stdlib")).resolve()
    inside = [each for each in standard.iterdir() if each.name != "site-packages"]
    return (*own, *found, *inside)


def _source(file: Path, *, declared: bool) -> Source:
    place = next((Path(p) for p in sys.path if p and file.is_relative_to(Path(p).resolve())), None)
    below = file.relative_to(place.resolve()) if place else Path(file.name)
    distribution = next(iter(packages_distributions().get(below.parts[0], ())), None)
    try:
        released = version(distribution) if distribution else None
    except PackageNotFoundError:
        released = None
    digest = sha256(file.read_bytes()).hexdigest()
    return Source(below.as_posix(), digest, distribution, released, declared)
