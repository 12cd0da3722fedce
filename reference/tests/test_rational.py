from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.errors import NotRational, TooLarge
from draftproof.reference.rational import (
    ONE,
    ZERO,
    Rational,
    exactly,
    positive_part,
    ratio_or_one,
    rational,
    total,
)

exact = settings.get_profile("exact")


@exact
@given(value=st.fractions())
def test_every_form_of_a_number_is_the_same_number(value: Fraction) -> None:
    number = rational(value)
    assert isinstance(number, Rational)
    assert (number.numerator, number.denominator) == value.as_integer_ratio()
    assert rational(str(value)) == rational(number) == number
    assert str(number) == str(value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (3, Fraction(3)),
        ("3", Fraction(3)),
        ("-11/9", Fraction(-11, 9)),
        ("+1/2", Fraction(1, 2)),
        (" 2/6 ", Fraction(1, 3)),
        ("0.25", Fraction(1, 4)),
        ("0.1", Fraction(1, 10)),
        ("-0", Fraction(0)),
    ],
)
def test_written_numbers(written: object, value: Fraction) -> None:
    assert rational(written) == rational(value)


FLOAT = 'expected a rational number such as "1/10", got the float {}: write it as a fraction'


@pytest.mark.parametrize("value", [0.5, 1.0, 0.0, 1e-9, math.nan, math.inf, -math.inf])
def test_floats_are_refused_by_name(value: float) -> None:
    with pytest.raises(NotRational) as refusal:
        rational(value)
    assert str(refusal.value) == FLOAT.format(value)


@pytest.mark.parametrize("value", [True, False])
def test_booleans_are_refused(value: bool) -> None:
    with pytest.raises(NotRational) as refusal:
        rational(value)
    assert str(refusal.value) == f"expected a rational number, got the boolean {value}"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a half",
        "1/0",
        "1//2",
        "1/-2",
        "1 / 2",
        "nan",
        "inf",
        "1e3",
        "1e999999999",
        "1_0",
        "½",
        "\u0661",
    ],
)
def test_other_strings_are_refused(value: str) -> None:
    with pytest.raises(NotRational) as refusal:
        rational(value)
    assert str(refusal.value) == (
        f'expected a rational number such as "11/9", got the string {value!r}'
    )


def test_a_string_too_long_to_be_a_number_is_refused() -> None:
    with pytest.raises(TooLarge, match=r"at most 1,000 characters, got 100,000"):
        rational("1" * 100_000)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "NoneType None"), ([1], "list [1]"), ({}, "dict {}"), (1 + 0j, "complex (1+0j)")],
)
def test_other_types_are_refused(value: object, shown: str) -> None:
    with pytest.raises(NotRational) as refusal:
        rational(value)
    assert str(refusal.value) == f"expected a rational number, got {shown}"


@exact
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_exactly_keeps_every_bit_of_a_float(value: float) -> None:
    assert exactly(value) == rational(Fraction(value))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_exactly_refuses_what_is_no_number(value: float) -> None:
    with pytest.raises(NotRational) as refusal:
        exactly(value)
    assert str(refusal.value) == f"expected a finite number, got {value}"


@exact
@given(values=st.lists(st.fractions()))
def test_total_and_positive_part(values: list[Fraction]) -> None:
    numbers = [rational(value) for value in values]
    assert total(numbers) == rational(sum(values, Fraction(0)))
    for number in numbers:
        assert positive_part(number) - positive_part(-number) == number
        assert positive_part(number) * positive_part(-number) == 0


def test_a_ratio_of_nothing_to_nothing_is_one() -> None:
    assert ratio_or_one(ZERO, ZERO) == 1
    assert ratio_or_one(ONE, rational(2)) == rational("1/2")
