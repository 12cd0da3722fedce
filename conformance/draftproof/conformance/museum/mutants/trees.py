"""Mutants of the verification and drafting of trees: their faults show only below the root."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from draftproof.conformance.museum.mutants.drafting import DraftingSeveral
from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.texts import Recursive
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Path


class Tree(Recursive):
    """Recursive rejection of the siblings of a tree, with a replaceable view of the tree."""

    name = "tree"
    max_drafts = 4
    trees = True

    def text(self, drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        """Descend in the tree as this view shows it."""
        seen: Any = SimpleNamespace(
            siblings=partial(self.siblings, drafts),
            first=partial(self.first, drafts),
            paths=drafts.paths,
        )
        return super().text(seen, instance, chance)

    def siblings(self, drafts: Drafted, node: Path) -> Siblings:
        """Return the tokens in this view of the siblings drafted after `node`."""
        return drafts.siblings(node)

    def first(self, drafts: Drafted, node: Path) -> int:
        """Return the index in this view of the first path through `node`."""
        return drafts.first(node)


RIGHT = Tree()


def merged_below_root(drafts: Drafted, node: Path) -> Siblings:
    drawn = drafts.siblings(node)
    return tuple(dict.fromkeys(drawn)) if node else drawn


def after_the_first_sibling(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    paths = drafts.paths()
    first = {
        path[:depth]: instance.target(paths[drafts.first(path[: depth - 1])][:depth])
        for path in paths
        for depth in range(2, instance.length + 1)
    }
    target = instance.target.overridden(first)
    return RIGHT.text(drafts, replace(instance, target=target), chance)


def first_node(drafts: Drafted, depth: int) -> Path:
    return drafts.paths()[0][:depth]


def first_in_subtree(drafts: Drafted, node: Path) -> int:
    return drafts.first((*first_node(drafts, len(node) - 1), *node[-1:]) if node else node)


tree = partial(mutant, of=Tree)

MUTANTS = (
    tree(
        "tree-as-independent-paths",
        what="Takes the K paths of a tree for K paths that were drawn one by one.",
        why="paths that share a node share its one draw, and it is tried once for each of them",
        check="whether the branching of the tree reaches the verifier",
        verify=lambda request: RIGHT.verify(replace(request, branching=None)),
    ),
    tree(
        "skips-duplicates-below-the-root",
        what="Merges equal siblings below the root into one node, and tries it once.",
        why="below the root, too, every sibling is a draw of its own",
        check="whether equal siblings below the root are merged: each draw is tried",
        siblings=merged_below_root,
    ),
    tree(
        "rows-of-the-first-sibling",
        what="Reads the target's row after a sibling below the root from the first path of "
        "its parent.",
        why="what follows the second child of a node does not follow the first",
        check="which target row is read below the root: that of the accepted sibling",
        text=after_the_first_sibling,
    ),
    tree(
        "goes-on-in-the-first-subtree",
        what="Tries the tokens drawn after the first sibling, "
        "whichever of the siblings was accepted.",
        why="what was drawn after one sibling was not drawn after another",
        check="which children are tried next: those of the accepted sibling",
        siblings=lambda drafts, node: drafts.siblings(first_node(drafts, len(node))),
        first=first_in_subtree,
    ),
    mutant(
        "drafts-paths-for-a-tree",
        what="Draws K independent paths where a tree is asked for.",
        why="paths of a tree share their first tokens, and independent ones do by chance",
        check="whether paths of the tree share the tokens of their common nodes",
        breaks="draft.joint",
        of=DraftingSeveral,
        trees=True,
    ),
)
