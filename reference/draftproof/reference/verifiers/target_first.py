"""Target first (naive sampling of a tree): sample the target, keep the token if drafted."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.verifiers.descent import descend


def target_first(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Draw from p, and go on while the drawn token was drafted; the draft's law does not matter.

    Law: E[accepted length] = sum over x of p(x) P(x was drafted), which is
    p(x) (1 - (1 - q(x))^K) for K i.i.d. paths. Source: arXiv 2305.09781, naive sampling.
    """

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        del q
        token = chance.draw(p)
        return token, token in siblings

    return descend(rule, drafts, instance, chance)
