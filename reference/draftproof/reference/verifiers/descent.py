"""Verification from the root down, with one rule for one position, applied at every node."""

from __future__ import annotations

from typing import Protocol

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path, Row


class Rule(Protocol):
    """Rule that chooses one token, given `siblings` drafted from q and the target's row p.

    Returns the token, and True to continue at its node, which must have been drafted. A lossless
    descent needs a rule under which the token has the law p.
    """

    def __call__(self, siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        """Return the token, and True to go on."""


def descend(rule: Rule, drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Go down as long as the rule chooses drafted tokens, and add a bonus at a leaf.

    The siblings that the rule sees after a node were drawn from the draft's row there, whatever the
    decisions above; so a rule that is lossless for one position is lossless for the text.
    """
    node: Path = ()
    while len(node) < instance.length:
        siblings = drafts.siblings(node)
        p, q = instance.target(node), instance.draft(node)
        token, goes_on = rule(siblings, p, q, chance)
        if not goes_on:
            return emission(drafts, node, token)
        node = (*node, token)
    return emission(drafts, node, chance.draw(instance.target(node)))
