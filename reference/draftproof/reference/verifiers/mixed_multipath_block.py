"""Mixed multi-path block verification: sometimes the highest-ranked path, sometimes any."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.mixture import (
    Mix,
    alive_after,
    law_of_highest,
    most_kept_next,
    ranked_below,
)
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, ZERO, total
from draftproof.reference.rows import normalised
from draftproof.reference.verifiers.block import keep
from draftproof.reference.verifiers.multipath_block import by_ratio


def mixed_multipath_block(
    drafts: Drafted, instance: Instance, chance: Chance, *, mix: Mix = most_kept_next
) -> Emission:
    """Go down to the highest-ranked sibling with probability `mix`, else to any; verify as a block.

    `mix` may depend on data that is known at a node for all drafts: here the mass owed to every
    next token, and the selected path's law after either choice.
    Law: block verification's against the law of the selected path, which `mixture` gives along that
    path. A `mix` of one gives `multipath_block`, a `mix` of zero gives block verification.
    Draftproof's own.
    """
    path: Path = ()
    rows: list[Row] = []
    accepted = ONE
    alive = [ZERO] * instance.drafts + [ONE]
    while len(path) < instance.length:
        p, q, siblings = instance.target(path), instance.draft(path), drafts.siblings(path)
        ranked = by_ratio(p, q)
        lower = ranked_below(ranked, q)
        highest, uniform = law_of_highest(alive, lower, q), tuple(total(alive) * x for x in q)
        share = mix([accepted * x for x in p], highest, uniform)
        law = [share * h + (1 - share) * u for h, u in zip(highest, uniform, strict=True)]
        any_of_them = (1 - share) / len(siblings)
        weights = [any_of_them * siblings.count(token) for token in range(len(q))]
        weights[max(siblings, key=ranked.index)] += share
        chosen = chance.draw(weights)
        rows.append(normalised(law))
        accepted = min(accepted * p[chosen], law[chosen])
        alive = alive_after(alive, share, q[chosen], lower[chosen])
        path = (*path, chosen)
    kept, correction = keep(path, rows, instance, chance)
    return emission(drafts, kept, chance.draw(correction))
