"""Boxes that another program was seen to have, confirmed of one that should do the same.

To search a slow program's noise takes many calls, one after another; to confirm what a fast one is
known to do takes a few. What is believed is what a search would believe: every wall at the number
before it and the one behind it, in several contexts; and points of each box that no wall parts,
with single numbers and with all at their ends. A wall that is near is moved, one that is nowhere
is left out, and all are asked again. A box that differs is searched, as if nothing had been
foretold, and so is that of a wall which does not show.
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
"""Number of contexts in which a wall is searched that is not at its foretold place; two must
agree."""

_TRIED = (16, 128, 1024)
"""Points at random among which contexts are looked for, and how many if they are too few."""

_ROUNDS = 3
"""Times that walls are asked: those of other rounding move walls behind them."""

_FARTHEST = 12
"""A wall is looked for within 1 / 2 to the power of this of the numbers that a draw can give."""

_APART = 4
"""Places at which a wall is looked for are farther from where it was foretold by 2 to this."""


Moves: TypeAlias = dict[tuple[int, int], int]
"""Where a wall was found that was foretold elsewhere in a column."""


def confirmed(searcher: Searcher, tree: Node, moves: Moves) -> Search[Node | None]:
    """Return the boxes of a program that were foretold, None where noise races.

    Walls may be elsewhere than was foretold, but near. They are looked for first where others were
    found, and those that are found are told of, in `moves`.
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
    """Return where others found a wall that was foretold as this one is."""
    at = wall.at
    for _ in range(_ROUNDS):
        at = moves.get((wall.column, at), at)
    return at


def _searched(searcher: Searcher, tree: Node, unseen: Container[Node]) -> Search[Node]:
    """Return the boxes, those searched whose wall is unseen or which are not as foretold."""

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
    """Yield all nodes and the boxes that they are in, but for what is below some of them."""
    yield node, box
    if isinstance(node, Wall) and node not in ends:
        below, above = box.split(node.column, node.at)
        yield from _placed(node.below, below, ends)
        yield from _placed(node.above, above, ends)


def _wall(searcher: Searcher, wall: Wall, box: Box, alike: int) -> Search[int | None]:
    """Return where one of so many walls at one number is, None where it is not near."""
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
    """Points before and behind a wall that are equal in all other numbers, and what is foretold."""

    before: NDArray[numpy.int64]
    behind: NDArray[numpy.int64]
    below: Hashable
    above: Hashable


def _contexts(searcher: Searcher, wall: Wall, box: Box) -> list[_Context]:
    """Return a few contexts in which the wall makes a difference, by the boxes on its two sides."""
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
    """Return where the wall is near the place at which it was foretold, None if that is not seen.

    Where it is `likely` to be is looked at first.

    Where there is none, it is behind all numbers, or before them: a draw of the one program is
    below its last number of the other's by rounding.

    What is near depends on how many numbers the draw can give: a wall of a few roundings elsewhere
    is as many numbers further on in double precision as single precision leaves out.
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
    """Return the boxes with walls where they were found, without those that are in no box."""
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
