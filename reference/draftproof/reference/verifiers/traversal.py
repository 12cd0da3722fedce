"""Traversal verification: block verification on a tree, from the leaves to the root."""

from __future__ import annotations

from collections.abc import Iterator

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path
from draftproof.reference.rational import ONE, Rational, ratio_or_one, total
from draftproof.reference.rows import excess, normalised, without


def traversal(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Try the leaves in order; a rejected leaf gives its parent a residual target and weight.

    A node's weight is the probability with which all text that starts there may be kept. Siblings
    that repeat a token are one child. Law: block verification for one path; at one position,
    recursive rejection without replacement. Source: arXiv 2505.12398.
    """

    def kept(node: Path, weight: Rational) -> Iterator[Emission]:
        p, children = instance.target(node), tuple(dict.fromkeys(drafts.siblings(node)))
        for i, token in enumerate(children):
            q = normalised(without(instance.draft(node), children[:i]))
            yield from kept((*node, token), min(ONE, weight * p[token] / q[token]))
            owed = excess(p, q, weight)
            if not any(owed):
                return
            p, mass = normalised(owed), total(owed)
            weight = ratio_or_one(mass, mass + 1 - weight)
        if chance.coin(weight):
            yield emission(drafts, node, chance.draw(p))

    return next(kept((), ONE))
