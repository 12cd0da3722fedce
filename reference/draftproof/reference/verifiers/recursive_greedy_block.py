"""Recursive greedy block verification: one path after another, each against the mass still owed."""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.verifiers.greedy_block import kept, modified_rows, uncovered


def recursive_greedy_block(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Verify each path through the accepted node greedily, with the target left by the path before.

    Law: greedy block verification, composed: a path that does not pass through the accepted node
    carries no information about the tokens below the node, and a path that does has the draft's law
    there. The algorithm is stateful; for one path it is greedy block verification. Draftproof's
    own, a lossless relative of arXiv 2604.25925.
    """
    node: Path = ()
    target, draft = instance.target, instance.draft
    rows: dict[Path, Row] = {}
    for path in drafts.paths():
        if path[: len(node)] != node:
            continue
        step = path[len(node) :][: kept(path[len(node) :], target, draft, chance)]
        if len(node) + len(step) == instance.length:
            return emission(drafts, path, chance.draw(target(step)))
        owed, left = uncovered(target, draft), instance.length - len(node)
        remaining = modified_rows(owed, step, left, instance.vocabulary)
        target, draft = target.overridden(remaining).after(step), draft.after(step)
        node = (*node, *step)
        rows = {(*node, *z): row for z, row in target.modified.items()}
    return emission(drafts, node, chance.draw(rows[node]), rows)
