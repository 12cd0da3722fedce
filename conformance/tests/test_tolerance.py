from __future__ import annotations

from types import SimpleNamespace

import pytest

from draftproof.conformance.adapter import Declaration, declaration
from draftproof.conformance.requirements import FAIL, INCONCLUSIVE, PASS, verdict_of
from draftproof.conformance.tolerance import DECISIVE, UNIT_ROUNDOFF, allowed_distance
from draftproof.reference.rational import rational


def declared(**attributes: object) -> Declaration:
    return declaration(
        SimpleNamespace(name="a", version="1", algorithm="token", verify=print, **attributes)
    )


def test_the_formula_of_the_specification() -> None:
    """V = 4, L = 2, rows as they are: e = 6, so 2 (18 + 16 + 2) + 8 = 80 roundings."""
    assert allowed_distance(declared(), 4, 2) == 80 * UNIT_ROUNDOFF["float32"]
    """Logits: r = 12, e = 2 * 26 + 26 = 78, so 2 (234 + 18) + 12 + 8 = 524 roundings."""
    assert allowed_distance(declared(logits=True), 4, 2) == 524 * UNIT_ROUNDOFF["float32"]


@pytest.mark.parametrize(
    ("dtype", "digits"), [("float64", 53), ("float32", 24), ("float16", 11), ("bfloat16", 8)]
)
def test_it_scales_with_the_unit_roundoff(dtype: str, digits: int) -> None:
    assert allowed_distance(declared(dtype=dtype), 4, 2) == 80 * rational("1/2") ** digits


def test_it_grows_with_vocabulary_and_length() -> None:
    bounds = [allowed_distance(declared(), v, n) for v, n in ((1, 1), (2, 1), (2, 2), (4, 3))]
    assert bounds == sorted(bounds)
    assert bounds[-1] < rational("1/100000")


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
