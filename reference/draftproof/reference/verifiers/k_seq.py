"""K-SEQ: try the siblings in turn, each against the target divided by one factor."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.k_seq_factor import is_valid_factor, least_factor
from draftproof.reference.rational import ONE, Rational, ratio_or_one
from draftproof.reference.rows import overlap
from draftproof.reference.verifiers.descent import descend


def k_seq(
    drafts: Drafted, instance: Instance, chance: Chance, *, rho: Rational | None = None
) -> Emission:
    """Accept a sibling with probability min(1, p / (rho q)); correct by the rest of p.

    Law at one position: P(a sibling is accepted) = 1 - (1 - b)^K with b = sum of min(p/rho, q),
    shared in proportion to min(p/rho, q); a correction does not count as accepted, even if it
    equals a sibling. The rest of p is a law if rho is at least rho*, and only then where some token
    has 0 < p <= rho q: a smaller rho is refused (`Unsupported`). The default is rho* itself where
    it is rational, otherwise the next multiple of 2^-64 above rho*.
    Source: arXiv 2310.15141 (SpecTr), Algorithm 2; arXiv 2602.16994, appendix B.3.
    """

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        factor = least_factor(p, q, len(siblings)) if rho is None else rho
        if not is_valid_factor(factor, p, q, len(siblings)):
            least = float(least_factor(p, q, len(siblings)))
            raise Unsupported(f"K-SEQ needs a rho of at least rho* = {least:.6g} here, got {rho}")
        for token in siblings:
            if chance.coin(min(ONE, p[token] / (factor * q[token]))):
                return token, True
        each = overlap(q, p, 1 / factor)
        scale = ratio_or_one(1 - (1 - each) ** len(siblings), each)
        owed = [a - scale * min(a / factor, b) for a, b in zip(p, q, strict=True)]
        return chance.draw(owed), False

    return descend(rule, drafts, instance, chance)
