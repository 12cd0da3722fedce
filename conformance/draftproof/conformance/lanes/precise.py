"""Irrational and infinite numbers beside exact ones.

exp and log enter a law only where a program takes logarithms or logits. They are rounded at
the 160th bit: far below every tolerance, and weights that are normalised still sum to exactly 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf, isinf
from typing import Any, TypeAlias

from mpmath import mp

from draftproof.reference.rational import ONE, ZERO, Rational, exactly, rational, total

# An exact number, or a float infinity: no type that a checker knows compares the two.
Extended: TypeAlias = Any

_BITS = 160

# Past this logarithm a number is 0 or infinite to every purpose: e**-20000 < 2**-28000.
_HUGE_LOGARITHM = 20000


def is_infinite(value: Extended) -> bool:
    """Return True if an extended number is an infinity."""
    return isinstance(value, float)


def extended(value: float) -> Extended:
    """Return a float as an exact number, or as an infinity."""
    return value if isinf(value) else exactly(value)


def softmax(logits: Sequence[Rational]) -> list[Rational]:
    """Return the probabilities proportional to exp(logit), which sum to exactly 1."""
    most = max(logits)
    weights = [exp(logit - most) for logit in logits]
    mass = total(weights)
    return [weight / mass for weight in weights]


@lru_cache(maxsize=4096)
def exp(value: Extended) -> Extended:
    """Return e**value; beyond e**20000 it is infinite, below e**-20000 it is 0."""
    if value > _HUGE_LOGARITHM:
        return inf
    if value < -_HUGE_LOGARITHM:
        return ZERO
    if value == 0:
        return ONE
    with mp.workprec(_BITS):
        return _from_mp(mp.exp(mp.mpf(int(value.numerator)) / int(value.denominator)))


@lru_cache(maxsize=4096)
def log(value: Extended) -> Extended:
    """Return the natural logarithm of a non-negative number."""
    if value == 0:
        return -inf
    if is_infinite(value):
        return inf
    if value == 1:
        return ZERO
    with mp.workprec(_BITS):
        return _from_mp(mp.log(mp.mpf(int(value.numerator)) / int(value.denominator)))


def _from_mp(value: Any) -> Rational:
    sign, mantissa, exponent, _ = value._mpf_
    whole: Rational = rational(int(mantissa)) * rational(2) ** exponent
    return -whole if sign else whole
