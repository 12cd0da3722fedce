"""The canonical decomposition: select one sibling by importance, then verify it as if alone."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings, sibling_law
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.acceptance_rate import best_rate
from draftproof.reference.rational import ZERO, Rational, total
from draftproof.reference.verifiers.descent import descend
from draftproof.reference.verifiers.token import accept_or_correct


def canonical(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Select a sibling with weights b(y|x), then run token verification against its law.

    Law at one position: P(accept y) = min(p(y), P_I(y)), where P_I is the law of the selected
    sibling; the weights are those of an optimal coupling, so the sum over y is the largest
    possible.
    Source: arXiv 2410.18234, the decomposition and its optimality.
    """

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        drafted = sibling_law(instance.scheme, q, len(siblings))
        coupling = best_rate(p, drafted).coupling

        def weights(x: Siblings) -> list[Rational]:
            shares = [coupling.get((token, x), ZERO) for token in range(len(p))]
            # What the coupling leaves unused may go to any sibling.
            shares[x[0]] += drafted[x] - total(shares)
            return shares

        selected = chance.draw(weights(siblings))
        selection = tuple(map(total, zip(*map(weights, drafted), strict=True)))
        return accept_or_correct((selected,), p, selection, chance)

    return descend(rule, drafts, instance, chance)
