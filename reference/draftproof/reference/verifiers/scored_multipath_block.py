"""Scored multi-path block verification: K paths compete to the end, the winner is verified."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, total
from draftproof.reference.rows import normalised
from draftproof.reference.scores import UNIFORM, Scores, split
from draftproof.reference.verifiers.block import keep


def scored_multipath_block(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Give every path a score that its own rows decide; verify the path with the smallest.

    Law: block verification's against the law of the selected path, which `scores` gives along that
    path. At one position it reaches the optimum; one path is block verification. The algorithm is
    not optimal: it cannot know the rows off the drafted paths. Draftproof's own.
    """
    paths = drafts.paths()
    chances = _smallest(tuple(_walk(path, instance)[1] for path in paths))
    selected = paths[chance.draw(chances)]
    accepted, law = keep(selected, _walk(selected, instance)[0], instance, chance)
    return emission(drafts, accepted, chance.draw(law))


@lru_cache(maxsize=4096)
def _walk(path: Path, instance: Instance) -> tuple[tuple[Row, ...], Scores]:
    """Return the rows of the selected path's law along `path`, and the path's scores."""
    scores, accepted, rows = UNIFORM, ONE, []
    for i, token in enumerate(path):
        p, q = instance.target(path[:i]), instance.draft(path[:i])
        here = split(scores, p, q, accepted=accepted, drafts=instance.drafts)
        rows.append(normalised(here.law))
        accepted = min(accepted * p[token], here.law[token])
        scores = here.after(token)
    return tuple(rows), scores


@lru_cache(maxsize=4096)
def _smallest(paths: tuple[Scores, ...]) -> tuple[Rational, ...]:
    """Return the probability with which each of the paths has the smallest score.

    Between two neighbouring edges of cells every score is spread evenly: with the others' chances
    of being there (g) and beyond (t), a score there is the smallest with probability the integral
    over 0..1 of the product of t + g s.
    """
    edges = sorted({edge for cells in paths for cell in cells for edge in (cell.low, cell.high)})
    masses = [total(cell.mass for cell in cells) for cells in paths]
    beyond, chances = [ONE] * len(paths), [ZERO] * len(paths)
    for low, high in pairwise(edges):
        here = [
            total(c.mass / (c.high - c.low) for c in cells if c.low <= low and high <= c.high)
            * (high - low)
            / mass
            for cells, mass in zip(paths, masses, strict=True)
        ]
        beyond = [t - g for t, g in zip(beyond, here, strict=True)]
        for i, own in enumerate(here):
            polynomial = [ONE]
            for j, (t, g) in enumerate(zip(beyond, here, strict=True)):
                if j != i:
                    shifted = zip([*polynomial, ZERO], [ZERO, *polynomial], strict=True)
                    polynomial = [t * a + g * b for a, b in shifted]
            chances[i] += own * total(c / (k + 1) for k, c in enumerate(polynomial))
    return tuple(chances)
