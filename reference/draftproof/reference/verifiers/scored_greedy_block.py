"""Scored greedy block verification: K paths compete to the end, the winner is kept greedily."""

from __future__ import annotations

from functools import partial

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path
from draftproof.reference.rational import ZERO, Rational, positive_part
from draftproof.reference.rows import normalised
from draftproof.reference.scores import contender, smallest
from draftproof.reference.verifiers.greedy_block import kept, modified_rows


def scored_greedy_block(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Score every path by its own rows, keep the path with the smallest score greedily.

    Law: greedy block verification's against the law Q' of the selected path, which `scores` gives
    along that path: P(accepted starts with x) = min(p(x), Q'(x)). The algorithm is stateful: inside
    the old block the target becomes (p - Q')+ of the later text. At one position it reaches the
    optimum; one path is greedy block verification. Draftproof's own.
    """
    target, paths = instance.target, drafts.paths()
    contenders = [contender(path, instance, all_of_it) for path in paths]
    winner = chance.draw(smallest(tuple(each.scores for each in contenders)))
    selected = paths[winner]
    rows = [normalised(law) for law in contenders[winner].rows]
    accepted = selected[: kept(selected, target, lambda prefix: rows[len(prefix)], chance)]
    if accepted == selected:
        return emission(drafts, selected, chance.draw(target(selected)))
    modified = modified_rows(
        partial(owed, instance), accepted, instance.length, instance.vocabulary
    )
    return emission(drafts, accepted, chance.draw(modified[accepted]), modified)


def all_of_it(owing: Rational, _selected: Rational) -> Rational:
    """Return all of the owed mass: an early block leaves the rest to later blocks."""
    return owing


def owed(instance: Instance, text: Path) -> Rational:
    """Return (p - Q')+ of a text: the mass that no selected path can cover."""
    return positive_part(instance.target.joint(text) - _selected(instance, text))


def _selected(instance: Instance, text: Path) -> Rational:
    """Return the probability that the selected path starts with a text."""
    if instance.draft.joint(text) == 0:
        return ZERO
    return contender(text, instance, all_of_it).rows[-1][text[-1]]
