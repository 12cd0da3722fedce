"""Draft laws: the ways to draw the K paths that a verifier receives.

A *scheme* defines how the tokens after one context, the *siblings*, are drawn together from the
draft's row there. The drafts form a tree: siblings are drawn after the root, then after every
drafted token, until the paths have L tokens; `Instance.widths` gives their number at each depth.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, groupby
from math import prod
from typing import Protocol

from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.errors import TokenOutOfRange, Unsupported, WrongShape
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, total
from draftproof.reference.rows import mass, without

Drafts = tuple[Path, ...]
Siblings = tuple[int, ...]


def draw_iid(row: Row, width: int, chance: Chance) -> Siblings:
    """Draw `width` tokens, each from the row: the same token can come twice."""
    return tuple(chance.draw(row) for _ in range(width))


def draw_without_replacement(row: Row, width: int, chance: Chance) -> Siblings:
    """Draw `width` tokens one after another, each from the row without the tokens drawn before.

    After the tokens in A, token i is next with probability q(i) / (1 - q(A)). If A is all of q's
    support, that is 0 / 0: drafting stops, and there are fewer tokens. Source: arXiv 2402.14160;
    this is also the law of the tokens with the `width` largest values of log q plus Gumbel noise.
    """
    siblings: Siblings = ()
    while len(siblings) < width and any(remaining := without(row, siblings)):
        siblings = (*siblings, chance.draw(remaining))
    return siblings


def draw_hub(row: Row, width: int, chance: Chance) -> Siblings:
    """Draw SpecHub's pair: a token and the hub, or the hub and another token.

    The hub a is the most probable token, the smallest id among equals. Law: P(i, a) = q(i) and
    P(a, i) = q(a) q(i) / (1 - q(a)); the hub alone if q(a) = 1. A single token is drawn from q.
    Source: arXiv 2411.05289.
    """
    if width > 2:
        raise Unsupported(f"the scheme 'hub' draws pairs, the instance asks for {width} siblings")
    first = chance.draw(row)
    (hub,) = most_probable(row, 1)
    if width == 1:
        return (first,)
    if first != hub:
        return (first, hub)
    others = without(row, (hub,))
    return (hub, chance.draw(others)) if any(others) else (hub,)


def draw_greedy(row: Row, width: int, chance: Chance) -> Siblings:
    """Take the width - 1 most probable tokens, then draw the last one from the others.

    Ties are broken by token id. If the others have no mass there is no last token.
    Source: arXiv 2502.18779.
    """
    top = most_probable(row, width - 1)
    others = without(row, top)
    return (*top, chance.draw(others)) if any(others) else top


def most_probable(row: Row, count: int) -> Siblings:
    """Return the `count` most probable tokens; among equals, the smallest ids.

    The result is shorter if the row's support is smaller: a token without probability is never
    drafted.
    """
    support = [token for token, q in enumerate(row) if q != 0]
    return tuple(sorted(support, key=lambda token: (-row[token], token))[:count])


def _iid_inside(row: Row, width: int, tokens: Collection[int]) -> Rational:
    return prod((mass(row, tokens) for _ in range(width)), start=ONE)


def _without_replacement_inside(row: Row, width: int, tokens: Collection[int]) -> Rational:
    """Return Q(H) by exponential clocks of rate q: tokens are drawn in the order they ring.

    All drafts are in H unless fewer than `width` clocks of H ring before the first clock outside H.
    The probability that exactly the clocks of S do so follows by inclusion and exclusion over the
    parts R of S, since no clock of H - R rings before the first clock outside H with probability
    (1 - q(H)) / (1 - q(R)).
    """
    outside = ONE - mass(row, tokens)
    if outside == 0:
        return ONE
    inside = [token for token in tokens if row[token] != 0]
    too_few = total(
        (-1) ** (size - len(part)) * outside / (1 - mass(row, part))
        for size in range(min(width, len(inside) + 1))
        for rung in combinations(inside, size)
        for part in subsets(rung)
    )
    return ONE - too_few


def _greedy_inside(row: Row, width: int, tokens: Collection[int]) -> Rational:
    top = most_probable(row, width - 1)
    if not set(top) <= set(tokens):
        return ZERO
    others = without(row, top)
    return mass(others, tokens) / total(others) if any(others) else ONE


@dataclass(frozen=True)
class Scheme:
    """Law of siblings, with Q(H) = P(all siblings are in H) in closed form."""

    draw: Callable[[Row, int, Chance], Siblings]
    inside: Callable[[Row, int, Collection[int]], Rational]


SCHEMES: Mapping[str, Scheme] = {
    "iid": Scheme(draw_iid, _iid_inside),
    "without_replacement": Scheme(draw_without_replacement, _without_replacement_inside),
    # As sets, SpecHub's pairs are those of the greedy law: the hub and one of the others.
    "hub": Scheme(draw_hub, _greedy_inside),
    "greedy": Scheme(draw_greedy, _greedy_inside),
}


def scheme_named(name: str) -> Scheme:
    """Return the scheme called `name`. Raises `Unsupported` for an unknown name."""
    if name not in SCHEMES:
        raise Unsupported(f"unknown drafting scheme {name!r}; known: {', '.join(SCHEMES)}")
    return SCHEMES[name]


@lru_cache(maxsize=4096)
def sibling_law(scheme: str, row: Row, width: int) -> Law[Siblings]:
    """Return the exact joint law of the tokens drawn after one context, in drawing order."""
    return enumerate_law(lambda chance: scheme_named(scheme).draw(row, width, chance))


class Drafted(Protocol):
    """Drafted paths as a tree, which a verifier queries node by node.

    Paths that share a prefix share its node. A verifier sees only the part of the drafts that it
    queries.
    """

    def siblings(self, node: Path) -> Siblings:
        """Return the tokens drafted after `node`, in drawing order and with repetitions."""

    def first(self, node: Path) -> int:
        """Return the index of the first path that starts with `node`."""

    def paths(self) -> Drafts:
        """Return all the paths."""


class GrowingTree:
    """A tree that draws siblings on demand, so that a run draws only the nodes that it asks for."""

    def __init__(self, instance: Instance, chance: Chance) -> None:
        self._instance, self._chance = instance, chance
        self._drawn: dict[Path, Siblings] = {}
        # I.i.d. siblings repeat tokens: every copy of a node starts a block of paths of its own.
        self._blocks: dict[Path, list[int]] = {(): [0]}

    def siblings(self, node: Path) -> Siblings:
        """Return the tokens drafted after `node`, drawing them at the first request."""
        if node not in self._drawn:
            self._drawn[node] = self._draw(node) if len(node) < self._instance.length else ()
        return self._drawn[node]

    def first(self, node: Path) -> int:
        """Return the number of paths left of `node`; its prefixes must have been queried before."""
        if self._instance.scheme == "iid":
            return self._blocks[node][0]
        left = 0
        for depth, token in enumerate(node):
            siblings = self.siblings(node[:depth])
            for other in siblings[: siblings.index(token)]:
                left += self._paths_below((*node[:depth], other))
        return left

    def paths(self) -> Drafts:
        """Return all the paths, drawing the siblings that are still undrawn."""
        nodes: list[Path] = [()]
        for _ in range(self._instance.length):
            nodes = [(*z, token) for z in nodes for token in dict.fromkeys(self.siblings(z))]
        leaves = {start: leaf for leaf in nodes for start in self._blocks[leaf]}
        return tuple(leaf for _, leaf in sorted(leaves.items()))

    def _draw(self, node: Path) -> Siblings:
        instance, depth = self._instance, len(node)
        width, size = instance.widths[depth], prod(instance.widths[depth + 1 :])
        blocks = self._blocks.get(node, [0])
        starts = [block + size * i for block in blocks for i in range(width)]
        scheme = scheme_named(instance.scheme)
        tokens = scheme.draw(instance.draft(node), len(starts), self._chance)
        for start, token in zip(starts, tokens, strict=False):
            self._blocks.setdefault((*node, token), []).append(start)
        return tokens

    def _paths_below(self, node: Path) -> int:
        if set(self._instance.widths[len(node) :]) <= {1}:
            return 1
        return sum(self._paths_below((*node, token)) for token in self.siblings(node))


class FixedTree:
    """The tree of paths that are already drawn."""

    def __init__(self, paths: Drafts, instance: Instance) -> None:
        self._paths, self._instance = paths, instance

    def siblings(self, node: Path) -> Siblings:
        """Return the tokens drafted after `node`, read from the paths through `node`."""
        depth, instance = len(node), self._instance
        if depth == instance.length:
            return ()
        # Only i.i.d. siblings repeat a token, and none of theirs is ever missing.
        step = prod(instance.widths[depth + 1 :]) if instance.scheme == "iid" else 1
        tokens = [path[depth] for path in self._paths[::step] if path[:depth] == node]
        return tuple(tokens if instance.scheme == "iid" else dict.fromkeys(tokens))

    def first(self, node: Path) -> int:
        """Return the index of the first path that starts with `node`."""
        return next(i for i, path in enumerate(self._paths) if path[: len(node)] == node)

    def paths(self) -> Drafts:
        """Return the paths as given."""
        return self._paths


def single_path(drafts: Drafted) -> Path:
    """Return the only drafted path."""
    (path,) = drafts.paths()
    return path


def draft_paths(instance: Instance, chance: Chance) -> Drafts:
    """Draw the K paths of length L, in the order of the tree's leaves from left to right.

    There are fewer paths if a scheme runs out of tokens. Law: siblings by `instance.scheme`,
    independent given the contexts that they follow. Raises `Unsupported` for an unknown scheme.
    """
    scheme = scheme_named(instance.scheme)

    def grown(node: Path) -> Drafts:
        if len(node) == instance.length:
            return (node,)
        siblings = scheme.draw(instance.draft(node), instance.widths[len(node)], chance)
        return tuple(path for token in siblings for path in grown((*node, token)))

    return grown(())


def draft_law(instance: Instance) -> Law[Drafts]:
    """Return the exact joint law of the K paths."""
    return enumerate_law(lambda chance: draft_paths(instance, chance))


def require_drawable(drafts: Drafts, instance: Instance) -> None:
    """Raise `WrongShape` unless the instance's scheme can draw these paths, in this order."""
    for path in drafts:
        if len(path) != instance.length:
            raise WrongShape(f"path {path} must have {instance.length} tokens, has {len(path)}")
        if instance.draft.joint(path) == 0:
            raise WrongShape(f"path {path} has probability 0 under the draft: it cannot be drafted")
    # Only i.i.d. tokens never run out.
    is_iid = instance.scheme == "iid" or instance.drafts == 1
    if len(drafts) > instance.drafts or (is_iid and len(drafts) < instance.drafts):
        raise WrongShape(f"the instance has {instance.drafts} drafts, got {len(drafts)} paths")
    if not _is_drawn(drafts, (), instance):
        raise WrongShape(
            f"the scheme {instance.scheme!r} with {list(instance.widths)} tokens after contexts "
            f"of each depth cannot draw the paths {list(drafts)}"
        )


