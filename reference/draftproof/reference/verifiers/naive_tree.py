"""The naive tree rule: verify the first sibling; a correction may equal a different sibling."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.verifiers.descent import descend
from draftproof.reference.verifiers.token import accept_or_correct


def naive_tree(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Verify the first sibling as a single draft, and go on if the result is any sibling.

    Law at one position, i.i.d. siblings: P(accept i) = min(p, q) + (p - q)+ (1 - (1 - q)^(K-1)).
    The first sibling alone must have the law q. Source: arXiv 2602.16994, appendix C.
    """

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        token, _ = accept_or_correct(siblings[:1], p, q, chance)
        return token, token in siblings

    return descend(rule, drafts, instance, chance)
