"""Markers of the tests: which tests show which requirements, read without running anything.

A test, a class of tests or a module is marked with `pytest.mark.requirement("law.lossless", ...)`.
A test of the suite names the requirement whose judgement it checks; a test of our own verifiers
names the requirement that they satisfy. A test that runs everything against everything names
nothing: it would hide that a requirement has lost its own tests.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

ROOMS = ("spec", "reference", "conformance", "adapters", "docs")


class UnknownRequirement(ValueError):
    """Error of an id that is not a requirement of any chapter."""


class UnreadableMarker(ValueError):
    """Error of a marker without ids, or with ids that cannot be read without running it."""


def marked_tests(root: Path, known: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the tests that name each requirement, sorted, as "adapters/tests/test_x.py::test_y".

    Raises `UnknownRequirement` for an id that is not known, and `UnreadableMarker`.
    """
    found: dict[str, set[str]] = {}
    for room in ROOMS:
        for file in (root / room / "tests").rglob("test_*.py"):
            path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
            if ".requirement" not in text:
                continue
            for name, identity in _marked(ast.parse(text), path):
                require_known(identity, known, f"{path}::{name}")
                found.setdefault(identity, set()).add(f"{path}::{name}")
    return {identity: tuple(sorted(tests)) for identity, tests in found.items()}


def require_known(identity: str, known: Collection[str], where: str) -> None:
    """Raise `UnknownRequirement` for an unknown id; the message says `where` it is named."""
    if identity not in known:
        raise UnknownRequirement(f"{where} names {identity!r}; known: {', '.join(known)}")


def _marked(module: ast.Module, path: str) -> Iterator[tuple[str, str]]:
    """Yield the tests of a module, each paired with every id that it names."""
    read: set[ast.AST] = set()

    def ids(markers: list[ast.expr]) -> list[str]:
        calls = [each for each in markers if _is_marker(getattr(each, "func", each))]
        read.update(getattr(each, "func", each) for each in calls)
        return [identity for each in calls for identity in _ids(each, path)]

    def tests(body: list[ast.stmt], names: str, own: list[str]) -> Iterator[tuple[str, str]]:
        own = own + ids([each for node in body for each in _of_all(node)])
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                inherited = own + ids(node.decorator_list)
                yield from tests(node.body, f"{names}{node.name}::", inherited)
            elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                for identity in own + ids(node.decorator_list):
                    yield f"{names}{node.name}", identity

    yield from tests(module.body, "", [])
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and _is_marker(node) and node not in read:
            raise UnreadableMarker(
                f"{path}:{node.lineno}: a requirement is named on a test, a class of tests or a "
                "module (pytestmark), and nowhere else"
            )


def _of_all(node: ast.stmt) -> list[ast.expr]:
    """Return the markers that a statement gives to all tests in the same block."""
    if not isinstance(node, ast.Assign) or [ast.unparse(t) for t in node.targets] != ["pytestmark"]:
        return []
    return node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]


def _is_marker(node: ast.AST) -> bool:
    is_named = isinstance(node, ast.Attribute) and node.attr == "requirement"
    return is_named and ast.unparse(node) == "pytest.mark.requirement"


def _ids(marker: ast.expr, path: str) -> list[str]:
    given = marker.args if isinstance(marker, ast.Call) and not marker.keywords else []
    ids = [each.value for each in given if isinstance(each, ast.Constant)]
    if not ids or len(ids) < len(given) or not all(isinstance(each, str) for each in ids):
        raise UnreadableMarker(
            f"{path}:{marker.lineno}: {ast.unparse(marker)} must name one requirement or more, "
            'each as it stands: pytest.mark.requirement("law.lossless")'
        )
    return [str(each) for each in ids]
