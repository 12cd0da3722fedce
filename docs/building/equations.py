"""Equations that are printed and evaluated from one text.

A formula is written once, as equations in Python. What a page shows is that text in LaTeX; what
`Formula.holds` asks is that text again, evaluated in exact arithmetic at places where the names in
it stand for something.

Texts are numbered from 1: x[i] is the i-th token of a text x, x[:i] are the first i, x[i:] those
after them, and z @ y is the text z with one token more.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from draftproof.reference.model import Path
from draftproof.reference.rational import ONE, positive_part

Names = dict[str, Any]

Define = Callable[[int, Names], Any]
"""The right side of a line that is shown, by its number, with these names."""

Places = Callable[[Define], Iterable[Names]]
"""Where a formula is asked: what each of its names stands for."""


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A displayed formula.

    `lines` are its equations, each of which must hold at every place; `given` are definitions of
    what the places are computed with; `checks` must hold as well, and are not shown. `notation`
    says how names are printed, `aside` is printed last. A `bound` is printed with "at most" for
    "is": it is what the reference allows. `where` says in words what the formula is held against.
    """

    lines: tuple[str, ...] = ()
    where: str
    places: Places
    given: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    notation: Mapping[str, str] = field(default_factory=dict)
    aside: str = ""
    bound: bool = False

    @property
    def latex(self) -> str:
        """The formula as it is displayed."""
        notation = {**NOTATION, **self.notation}
        shown = [_printed(line, notation) for line in (*self.lines, *self.given)]
        if self.bound:
            shown[0] = shown[0].replace("&=", r"&\le", 1)
        if self.aside:
            shown[-1] += rf", \qquad {self.aside}"
        if len(shown) == 1:
            return shown[0].replace("&", "", 1)
        return "\\begin{aligned}\n" + " \\\\\n".join(shown) + "\n\\end{aligned}"

    def holds(self) -> bool:
        """Return whether every line and check holds at every place, and there is one."""
        lines = [_compiled(line) for line in (*self.lines, *self.checks)]
        shown = (*self.lines, *self.given)

        def define(number: int, names: Names) -> Any:
            return _evaluated(_compiled(shown[number].partition(" == ")[2]), names)

        asked = 0
        for names in self.places(define):
            asked += 1
            if not all(_evaluated(line, names) for line in lines):
                return False
        return asked > 0


# --- how it is printed ----------------------------------------------------------------------

NOTATION: Mapping[str, str] = {
    "E": r"\mathbb{E}[\tau]",
    "TV": r"\mathrm{TV}",
    "Q1": "Q'",
    "alpha": r"\alpha",
    "beta": r"\beta",
    "comb": r"\binom{#1}{#2}",
    "delta": r"\delta",
    "lam": r"\lambda",
    "log": r"\log #1",
    "p1": "p'",
    "pos": r"\left(#1\right)_+",
    "rho": r"\rho",
    "sqrt": r"\sqrt{#1}",
}
"""How names are printed: a call's arguments stand for #1 and #2."""

RANGES: Mapping[str, str] = {
    "V": "#0",
    "cells": "#0",
    "drafts": "#0",
    "events": "#0",
    "outcomes": "#0",
    "prefixes": r"1 \le |#0| \le L",
    "starts": r"#0 \preceq #1",
    "subsets": r"#0 \subseteq V",
    "texts": r"#0 \in V^{#1}",
}
"""How that is printed which a sum runs over: what runs stands for #0."""

_SIGNS = {
    ast.Eq: "=",
    ast.NotEq: r"\ne",
    ast.Lt: "<",
    ast.LtE: r"\le",
    ast.Gt: ">",
    ast.GtE: r"\ge",
    ast.In: r"\in",
    ast.NotIn: r"\notin",
}

_SUM, _PRODUCT, _POWER, _ATOM = range(1, 5)
"""How tightly a term holds together."""

_LARGE = {"sum": r"\sum", "prod": r"\prod", "min": r"\min", "max": r"\max"}


def _printed(line: str, notation: Mapping[str, str]) -> str:
    """Return an equation in LaTeX, aligned at its first sign."""
    tree = ast.parse(line, mode="eval").body
    if not isinstance(tree, ast.Compare):
        raise ValueError(f"a formula is an equation or a bound, got {line!r}")
    return _compared(tree, notation, "&")


def _compared(tree: ast.Compare, notation: Mapping[str, str], mark: str = "") -> str:
    parts = [_tex(tree.left, notation)]
    for sign, term in zip(tree.ops, tree.comparators, strict=True):
        parts.append(f"{mark}{_SIGNS[type(sign)]} {_tex(term, notation)}")
        mark = ""
    return " ".join(parts)


def _tex(tree: ast.expr, notation: Mapping[str, str], within: int = 0) -> str:
    """Return a term in LaTeX, in parentheses where it holds together less tightly than it must."""
    text, tightness = _term(tree, notation)
    return text if tightness >= within else rf"\left({text}\right)"


def _term(tree: ast.expr, notation: Mapping[str, str]) -> tuple[str, int]:
    match tree:
        case ast.Constant():
            return str(tree.value), _ATOM
        case ast.Name():
            return notation.get(tree.id, tree.id), _ATOM
        case ast.BinOp():
            return _operated(tree, notation)
        case ast.Compare():
            return _compared(tree, notation), 0
        case ast.Tuple(elements):
            return f"({', '.join(_tex(each, notation) for each in elements)})", _ATOM
        case ast.IfExp():
            return _cases(tree, notation), _ATOM
        case ast.Subscript():
            return _indexed(tree, notation), _ATOM
        case ast.Call():
            return _called(tree, notation)
    raise ValueError(f"no way to print {ast.unparse(tree)!r}")


