"""The least factor with which K-SEQ is lossless."""

from __future__ import annotations

from functools import lru_cache

from sympy import QQ, Poly, Symbol

from draftproof.reference.model import Row
from draftproof.reference.rational import ONE, Rational, rational, total
from draftproof.reference.rows import overlap

_BITS = 64


def is_valid_factor(rho: Rational, p: Row, q: Row, drafts: int) -> bool:
    """Return True if K-SEQ with this factor leaves every token a residual that is not negative."""
    if rho < 1:
        return False
    each = overlap(q, p, 1 / rho)
    return ONE - (1 - each) ** drafts <= rho * each


@lru_cache(maxsize=4096)
def least_factor(p: Row, q: Row, drafts: int) -> Rational:
    """Return rho*, the root of 1 - (1 - b)^K = rho b where b = sum of min(p/rho, q), in 1..K.

    The root is algebraic. The result is exact where the root is rational, otherwise the least
    multiple of 2^-64 above it: still a valid factor, since K-SEQ is lossless at every factor from
    rho* on.
    Source: arXiv 2310.15141.
    """
    low, high = 0, (drafts - 1) << _BITS
    while low < high:
        middle = (low + high) // 2
        if is_valid_factor(1 + rational(middle) / 2**_BITS, p, q, drafts):
            high = middle
        else:
            low = middle + 1
    above = 1 + rational(high) / 2**_BITS
    return min(_rational_roots(p, q, drafts, above), default=above)


def _rational_roots(p: Row, q: Row, drafts: int, above: Rational) -> list[Rational]:
    """Return the rational roots within 2^-64 below `above`, on whose piece b is a/rho + c."""
    below = above - rational(1) / 2**_BITS
    covered = [a <= below * b for a, b in zip(p, q, strict=True)]
    a = total(x for x, by in zip(p, covered, strict=True) if by)
    c = total(x for x, by in zip(q, covered, strict=True) if not by)
    rho = Symbol("rho")
    whole, part = Poly([c, a], rho, domain=QQ), Poly([1 - c, -a], rho, domain=QQ)
    power = Poly(rho, rho, domain=QQ) ** drafts
    equation = whole * power - power + part**drafts
    if equation.is_zero:  # nothing that is drafted can be accepted: every factor will do
        return [ONE]
    roots = (rational(QQ.from_sympy(root)) for root in equation.ground_roots())
    return [r for r in roots if below < r <= above and is_valid_factor(r, p, q, drafts)]
