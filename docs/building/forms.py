"""Forms of computed paragraphs. Each form takes words and returns Markdown."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

from formulas.laws import LAWS
from formulas.suite import SUITE

from building import bug, certificates, engines, examples, glance, theory
from building.latex import latex
from building.markdown import fenced, table
from draftproof.adapters.engines.packages import PACKAGES
from draftproof.reference.verifiers import ALGORITHMS


def definition(name: str) -> str:
    """Return the source that defines an algorithm, or the definitions of a module of the reference.

    `name` is an algorithm, or a module below `draftproof.reference` with or without one of its
    functions, such as "optimum.acceptance_rate" or "rows:excess". Raises `LookupError`.
    """
    module, _, only = name.partition(":")
    module = f"verifiers.{module}" if module in ALGORITHMS else module
    try:
        imported = importlib.import_module(f"draftproof.reference.{module}")
    except ModuleNotFoundError:
        raise LookupError(f"the reference has no module {module!r}") from None
    defined = [
        inspect.getsource(each).rstrip()
        for name, each in vars(imported).items()
        if getattr(each, "__qualname__", "") == name
        and each.__module__ == imported.__name__
        and only in ("", name)
    ]
    if not defined:
        raise LookupError(f"{module} defines no {only!r}")
    source = "\n\n\n".join(defined)
    return fenced(source, "python", options=f'title="draftproof.reference.{module}"')


FORMULAS = {**LAWS, **SUITE}
"""The formulas of the chapters by name."""


def formula(name: str) -> str:
    """Return a displayed formula; formulas are checked against the code. Raises `LookupError`."""
    if name not in FORMULAS:
        raise LookupError(f"no formula {name!r}; known: {', '.join(sorted(FORMULAS))}")
    return f"$$\n{latex(FORMULAS[name])}\n$$"


def overview(name: str) -> str:
    """Return the table of this name. Raises `LookupError` for an unknown name."""
    if name not in _TABLES:
        raise LookupError(f"no table {name!r}; known: {', '.join(_TABLES)}")
    return _TABLES[name]()


def _engines() -> str:
    rows = [
        [
            f"`{package.name}:{method}`",
            f"[`{own.algorithm}`](#algorithm.{own.algorithm})",
            own.versions,
            ", ".join(f"`{case}`" for case in own.cases) or "all",
        ]
        for package in PACKAGES.values()
        for method, own in package.methods.items()
    ]
    return table(["method", "algorithm", "versions", "cases"], rows)


def _algorithms() -> str:
    head = ["name", "algorithm", "source", "schemes", "K", "trees", "class"]
    rows = []
    for each in ALGORITHMS.values():
        one = each.most_drafts == 1
        kind = "stateful" if each.stateful else "stateless"
        rows.append(
            [
                f"[`{each.name}`](#algorithm.{each.name})",
                each.title,
                each.source,
                "any" if one else ", ".join(each.schemes),
                "1" if one else "any",
                "" if one else "yes" if each.trees else "no",
                f"{kind}, optimal" if each.optimal else kind,
            ]
        )
    return table(head, rows)


_TABLES = {
    "algorithms": _algorithms,
    "certificates": certificates.certified,
    "engines": _engines,
}

FORMS: dict[str, Callable[..., str]] = {
    "dashboard": engines.dashboard,
    "definition": definition,
    "formula": formula,
    "outcomes": engines.meanings,
    "table": overview,
    "theorems": theory.theorems,
    **bug.COMPUTED,
    **examples.COMPUTED,
    **glance.COMPUTED,
}
"""The forms by name."""
