from __future__ import annotations

import sys

import pytest

from draftproof.reference.proof.cells import (
    ANY,
    NEGATIVE,
    NOT_NEGATIVE,
    POSITIVE,
    ZERO,
    Undecided,
    refutes,
)
from draftproof.reference.proof.polynomials import (
    MalformedPolynomial,
    Polynomial,
    field_of,
    read,
    written,
)
from draftproof.reference.proof.search import (
    Points,
    SolverMissing,
    contains,
    refutation,
    solved_point,
)
from draftproof.reference.proof.symbols import Shape, Unknown, everywhere
from draftproof.reference.rational import ONE, rational

SHAPE = Shape(2, 1, depth=1)
ALL = everywhere(SHAPE)


def poly(text: str) -> Polynomial:
    return read(text, ALL.ring)


@pytest.mark.parametrize("text", ["0", "-1/2", "p(0)", "2*p(0)*q(0)^2 - 1/3*p(0|1) + 1"])
def test_a_polynomial_is_its_text(text: str) -> None:
    assert poly(written(poly(text))) == poly(text)


def test_the_text_of_a_polynomial() -> None:
    assert written(poly("1 - q(0)*2")) == "-2*q(0) + 1"


@pytest.mark.parametrize(
    "text", ["", "p(0) q(0)", "p(0)^", "x", "__import__('os')", "p(0)**2", "+"]
)
def test_what_is_no_polynomial_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|unknown"):
        poly(text)
    with pytest.raises(MalformedPolynomial):
        poly("p(9)")


def test_weights_are_not_negative_and_sum_to_one() -> None:
    assert ALL.signs(poly("p(0)")) == NOT_NEGATIVE
    assert ALL.signs(poly("1 - p(0)")) == NOT_NEGATIVE
    assert ALL.signs(poly("p(0) - q(0)")) == ANY


def test_the_sign_of_a_product_follows_from_its_factors() -> None:
    known = ALL.where(poly("p(0) - q(0)"), NEGATIVE).where(poly("q(0)"), POSITIVE)
    assert known.signs(poly("q(0)^2 - p(0)*q(0)")) == POSITIVE
    assert known.signs(poly("p(0)*q(0) - q(0)^2")) == NEGATIVE


def test_the_sign_of_a_factor_follows_from_the_product() -> None:
    known = ALL.where(poly("p(0)*q(0) - q(0)^2"), POSITIVE)
    assert known.signs(poly("q(0)")) == POSITIVE


def test_an_equation_determines_a_symbol() -> None:
    tied = ALL.where(poly("p(0) - q(0)"), ZERO)
    assert tied.signs(tied.restricted(poly("p(0) - q(0)"))) == ZERO
    assert len(tied.solved) == 1
    assert not tied.contradictory
    assert tied.where(poly("p(0) - q(0)"), POSITIVE).contradictory


def test_an_equation_is_divided_by_what_cannot_vanish() -> None:
    product = poly("p(0)*q(0) - p(0|0)")
    assert len(ALL.where(poly("p(0)"), POSITIVE).where(product, ZERO).solved) == 1


def test_a_question_is_answered_or_names_a_split() -> None:
    field = field_of(ALL.ring)
    p, q = (Unknown(field(poly(name)), ALL) for name in ("p(0)", "q(0)"))
    assert p >= 0
    assert not p > 1
    with pytest.raises(Undecided) as raised:
        bool(p < q)
    assert written(raised.value.polynomial) == "p(0) - q(0)"
    assert raised.value.signs == NEGATIVE
    with pytest.raises(Undecided):
        min(ONE, ONE / p)


def test_a_certificate_is_added_up() -> None:
    """P(0) > q(0) and p(0) = 0 cannot both be: -q(0) > 0 and q(0) >= 0 add up to zero."""
    empty = ALL.where(poly("p(0) - q(0)"), POSITIVE).where(poly("p(0)"), ZERO)
    terms = ((rational(1), (poly("-q(0)"),)), (rational(1), (poly("q(0)"),)))
    assert empty.contradictory or refutes(terms, empty)
    apart = ALL.where(poly("p(0) - q(0)"), POSITIVE).where(poly("q(0) - p(0|0)"), POSITIVE)
    circle = apart.where(poly("p(0|0) - p(0)"), POSITIVE)
    sides = ("p(0) - q(0)", "q(0) - p(0|0)", "p(0|0) - p(0)")
    whole = tuple((rational(1), (poly(side),)) for side in sides)
    assert refutes(whole, circle)
    assert not refutes(whole[:2], circle)
    assert not refutes(whole, apart)
    assert not refutes(((rational(-1), (poly("p(0)"),)), (rational(1), (poly("p(0)"),))), ALL)
    found = refutation(circle, poly("p(0) - q(0)"), 1)
    assert found is not None
    assert refutes(found, circle)
    assert refutation(apart, poly("p(0) - q(0)"), 2) is None


def test_points_lie_in_their_cell() -> None:
    tied = ALL.where(poly("p(0) - q(0)"), ZERO).where(poly("p(0|0) - q(0)"), POSITIVE)
    points = Points(SHAPE).within(tied)
    assert points
    assert all(contains(tied, point) for point in points)
    assert all(point[0] == point[1] for point in points)


def test_a_solver_finds_points_where_guesses_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = ALL.where(poly("1000*p(0) - 1"), POSITIVE).where(poly("999*p(0) - 1"), NEGATIVE)
    assert Points(SHAPE, tries=10).within(narrow) == []
    point = solved_point(narrow)
    assert point is not None
    assert contains(narrow, point)
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(SolverMissing, match=r"'\.\[prove\]'"):
        solved_point(narrow)
