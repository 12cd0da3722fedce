"""Block verification: keep the longest prefix that the target can afford, then correct."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafts
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance
from draftproof.reference.rational import ONE, Rational, positive_part, ratio_or_one, total


def block(drafts: Drafts, instance: Instance, chance: Chance) -> Emission:
    """Test every prefix on a coin of its own, keep the longest that passes.

    Law: P(accepted length >= i | path[:i]) = weight[i]. Given the whole path it is another
    number: whether a prefix is kept depends on the tokens after it.
    Source: arXiv 2403.10444, Algorithm 2.
    """
    (path,) = drafts
    target, draft, length = instance.target, instance.draft, len(path)
    weight = [ONE]
    for i, drafted in enumerate(path):
        ratio = target(path[:i])[drafted] / draft(path[:i])[drafted]
        weight.append(min(ONE, weight[i] * ratio))

    def excess(i: int) -> list[Rational]:
        rows = zip(target(path[:i]), draft(path[:i]), strict=True)
        return [positive_part(weight[i] * p - q) for p, q in rows]

    def pass_probability(i: int) -> Rational:
        if i == length:
            return weight[i]
        mass = total(excess(i))
        return ratio_or_one(mass, mass + 1 - weight[i])

    accepted = next((i for i in range(length, 0, -1) if chance.coin(pass_probability(i))), 0)
    law = target(path) if accepted == length else excess(accepted)
    return Emission(0, path[:accepted], chance.draw(law))
