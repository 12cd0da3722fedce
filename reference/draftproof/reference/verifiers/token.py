"""Token verification: accept token by token, correct at the first rejection."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafts
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance
from draftproof.reference.rational import ONE, positive_part


def token(drafts: Drafts, instance: Instance, chance: Chance) -> Emission:
    """Accept each token with probability min(1, p/q); at the first rejection draw from (p - q)+.

    Law: P(accepted length >= i | path) = product of min(1, p/q) over the first i tokens.
    Source: arXiv 2211.17192, Algorithm 1; arXiv 2302.01318, Algorithm 2.
    """
    (path,) = drafts
    for i, drafted in enumerate(path):
        p, q = instance.target(path[:i]), instance.draft(path[:i])
        if not chance.coin(min(ONE, p[drafted] / q[drafted])):
            residual = [positive_part(a - b) for a, b in zip(p, q, strict=True)]
            return Emission(0, path[:i], chance.draw(residual))
    return Emission(0, path, chance.draw(instance.target(path)))
