"""Packages of engines: a name for the adapters of several methods, at any version.

They are found by entry points of the group "draftproof.engines", of any distribution; each is a
mapping of names to packages. `certify` judges the methods of the installed version, a history those
of earlier versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from draftproof.conformance.protocol.adapter import AdapterFailed, UnknownAdapter
from draftproof.conformance.protocol.raising import told_of

GROUP = "draftproof.engines"
"""Group of entry points."""


class Method(Protocol):
    """Way in which an engine verifies, and how to judge it by default."""

    algorithm: str
    needs: Mapping[str, str]
    """The files that can contain the method, each with a text that must occur in it."""
    versions: str
    """Description of the versions that the adapter judges."""
    mode: str
    cases: tuple[str, ...]
    """Patterns of the cases to judge, empty for all."""
    why: str
    """The reason why the other cases are not judged."""
    note: str
    """The stubs for parts of the engine."""


class Past(Protocol):
    """Earlier version: a release and its day, or a commit, its day and its subject."""

    version: str
    day: str
    said: str
    adapter: str


class Package(Protocol):
    """Package of an engine: its name in an index, its title, and its methods by name."""

    name: str
    title: str
    extras: str
    """The extras of Draftproof that its adapters need, such as "torch,triton"."""
    methods: Mapping[str, Method]

    def judged(self, source: str = "") -> Mapping[str, str]:
        """Return the adapters of the methods in a source, or in the installed package."""

    def place(self, method: str, where: str) -> str:
        """Return the adapter of a method at a place, such as "@PATH", or as installed."""

    def used(self, source: str) -> Sequence[str]:
        """Return the files of the methods in a source, and the files that they import."""

    def past(self, method: str, *, since: date, source: str = "") -> Sequence[Past]:
        """Return the releases since a day, or a checkout's commits that touched the method."""


@cache
def packages() -> Mapping[str, Package]:
    """Return the packages by name; if a name occurs twice, its first package counts."""
    found: dict[str, Package] = {}
    for each in entry_points(group=GROUP):
        for name, package in each.load().items():
            found.setdefault(name, package)
    return found


def adapters_of(name: str, source: str = "") -> dict[str, Method] | None:
    """Return the adapters that ENGINE or ENGINE:METHOD stands for, None if it names no engine.

    `source` is a checkout, an installed tree or a wheel; PATH#COMMIT is a commit of a checkout. The
    default source is the installed package. Raises `UnknownAdapter` if the engine has no such
    method, or the source cannot be named, `AdapterFailed` if there is no such source, or no method
    in it.
    """
    engine, _, method = name.partition(":")
    package = packages().get(engine)
    if package is None:
        return None
    path, mark, commit = source.partition("#")
    # A certificate is checked from other folders, too.
    source = f"{Path(path).expanduser().resolve()}{mark}{commit}" if source else ""
    if ":" in source:
        raise UnknownAdapter(f"{source!r} has a colon, and an adapter's name ends there: move it")
    if method:
        require_method(package, method)
        return {package.place(method, f"@{source}" if source else ""): package.methods[method]}
    try:
        found = package.judged(source)
    except Exception as error:
        raise AdapterFailed(f"{name}: {told_of(error)}") from error
    if not found:
        known = ", ".join(f"{each} ({own.versions})" for each, own in package.methods.items())
        raise AdapterFailed(f"{name}: this version has none of the methods {known}")
    return {place: package.methods[method] for method, place in found.items()}


def interpreting() -> dict[str, str]:
    """Return the environment in which Triton interprets kernels; empty if a GPU can run them."""
    try:
        import torch
    except ModuleNotFoundError:
        # Without PyTorch every adapter says what is to be installed.
        return {"TRITON_INTERPRET": "1"}
    return {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}


def require_method(package: Package, method: str) -> None:
    """Raise `UnknownAdapter` unless the package has a method of this name, in some version."""
    if method not in package.methods:
        near = get_close_matches(method, package.methods, n=1)
        meant = f"did you mean {near[0]}?" if near else f"it has {', '.join(package.methods)}"
        raise UnknownAdapter(f"{package.name} has no method {method!r}: {meant}")
