"""SpecHub: the hub token is drafted with every other token, and gets the mass they cannot use."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings, most_probable
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.rational import ONE, positive_part, total
from draftproof.reference.rows import excess, without
from draftproof.reference.verifiers.descent import descend
from draftproof.reference.verifiers.token import accept_or_correct


def spechub(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Try the pair's other token first, then the hub, each against the mass still owed.

    Law at one position, a being the hub: P(accept a) = p(a), P(accept i) =
    min(p(i), q(i) / (1 - q(a))) elsewhere, the optimum of this draft law. Where q(a) = 1 the hub is
    drafted alone, and 0 / 0 is 0 here. Source: arXiv 2411.05289.
    """
    return descend(rule, drafts, instance, chance)


def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
    """Serve a pair in four passes; verify a single token as a single draft."""
    if len(siblings) == 1:
        return accept_or_correct(siblings, p, q, chance)
    (hub,) = most_probable(q, 1)
    others, offered_second = without(p, (hub,)), without(q, (hub,))  # pairs (i, a)
    offered_first = tuple(q[hub] * x / (1 - q[hub]) for x in offered_second)  # pairs (a, i)
    owed_first = excess(others, offered_second)
    owed = excess(owed_first, offered_first)
    # What the pairs with the hub first, and second, bring it when their other token is refused.
    hub_first = total(excess(offered_first, owed_first))
    hub_second = total(excess(offered_second, others))
    owed_hub = positive_part(p[hub] - hub_first)

    first, second = siblings
    if first != hub:
        attempts = ((first, others[first], offered_second[first]), (hub, owed_hub, hub_second))
    else:
        attempts = ((second, owed_first[second], offered_first[second]), (hub, p[hub], hub_first))
    for token, owed_token, offered in attempts:
        if chance.coin(min(ONE, owed_token / offered)):
            return token, True
    last = positive_part(owed_hub - hub_second)
    return chance.draw([last if token == hub else x for token, x in enumerate(owed)]), False
