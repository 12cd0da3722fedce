"""Instances of others that are enumerated: those that take minutes at most."""

from __future__ import annotations

from itertools import accumulate

from draftproof.reference.errors import TooLarge
from draftproof.reference.model import Instance, Model

# Minutes of enumeration, not hours: about this many tokens and row entries are visited.
_MOST_WORK = 4_000_000

# And no deeper than a program may recurse.
_MOST_SIBLINGS = 500

# The digits of a denominator with which arithmetic costs twice what it costs with a few.
_COSTLY_DIGITS = 100


def require_enumerable(instance: Instance) -> None:
    """Raise `TooLarge` for what would be enumerated for hours; the message says what."""
    _require_small(instance.draft, instance.length)
    _require_small(instance.target, instance.length + 1)
    _require_few_drafts(instance)


def _require_small(model: Model, depth: int) -> None:
    """Refuse too many prefixes, too long ones, and too long numbers along them."""
    longest = max(weight.denominator for row in model.rows.values() for weight in row)
    # A product of rows is as long as all of them.
    cost = 1 + len(str(longest)) * min(depth, 8) // _COSTLY_DIGITS
    most = _MOST_WORK // cost
    work = accumulate(model.vocabulary + len(prefix) for prefix in model.reachable(depth))
    if any(done > most for done in work):
        long = "" if cost == 1 else f", with numbers of {len(str(longest))} digits,"
        raise TooLarge(
            f"there are too many texts of {depth} tokens of the {model.name}{long} to enumerate"
        )


def _require_few_drafts(instance: Instance) -> None:
    """Refuse too many ways to draw one context's tokens."""
    for context in instance.draft.reachable(instance.length - 1):
        support = sum(q != 0 for q in instance.draft(context))
        width = instance.widths[len(context)]
        if width > _MOST_SIBLINGS or support**width > _MOST_WORK:
            raise TooLarge(
                f"there are too many ways to draw {width} tokens of {support} to enumerate"
            )
