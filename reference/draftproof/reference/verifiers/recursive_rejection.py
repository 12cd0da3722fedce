"""Recursive rejection sampling: try the siblings in turn, each against the mass still owed."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.rational import ONE
from draftproof.reference.rows import excess, normalised, without
from draftproof.reference.verifiers.descent import descend


def recursive_rejection(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Accept a sibling with probability min(1, p/q), else go on with the residual as target.

    Law at one position, with replacement: P(accept i) = min(p(i), g_K q(i)), where g_0 = 0 and
    g_{j+1} = g_j + 1 - sum of min(p, g_j q). Without replacement every sibling is tested against q
    without the siblings before it.
    Source: arXiv 2305.09781 (SpecInfer) with replacement; arXiv 2402.14160, arXiv 2402.12374
    (Sequoia) and arXiv 2401.15077 (EAGLE-1) without.
    """
    replaced = instance.scheme == "iid"

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        for i, token in enumerate(siblings):
            drawn_from = q if replaced else normalised(without(q, siblings[:i]))
            if chance.coin(min(ONE, p[token] / drawn_from[token])):
                return token, True
            p = normalised(excess(p, drawn_from))
        return chance.draw(p), False

    return descend(rule, drafts, instance, chance)
