"""Block verification: keep the longest prefix that the target can afford, then correct."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, single_path
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, Rational, ratio_or_one, total
from draftproof.reference.rows import excess


def block(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Test every prefix with its own coin, keep the longest that passes.

    Law: P(accepted length >= i | path[:i]) = weight[i]. Given the whole path the probability is
    different: keeping a prefix depends on the tokens after it.
    Source: arXiv 2403.10444, Algorithm 2.
    """
    path = single_path(drafts)
    rows = [instance.draft(path[:i]) for i in range(len(path))]
    accepted, law = keep(path, rows, instance, chance)
    return emission(drafts, accepted, chance.draw(law))


def keep(
    path: Path, rows: Sequence[Row], instance: Instance, chance: Chance
) -> tuple[Path, Sequence[Rational]]:
    """Return the tokens of a path that block verification keeps, and the law of the next token.

    `rows[i]` is the law that path[i] was drawn from, given path[:i].
    """
    target, length = instance.target, len(path)
    weight = [ONE]
    for i, drafted in enumerate(path):
        weight.append(min(ONE, weight[i] * target(path[:i])[drafted] / rows[i][drafted]))

    def pass_probability(i: int) -> Rational:
        if i == length:
            return weight[i]
        mass = total(excess(target(path[:i]), rows[i], weight[i]))
        return ratio_or_one(mass, mass + 1 - weight[i])

    accepted = next((i for i in range(length, 0, -1) if chance.coin(pass_probability(i))), 0)
    if accepted == length:
        return path, target(path)
    return path[:accepted], excess(target(path[:accepted]), rows[accepted], weight[accepted])
