"""Joining: compute the law of a verifier from a small part of its runs.

A run is at a *state* if its remainder depends on everything before only through the state: a
verifier that descends a tree of drafts does not remember, at a node, how it reached the node. Runs
that reach the same state continue as one run, with the sum of their weights. The law is computed
stage by stage: each state is continued once, by the answers of the first run that reached it, up to
the next states. The verifier's source does not change; its `Promise` declares that its runs may be
joined.

A false promise gives a wrong law, so promises are tested. In every law, about eight of the joined
states of each stage, spread evenly, are also continued by a second run, the last to reach the
state: the law of the next states and outcomes must be the same. With `every_run`, all runs that
reach any state are continued. The tests use it for all algorithms and schemes, and also compare the
law with that of `enumerate_law`. For other inputs, an argument from the verifier's source supports
the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from math import comb
from typing import Any, TypeVar

from draftproof.reference.chance import (
    Answer,
    Chance,
    Distribution,
    NondeterministicProgram,
    Replay,
    distribution,
    enumerate_law,
    enumerate_runs,
)
from draftproof.reference.drafting import Drafted, Drafts, GrowingTree, Siblings
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.rational import ONE, ZERO, Rational, rational

Outcome = TypeVar("Outcome")

Way = tuple[Answer, ...]
"""The answers that lead to a state."""

TESTED = 8
"""Minimum number of joined states per stage that a second run continues; all if there are fewer."""


class Promise(StrEnum):
    """Order in which a verifier reads its drafts, and the state that it keeps between reads.

    `DOWN`: the verifier goes from a node to one of its children; its actions at a node depend on
    the node and the drafts below alone. `DEPTH_FIRST`: the verifier visits a node, its children in
    turn, and returns; its actions depend on the node and on the siblings drawn on the way down to
    the node. `AT_ONCE`: the verifier reads all paths, which are i.i.d., before anything else; their
    order affects only which of them is the first with the accepted tokens. `SELECTING`: as
    `AT_ONCE`, and the verifier's first draw selects one of the paths, on which alone the rest
    depends.
    """

    DOWN = "down"
    DEPTH_FIRST = "depth first"
    AT_ONCE = "at once"
    SELECTING = "selecting"


def law_by_promise(
    verify: Callable[[Drafted, Instance, Chance], Outcome],
    instance: Instance,
    promise: Promise | None,
    *,
    every_run: bool = False,
) -> Law[Outcome]:
    """Return a verifier's law on drafts drawn on demand; without a promise, enumerate all runs."""
    if promise is None:
        return enumerate_law(lambda chance: verify(GrowingTree(instance, chance), instance, chance))
    is_down = promise in (Promise.DOWN, Promise.DEPTH_FIRST)
    drafts = JoiningTree if is_down else UnorderedPaths

    def program(chance: Continuation) -> Outcome:
        return verify(drafts(instance, chance, promise), instance, chance)

    return joined_law(program, every_run=every_run)


class Continuation(Chance):
    """Chance that repeats the answers leading to a state, then draws from a second chance.

    The run stops at the next state. `given` has the answers of the second chance.
    """

    def __init__(self, way: Way, passed: int, then: Chance) -> None:
        self._way, self._left, self._to_pass, self._then = Replay(way), len(way), passed, then
        self._after_draw: Callable[[int], Hashable] | None = None
        self.given: list[Answer] = []

    def draw(self, weights: Sequence[Rational]) -> int:
        """Return the next answer."""
        if self._left > 0:
            self._left -= 1
            answer = self._way.draw(weights)
        else:
            asked = distribution(weights)
            answer = self._then.draw(asked)
            self.given.append((asked, answer))
        if self._after_draw is not None:
            state, self._after_draw = self._after_draw(answer), None
            self.forget_all_but(state)
        return answer

    def forget_all_but(self, *state: Hashable) -> None:
        """Promise that the rest of the run depends on the run so far through `state` alone.

        This call makes no random choice, and changes no law.
        """
        if self._to_pass == 0:
            raise _Arrival(state)
        self._to_pass -= 1

    def forget_after_draw(self, state: Callable[[int], Hashable]) -> None:
        """Promise that after the next draw the rest depends on `state(answer)` alone."""
        self._after_draw = state


class _Arrival(Exception):
    def __init__(self, state: Hashable) -> None:
        super().__init__(state)
        self.state = state


@dataclass
class _Joined:
    """Runs that reached one state: the ways of the first and last run, and the weight of all."""

    ways: list[Way]
    weight: Rational


