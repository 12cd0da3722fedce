"""Exact numbers: sympy's rationals on their fastest ground type, and nothing else.

A float passed to the reference is a bug in the caller: 0.1 is not one tenth, and a rounded law
proves nothing. So the reference refuses floats instead of converting them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sympy import QQ

from draftproof.reference.errors import NotRational, TooLarge

# Ground rationals (gmpy2's mpq) have Fraction's operators; the type checker needs no more.
if TYPE_CHECKING:
    Rational = Fraction
else:
    Rational = QQ.dtype

ZERO: Rational = QQ(0)
ONE: Rational = QQ(1)

# Exponents are left out: "1e999999999" is short to write and long to expand.
_WRITTEN = re.compile(r"[+-]?\d+(/\d+|\.\d+)?", re.ASCII)


def rational(value: object) -> Rational:
    """Return `value` as an exact rational.

    Accepts an int, a `fractions.Fraction`, a ground rational, or a string such as "11/9", "3" or
    "0.25". Raises `TooLarge` for a string of more than `MOST_DIGITS` characters, `NotRational` for
    anything else, in particular for floats.
    """
    if isinstance(value, Rational):
        return value
    if isinstance(value, bool):
        raise NotRational(f"expected a rational number, got the boolean {value!r}")
    if isinstance(value, float):
        raise NotRational(
            f'expected a rational number such as "1/10", got the float {value!r}: '
            f"write it as a fraction"
        )
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, Fraction):
        return QQ(value.numerator, value.denominator)  # type: ignore[no-any-return]  # sympy is untyped
    if isinstance(value, int):
        return QQ(value)  # type: ignore[no-any-return]  # sympy is untyped
    raise NotRational(f"expected a rational number, got {type(value).__name__} {value!r}")


def rationals(values: Iterable[object]) -> tuple[Rational, ...]:
    """Return the values as rationals, each converted by `rational`."""
    given: tuple[Any, ...] = tuple(values)
    # Rows of large vocabularies are rational already.
    is_done = {*map(type, given)} <= {type(ONE)}
    return given if is_done else tuple(map(rational, given))


def exactly(value: float) -> Rational:
    """Return the rational that the finite binary float `value` stands for, without rounding.

    This is the only entry for floats: for data that *is* a float, as in the tensors of a program
    under test. Raises `NotRational` for NaN and infinities.
    """
    try:
        return QQ(*value.as_integer_ratio())  # type: ignore[no-any-return]  # sympy is untyped
    except (ValueError, OverflowError):
        raise NotRational(f"expected a finite number, got {value!r}") from None


def total(values: Iterable[Rational]) -> Rational:
    """Return the exact sum, zero for no values."""
    return sum(values, ZERO)


def positive_part(value: Rational) -> Rational:
    """Return max(value, 0)."""
    return value if value > 0 else ZERO


def ratio_or_one(numerator: Rational, denominator: Rational) -> Rational:
    """Return numerator / denominator, and one where both vanish."""
    return numerator / denominator if denominator != 0 else ONE


MOST_DIGITS = 1_000
"""Maximum length of a written number, in characters; fractions of doubles are shorter."""


def _parsed(text: str) -> Fraction:
    if len(text) > MOST_DIGITS:
        raise TooLarge(
            f"a rational number has at most {MOST_DIGITS:,} characters, got {len(text):,}"
        )
    try:
        if _WRITTEN.fullmatch(text.strip()):
            return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        pass
    raise NotRational(f'expected a rational number such as "11/9", got the string {text!r}')


def readable(self: Any) -> str:
    """Return the `__repr__` of a dataclass, with rationals written as 1/9."""
    parts = (f"{each.name}={shown(getattr(self, each.name))}" for each in fields(self) if each.repr)
    return f"{type(self).__name__}({', '.join(parts)})"


def shown(value: Any) -> str:
    """Return the `repr` of a value, with rationals written as 1/9."""
    if isinstance(value, Rational):
        return str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{shown(k)}: {shown(v)}' for k, v in value.items())}}}"
    if type(value) is tuple:
        inside = ", ".join(map(shown, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value)
