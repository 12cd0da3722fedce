"""Boxes of another program, confirmed on a program that should do the same.

A search of a slow program's noise takes many consecutive calls; to confirm the known boxes of a
fast program takes a few. The evidence is the same as in a search: every wall, at the numbers before
and after it, in several contexts; and points of each box without walls, with single numbers and
with all numbers at their ends. A wall that is nearby is moved, a wall that is nowhere is dropped,
and all are then checked again. A box that differs is searched as if nothing had been predicted, and
so is the box of a wall that does not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy
from numpy.typing import NDArray

from draftproof.conformance.lanes.probe._race import Search
from draftproof.conformance.lanes.probe._search import (
    Box,
    Leaf,
    Node,
    Race,
    Searcher,
    Wall,
    foretold,
    nodes,
    regrown,
    together,
)

_LOOKED_IN = 4
"""Number of contexts in which a wall is searched that is not at its predicted place; two must
agree."""

_TRIED = (16, 128, 1024)
"""Numbers of random points among which contexts are searched: the next if the last finds too
few."""

_ROUNDS = 3
"""Number of rounds of checks: a wall moved by different rounding also moves the walls behind it."""

_FARTHEST = 12
"""A wall is searched within 2**-_FARTHEST times the number of values that a draw can give."""

_APART = 4
"""Distances of the tried places from a wall's predicted place grow by factors of 2**_APART."""


Moves: TypeAlias = dict[tuple[int, int], int]
"""Place at which a wall was found, by its column and its predicted place."""


def confirmed(searcher: Searcher, tree: Node, moves: Moves) -> Search[Node | None]:
    """Return the confirmed boxes of a program, given predicted ones; None if noise races.

    Walls may be near their predicted places. The search starts at the places found for other
    subjects in `moves`, and adds the places that it finds.
    """
    if any(isinstance(node, Race) for node in nodes(tree)):
        return None
    everything = searcher.everything()
    tree = _moved(searcher, tree, everything, partial(_likely, moves))
    unseen = set[Node]()
    for left in reversed(range(_ROUNDS)):
        placed = _placed(tree, everything)
        walls = [(node, box) for node, box in placed if isinstance(node, Wall)]
        alike = Counter((wall.column, wall.at) for wall, _ in walls)
        found = yield from together(
            [_wall(searcher, wall, box, alike[wall.column, wall.at]) for wall, box in walls]
        )
        seen = {wall: at for (wall, _), at in zip(walls, found, strict=True)}
        unseen = {wall for wall, at in seen.items() if at != wall.at}
        new = {wall: at for wall, at in seen.items() if at is not None and at != wall.at}
        if not new or not left:
            break
        moves |= {(wall.column, wall.at): at for wall, at in new.items()}
        # What does not show may be hidden by a wall that is elsewhere.
        tree = _moved(searcher, tree, everything, partial(_found, new))
    return (yield from _searched(searcher, tree, unseen))


def _found(places: Mapping[Wall, int], wall: Wall) -> int:
    return places.get(wall, wall.at)


def _likely(moves: Moves, wall: Wall) -> int:
    """Return the place at which other subjects found a wall with the same prediction."""
    at = wall.at
    for _ in range(_ROUNDS):
        at = moves.get((wall.column, at), at)
    return at


def _searched(searcher: Searcher, tree: Node, unseen: Container[Node]) -> Search[Node]:
    """Return the boxes, after searching those with an unseen wall or an unpredicted outcome."""

    def seen(node: Node, box: Box) -> Search[Node]:
        found = (yield from searcher.as_foretold(node)) if isinstance(node, Leaf) else None
        return found or (yield from searcher.explored(box, []))

    places = [*_placed(tree, searcher.everything(), unseen)]
    ends = [(node, box) for node, box in places if node in unseen or isinstance(node, Leaf)]
    found = yield from together([seen(*end) for end in ends])
    for (node, _), new in zip(ends, found, strict=True):
        tree = regrown(tree, node, new)
    return tree


def _placed(node: Node, box: Box, ends: Container[Node] = ()) -> Iterator[tuple[Node, Box]]:
    """Yield all nodes with their boxes, except for nodes below those in `ends`."""
    yield node, box
    if isinstance(node, Wall) and node not in ends:
        below, above = box.split(node.column, node.at)
        yield from _placed(node.below, below, ends)
        yield from _placed(node.above, above, ends)


