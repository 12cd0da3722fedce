"""Linear programs: exact maxima, and certificates that prove nothing are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from draftproof.reference.optimum.certified import NotOptimal
from draftproof.reference.optimum.linear import LinearProgram, Maximum, check, maximum
from draftproof.reference.rational import ONE, ZERO, Rational, rational


def terms(**coefficients: int) -> dict[str, Rational]:
    return {name: rational(x) for name, x in coefficients.items()}


# x + y is 14/5, where both limits hold.
PLAIN = LinearProgram(
    terms(x=1, y=1), [(terms(x=3, y=1), rational(6)), (terms(x=1, y=2), rational(4))]
)


def test_a_maximum_comes_with_its_solution_and_its_prices() -> None:
    assert maximum(PLAIN) == Maximum(
        rational("14/5"),
        {"x": rational("8/5"), "y": rational("6/5")},
        [rational("1/5"), rational("2/5")],
    )


def test_an_equation_may_have_a_negative_price() -> None:
    program = LinearProgram(terms(x=1, y=-1), [(terms(x=1), ONE)], [(terms(x=1, y=-1), -ONE)])
    best = maximum(program)
    assert best.value == -1
    assert best.prices[1] == 1
    dearer = LinearProgram(terms(x=1), [(terms(x=1, y=-1), ZERO)], [(terms(y=1), rational("1/3"))])
    assert maximum(dearer).value == rational("1/3")
    costly = LinearProgram(terms(y=-1), [(terms(x=1), ONE)], [(terms(y=1), ONE)])
    assert maximum(costly).prices == [ZERO, -ONE]


def test_a_degenerate_vertex_is_exact() -> None:
    # Three limits meet in (1/3, 1/3).
    third = rational("1/3")
    program = replace(
        PLAIN,
        limits=[(terms(x=1), third), (terms(y=1), third), (terms(x=1, y=1), 2 * third)],
    )
    assert maximum(program).value == 2 * third


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (LinearProgram(terms(x=1), [(terms(x=1), -ONE)]), "infeasible"),
        (LinearProgram(terms(x=1), [(terms(y=1), ONE), (terms(x=-1), ONE)]), "unbounded"),
    ],
)
def test_a_program_without_a_maximum_is_refused(program: LinearProgram, message: str) -> None:
    with pytest.raises(NotOptimal, match=message):
        maximum(program)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": ONE}, "and value 1 differ"),
        ({"solution": {"x": -ONE, "y": rational(2)}}, "an unknown is negative"),
        ({"solution": terms(x=2, y=1)}, "the solution has 7 where the program says 6"),
        ({"solution": terms(x=1, y=1)}, "solution 2, prices 14/5"),
        ({"prices": [-ONE, rational(2)]}, "the price of a limit is negative"),
        ({"prices": [ZERO, ZERO]}, "the prices undercut the objective"),
        ({"prices": [ONE, ONE]}, "prices 10"),
    ],
)
def test_a_certificate_that_proves_nothing_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(NotOptimal, match=message):
        check(replace(maximum(PLAIN), **change), PLAIN)


def test_a_solution_that_misses_an_equation_is_refused() -> None:
    program = LinearProgram(terms(x=1), [(terms(x=1), ONE)], [(terms(x=1), ONE)])
    with pytest.raises(NotOptimal, match="the solution has 0 where the program says 1"):
        check(Maximum(ONE, {}, [ZERO, ONE]), program)


def test_an_unknown_that_costs_nothing_must_not_be_paid_for() -> None:
    program = LinearProgram(terms(x=1), [(terms(x=1, y=-1), ZERO), (terms(x=1), ONE)])
    with pytest.raises(NotOptimal, match="undercut"):
        check(Maximum(ZERO, {}, [ONE, ZERO]), program)