def _operated(tree: ast.BinOp, notation: Mapping[str, str]) -> tuple[str, int]:
    show = partial(_tex, notation=notation)
    match tree:
        case ast.BinOp(left, ast.Add(), right):
            return f"{show(left, within=_SUM)} + {show(right, within=_SUM)}", _SUM
        case ast.BinOp(left, ast.Sub(), right):
            return f"{show(left, within=_SUM)} - {show(right, within=_PRODUCT)}", _SUM
        case ast.BinOp(left, ast.Mult(), right):
            factors = show(left, within=_PRODUCT), show(right, within=_PRODUCT)
            return _multiplied(*factors), _PRODUCT
        case ast.BinOp(left, ast.Div(), right):
            return rf"\frac{{{show(left)}}}{{{show(right)}}}", _ATOM
        case ast.BinOp(left, ast.Pow(), right):
            return f"{show(left, within=_ATOM)}^{{{show(right)}}}", _POWER
        case ast.BinOp(left, ast.MatMult(), right):
            return f"{show(left)}{show(right)}", _ATOM
    raise ValueError(f"no way to print {ast.unparse(tree)!r}")


def _multiplied(left: str, right: str) -> str:
    is_number = left[-1].isdigit()
    if right[0].isdigit() or (is_number and right.startswith(r"\frac")):
        return rf"{left} \cdot {right}"
    apart = "" if right.startswith(r"\left(") else " " if is_number else r"\,"
    return f"{left}{apart}{right}"


def _cases(tree: ast.IfExp, notation: Mapping[str, str]) -> str:
    show = partial(_tex, notation=notation)
    return (
        rf"\begin{{cases}} {show(tree.body)} & \text{{if }} {show(tree.test)} \\ "
        rf"{show(tree.orelse)} & \text{{otherwise}} \end{{cases}}"
    )


def _indexed(tree: ast.Subscript, notation: Mapping[str, str]) -> str:
    show = partial(_tex, notation=notation)
    name = show(tree.value)
    match tree.slice:
        case ast.Slice(lower=None, upper=ast.BinOp(i, ast.Sub(), ast.Constant(value=1))):
            return f"{name}_{{<{show(i)}}}"
        case ast.Slice(lower=None, upper=ast.expr() as upper):
            return rf"{name}_{{\le {show(upper)}}}"
        case ast.Slice(lower=ast.expr() as lower):
            return f"{name}_{{>{show(lower)}}}"
        case index:
            return f"{name}_{{{show(index)}}}"


def _called(tree: ast.Call, notation: Mapping[str, str]) -> tuple[str, int]:
    name = tree.func.id if isinstance(tree.func, ast.Name) else ""
    if isinstance(tree.args[0], ast.GeneratorExp):
        return _over(_LARGE[name], tree.args[0], notation), _PRODUCT
    arguments = [_tex(each, notation) for each in tree.args]
    if name in ("min", "max"):
        return rf"\{name}\left({', '.join(arguments)}\right)", _ATOM
    if name == "abs":
        return rf"\left|{arguments[0]}\right|", _ATOM
    template = notation.get(name, "")
    if "#" in template:
        text = re.sub("#([1-9])", lambda number: arguments[int(number[1]) - 1], template)
        return text, _PRODUCT if name == "log" else _ATOM
    given = r" \mid ".join(arguments)
    return f"{template or _tex(tree.func, notation)}({given})", _ATOM


def _over(sign: str, terms: ast.GeneratorExp, notation: Mapping[str, str]) -> str:
    """Return a sum, or what is like one, of all terms that there are."""
    signs = [_ranging(sign, each, notation) for each in terms.generators]
    return f"{' '.join(signs)} {_tex(terms.elt, notation, _PRODUCT)}"


def _ranging(sign: str, each: ast.comprehension, notation: Mapping[str, str]) -> str:
    show = partial(_tex, notation=notation)
    variable = show(each.target)
    match each.iter:
        case ast.Call(ast.Name("to"), [start, end]):
            return f"{sign}_{{{variable}={show(start)}}}^{{{show(end)}}}"
        case ast.Call(ast.Name(name), [argument]):
            template = RANGES[name].replace("#1", show(argument))
        case ast.Name(name):
            template = RANGES.get(name, rf"#0 \in {notation.get(name, name)}")
        case other:
            raise ValueError(f"no way to print a sum over {ast.unparse(other)!r}")
    return f"{sign}_{{{template.replace('#0', variable)}}}"


# --- how it is evaluated --------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """The tokens of a text, numbered from 1."""

    tokens: Path

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return Text(self.tokens[key])
        if key < 1:
            raise IndexError(f"tokens are numbered from 1, got {key}")
        return self.tokens[key - 1]

    def __matmul__(self, token: int) -> Text:
        return Text((*self.tokens, token))

    def __len__(self) -> int:
        return len(self.tokens)


def to(start: int, end: int) -> range:
    """Return the numbers from `start` to `end`, both included."""
    return range(start, end + 1)


_KNOWN: Names = {
    "__builtins__": {},
    "abs": abs,
    "comb": math.comb,
    "log": math.log,
    "max": max,
    "min": min,
    "pos": positive_part,
    "prod": partial(math.prod, start=ONE),
    "sqrt": math.sqrt,
    "sum": sum,
    "to": to,
}


@cache
def _compiled(line: str) -> Any:
    return compile(line, "<formula>", "eval")


def _evaluated(code: Any, names: Names) -> Any:
    return eval(code, {**_KNOWN, **names})  # noqa: S307  # the texts are those of `formulas`
