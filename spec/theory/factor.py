"""The factor that the reference asks K-SEQ's program with, found again without the reference."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Row = Sequence[Fraction]

_BITS = 64
_CLOSE = 512


def least_factor(p: Row, q: Row, width: int) -> Fraction:
    """Return the least factor with which K-SEQ is lossless for `width` siblings.

    It is the root of 1 - (1 - b)^K = rho b, b being the sum of min(p / rho, q). Where the root is
    not rational, it is the least multiple of 2^-64 above it.
    """
    above = _least_multiple(p, q, width, _BITS)
    # A root that is rational has a small denominator: nothing else so simple is so close.
    close = _least_multiple(p, q, width, _CLOSE).limit_denominator(1 << (_CLOSE // 3))
    return close if _owed_at(close, p, q, width) == 0 else above


def _least_multiple(p: Row, q: Row, width: int, bits: int) -> Fraction:
    low, high = 0, (width - 1) << bits
    while low < high:
        middle = (low + high) // 2
        if _owed_at(1 + Fraction(middle, 1 << bits), p, q, width) <= 0:
            high = middle
        else:
            low = middle + 1
    return 1 + Fraction(high, 1 << bits)


def _owed_at(rho: Fraction, p: Row, q: Row, width: int) -> Fraction:
    """Return what a factor accepts too much: it is valid where that is not positive."""
    each = sum((min(a / rho, b) for a, b in zip(p, q, strict=True)), Fraction())
    return 1 - (1 - each) ** width - rho * each
