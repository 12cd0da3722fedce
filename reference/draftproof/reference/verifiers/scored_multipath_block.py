"""Scored multi-path block verification: K paths compete to the end, the winner is verified."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance
from draftproof.reference.rows import normalised
from draftproof.reference.scores import contender, smallest
from draftproof.reference.verifiers.block import keep


def scored_multipath_block(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Give every path a score that its own rows decide; verify the path with the smallest.

    Law: block verification's against the law of the selected path, which `scores` gives along that
    path. At one position it reaches the optimum; one path is block verification. The algorithm is
    not optimal: it cannot know the rows off the drafted paths. Draftproof's own.
    """
    paths = drafts.paths()
    contenders = [contender(path, instance, min) for path in paths]
    winner = chance.draw(smallest(tuple(each.scores for each in contenders)))
    rows = tuple(map(normalised, contenders[winner].rows))
    accepted, law = keep(paths[winner], rows, instance, chance)
    return emission(drafts, accepted, chance.draw(law))
