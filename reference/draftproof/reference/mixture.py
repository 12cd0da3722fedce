"""Mixtures: the law of a path that is sometimes the highest-ranked of K, sometimes any of them.

A path is *alive* at a prefix z if it starts with z. At z the selected path goes on to the
highest-ranked token among the alive paths with a probability that depends on z, and otherwise to
the token of any alive path, chosen uniformly. `alive[n]` is the probability that z is selected and
n paths share z. These numbers determine the law of the next token, and the same numbers after that
token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

from draftproof.reference.model import Row
from draftproof.reference.rational import ONE, ZERO, Rational, total

Alive = Sequence[Rational]

Mix = Callable[[Sequence[Rational], Row, Row], Rational]
"""Probability of the highest-ranked token, given the owed masses and the law of either choice."""


def most_kept_next(owed: Sequence[Rational], highest: Row, uniform: Row) -> Rational:
    """Return the share of the highest-ranked path that keeps most of the next token.

    The kept mass is the sum of min(owed, share * highest + (1 - share) * uniform): concave and
    piecewise linear in the share, so the largest value is at an end or at a break. Of equally good
    shares this returns the smallest, which leaves later positions the most choice.
    """
    breaks = [
        (u - a) / (u - h)
        for a, h, u in zip(owed, highest, uniform, strict=True)
        if u != h and 0 < (u - a) / (u - h) < 1
    ]

    def kept(share: Rational) -> Rational:
        mixed = (share * h + (1 - share) * u for h, u in zip(highest, uniform, strict=True))
        return total(min(a, x) for a, x in zip(owed, mixed, strict=True))

    return max((ZERO, *sorted(breaks), ONE), key=kept)


def ranked_below(ranked: Sequence[int], q: Row) -> Row:
    """Return, for every token, the mass that the draft gives to lower-ranked tokens."""
    lower, edge = [ZERO] * len(q), ZERO
    for token in ranked:
        lower[token], edge = edge, edge + q[token]
    return tuple(lower)


def law_of_highest(alive: Alive, lower: Row, q: Row) -> Row:
    """Return, by token, P(the prefix is selected and the token is the highest-ranked there)."""
    return tuple(
        total(c * ((f + x) ** n - f**n) for n, c in enumerate(alive))
        for f, x in zip(lower, q, strict=True)
    )


def alive_after(alive: Alive, share: Rational, q: Rational, lower: Rational) -> list[Rational]:
    """Return `alive` after a token of draft probability q, ranked above the mass `lower`."""
    return [ZERO] + [
        total(
            alive[n]
            * q**j
            * (
                share * comb(n, j) * lower ** (n - j)
                + (1 - share) * comb(n - 1, j - 1) * (1 - q) ** (n - j)
            )
            for n in range(j, len(alive))
        )
        for j in range(1, len(alive))
    ]
