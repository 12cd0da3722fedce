"""The greedy draft's verifier: one ordinary test of the drawn sibling."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.rows import normalised, without
from draftproof.reference.verifiers.descent import descend
from draftproof.reference.verifiers.token import accept_or_correct


def greedy_draft(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Verify the last sibling against all of p; a correction on the fixed ones is accepted too.

    Law at one position, A being the K - 1 most probable tokens: P(accept i) = p(i) on A and
    min(p(i), q(i) / (1 - q(A))) elsewhere, the optimum of this draft law, since q without A leaves
    the correction all of p on A. Where A is all of q's support, drafting stops at A, and 0 / 0 is 0
    here. Source: arXiv 2502.18779.
    """

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        *top, last = siblings
        token, _ = accept_or_correct((last,), p, normalised(without(q, top)), chance)
        return token, token in siblings

    return descend(rule, drafts, instance, chance)
