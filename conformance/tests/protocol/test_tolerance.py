from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from draftproof.conformance.protocol.adapter import Declaration, declaration
from draftproof.conformance.protocol.tolerance import (
    DECISIVE,
    UNIT_ROUNDOFF,
    allowed_distance,
    allowed_of_text,
)
from draftproof.conformance.requirements.finding import FAIL, INCONCLUSIVE, PASS, verdict_of
from draftproof.reference.rational import rational
from draftproof.spec import chapters


def declared(**attributes: object) -> Declaration:
    return declaration(
        SimpleNamespace(name="a", version="1", algorithm="token", verify=print, **attributes)
    )


def test_by_hand() -> None:
    """V = 4, L = 2, rows as they are: w = 4, e = 6, so 2 (18 + 16 + 4 + 2) + 8 = 88 roundings."""
    assert allowed_distance(declared(), 4, 2) == 88 * UNIT_ROUNDOFF["float32"]


@pytest.mark.parametrize(
    ("dtype", "arithmetic", "counts"),
    [
        ("bfloat16", None, "bfloat16"),
        ("bfloat16", "float32", "float32"),
        ("float16", "float64", "float32"),
        ("float32", "bfloat16", "float32"),
    ],
)
def test_short_rows_are_held_to_the_arithmetic_that_is_declared(
    dtype: str, arithmetic: str | None, counts: str
) -> None:
    said = declared(dtype=dtype, arithmetic=arithmetic)
    assert allowed_distance(said, 3, 2) == 78 * UNIT_ROUNDOFF[counts]


def test_what_each_dtype_decides_is_as_the_specification_says() -> None:
    text = next(c for c in chapters() if c.stem == "09-numerics").read_text(encoding="utf-8")
    told = dict(re.findall(r"\| ([a-z0-9, ]+) \| [^|]+ \| ([^|]+) \|", text))
    assert float(78 * UNIT_ROUNDOFF["float16"]) == pytest.approx(float(told["float16"]), abs=5e-4)
    assert float(78 * UNIT_ROUNDOFF["bfloat16"]) == pytest.approx(float(told["bfloat16"]), abs=5e-4)
    figure, power = told["float64, float32"].split("·")
    assert power == "10⁻⁶"
    assert float(78 * UNIT_ROUNDOFF["float32"]) == pytest.approx(float(figure) * 1e-6, abs=5e-8)


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize(("vocabulary", "length"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_it_is_the_formula_of_the_specification(vocabulary: int, length: int, logits: bool) -> None:
    text = next(c for c in chapters() if c.stem == "11-evidence").read_text(encoding="utf-8")
    (row,) = re.findall(r"r = (V \+ \d+):", text)
    (weight,) = re.findall(r"\| w = (.*?) \|", text)
    (excess,) = re.findall(r"\| e = (.*?) \|", text)
    (bound,) = re.findall(r"\[TV ≤ u · (.*?)\]", text)
    known: dict[str, Any] = {"V": vocabulary, "L": length}
    known["r"] = evaluated(row, known) if logits else 0
    known["w"] = evaluated(weight, known)
    known["e"] = evaluated(excess, known)
    expected = evaluated(bound, known) * UNIT_ROUNDOFF["float32"]
    assert allowed_distance(declared(logits=logits), vocabulary, length) == expected


def test_of_a_text_it_is_the_formula_of_the_specification() -> None:
    drafting = next(c for c in chapters() if c.stem == "04-drafting").read_text(encoding="utf-8")
    (row,) = re.findall(r"r = (3V \+ \d+) the bound", drafting)
    (each, own) = re.findall(r"\[TV ≤ u · \(Σ \((.*)\) \+ (H \(.*\))\), the sum", drafting)[0]
    for vocabulary, horizon in ((3, 2), (4, 3)):
        known: dict[str, Any] = {"V": vocabulary, "H": horizon}
        known["r"] = evaluated(row, known)
        roundings = evaluated(own.replace("H (", "H("), known)
        for n in range(1, horizon + 1):
            known["w"] = n * (2 * known["r"] + 2)
            known["e"] = known["w"] + 2 * known["r"] + 2
            roundings += evaluated(each.replace("n (", "n("), known | {"n": n})
        expected = roundings * UNIT_ROUNDOFF["float32"]
        assert allowed_of_text(declared(), vocabulary, horizon) == expected


def evaluated(formula: str, known: dict[str, Any]) -> Any:
    """Evaluate a formula as it is printed: 2V is a product, and so is L(r + 1)."""
    multiplied = re.sub(r"(?<=[0-9A-Za-z])(?=[A-Za-z(])", "*", formula.replace("·", "*"))
    return eval(multiplied, {}, known)


@pytest.mark.parametrize(
    ("dtype", "digits"), [("float64", 24), ("float32", 24), ("float16", 11), ("bfloat16", 8)]
)
def test_it_scales_with_the_unit_roundoff_down_to_that_of_float32(dtype: str, digits: int) -> None:
    assert allowed_distance(declared(dtype=dtype), 4, 2) == 88 * rational("1/2") ** digits


def test_it_grows_with_vocabulary_and_length() -> None:
    bounds = [allowed_distance(declared(), v, n) for v, n in ((1, 1), (2, 1), (2, 2), (4, 3))]
    assert bounds == sorted(bounds)
    assert bounds[-1] < rational("1/50000")


@pytest.mark.parametrize(
    ("distance", "allowed", "slack", "verdict"),
    [
        ("0", "1/10000", "0", PASS),
        ("1/10000", "1/10000", "0", PASS),
        ("1/9999", "1/10000", "0", FAIL),
        ("1/10000", "1/10000", "1/100000", INCONCLUSIVE),
        ("2/10000", "1/10000", "1/100000", FAIL),
        ("1/2000", "1/4", "0", PASS),
        ("1/500", "1/4", "0", INCONCLUSIVE),
        ("1/3", "1/4", "0", FAIL),
    ],
)
def test_what_is_passed_failed_and_left_open(
    distance: str, allowed: str, slack: str, verdict: str
) -> None:
    assert verdict_of(rational(distance), rational(allowed), rational(slack)) == verdict
    assert rational("1/1000") == DECISIVE
