from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from building.forms import FORMULAS
from building.latex import latex
from building.pages import HOUSE
from formulas.formula import Formula

from draftproof.spec import chapters

KATEX = HOUSE / "docs" / "node_modules" / "katex"


def printed(line: str) -> str:
    return latex(Formula(lines=(line,), places=lambda _: ()))


@pytest.mark.parametrize(
    ("line", "shown"),
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
def test_how_equations_are_printed(line: str, shown: str) -> None:
    assert shown in printed(line)


def test_what_is_no_equation_is_not_printed() -> None:
    with pytest.raises(ValueError, match="a formula is an equation or a bound, got 'a \\+ b'"):
        printed("a + b")
    with pytest.raises(ValueError, match="no way to print 'not a'"):
        printed("b == (not a)")


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
    texts = json.dumps([latex(formula) for formula in FORMULAS.values()])
    node = shutil.which("node") or "node"
    ran = subprocess.run([node, "-e", script], input=texts, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