def _wall(searcher: Searcher, wall: Wall, box: Box, alike: int) -> Search[int | None]:
    """Return the place of a wall, one of `alike` at the same number; None if it is not near."""
    if not box.low[wall.column] < wall.at < box.high[wall.column]:
        return None
    contexts = _contexts(searcher, wall, box)
    if not contexts:
        return None
    # Walls of many boxes at one number share contexts, but for two each: a wall must show in two,
    # where the boxes say that it does.
    asked = contexts[: max(searcher.care.crossings // alike, 2)]
    seen = yield [point for each in asked for point in (each.before, each.behind)]
    if seen == [outcome for each in asked for outcome in (each.below, each.above)]:
        return wall.at
    numbers = int(searcher.everything().high[wall.column])
    near = Counter[int]()
    for context in contexts[:_LOOKED_IN]:
        at = yield from _near(searcher, wall, box, context, numbers, near)
        if at is None:
            # Another wall that is elsewhere, too, may lie between a context and where this one is.
            continue
        near[at] += 1
        if near[at] > 1 or len(contexts) == 1:
            # Where it was foretold it did not show in all contexts: it is no wall, or not alone.
            return at if at != wall.at else None
    return None


@dataclass(frozen=True)
class _Context:
    """Points before and behind a wall, otherwise equal, with their predicted outcomes."""

    before: NDArray[numpy.int64]
    behind: NDArray[numpy.int64]
    below: Hashable
    above: Hashable


def _contexts(searcher: Searcher, wall: Wall, box: Box) -> list[_Context]:
    """Return a few contexts in which the boxes beside the wall predict different outcomes."""
    found: list[_Context] = []
    for tried in _TRIED:
        before = numpy.stack(searcher.points(box, tried))
        behind = before.copy()
        before[:, wall.column], behind[:, wall.column] = wall.at - 1, wall.at
        below, above = foretold(wall.below, [*before]), foretold(wall.above, [*behind])
        found += [
            _Context(*each)
            for each in zip(before, behind, below, above, strict=True)
            if each[2] != each[3]
        ]
        if len(found) > 1:
            break
    return found


def _near(
    searcher: Searcher,
    wall: Wall,
    box: Box,
    context: _Context,
    numbers: int,
    likely: Collection[int],
) -> Search[int | None]:
    """Return the place of the wall near its predicted place, None if it does not show there.

    The first call includes the `likely` places. If no point near changes the outcome, the wall is
    behind all numbers, or before them: rounding can put a draw below its last number in one of the
    two programs.

    The width of the search depends on how many numbers the draw can give: a shift of a few
    roundings of single precision spans many numbers in double precision.
    """
    low, high = int(box.low[wall.column]), int(box.high[wall.column]) - 1
    steps = [2**step for step in range(0, (numbers >> _FARTHEST).bit_length(), _APART)]
    places = [wall.at - 1 - step for step in steps[::-1]] + [wall.at - 1, wall.at]
    places += [wall.at + step for step in steps]
    places += [place for at in likely for place in (at - 1, at)]
    places = [place for place in sorted({*places}) if low <= place <= high]

    def at(place: int) -> NDArray[numpy.int64]:
        point = context.before.copy()
        point[wall.column] = place
        return point

    with searcher.cuts.one():
        seen = yield [at(place) for place in places]
        if not set(seen) <= {context.below, context.above}:
            return None
        turns = [i for i in range(1, len(seen)) if seen[i - 1] != seen[i]]
        if not turns:
            return numbers if seen[0] == context.below else 0
        if len(turns) != 1 or seen[0] != context.below:
            return None
        before, behind = (int(place) for place in places[turns[0] - 1 : turns[0] + 1])
        while behind - before > 1:
            parts = min(searcher.cuts.sections, behind - before)
            cuts = [before + (behind - before) * part // parts for part in range(1, parts)]
            seen = yield [at(cut) for cut in cuts]
            turn = next((i for i, found in enumerate(seen) if found != context.below), len(cuts))
            before, behind = [before, *cuts][turn], [*cuts, behind][turn]
    return behind


def _moved(searcher: Searcher, node: Node, box: Box, place: Callable[[Wall], int]) -> Node:
    """Return the boxes with walls moved to their places, without walls outside their box."""
    if isinstance(node, Leaf):
        return replace(node, box=box)
    assert isinstance(node, Wall)
    at = place(node)
    if not box.low[node.column] < at < box.high[node.column]:
        is_below = at > box.low[node.column]
        return _moved(searcher, node.below if is_below else node.above, box, place)
    below, above = (
        _moved(searcher, part, own, place)
        for part, own in zip((node.below, node.above), box.split(node.column, at), strict=True)
    )
    return searcher.wall(box, node.column, at, below, above)
