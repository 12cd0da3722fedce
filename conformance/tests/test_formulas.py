from __future__ import annotations

import pytest
from formulas.faults import is_refused, planted
from formulas.suite import SUITE


@pytest.mark.parametrize("name", SUITE)
def test_every_formula_holds(name: str) -> None:
    assert SUITE[name].holds()


@pytest.mark.parametrize("name", SUITE)
def test_every_fault_in_an_equation_is_refused(name: str) -> None:
    faults = list(planted(SUITE[name]))
    assert faults
    for fault, formula in faults:
        assert is_refused(formula), fault
