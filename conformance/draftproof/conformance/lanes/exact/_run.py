"""A run of a walk: what it knows, what it has answered, and the runs that stand where it stands.

Runs that have the same memory go on as one, the *lead*: whatever the program does from there, it
does in all of them. What they know of random numbers may differ. Where that matters, because the
program asks about such a number again, they part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from draftproof.conformance.lanes.exact._choice import Choice
from draftproof.conformance.lanes.exact._errors import NotTogether
from draftproof.conformance.lanes.exact._noise import World
from draftproof.conformance.lanes.exact._races import Ranking
from draftproof.conformance.lanes.exact._replay import (
    MOST_CHOICES,
    is_given_up,
    require_few_ways,
)
from draftproof.conformance.lanes.opaque import TooManyRuns
from draftproof.reference.chance import Answer, Replay, probability
from draftproof.reference.rational import Rational, total

Found = TypeVar("Found")


@dataclass(frozen=True)
class JoinedRun:
    """Run that another one leads, from the point where they had the same memory."""

    run: Run
    """The run at that point."""
    lead: Run
    """Its lead at that point."""

    def given(self, lead: Run) -> Iterator[tuple[Answer, ...]]:
        """Yield the answers of each run that it brought along, up to where `lead` stands."""
        since = lead.given[len(self.lead.given) :]
        return ((*given, *since) for given in self.run.every_given())

    def part(self, lead: Run) -> Iterator[Run]:
        """Yield each run that it brought along, where `lead` stands."""
        then, now = self.lead.world.known, lead.world.known
        learned = {
            number: found
            for number, found in now.items()
            if number not in then or then[number] != found
        }
        since = lead.given[len(self.lead.given) :]
        for run in self.run.parted():
            world = World(Replay(), {**run.world.known, **learned})
            yield replace(run, world=world, given=(*run.given, *since), slacks=lead.slacks)


@dataclass(frozen=True, eq=False)
class Run:
    """A run of a program on one subject: what it was told to answer, and what it has answered."""

    subject: int
    world: World
    told: tuple[Answer, ...] = ()
    given: tuple[Answer, ...] = ()
    slacks: Mapping[Ranking, Rational] = field(default_factory=dict)
    joined: tuple[JoinedRun, ...] = ()

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Answers given so far, and those that it is still told to give."""
        return *self.given, *self.left

    @property
    def order(self) -> list[int]:
        """Sort key of the run among those of its subject."""
        return [answer for _, answer in self.answers]

    @property
    def left(self) -> tuple[Answer, ...]:
        """Answers that the run was told to give, and has not given."""
        return self.told[len(self.given) :]

    # --- together with the runs that it leads ------------------------------------------------

    @cached_property
    def count(self) -> int:
        """Number of runs that this one stands for."""
        return 1 + sum(each.run.count for each in self.joined)

    @cached_property
    def probability(self) -> Rational:
        """Probability of all runs for which this one stands."""
        return total(
            [
                probability(self.given),
                *(
                    each.run.probability * probability(self.given[len(each.lead.given) :])
                    for each in self.joined
                ),
            ]
        )

    @cached_property
    def differing(self) -> frozenset[object]:
        """Numbers about which the runs for which this one stands know different things."""
        return frozenset().union(
            *(each.run.differing for each in self.joined),
            *(_differing(each.run.world, each.lead.world) for each in self.joined),
        )

    @cached_property
    def longest(self) -> int:
        """Most answers that any of the runs has given for which this one stands."""
        others = [each.run.longest - len(each.lead.given) for each in self.joined]
        return len(self.given) + max([0, *others])

    @property
    def last_answers(self) -> tuple[Answer, ...]:
        """Answers of one run for which this one stands: the last that joined."""
        run, since = self, self.left
        while run.joined:
            last = run.joined[-1]
            run, since = last.run, (*run.given[len(last.lead.given) :], *since)
        return (*run.given, *since)

    def parted(self) -> Iterator[Run]:
        """Yield each run for which this one stands, by itself."""
        yield replace(self, joined=())
        for each in self.joined:
            yield from each.part(self)

    def every_given(self) -> Iterator[tuple[Answer, ...]]:
        """Yield the answers of each run for which this one stands."""
        yield self.given
        for each in self.joined:
            yield from each.given(self)

    def begun(self) -> Iterator[Run]:
        """Yield each run for which this one stands, as a later walk begins it."""
        for given in self.every_given():
            yield Run(self.subject, World(Replay()), (*given, *self.left))

    def asking(self, ask: Callable[[World], Found]) -> Iterator[tuple[Run, Found]]:
        """Yield each run for which this one stands, with the answer of its world to `ask`.

        Runs stay together if they know the same about the numbers that `ask` looks up.
        """
        asked: set[object] = set()
        found = ask(self.world.under(Replay(), asked) if self.joined else self.world)
        matter = [*self.differing.intersection(asked)]
        if not matter:
            yield self, found
            return
        alike: dict[Hashable, list[Run]] = {}
        for run in self.parted():
            known = run.world.known
            kind = tuple((number in known, known.get(number)) for number in matter)
            alike.setdefault(kind, []).append(run)
        for group in alike.values():
            yield from led(group).asking(ask)

    # --- choices -----------------------------------------------------------------------------

    def decided(
        self, choices: Collection[Choice], most: int
    ) -> Iterator[tuple[Run, tuple[int, ...]]]:
        """Yield the run after each way to decide choices, and the decisions.

        Raises `TooManyRuns` if there are more than `most` ways.
        """
        for run, ways in self.asking(lambda world: _ways(world, choices, self.left, most)):
            for chance, world, values in ways:
                child = replace(run, world=world, given=(*run.given, *chance.given))
                if child.longest > MOST_CHOICES or is_given_up(child.given):
                    raise NotTogether("make very many choices")
                yield child, values


