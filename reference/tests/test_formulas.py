from __future__ import annotations

from dataclasses import replace

import pytest
from formulas.faults import is_refused, planted
from formulas.formula import Names, Text
from formulas.laws import LAWS


@pytest.mark.parametrize("name", LAWS)
def test_every_formula_holds(name: str) -> None:
    assert LAWS[name].holds()


@pytest.mark.parametrize("name", LAWS)
def test_every_fault_in_an_equation_is_refused(name: str) -> None:
    faults = list(planted(LAWS[name]))
    assert faults
    for fault, formula in faults:
        assert is_refused(formula), fault


def test_a_bound_the_wrong_way_round_is_refused() -> None:
    for name in ("rate.flow", "optimum.stateless", "optimum.stateful"):
        lines = tuple(line.replace("<=", ">=") for line in LAWS[name].lines)
        assert lines != LAWS[name].lines
        assert is_refused(replace(LAWS[name], lines=lines)), name


def test_prices_that_undercut_are_refused() -> None:
    for name in ("optimum.stateless.prices", "optimum.stateful.prices"):
        lines = tuple(line.replace(">= 1", ">= 1 + 1") for line in LAWS[name].lines)
        assert lines != LAWS[name].lines
        assert is_refused(replace(LAWS[name], lines=lines)), name


def nowhere(_: object) -> tuple[Names, ...]:
    return ()


def test_what_is_asked_nowhere_does_not_hold() -> None:
    assert not replace(LAWS["block.weight"], places=nowhere).holds()


def test_texts_are_numbered_from_one() -> None:
    x = Text((3, 1, 2))
    assert (x[1], x[:2], x[2:], x @ 0) == (3, Text((3, 1)), Text((2,)), Text((3, 1, 2, 0)))
    with pytest.raises(IndexError, match="numbered from 1, got 0"):
        x[0]
