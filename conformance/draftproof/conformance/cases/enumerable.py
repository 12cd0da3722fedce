"""Limits on users' instances: the suite enumerates those that take minutes at most."""

from __future__ import annotations

from itertools import accumulate

from draftproof.reference.errors import TooLarge
from draftproof.reference.model import Instance, Model

# Minutes of enumeration, not hours: about this many tokens and row entries are visited.
_MOST_WORK = 4_000_000

# Minutes, too: of V = 2, L = 6 and K = 5, which are 630, the two optima take a minute and a half.
MOST_PREFIXES = 640
"""Maximum number of prefixes of drafted paths, times drafts, of an optimum of several drafts."""

MOST_WAYS = 30_000
"""Maximum number of ways to draw the tokens after one context, of an optimum of several drafts."""

# And no deeper than a program may recurse.
_MOST_SIBLINGS = 500

# The digits of a denominator with which arithmetic costs twice what it costs with a few.
_COSTLY_DIGITS = 100


def require_enumerable(instance: Instance) -> None:
    """Raise `TooLarge` for an instance whose enumeration would take hours, naming the reason."""
    _require_small(instance.draft, instance.length)
    _require_small(instance.target, instance.length + 1)
    _require_few_drafts(instance)


def require_solvable(instance: Instance) -> None:
    """Raise `TooLarge` for an optimum that would take hours; the message names the limit.

    The optimum of one draft is known in closed form. That of several is a linear program over the
    prefixes.
    """
    if instance.drafts == 1:
        return
    # One is empty.
    prefixes = sum(1 for _ in instance.draft.reachable(instance.length)) - 1
    models = (instance.draft, instance.length), (instance.target, instance.length)
    digits, cost = max(_numbers(model, depth) for model, depth in models)
    ways = max(
        sum(q != 0 for q in instance.draft(context)) ** instance.widths[len(context)]
        for context in instance.draft.reachable(instance.length - 1)
    )
    for count, most, what in (
        (prefixes * instance.drafts, MOST_PREFIXES, "prefixes of drafted paths times drafts"),
        (ways, MOST_WAYS, "ways to draw the tokens after one context"),
    ):
        if count > most // cost:
            long = "" if cost == 1 else f", with numbers of {digits} digits"
            raise TooLarge(
                f"the optimum of several drafts is computed for at most {most // cost:,} {what}"
                f"{long}, not for {count:,}"
            )


def _numbers(model: Model, depth: int) -> tuple[int, int]:
    """Return the digits of the longest number in a model's rows, and the cost of arithmetic."""
    longest = max(weight.denominator for row in model.rows.values() for weight in row)
    digits = len(str(longest))
    # A product of rows is as long as all of them.
    return digits, 1 + digits * min(depth, 8) // _COSTLY_DIGITS


def _require_small(model: Model, depth: int) -> None:
    """Refuse models with too many or too long prefixes, or with too long numbers along them."""
    digits, cost = _numbers(model, depth)
    most = _MOST_WORK // cost
    work = accumulate(model.vocabulary + len(prefix) for prefix in model.reachable(depth))
    if any(done > most for done in work):
        long = "" if cost == 1 else f", with numbers of {digits} digits,"
        raise TooLarge(
            f"there are too many texts of {depth} tokens of the {model.name}{long} to enumerate"
        )


def _require_few_drafts(instance: Instance) -> None:
    """Refuse an instance with too many ways to draw the tokens after one context."""
    for context in instance.draft.reachable(instance.length - 1):
        support = sum(q != 0 for q in instance.draft(context))
        width = instance.widths[len(context)]
        if width > _MOST_SIBLINGS or support**width > _MOST_WORK:
            raise TooLarge(
                f"there are too many ways to draw {width} tokens of {support} to enumerate"
            )
