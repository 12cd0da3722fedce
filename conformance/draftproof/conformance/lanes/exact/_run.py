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
from draftproof.conformance.lanes.exact._replay import MOST_CHOICES
from draftproof.reference.chance import Answer, Replay, probability
from draftproof.reference.rational import Rational, total

Found = TypeVar("Found")


@dataclass(frozen=True)
class JoinedRun:
    """A run that another one leads from where they had the same memory."""

    run: Run
    """As it stood then."""
    lead: Run
    """As it stood then, too."""

    def given(self, lead: Run) -> Iterator[tuple[Answer, ...]]:
        """Yield what each run has answered that came with it, where `lead` stands."""
        since = lead.given[len(self.lead.given) :]
        return ((*given, *since) for given in self.run.every_given())

    def part(self, lead: Run) -> Iterator[Run]:
        """Yield each run that came with it, where `lead` stands."""
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
        """The answers that lead to where it stands, or was sent."""
        return *self.given, *self.left

    @property
    def order(self) -> list[int]:
        """Where it comes among the runs of its subject."""
        return [answer for _, answer in self.answers]

    @property
    def left(self) -> tuple[Answer, ...]:
        """The answers that it was told to give, and has not given."""
        return self.told[len(self.given) :]

    # --- together with the runs that it leads ------------------------------------------------

    @cached_property
    def count(self) -> int:
        """How many runs it stands for."""
        return 1 + sum(each.run.count for each in self.joined)

    @cached_property
    def probability(self) -> Rational:
        """The probability of all runs for which it stands."""
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
        """The numbers of which not all runs for which it stands know the same."""
        return frozenset().union(
            *(each.run.differing for each in self.joined),
            *(_differing(each.run.world, each.lead.world) for each in self.joined),
        )

    @cached_property
    def longest(self) -> int:
        """How many answers any of the runs has given, for which it stands."""
        others = [each.run.longest - len(each.lead.given) for each in self.joined]
        return len(self.given) + max([0, *others])

    @property
    def last_answers(self) -> tuple[Answer, ...]:
        """The answers of a run that it stands for: of one that joined last of all."""
        run, since = self, self.left
        while run.joined:
            last = run.joined[-1]
            run, since = last.run, (*run.given[len(last.lead.given) :], *since)
        return (*run.given, *since)

    def parted(self) -> Iterator[Run]:
        """Yield each run for which it stands, by itself."""
        yield replace(self, joined=())
        for each in self.joined:
            yield from each.part(self)

    def every_given(self) -> Iterator[tuple[Answer, ...]]:
        """Yield what each run has answered for which it stands."""
        yield self.given
        for each in self.joined:
            yield from each.given(self)

    def begun(self) -> Iterator[Run]:
        """Yield each run for which it stands, as a later walk begins it."""
        for given in self.every_given():
            yield Run(self.subject, World(Replay()), (*given, *self.left))

    def asking(self, ask: Callable[[World], Found]) -> Iterator[tuple[Run, Found]]:
        """Yield what is found by asking the world of each run for which it stands, with the run.

        They go on as one where all know the same of the numbers that are asked about.
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

    def decided(self, choices: Collection[Choice]) -> Iterator[tuple[Run, tuple[int, ...]]]:
        """Yield what becomes of the run for each way to decide choices, and the decisions."""
        for run, ways in self.asking(lambda world: _ways(world, choices, self.left)):
            for chance, world, values in ways:
                child = replace(run, world=world, given=(*run.given, *chance.given))
                if child.longest > MOST_CHOICES:
                    raise NotTogether("make very many choices")
                yield child, values


def led(runs: Sequence[Run]) -> Run:
    """Return the first of some runs that have the same memory, leading the others."""
    lead, *others = sorted(runs, key=lambda run: run.order)
    return replace(lead, joined=(*lead.joined, *(JoinedRun(each, lead) for each in others)))


def _ways(
    known: World, choices: Collection[Choice], told: Sequence[Answer]
) -> list[tuple[_ContinuedChance, World, tuple[int, ...]]]:
    """Return each way to decide choices: the chance and the world that did, and the decisions."""
    replay: Replay | None = Replay()
    ways = []
    while replay is not None:
        chance = _ContinuedChance(told, replay)
        world = known.under(chance)
        ways.append((chance, world, tuple(choice.value(world) for choice in choices)))
        replay = replay.next()
    return ways


class _ContinuedChance:
    """Gives the answers that it was told to give, then those of another chance."""

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
