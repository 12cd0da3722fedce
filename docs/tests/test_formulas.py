from __future__ import annotations

import ast
import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest
from building.equations import Formula, Names, Text
from building.formulas import FORMULAS
from building.pages import HOUSE

from draftproof.spec import chapters

KATEX = HOUSE / "docs" / "node_modules" / "katex"


@pytest.mark.parametrize("name", FORMULAS)
def test_every_formula_holds(name: str) -> None:
    assert FORMULAS[name].holds()


OTHER_OPERATOR = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
OTHER_NAME = {"min": "max", "max": "min", "sum": "prod", "prod": "sum", "p": "q", "q": "p"}


def faults(line: str) -> Iterator[str]:
    """Yield the line with one fault: an operator, a sign, a number, a sum or p for q."""
    tree = ast.parse(line, mode="eval")
    for place in range(len(list(ast.walk(tree)))):
        planted = copy.deepcopy(tree)
        there = list(ast.walk(planted))[place]
        match there:
            case ast.BinOp() if type(there.op) in OTHER_OPERATOR:
                there.op = OTHER_OPERATOR[type(there.op)]()
            case ast.Constant(int(value)):
                there.value = value + 1
            case ast.Name(name) if name in OTHER_NAME:
                there.id = OTHER_NAME[name]
            case _:
                continue
        yield ast.unparse(planted)


def is_refused(formula: Formula) -> bool:
    try:
        return not formula.holds()
    except (ArithmeticError, LookupError, NameError, TypeError, ValueError):
        return True


@pytest.mark.parametrize("name", FORMULAS)
def test_every_fault_in_an_equation_is_refused(name: str) -> None:
    """Of a definition only the right side is used; a bound that is too lax still holds."""
    formula, planted = FORMULAS[name], 0
    for number, line in enumerate(formula.lines):
        for fault in faults(line) if "==" in line else ():
            lines = (*formula.lines[:number], fault, *formula.lines[number + 1 :])
            assert is_refused(replace(formula, lines=lines)), fault
            planted += 1
    for number, line in enumerate(formula.given):
        left, _, right = line.partition(" == ")
        for fault in faults(right):
            told = f"{left} == {fault}"
            given = (*formula.given[:number], told, *formula.given[number + 1 :])
            assert is_refused(replace(formula, given=given)), told
            planted += 1
    assert planted > 0


def test_a_bound_the_wrong_way_round_is_refused() -> None:
    for name in ("rate.flow", "optimum.stateless", "optimum.stateful"):
        lines = tuple(line.replace("<=", ">=") for line in FORMULAS[name].lines)
        assert lines != FORMULAS[name].lines
        assert is_refused(replace(FORMULAS[name], lines=lines)), name


def test_prices_that_undercut_are_refused() -> None:
    for name in ("optimum.stateless.prices", "optimum.stateful.prices"):
        lines = tuple(line.replace(">= 1", ">= 1 + 1") for line in FORMULAS[name].lines)
        assert lines != FORMULAS[name].lines
        assert is_refused(replace(FORMULAS[name], lines=lines)), name


def nowhere(_: object) -> tuple[Names, ...]:
    return ()


def test_what_is_asked_nowhere_does_not_hold() -> None:
    assert not replace(FORMULAS["block.weight"], places=nowhere).holds()


@pytest.mark.parametrize(
    ("line", "latex"),
    [
        ("w[i] == min(1, w[i - 1] / 2)", r"w_{i} = \min\left(1, \frac{w_{i - 1}}{2}\right)"),
        ("a - (b - c) == a - b + c", r"a - \left(b - c\right) = a - b + c"),
        ("(a + b) * c**2 == 3 * d", r"\left(a + b\right)\,c^{2} = 3 d"),
        ("2 * 3 == 6", r"2 \cdot 3 = 6"),
        ("p(y, x[:i-1]) <= q(z @ y)", r"p(y \mid x_{<i}) \le q(zy)"),
        ("sum(f(j) for j in to(1, n)) == 1", r"\sum_{j=1}^{n} f(j) = 1"),
        ("E == (a if i < L else b)", r"\text{otherwise}"),
        ("pos(a - b) == max(a - b, 0)", r"\left(a - b\right)_+ = \max\left(a - b, 0\right)"),
    ],
)
def test_how_equations_are_printed(line: str, latex: str) -> None:
    assert latex in Formula(lines=(line,), where="", places=nowhere).latex


def test_what_is_no_equation_is_not_printed() -> None:
    with pytest.raises(ValueError, match="a formula is an equation or a bound, got 'a \\+ b'"):
        _ = Formula(lines=("a + b",), where="", places=nowhere).latex
    with pytest.raises(ValueError, match="no way to print 'not a'"):
        _ = Formula(lines=("b == (not a)",), where="", places=nowhere).latex


def test_texts_are_numbered_from_one() -> None:
    x = Text((3, 1, 2))
    assert (x[1], x[:2], x[2:], x @ 0) == (3, Text((3, 1)), Text((2,)), Text((3, 1, 2, 0)))
    with pytest.raises(IndexError, match="numbered from 1, got 0"):
        x[0]


def test_the_chapters_show_every_formula_and_no_other() -> None:
    text = "\n".join(chapter.read_text(encoding="utf-8") for chapter in chapters())
    assert set(re.findall(r'"computed: formula ([^"]+)"', text)) == set(FORMULAS)


@pytest.mark.skipif(
    not KATEX.is_dir() or shutil.which("node") is None, reason="no KaTeX: npm ci in docs"
)
def test_every_formula_is_set_by_katex() -> None:
    script = (
        f"const katex = require({json.dumps(str(KATEX))});"
        "for (const each of JSON.parse(require('fs').readFileSync(0)))"
        "katex.renderToString(each, {displayMode: true, throwOnError: true, strict: 'error'});"
    )
    latex = json.dumps([formula.latex for formula in FORMULAS.values()])
    node = shutil.which("node") or "node"
    ran = subprocess.run([node, "-e", script], input=latex, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
