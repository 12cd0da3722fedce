"""Optimal transport: accept by the best coupling of the target with the siblings' joint law."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings, sibling_law
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.acceptance_rate import best_rate
from draftproof.reference.rational import ZERO, total
from draftproof.reference.rows import excess
from draftproof.reference.verifiers.descent import descend


def optimal_transport(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Choose a sibling by an optimal coupling, else correct by the rest of p.

    Law at one position: P(a sibling is accepted) = the largest possible, for any law of siblings.
    The choice among optimal couplings is not part of the algorithm: here it is the maximum flow
    that the solver returns. Source: arXiv 2310.15141, section 3; arXiv 2502.18779.
    """

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        drafted = sibling_law(instance.scheme, q, len(siblings))
        coupling = best_rate(p, drafted).coupling
        shares = {token: coupling.get((token, siblings), ZERO) for token in siblings}
        served = total(shares.values())
        if chance.coin(served / drafted[siblings]):
            tokens = list(shares)
            return tokens[chance.draw(list(shares.values()))], True
        given = [
            total(weight for (i, _), weight in coupling.items() if i == token)
            for token in range(len(p))
        ]
        return chance.draw(excess(p, given)), False

    return descend(rule, drafts, instance, chance)