def _is_drawn(paths: Drafts, node: Path, instance: Instance) -> bool:
    """Return True if `paths` can be exactly the paths drawn below one copy of `node`."""
    depth = len(node)
    if depth == instance.length:
        return paths == (node,)
    scheme, row, width = instance.scheme, instance.draft(node), instance.widths[depth]
    if scheme == "iid":
        size = prod(instance.widths[depth + 1 :])
        blocks = [paths[size * i : size * (i + 1)] for i in range(width)]
    else:
        blocks = [tuple(below) for _, below in groupby(paths, key=lambda path: path[depth])]
    if not all(blocks) or any(path[:depth] != node for path in paths):
        return False
    siblings = tuple(block[0][depth] for block in blocks)
    return sibling_law(scheme, row, width)[siblings] != 0 and all(
        _is_drawn(block, (*node, token), instance)
        for block, token in zip(blocks, siblings, strict=True)
    )


def all_inside(scheme: str, row: Row, width: int, tokens: Collection[int]) -> Rational:
    """Return Q(H), the probability that all of `width` siblings are in `tokens`, in closed form.

    Source: arXiv 2502.18779 for i.i.d. tokens and for the greedy law. Raises `Unsupported` for an
    unknown scheme, `TokenOutOfRange` for a token that is not in the vocabulary.
    """
    for token in tokens:
        if not 0 <= token < len(row):
            raise TokenOutOfRange(f"token {token} is not in 0..{len(row) - 1}")
    return scheme_named(scheme).inside(row, width, frozenset(tokens))


def subsets(tokens: Sequence[int]) -> list[Siblings]:
    """Return all subsets of the tokens, smaller subsets first."""
    return [part for size in range(len(tokens) + 1) for part in combinations(tokens, size)]
