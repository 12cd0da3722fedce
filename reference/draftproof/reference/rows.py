"""Rows as vectors: the few operations that verification algorithms are made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from draftproof.reference.model import Row
from draftproof.reference.rational import ONE, ZERO, Rational, positive_part, total


def excess(p: Sequence[Rational], q: Sequence[Rational], scale: Rational = ONE) -> Row:
    """Return (scale * p - q)+, not normalised: the mass that the draft does not cover."""
    return tuple(positive_part(scale * a - b) for a, b in zip(p, q, strict=True))


def normalised(row: Sequence[Rational]) -> Row:
    """Return the row divided by its sum, which must be positive."""
    mass = total(row)
    return tuple(weight / mass for weight in row)


def without(row: Sequence[Rational], tokens: Collection[int]) -> Row:
    """Return the row with zeros at `tokens`, not normalised."""
    return tuple(ZERO if token in tokens else weight for token, weight in enumerate(row))


def mass(row: Sequence[Rational], tokens: Collection[int]) -> Rational:
    """Return the sum of the row's weights at `tokens`."""
    return total(row[token] for token in tokens)


def overlap(p: Sequence[Rational], q: Sequence[Rational], scale: Rational = ONE) -> Rational:
    """Return the sum of min(p, scale * q)."""
    return total(min(a, scale * b) for a, b in zip(p, q, strict=True))