def joined_law(
    program: Callable[[Continuation], Outcome], *, every_run: bool = False
) -> Law[Outcome]:
    """Return the exact law of `program`, as `enumerate_law` does, with runs joined at states.

    The program declares its states by `forget_all_but`. Raises `NondeterministicProgram` if a
    repeated run asks a different question, or a second run from a state has a different law.
    """
    law: dict[Outcome, Rational] = {}
    here: dict[Hashable, _Joined] = {(): _Joined([()], ONE)}
    passed = 0
    while here:
        several = [joined for joined in here.values() if len(joined.ways) > 1]
        for joined in several[:: 1 if every_run else max(1, len(several) // TESTED)]:
            _require_one_rest(program, joined.ways, passed)
        ahead: dict[Hashable, _Joined] = {}
        for joined in here.values():
            way = joined.ways[0]
            runs = enumerate_runs(partial(_part, program, way, passed))
            for (state, outcome, answers), probability in runs:
                weight = joined.weight * probability
                if state is None:
                    law[outcome] = law.get(outcome, ZERO) + weight
                else:
                    arrived = ahead.setdefault(state, _Joined([], ZERO))
                    arrived.weight += weight
                    if not every_run:
                        del arrived.ways[1:]
                    arrived.ways.append((*way, *answers))
        here, passed = ahead, passed + 1
    return Law(law)


def _part(
    program: Callable[[Continuation], Outcome], way: Way, passed: int, then: Chance
) -> tuple[Hashable, Any, Way]:
    """Run the program from the state that a way leads to.

    Return the next state or None, the outcome or None, and the answers that led there.
    """
    chance = Continuation(way, passed, then)
    try:
        outcome = program(chance)
    except _Arrival as arrival:
        return arrival.state, None, tuple(chance.given)
    return None, outcome, ()


def _require_one_rest(
    program: Callable[[Continuation], Outcome], ways: list[Way], passed: int
) -> None:
    def rest(way: Way) -> Law[tuple[Hashable, Any]]:
        return enumerate_law(lambda then: _part(program, way, passed, then)[:2])

    first, *others = map(rest, ways)
    if any(other != first for other in others):
        raise NondeterministicProgram(
            "two runs came to one state and went on differently: the state that the program "
            "promises is not all that the rest depends on"
        )


class _Tree(GrowingTree):
    def copies(self, node: Path) -> tuple[int, ...]:
        """Return the index of the first path of each copy of a node."""
        return tuple(self._blocks.get(node, ()))


class JoiningTree:
    """Growing tree for a verifier that descends it; the verifier's runs are joined at the nodes."""

    def __init__(self, instance: Instance, chance: Continuation, promise: Promise) -> None:
        self._tree, self._asked = _Tree(instance, chance), dict[Path, Siblings]()
        self._instance, self._chance, self._promise = instance, chance, promise

    def siblings(self, node: Path) -> Siblings:
        """Return the siblings; before drawing them, forget everything that no longer matters."""
        if node not in self._asked:
            self._chance.forget_all_but(node, self._remembered(node))
            self._asked[node] = self._tree.siblings(node)
        return self._asked[node]

    def first(self, node: Path) -> int:
        """Return the index of the first path through the node."""
        return self._tree.first(node)

    def paths(self) -> Drafts:
        """Return all the paths without forgetting anything."""
        return self._tree.paths()

    def _remembered(self, node: Path) -> Hashable:
        """Return the drawn siblings on which the verifier and the tree may still depend."""
        above = [node[:depth] for depth in range(len(node))]
        if self._instance.scheme != "iid" and not set(self._instance.widths[1:]) <= {1}:
            # Siblings may have run out, so that paths to the left are counted.
            return tuple(self._asked.items())
        if self._promise is Promise.DEPTH_FIRST:
            return tuple(map(self._tree.siblings, above))
        return tuple(map(self._tree.first, above)), self._tree.copies(node)


class UnorderedPaths:
    """I.i.d. paths for a verifier that reads all of them at once; their order is drawn last.

    All orders are equally likely, so the index of the first path through a node is drawn when it is
    requested; it may be requested once.
    """

    def __init__(self, instance: Instance, chance: Continuation, promise: Promise) -> None:
        self._instance, self._chance, self._promise = instance, chance, promise
        self._paths: Drafts = ()
        self._is_ordered = False

    def siblings(self, node: Path) -> Siblings:
        """Return the tokens drafted after the node."""
        return tuple(path[len(node)] for path in self.paths() if path[: len(node)] == node)

    def first(self, node: Path) -> int:
        """Draw the index of the first path through the node."""
        if self._is_ordered:
            raise TypeError("only one node's first path may be asked for where order comes last")
        self._is_ordered = True
        others, through = self._instance.drafts - 1, self._through(node)
        return self._chance.draw(
            [rational(comb(others - index, through - 1)) for index in range(others + 1)]
        )

    def paths(self) -> Drafts:
        """Return the paths, drawing them at the first request and forgetting their order."""
        if not self._paths:
            texts, weights = _texts(self._instance)
            for _ in range(self._instance.drafts):
                self._paths = (*self._paths, texts[self._chance.draw(weights)])
                self._chance.forget_all_but(*sorted(self._paths))
            if self._promise is Promise.SELECTING:
                self._chance.forget_after_draw(self._selected)
        return self._paths

    def _selected(self, answer: int) -> Hashable:
        path = self._paths[answer]
        return path, tuple(self._through(path[:depth]) for depth in range(len(path) + 1))

    def _through(self, node: Path) -> int:
        return sum(path[: len(node)] == node for path in self._paths)


@lru_cache(maxsize=16)
def _texts(instance: Instance) -> tuple[tuple[Path, ...], Distribution]:
    texts, weights = zip(*instance.draft.text(instance.length).items(), strict=True)
    return texts, distribution(weights)
