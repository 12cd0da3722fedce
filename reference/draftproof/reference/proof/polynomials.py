"""Polynomials and rational functions with exact coefficients: sympy's, and their text form.

The field is the rational functions in a few named symbols. Elements are in lowest terms, so two
of them are equal as functions if and only if they are equal as values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from sympy import QQ, Symbol
from sympy.polys.fields import FracElement
from sympy.polys.rings import PolyElement, PolyRing

from draftproof.reference.errors import InvalidInput
from draftproof.reference.rational import ZERO, Rational, rational

# sympy has no types of its own to import.
Polynomial = Any
Quotient = Any
Ring = Any


class MalformedPolynomial(InvalidInput):
    """A text is not a polynomial in the symbols of the theorem."""


def ring_of(names: Sequence[str]) -> Ring:
    """Return the ring of polynomials in the named symbols."""
    return PolyRing([Symbol(name) for name in names], QQ, "lex")


@lru_cache(maxsize=64)
def field_of(ring: Ring) -> Any:
    """Return the field of quotients of polynomials."""
    return ring.to_field()


def is_quotient(value: object) -> bool:
    """Return True if `value` is an element of a field of rational functions."""
    return isinstance(value, FracElement)


def parts(value: Quotient | Polynomial) -> tuple[Polynomial, Polynomial]:
    """Return the numerator and the denominator of a value."""
    if isinstance(value, PolyElement):
        return value, value.ring.one
    return value.numer, value.denom


def power_of(value: Any, power: int) -> Any:
    """Return value^power, with 0^0 = 1, which sympy refuses."""
    return value**power if power else value * 0 + 1


@lru_cache(maxsize=200_000)
def factors(polynomial: Polynomial) -> tuple[int, tuple[tuple[Polynomial, int], ...]]:
    """Return the sign of the leading coefficient, and the monic irreducible factors."""
    sign = 1 if polynomial.LC > 0 else -1
    if polynomial.is_ground:
        return sign, ()
    _, found = polynomial.factor_list()
    monic = tuple((factor.monic(), power) for factor, power in found)
    # Signs follow from these, so they are multiplied out again.
    if prod((factor**power for factor, power in monic), start=polynomial.ring.one) != (
        polynomial.monic()
    ):
        raise ArithmeticError(f"the factors of {polynomial} do not multiply to it")
    return sign, monic


def oriented(polynomial: Polynomial) -> tuple[int, Polynomial]:
    """Return the sign of the leading coefficient, and the polynomial divided by it."""
    return (1 if polynomial.LC > 0 else -1), polynomial.monic()


@lru_cache(maxsize=200_000)
def variables(polynomial: Polynomial) -> frozenset[int]:
    """Return the indices of the symbols that occur in a polynomial."""
    return frozenset(i for monom in polynomial.itermonoms() for i, e in enumerate(monom) if e)


@lru_cache(maxsize=200_000)
def replaced(polynomial: Polynomial, index: int, value: Quotient) -> tuple[Polynomial, int]:
    """Return the polynomial at symbol = value, times the value's denominator^n, and n."""
    top, bottom = parts(value)
    degree = max((monom[index] for monom in polynomial.itermonoms()), default=0)
    if degree == 0:
        return polynomial, 0
    by_power: dict[int, Any] = {}
    for monom, coefficient in polynomial.iterterms():
        power = monom[index]
        rest = (*monom[:index], 0, *monom[index + 1 :])
        by_power.setdefault(power, {})[rest] = coefficient
    ring = polynomial.ring
    whole = ring.zero
    for power, terms in by_power.items():
        whole += ring.from_dict(terms) * power_of(top, power) * power_of(bottom, degree - power)
    return whole, degree


@lru_cache(maxsize=200_000)
def compiled(polynomial: Polynomial) -> tuple[tuple[Rational, tuple[tuple[int, int], ...]], ...]:
    """Return the polynomial's terms, each a coefficient and its symbols with their powers."""
    return tuple(
        (coefficient, tuple((i, e) for i, e in enumerate(monom) if e))
        for monom, coefficient in polynomial.terms()
    )


def at(polynomial: Polynomial, point: Sequence[Rational]) -> Rational:
    """Return the polynomial's value at a point."""
    value = ZERO
    for coefficient, powers in compiled(polynomial):
        term = coefficient
        for index, power in powers:
            term *= point[index] ** power
        value += term
    return value


def written(polynomial: Polynomial) -> str:
    """Return the polynomial as text, such as "p(0)*q(1|0)^2 - 1/2*q(0)"."""
    names = [symbol.name for symbol in polynomial.ring.symbols]
    text = ""
    for coefficient, powers in compiled(polynomial):
        sign = "-" if coefficient < 0 else "+"
        size = abs(coefficient)
        shown = [f"{names[i]}^{e}" if e > 1 else names[i] for i, e in powers]
        if size != 1 or not shown:
            shown.insert(0, str(size))
        text += f" {sign} {'*'.join(shown)}" if text else sign.strip("+") + "*".join(shown)
    return text or "0"


_TERM = re.compile(r"\s*([+-]?)\s*([^\s+-]+)")
_FACTOR = re.compile(r"([a-z]+(?:\([0-9,|]*\))?)(?:\^([0-9]{1,3}))?", re.ASCII)


def read(text: str, ring: Ring) -> Polynomial:
    """Return the polynomial of a text. Raises `MalformedPolynomial` if it is not in this ring."""
    known = {symbol.name: i for i, symbol in enumerate(ring.symbols)}
    terms: dict[tuple[int, ...], Rational] = {}
    position = 0
    while position < len(text) or not position:
        match = _TERM.match(text, position)
        if match is None or (position and not match[1]):
            raise MalformedPolynomial(f"expected a sum of terms, got {text!r}")
        coefficient, powers = rational(-1 if match[1] == "-" else 1), [0] * len(known)
        for factor in match[2].split("*"):
            named = _FACTOR.fullmatch(factor)
            if named is None:
                coefficient *= rational(factor)
            elif named[1] in known:
                powers[known[named[1]]] += int(named[2] or 1)
            else:
                raise MalformedPolynomial(f"unknown symbol {named[1]!r} in {text!r}")
        key = tuple(powers)
        terms[key] = terms.get(key, rational(0)) + coefficient
        position = match.end()
    return ring.from_dict({key: value for key, value in terms.items() if value != 0})
