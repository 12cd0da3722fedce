"""Token verification: accept token by token, correct at the first rejection."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.rational import ONE
from draftproof.reference.rows import excess
from draftproof.reference.verifiers.descent import descend


def token(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Accept each token with probability min(1, p/q); at the first rejection draw from (p - q)+.

    Law: P(accepted length >= i | path) = product of min(1, p/q) over the first i tokens.
    Source: arXiv 2211.17192, Algorithm 1; arXiv 2302.01318, Algorithm 2.
    """
    return descend(accept_or_correct, drafts, instance, chance)


def accept_or_correct(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
    """Accept the one token drawn from q, or draw from the mass that q does not cover."""
    (drafted,) = siblings
    if chance.coin(min(ONE, p[drafted] / q[drafted])):
        return drafted, True
    return chance.draw(excess(p, q)), False
