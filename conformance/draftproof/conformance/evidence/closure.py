"""Closure: the source files whose code can run where a module's functions are called.

Imports are read from the source, including those inside of functions, so nothing is executed. Two
kinds of import lead to code that not every caller runs, and are followed only on request:

* a *lane*: the import of a lane by `lanes.observe` does not affect the laws of other lanes
  (imports of one lane by another are followed);
* an *algorithm*: the reference's table imports all algorithms, and a verifier is compared with
  one. The table itself is left out: its other entries do not affect this one.

Docstrings are not code: nothing that judges reads them, and the digests leave them out.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

_EXACT = ("draftproof.conformance.lanes.exact", "draftproof.conformance.lanes._foreign")

LANES = {
    "exact": _EXACT,
    # Single runs are watched by it, too.
    "run": _EXACT,
    "probe": ("draftproof.conformance.lanes.probe",),
    "sample": (
        "draftproof.conformance.lanes.sample",
        "draftproof.conformance.requirements.sampled",
        "draftproof.conformance.requirements.pairs",
        "draftproof.conformance.requirements._nulls",
    ),
}
"""Modules and packages of each lane, including those that judge its samples."""

TABLE = "draftproof.reference.verifiers"
"""Table of algorithms, whose modules are beside it; keys contain its entries one by one."""


def digest(modules: Collection[str], *, lanes: Collection[str], algorithm: str | None) -> str:
    """Return the SHA-256 of all files that the code of these modules can lead to.

    `lanes` and the module of an `algorithm` are those that may run.
    """
    whole = sha256()
    for name in sorted(closure(modules, lanes=lanes, algorithm=algorithm) - {TABLE}):
        whole.update(f"{name} {_digest_of(name)}\n".encode())
    return whole.hexdigest()


def closure(
    modules: Collection[str], *, lanes: Collection[str], algorithm: str | None
) -> frozenset[str]:
    """Return the names of all Draftproof modules that the code of these modules can lead to."""
    every = {place for own in LANES.values() for place in own}
    asked = {place for lane in lanes for place in LANES[lane]}
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        # Behind a lane that is asked, the others may be entered as well.
        closed = () if _is_within(name, every) else every - asked
        imported = (each for each in _imports(name) if not _is_within(each, closed))
        waiting += [each for each in imported if name != TABLE or _is_asked(each, algorithm)]
    return frozenset(found)


def _is_asked(module: str, algorithm: str | None) -> bool:
    return not module.startswith(f"{TABLE}.") or module == algorithm


def _is_within(module: str, places: Collection[str]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


@cache
def _imports(name: str) -> frozenset[str]:
    """Return the Draftproof modules that a module imports, and their packages."""
    found: set[str] = set()
    for place, names in _IMPORT.findall(_file(name).read_text(encoding="utf-8")):
        beside = (f"{place}.{each}" for each in _NAME.findall(names))
        found |= {place, *(each for each in beside if _file(each).is_file())}
    parents = {each.rpartition(".")[0] for each in found}
    return frozenset(each for each in found | parents if each.count(".") > 1)


# What merely looks like an import, as in a docstring, makes a closure larger, and no less true.
_IMPORT = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+(draftproof\.[\w.]+)(?:[ \t]+import[ \t]+(\([^)]*\)|[^\n]*))?",
    re.MULTILINE,
)
_NAME = re.compile(r"\w+")

_OURS = "draftproof."


@cache
def _file(name: str) -> Path:
    """Return the file of a module, whether or not it exists."""
    if not name.startswith(_OURS):
        return Path(str(sys.modules[name].__file__))
    place = _place(name)
    package = place / "__init__.py"
    return package if package.is_file() else place.with_suffix(".py")


@cache
def _place(name: str) -> Path:
    """Return the path of a module without its suffix, in whichever room it is."""
    _, room, *below = name.split(".")
    found = find_spec(f"draftproof.{room}")
    places = found.submodule_search_locations if found else None
    return Path(places[0] if places else room, *below)


@cache
def _digest_of(name: str) -> str:
    return sha256(without_docstrings(_file(name).read_bytes())).hexdigest()


def without_docstrings(source: bytes) -> bytes:
    """Return a module's source without the statements that are a string and nothing else."""
    lines = source.splitlines(keepends=True)
    for start, column, end, last in sorted(_docstrings(ast.parse(source).body), reverse=True):
        rest = lines[start][:column] + lines[end][last:]
        lines[start : end + 1] = [rest] if rest.strip() else []
    return b"".join(lines)


def _docstrings(body: Iterable[ast.AST]) -> Iterator[tuple[int, int, int, int]]:
    """Yield where each docstring begins and ends: lines from zero, columns in bytes."""
    for each in body:
        match each:
            case ast.Expr(value=ast.Constant(value=str())):
                # Whatever is parsed has an end.
                end, last = each.end_lineno or 0, each.end_col_offset or 0
                yield each.lineno - 1, each.col_offset, end - 1, last
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(each, block, ())
            yield from _docstrings(inner if isinstance(inner, list) else ())
