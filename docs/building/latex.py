"""Formulas in LaTeX, from the text that is checked against the reference and the suite."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import partial

from formulas.formula import Formula


def latex(formula: Formula) -> str:
    """Return a displayed formula in LaTeX."""
    notation = {**NOTATION, **formula.notation}
    shown = [_printed(line, notation) for line in (*formula.lines, *formula.given)]
    if formula.bound:
        shown[0] = shown[0].replace("&=", r"&\le", 1)
    if formula.aside:
        shown[-1] += rf", \qquad {formula.aside}"
    if len(shown) == 1:
        return shown[0].replace("&", "", 1)
    return "\\begin{aligned}\n" + " \\\\\n".join(shown) + "\n\\end{aligned}"


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
"""LaTeX of names; #1 and #2 are replaced by the arguments of a call."""

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
"""LaTeX of the ranges of sums; #0 is replaced by the running variable."""

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
"""Precedence of a term's outermost operator, loosest first."""

_LARGE = {"sum": r"\sum", "prod": r"\prod", "min": r"\min", "max": r"\max"}


def _printed(line: str, notation: Mapping[str, str]) -> str:
    """Return an equation in LaTeX, aligned at its first relation."""
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
    """Return a term in LaTeX, in parentheses if its precedence is below `within`."""
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
    """Return a sum, product, minimum or maximum over all terms."""
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
