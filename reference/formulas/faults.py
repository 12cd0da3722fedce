"""Formulas with a fault: what holds of one of these is held against nothing."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import replace

from formulas.formula import Formula

_OTHER_OPERATOR = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_OTHER_NAME = {"min": "max", "max": "min", "sum": "prod", "prod": "sum", "p": "q", "q": "p"}


def planted(formula: Formula) -> Iterator[tuple[str, Formula]]:
    """Yield the formula with one fault in an equation, and the equation.

    Of a definition only the right side is used; a bound that is too lax still holds.
    """
    for number, line in enumerate(formula.lines):
        for fault in _faults(line) if "==" in line else ():
            lines = (*formula.lines[:number], fault, *formula.lines[number + 1 :])
            yield fault, replace(formula, lines=lines)
    for number, line in enumerate(formula.given):
        left, _, right = line.partition(" == ")
        for fault in _faults(right):
            told = f"{left} == {fault}"
            given = (*formula.given[:number], told, *formula.given[number + 1 :])
            yield told, replace(formula, given=given)


def is_refused(formula: Formula) -> bool:
    """Return whether a formula does not hold, or cannot even be evaluated."""
    try:
        return not formula.holds()
    except (ArithmeticError, LookupError, NameError, TypeError, ValueError):
        return True


def _faults(line: str) -> Iterator[str]:
    """Yield the line with one fault: an operator, a sign, a number, a sum or p for q."""
    tree = ast.parse(line, mode="eval")
    for place in range(len(list(ast.walk(tree)))):
        faulty = copy.deepcopy(tree)
        there = list(ast.walk(faulty))[place]
        match there:
            case ast.BinOp() if type(there.op) in _OTHER_OPERATOR:
                there.op = _OTHER_OPERATOR[type(there.op)]()
            case ast.Constant(int(value)):
                there.value = value + 1
            case ast.Name(name) if name in _OTHER_NAME:
                there.id = _OTHER_NAME[name]
            case _:
                continue
        yield ast.unparse(faulty)
