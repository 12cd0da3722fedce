"""Greedy multi-path block verification: follow the highest-ranked path, verify it as a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational
from draftproof.reference.rows import normalised
from draftproof.reference.verifiers.block import keep

Order = Callable[[Row, Row], Sequence[int]]


def by_ratio(p: Row, q: Row) -> Sequence[int]:
    """Return the tokens that can be drafted, lowest p/q first, equals by token id."""
    return sorted((t for t, x in enumerate(q) if x != 0), key=lambda t: (p[t] / q[t], t))


def multipath_block(
    drafts: Drafted, instance: Instance, chance: Chance, *, order: Order = by_ratio
) -> Emission:
    """Go down to the highest-ranked sibling every time; verify the path against its skewed law.

    `order` ranks the tokens that can be drafted after a context, from the context's rows. Any
    strict order at each context is lossless, if selection and skewed law use the same one: it may
    depend on the context and on both models at all contexts, but not on the drafts.
    Law: block verification's, with q replaced by the law of the selected path:
    q'(y|z) = [(A + m(F+q))^K - (A + mF)^K] / [(A+m)^K - A^K], where m = q(z), F is the mass ranked
    below y at z, and A the mass of the paths ranked below z. Source: arXiv 2602.16961.
    """
    path: Path = ()
    rows: list[Row] = []
    below, mass = ZERO, ONE
    while len(path) < instance.length:
        q = instance.draft(path)
        ranked = order(instance.target(path), q)
        skewed, lower = [ZERO] * len(q), [ZERO] * len(q)
        edge = below
        for token in ranked:
            lower[token] = edge
            edge += mass * q[token]
            skewed[token] = _difference(edge, lower[token], instance.drafts)
        chosen = max(drafts.siblings(path), key=list(ranked).index)
        rows.append(normalised(skewed))
        below, mass, path = lower[chosen], mass * q[chosen], (*path, chosen)
    accepted, law = keep(path, rows, instance, chance)
    return emission(drafts, accepted, chance.draw(law))


def _difference(high: Rational, low: Rational, power: int) -> Rational:
    """Return high^power - low^power as a product of factors that are never negative."""
    return (high - low) * sum((high**a * low ** (power - 1 - a) for a in range(power)), ZERO)
