"""Mixed multi-path block verification: sometimes the highest-ranked path, sometimes any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, total
from draftproof.reference.rows import normalised
from draftproof.reference.verifiers.block import keep
from draftproof.reference.verifiers.multipath_block import by_ratio

Mix = Callable[[Sequence[Rational], Row, Row], Rational]


def most_kept_next(owed: Sequence[Rational], highest: Row, uniform: Row) -> Rational:
    """Return the share of the highest-ranked path that keeps most of the next token.

    What is kept is the sum of min(owed, share * highest + (1 - share) * uniform): concave and
    piecewise linear in the share, so the largest value stands at an end or at a break. Of equally
    good shares the smallest is taken, which leaves later positions most choice.
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


def mixed_multipath_block(
    drafts: Drafted, instance: Instance, chance: Chance, *, mix: Mix = most_kept_next
) -> Emission:
    """Go down to the highest-ranked sibling with probability `mix`, else to any; verify as a block.

    `mix` may depend on what is known at a node whatever was drawn: here the mass that is owed
    to every next token, and the selected path's law after either choice.
    Law: block verification's against the law of the selected path, which follows from the joint law
    of the path and of how many paths share it. Always the highest is `multipath_block`, always
    any is block verification. Ours.
    """
    path: Path = ()
    rows: list[Row] = []
    accepted = ONE
    alive = [ZERO] * instance.drafts + [ONE]  # alive[n] = P(the path is selected, n share it)
    while len(path) < instance.length:
        p, q = instance.target(path), instance.draft(path)
        ranked = by_ratio(p, q)
        lower, edge = [ZERO] * len(q), ZERO
        for token in ranked:
            lower[token], edge = edge, edge + q[token]
        highest = tuple(
            total(c * ((f + x) ** n - f**n) for n, c in enumerate(alive))
            for f, x in zip(lower, q, strict=True)
        )
        uniform = tuple(total(alive) * x for x in q)
        share = mix([accepted * x for x in p], highest, uniform)
        law = [share * h + (1 - share) * u for h, u in zip(highest, uniform, strict=True)]
        siblings = drafts.siblings(path)
        best = max(siblings, key=ranked.index)
        any_of_them = (1 - share) / len(siblings)
        weights = [any_of_them * siblings.count(token) for token in range(len(q))]
        weights[best] += share
        chosen = chance.draw(weights)
        rows.append(normalised(law))
        accepted = min(accepted * p[chosen], law[chosen])
        alive = _sharing(alive, share, q[chosen], lower[chosen])
        path = (*path, chosen)
    kept, correction = keep(path, rows, instance, chance)
    return emission(drafts, kept, chance.draw(correction))


def _sharing(
    alive: list[Rational], share: Rational, q: Rational, lower: Rational
) -> list[Rational]:
    """Return the law of how many paths share the chosen token, jointly with its choice."""
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
