"""Cases of drafts that branch below the root, with the same rows for every scheme.

Every row has at least as many tokens of positive probability as are drawn from it, so K paths are
always drawn; only i.i.d. siblings, which can be equal, are also drawn from fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from draftproof.conformance.cases.case import Case
from draftproof.conformance.cases.rows import (
    by_depth,
    equal,
    full_at_root,
    instance,
    random_support,
    without,
)
from draftproof.reference.drafting import SCHEMES, Siblings, sibling_law
from draftproof.reference.model import Instance, Path

_MOST_DRAFTS = 2_000
"""Maximum number of ways to draw the paths of a case; the exact lane enumerates all, in minutes."""


def trees() -> Iterator[Case]:
    """Yield the cases of trees, for every scheme."""
    for scheme in SCHEMES:
        for name, reason, mode, rows, branching in (*_generic(), *_special(), *_at_random()):
            shape = "x".join(map(str, branching))
            tree = replace(rows, scheme=scheme, branching=branching, drafts=prod(branching))
            if _is_full(tree) and ways_to_draft(tree) <= _MOST_DRAFTS:
                yield Case(f"tree.{scheme}.{name}.b{shape}", reason, mode, tree)


def ways_to_draft(tree: Instance, node: Path = ()) -> int:
    """Return the number of ways to draw the paths below a copy of a node."""
    if len(node) == tree.length:
        return 1
    return sum(
        prod(ways_to_draft(tree, (*node, token)) for token in siblings)
        for siblings in _drawn(tree, node)
    )


def _drawn(tree: Instance, node: Path) -> tuple[Siblings, ...]:
    return tuple(sibling_law(tree.scheme, tree.draft(node), tree.widths[len(node)]))


def _is_full(tree: Instance) -> bool:
    """Return True if the scheme draws such siblings and never runs out of tokens."""
    if tree.scheme == "hub" and max(tree.widths) > 2:
        return False
    return all(
        len(siblings) == tree.widths[len(node)]
        for node in tree.draft.reachable(tree.length - 1)
        for siblings in _drawn(tree, node)
    )


_Rows = Iterator[tuple[str, str, str, Instance, tuple[int, ...]]]


def _generic() -> _Rows:
    for vocabulary, branching, mode in (
        (2, (2, 2), "quick"),
        (3, (1, 2), "quick"),
        (3, (2, 1), "standard"),
        (3, (2, 2), "certify"),
        (2, (3, 2), "certify"),
        (3, (3, 2), "certify"),
        (2, (2, 2, 2), "certify"),
    ):
        rows = instance(f"tree.v{vocabulary}", vocabulary, len(branching))
        yield f"v{vocabulary}", "rows of every context differ", mode, rows, branching


def _special() -> _Rows:
    yield (
        "concentrated",
        "the draft mostly says one token: i.i.d. siblings repeat it, the target wants the others",
        "quick",
        by_depth(3, ["48 144 64", "64 128 64", "128 64 64"], ["160 48 48", "192 32 32"]),
        (1, 2),
    )
    yield (
        "repeated",
        "i.i.d. siblings repeat a node: what is drawn below its copies is drawn below one context",
        "quick",
        by_depth(2, ["128 128", "96 160", "192 64"], ["240 16", "128 128"]),
        (2, 2),
    )
    yield (
        "zeros",
        "zeros in both, at the same and at different tokens",
        "standard",
        instance(
            "tree.zeros", 3, 2, target=lambda c: without(c, 3), draft=lambda c: without(c, 3, 1)
        ),
        (2, 2),
    )
    yield (
        "ties",
        "equal probabilities and equal ratios, of siblings and of paths",
        "standard",
        by_depth(2, ["192 64", "128 128", "64 192"], ["128 128", "128 128"]),
        (2, 2),
    )
    yield (
        "equal.first",
        "p = q at the root only",
        "standard",
        equal("tree.equal.first", 2, 2, lambda c: not c),
        (2, 2),
    )
    yield (
        "equal.some",
        "p = q after one of the first tokens only",
        "standard",
        equal("tree.equal.some", 2, 2, lambda c: c == (0,)),
        (2, 2),
    )
    yield (
        "disjoint.later",
        "disjoint supports below the root: whichever sibling is kept, all after it are rejected",
        "standard",
        instance(
            "tree.disjoint.later",
            3,
            2,
            target=lambda c: (0,) if c else (0, 1, 2),
            draft=lambda c: (1, 2) if c else (0, 1, 2),
        ),
        (2, 2),
    )
    yield (
        "disjoint.once",
        "disjoint supports after one of the first tokens only",
        "standard",
        instance(
            "tree.disjoint.once",
            3,
            2,
            target=lambda c: (2,) if c == (0,) else (0, 1, 2),
            draft=lambda _: (0, 1),
        ),
        (2, 2),
    )
    yield (
        "point.target",
        "the target is certain: one of the siblings may be it",
        "standard",
        instance("tree.point.target", 2, 2, target=lambda c: ((1 + sum(c)) % 2,)),
        (2, 2),
    )
    yield (
        "point.draft",
        "the draft is certain below the root: i.i.d. siblings are all alike there",
        "standard",
        instance("tree.point.draft", 3, 2, draft=lambda c: (1,) if c else (0, 1, 2)),
        (2, 2),
    )
    yield (
        "banked",
        "a gain at one position pays for a loss at the next",
        "standard",
        by_depth(2, ["192 64", "64 192", "128 128"], ["64 192", "192 64"]),
        (2, 2),
    )
    yield (
        "deep",
        "three tokens: the draft is certain after most contexts, and repeats them",
        "certify",
        instance("tree.deep", 2, 3, draft=lambda c: (0, 1) if not any(c) else (len(c) % 2,)),
        (2, 2, 2),
    )


def _at_random() -> _Rows:
    for index in range(8):
        vocabulary, branching = ((2, (2, 2)), (3, (1, 3)), (3, (2, 2)), (3, (3, 1)))[index % 4]
        name = f"random.{index:02d}"
        rows = instance(
            f"tree.{name}",
            vocabulary,
            2,
            target=random_support(f"tree.{name}/p", vocabulary),
            draft=full_at_root(random_support(f"tree.{name}/q", vocabulary), vocabulary),
        )
        yield name, "rows and zeros at random", "certify", rows, branching
