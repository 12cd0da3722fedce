"""K-SEQ: try the siblings in turn, each against the target divided by one factor."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.k_seq_factor import least_factor
from draftproof.reference.rational import ONE, Rational, ratio_or_one
from draftproof.reference.rows import overlap
from draftproof.reference.verifiers.descent import descend


def k_seq(
    drafts: Drafted, instance: Instance, chance: Chance, *, factor: Rational | None = None
) -> Emission:
    """Accept a sibling with probability min(1, p / (factor q)); correct by what is left of p.

    Law at one position: P(a sibling is accepted) = 1 - (1 - b)^K with b = sum of min(p/factor, q),
    and in proportion to min(p/factor, q). The residual is a law if and only if the factor is at
    least rho*; a smaller one is refused (`Unsupported`). By default it is rho* itself where that
    is rational, otherwise the next multiple of 2^-64 above it.
    Source: arXiv 2310.15141 (SpecTr), Algorithm 2; arXiv 2602.16994, appendix B.3.
    """

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        rho = least_factor(p, q, len(siblings)) if factor is None else factor
        each = overlap(q, p, 1 / rho)
        accepted = 1 - (1 - each) ** len(siblings)
        if rho < 1 or accepted > rho * each:
            raise Unsupported(
                f"K-SEQ's factor must be at least rho* = {float(least_factor(p, q, len(siblings)))}"
                f" for the rows that it meets, got {rho}"
            )
        for token in siblings:
            if chance.coin(min(ONE, p[token] / (rho * q[token]))):
                return token, True
        scale = ratio_or_one(accepted, each)
        return chance.draw([a - scale * min(a / rho, b) for a, b in zip(p, q, strict=True)]), False

    return descend(rule, drafts, instance, chance)