def led(runs: Sequence[Run]) -> Run:
    """Return the first of some runs that have the same memory, leading the others."""
    lead, *others = sorted(runs, key=lambda run: run.order)
    return replace(lead, joined=(*lead.joined, *(JoinedRun(each, lead) for each in others)))


def _ways(
    known: World, choices: Collection[Choice], told: Sequence[Answer], most: int
) -> list[tuple[_ContinuedChance, World, tuple[int, ...]]]:
    """Return each way to decide choices: the chance and the world that did, and the decisions."""
    replay: Replay | None = Replay()
    ways: list[tuple[_ContinuedChance, World, tuple[int, ...]]] = []
    while replay is not None:
        if len(ways) == most:
            # As many as a batch of uncertain rows has would fill the memory first.
            raise TooManyRuns(f"the program has more than {most} random outcomes")
        chance = _ContinuedChance(told, replay)
        world = known.under(chance)
        ways.append((chance, world, tuple(choice.value(world) for choice in choices)))
        if len(ways) == 1:
            for weights, _ in replay.given:
                require_few_ways(weights, most)
        replay = replay.next()
    return ways


class _ContinuedChance:
    """Chance that gives the answers it was told to give, then those of another chance."""

    def __init__(self, told: Sequence[Answer], then: Replay) -> None:
        self._told = Replay(told)
        self._left = len(told)
        self._then = then

    @property
    def given(self) -> list[Answer]:
        return [*self._told.given, *self._then.given]

    def draw(self, weights: Sequence[Rational]) -> int:
        is_told = len(self._told.given) < self._left
        return (self._told if is_told else self._then).draw(weights)

    def coin(self, probability: Rational) -> bool:
        return self.draw((probability, 1 - probability)) == 0


def _differing(one: World, other: World) -> set[object]:
    """Return the numbers of which two worlds do not know the same."""
    numbers = {*one.known, *other.known}
    return {
        number
        for number in numbers
        if (number in one.known) != (number in other.known)
        or one.known.get(number) != other.known.get(number)
    }
