"""Greedy block verification: keep all mass that draft and target share; later blocks repay it."""

from __future__ import annotations

from collections.abc import Callable

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, single_path
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import ONE, Rational, positive_part, ratio_or_one, total
from draftproof.reference.rows import excess, normalised


def greedy_block(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Test every prefix against the unclipped ratio, keep the longest; pass on the owed mass.

    Law: P(accepted starts with x) = min(p(x), q(x)), jointly over prefixes x. The algorithm is
    stateful: inside the old block the target becomes (p - q)+ of the later text.
    Source: arXiv 2403.10444, appendix; the modification is derived there and here by tests.
    """
    target, draft, length = instance.target, instance.draft, instance.length
    path = single_path(drafts)
    accepted = path[: kept(path, target, draft, chance)]
    if accepted == path:
        return emission(drafts, path, chance.draw(target(path)))
    rows = modified_rows(uncovered(target, draft), accepted, length, instance.vocabulary)
    return emission(drafts, accepted, chance.draw(rows[accepted]), rows)


def kept(path: Path, target: Model, draft: Callable[[Path], Row], chance: Chance) -> int:
    """Return the number of tokens kept of a path whose next token is drawn from `draft`."""
    ratio = [ONE]
    for i, drafted in enumerate(path):
        ratio.append(ratio[i] * target(path[:i])[drafted] / draft(path[:i])[drafted])

    def pass_probability(i: int) -> Rational:
        if i == len(path):
            return min(ONE, ratio[i])
        more = total(excess(target(path[:i]), draft(path[:i]), ratio[i]))
        less = more + 1 - ratio[i]
        return ratio_or_one(more, max(more, less))

    return next((i for i in range(len(path), 0, -1) if chance.coin(pass_probability(i))), 0)


def uncovered(target: Model, draft: Model) -> Callable[[Path], Rational]:
    """Return (p - q)+ as a function of a text: the mass that no draft can cover."""
    return lambda text: positive_part(target.joint(text) - draft.joint(text))


def modified_rows(
    owed: Callable[[Path], Rational], start: Path, length: int, vocabulary: int
) -> dict[Path, Row]:
    """Return the rows, from `start` to the block's end, under which a text has its owed mass.

    The row at z is proportional to owed(zx). Contexts that no text reaches have no row.
    """
    rows: dict[Path, Row] = {}
    level = [start]
    while level and len(level[0]) < length:
        masses = {z: [owed((*z, token)) for token in range(vocabulary)] for z in level}
        rows |= {z: normalised(mass) for z, mass in masses.items() if any(mass)}
        level = [(*z, token) for z in masses for token, w in enumerate(rows.get(z, ())) if w != 0]
    return rows
