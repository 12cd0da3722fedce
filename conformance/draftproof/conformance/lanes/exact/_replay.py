"""The runs of a program, one after another: every run gives the next answers to its choices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, zip_longest
from math import nan
from typing import Any, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor

from draftproof.conformance.lanes._signature import tensors_in
from draftproof.conformance.lanes._streams import is_among
from draftproof.conformance.lanes.exact._array import Array, as_array
from draftproof.conformance.lanes.exact._choice import Choice
from draftproof.conformance.lanes.exact._dtypes import held
from draftproof.conformance.lanes.exact._errors import NotUnderstood, ran
from draftproof.conformance.lanes.exact._identity import Identities
from draftproof.conformance.lanes.exact._interpreter import Interpreter
from draftproof.conformance.lanes.exact._noise import Noise, World
from draftproof.conformance.lanes.exact._outcome import (
    frozen,
    left_open,
    read,
    row_of_number,
    undecided,
)
from draftproof.conformance.lanes.exact._scalar import (
    Scalar,
    begin_own_code,
    end_own_code,
    floats_by_type,
    opened,
    refusals,
    require_own,
    scalars,
)
from draftproof.conformance.lanes.exact._watch import (
    EXPOSING,
    NUMBERS,
    PASSED,
    TOLIST,
    Dispatch,
    Doors,
)
from draftproof.conformance.lanes.opaque import OpaqueRandomness, TooManyRuns
from draftproof.reference.chance import (
    Answer,
    Chance,
    NondeterministicProgram,
    Replay,
    enumerate_runs,
    probability,
)
from draftproof.reference.rational import ONE, ZERO, Rational, total

Found = TypeVar("Found")

MOST_CHOICES = 2_000
"""Maximum number of choices in one run: more are a loop that may never end.

Nothing that can be enumerated is lost: each choice that can go two ways is another run.
"""


_FEW_CHOICES = 48
_LEAST = ONE / 2**48
"""A run that has made more than a few choices, and has less probability, is a loop's, and is given
up: what is given up counts as slack."""

_MOST_GIVEN_UP = 64
"""More runs than these that are given up are a loop in which each turn has ways of its own."""


def is_given_up(answers: Sequence[Answer]) -> bool:
    """Return whether a run with these answers is a loop's that goes on, of next to no weight."""
    return len(answers) > _FEW_CHOICES and probability(answers) < _LEAST


def require_few_ways(weights: Sequence[Rational], most: int) -> None:
    """Raise `TooManyRuns` if a choice has more ways to go on than a program may have outcomes.

    Each way is a run at least. Of a vocabulary of a real model, their weights alone would fill the
    memory before the runs are counted.
    """
    if len(weights) > most and sum(weight > 0 for weight in weights) > most + _MOST_GIVEN_UP:
        raise TooManyRuns(f"the program has more than {most} random outcomes")


class _GivenUp(TooManyRuns):
    """Error of a run that continues and has next to no probability."""


class _BoundedChance:
    """Chance that makes a bounded number of choices, and remembers why it stopped.

    No choice has more than `most` ways to go on.
    """

    def __init__(self, chance: Replay | Chance, most: int, left: int | None = None) -> None:
        self._chance = chance
        self._most = most
        self._left = MOST_CHOICES if left is None else left
        self._weighed, self._weight = 0, ONE
        self.stopped: RuntimeError | None = None

    def draw(self, weights: Sequence[Rational]) -> int:
        self._left -= 1
        try:
            if self._left < 0:
                raise TooManyRuns(
                    f"a run of the program made more than {MOST_CHOICES} random choices"
                )
            require_few_ways(weights, self._most)
            drawn = self._chance.draw(weights)
            if isinstance(self._chance, Replay) and self._goes_on(self._chance.given):
                raise _GivenUp("a run of the program goes on, with next to no probability")
            return drawn
        except (TooManyRuns, NondeterministicProgram) as reason:
            self.stopped = reason
            raise

    def _goes_on(self, answers: Sequence[Answer]) -> bool:
        """Return the result of `is_given_up`, for answers that grow with each call."""
        if len(answers) <= _FEW_CHOICES:
            return False
        # A row that is certain of its token makes a choice, too: large batches have thousands.
        self._weight *= probability(answers[self._weighed :])
        self._weighed = len(answers)
        return self._weight < _LEAST

    def coin(self, probability: Rational) -> bool:
        return self.draw((probability, 1 - probability)) == 0

    def instead(self, chance: Chance) -> _BoundedChance:
        """Return another chance, bounded by the number of choices that are left."""
        return _BoundedChance(chance, self._most, self._left)


Reading: TypeAlias = list[tuple[Hashable, Rational]]
"""The outcomes of a run, with their weights: several, where it returns what nobody looked at."""


class OutcomeReader(Protocol):
    """Reader of the result of a run."""

    def __call__(
        self,
        kept: Any,
        world: World,
        count: Callable[[], None],
        instead: Callable[[Chance], Chance] = lambda chance: chance,
        /,
    ) -> Reading:
        """Return the possible outcomes of a frozen one in a world, calling `count` for each.

        Choices that are more than one row are made by `instead` of a chance. Raises
        `NotUnderstood`.
        """


def readings(
    kept: Any,
    world: World,
    count: Callable[[], None],
    instead: Callable[[Chance], Chance] = lambda chance: chance,
) -> Reading:
    """Return the outcomes that a frozen one can be, as `OutcomeReader` says."""

    def read_under(chance: Chance) -> Hashable:
        count()
        return read(kept, world.under(instead(chance)))

    match undecided(kept, world):
        case [Choice(draw=draw) as choice] if draw is not None:
            row, known, found = draw.row(world), world.under(world.chance), []
            for value, share in zip(row.values, row.shares(), strict=True):
                count()
                known.learn(choice, value)
                found.append((read(kept, known), share))
            return found
    return [*enumerate_runs(read_under)]


def row_readings(
    kept: Any,
    world: World,
    count: Callable[[], None],
    instead: Callable[[Chance], Chance] = lambda chance: chance,
) -> Reading:
    """Return the outcomes of a pair's first part, each with a row of the second.

    The row is in doubles. Raises `TypeError` for an outcome that is no such pair.
    """
    if not (isinstance(kept, tuple) and len(kept) == 2):
        raise TypeError(f"the program must return a pair, the second a number, got {kept!r}")
    first, second = kept

    def read_under(chance: Chance) -> Hashable:
        count()
        known = world.under(instead(chance))
        return read(first, known), row_of_number(second, known)

    return [*enumerate_runs(read_under)]


@dataclass(frozen=True)
class CompletedRun:
    """Run of a program that has ended: its answers and its reading."""

    answers: tuple[Answer, ...]
    reading: Reading
    foreign: Sequence[object]
    """Generators that the run drew from, other than a request's."""
    slack: Rational
    probability: Rational
    """Probability of the answers, summed over all runs that this one stands for."""
    count: int = 1
    """Number of runs that this one stands for."""
    has_scalars: bool = False
    """True if the run took a number out of torch."""
    given_up: Rational = ZERO
    """Probability of all runs that were given up, in the last run of a program."""


class Replays:
    """Runs a program under one chance after another.

    Other runs of the program may have had the identities before: what they have kept is told by it.
    Runs that are made again have noise shown as the next of `placeholders`.
    """

    def __init__(
        self,
        program: Callable[[], Any],
        most_runs: int,
        identities: Identities | None = None,
        *,
        placeholders: Iterator[int] | None = None,
        read: OutcomeReader = readings,
    ) -> None:
        self._program = program
        self._placeholders = placeholders or every_placeholder()
        self._read = read
        self._most_runs = most_runs
        self._identities = identities or Identities()
        self._outcomes = 0
        self._has_scalars = False
        self._given_up: list[Rational] = []

    def runs(self, begun: Sequence[Answer] = ()) -> list[CompletedRun]:
        """Return all runs of the program, which was seen to begin with some answers.

        Once a program has taken a number out of torch, it is begun anew: what `type` is must not
        change while it runs.
        """
        try:
            return self._every_run(begun)
        except _ScalarsMet:
            self._has_scalars = True
            self._outcomes = 0
            return self._every_run(begun)

    def made(self, answers: Sequence[Answer]) -> CompletedRun:
        """Return the run that begins with these answers, apart from all others.

        What nobody has looked at is something else in memory than it is in `runs`: a run that
        comes to the same has read none of it past the operators.
        """
        before, self._outcomes = self._outcomes, 0
        placeholder = next(self._placeholders)
        try:
            return self._run(Replay(answers), placeholder)
        except _ScalarsMet:
            self._has_scalars = True
            return self._run(Replay(answers), placeholder)
        finally:
            self._outcomes = before

    def _every_run(self, begun: Sequence[Answer]) -> list[CompletedRun]:
        self._given_up = []
        found = [*self._runs(begun)]
        if not found:
            raise TooManyRuns("every run of the program goes on, with next to no probability")
        return [*found[:-1], replace(found[-1], given_up=total(self._given_up))]

    def _runs(self, begun: Sequence[Answer]) -> Iterator[CompletedRun]:
        replay: Replay | None = Replay()
        known: list[object] = []
        while replay is not None:
            run = self._run_unless_given_up(replay)
            known_before = begun if run is not None else begun[: len(replay.given)]
            if replay.given[: len(known_before)] != [*known_before]:
                raise NondeterministicProgram(
                    f"the first run made {len(replay.given)} random choices, and not those that it "
                    f"made before, of which there were at least {len(begun)}"
                )
            begun = ()
            if run is None:
                replay = replay.next()
                continue
            if not all(is_among(each, known) for each in run.foreign):
                require_lasting(run.foreign, self.made(run.answers).foreign)
                known += run.foreign
            yield run
            replay = replay.next()

    def _run_unless_given_up(self, replay: Replay) -> CompletedRun | None:
        try:
            return self._run(replay)
        except _GivenUp:
            self._given_up.append(replay.probability())
            _require_few(self._given_up)
            return None

    def _run(self, replay: Replay, placeholder: int | None = None) -> CompletedRun:
        """Return a run under the answers of a replay."""
        self._identities.begin_run()
        bounded = _BoundedChance(replay, self._most_runs)
        run = _WatchedRun(self._identities, World(bounded), placeholder)
        refused: list[OpaqueRandomness] = []
        try:
            with run.dispatch:
                with run.doors, self._passing_for_floats(refused):
                    outcome = self._asked()
                kept = frozen(outcome, run.left_open)
        finally:
            run.interpreter.streams.close()
            if run.has_scalars and not self._has_scalars:
                raise _ScalarsMet
            # A program that catches everything must not turn blindness into a law.
            unseen = run.dispatch.opaque or bounded.stopped or next(iter(refused), None)
            if unseen is not None:
                raise unseen

        def count() -> None:
            if self._outcomes == self._most_runs:
                raise TooManyRuns(f"the program has more than {self._most_runs} random outcomes")
            self._outcomes += 1

        try:
            reading = self._read(kept, run.world, count, bounded.instead)
        except NotUnderstood as reason:
            raise run.dispatch.blinded("the program's result", reason) from None
        slack = total(run.interpreter.elements.slacks.values())
        answers, foreign = tuple(replay.given), run.interpreter.streams.foreign
        return CompletedRun(
            answers,
            reading,
            foreign,
            slack,
            probability(answers),
            has_scalars=run.has_scalars,
        )

    @contextlib.contextmanager
    def _passing_for_floats(self, refused: list[OpaqueRandomness]) -> Iterator[None]:
        if not self._has_scalars:
            yield
            return
        with floats_by_type(), refusals(refused):
            yield

    def _asked(self) -> Any:
        try:
            return self._program()
        except Exception as error:
            require_own(error)
            raise


def _require_few(given_up: Sequence[Rational]) -> None:
    """Raise `TooManyRuns` where a loop has more ways to go on than can be followed."""
    if len(given_up) > _MOST_GIVEN_UP:
        raise TooManyRuns(
            f"the program has a loop that may go on for ever, and in more than {_MOST_GIVEN_UP} "
            f"ways: after {_FEW_CHOICES} random choices each has a probability below 2**-48, and "
            f"all together are not known to be negligible"
        )


def every_placeholder() -> Iterator[int]:
    """Return the placeholders of noise in repeated runs: by turns below and above other numbers.

    In all other runs the placeholder is NaN, which is neither.
    """
    return cycle((0, 1))


def thorough(again: Sequence[Found]) -> Sequence[Found]:
    """Return the runs to repeat, a single one twice, so that each placeholder has its turn."""
    return [*again, *again] if len(again) == 1 else again


class Disagreement(OpaqueRandomness):
    """Error of a repeated run with a different result: the program depends on its past."""


def require_same(first: Reading, again: Reading) -> None:
    """Require that a repeated run has the same reading. Raises `Disagreement`."""
    if first != again:  # in lists, where a NaN equals itself
        was, is_now = next(both for both in zip_longest(first, again) if [both[0]] != [both[1]])
        raise Disagreement(
            "the program",
            f"returned {_told(was)} in one run and {_told(is_now)} in another with the same random "
            f"choices: it drew from, or depends on, something that the exact lane does not see",
        )


def _told(outcome: tuple[Hashable, Rational] | None) -> str:
    return "nothing" if outcome is None else repr(outcome[0])


def require_lasting(generators: Sequence[object], again: Sequence[object]) -> None:
    """Require that a run, made again, met the same generators: it does not make them.

    Raises `Disagreement`.
    """
    for each in generators:
        if not is_among(each, again):
            reason = "is made by the program in each run, which then decides what it draws"
            raise Disagreement(_REAL_TYPE(each).__name__, reason)


# The builtin says other things in programs that have numbers of random tensors.
_REAL_TYPE = type


class _ScalarsMet(Exception):
    """Error of a run that took a number out of torch while `type` did not report a float."""


def _is_one_number(args: Any, kwargs: Any) -> bool:
    return _REAL_TYPE(args[0]) is Tensor and args[0].numel() == 1 and not kwargs and len(args) == 1


class _WatchedRun:
    """Run of a program, in one world."""

    def __init__(self, identities: Identities, world: World, placeholder: int | None) -> None:
        self.world = world
        settle = partial(identities.settle, world=world)
        self.interpreter = Interpreter(identities, settle, placeholder=placeholder)
        self.interpreter.streams.run = self
        self.dispatch = Dispatch(self.interpreter.run)
        self.doors = Doors(self.dispatch, self._look)
        self.has_scalars = False

    def _look(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Decide the choices in tensors that are about to be read past the dispatcher."""
        identities = self.interpreter.elements.identities
        if func is as_array and identities.of(args[0]) is not None:
            self.has_scalars = True
            return Array(args[0])
        if func in NUMBERS and _is_one_number(args, kwargs):
            number = self._number_in(args[0])
            if number is None:
                return PASSED
            if func is Tensor.item and isinstance(number, Noise):
                return self.scalar(held(number, torch.float64))
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            touched = identities.among(tensors_in(opened((args, kwargs))))
        noise = next(filter(self._is_noise, touched), None)
        if noise is not None:
            return self._of_noise(noise, func, args, kwargs)
        if func in EXPOSING:
            identities.expose(args[0])
        return PASSED

    def _of_noise(self, tensor: Tensor, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what a function makes of a tensor in which there is noise."""
        self.has_scalars = self.has_scalars or func in (Tensor.item, TOLIST)
        if func is Tensor.item and tensor.numel() != 1:
            ran(func, args, kwargs)
        if func is Tensor.item:
            (noise,) = self.interpreter.elements.identities.noises(tensor)
            return Scalar(None, held(noise, torch.float64), self)
        if func is TOLIST:
            return scalars(tensor)
        if func is Tensor.__int__ and tensor.numel() == 1:
            return int(Scalar(tensor.reshape(())))
        raise NotUnderstood("takes noise out of torch: compare it as a tensor, or as its item()")

    def _number_in(self, tensor: Tensor) -> Noise | Choice | None:
        """Return the random number in a tensor of one element, None if it is an ordinary one."""
        noting = begin_own_code()
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                return self.interpreter.elements.identities.only(tensor)
        finally:
            end_own_code(noting)

    def _is_noise(self, tensor: Tensor) -> bool:
        """Decide the choices in a tensor; return whether there is noise in it."""
        elements = self.interpreter.elements
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            elements.settle(tensor)
            return elements.identities.has_noise(tensor)

    def alone(self, _: str) -> _WatchedRun:
        """Return the run, for what is done in single runs only."""
        return self

    def scalar(self, noise: Noise) -> Scalar:
        """Return a random number as Python has it, which no tensor holds."""
        self.has_scalars = True
        return Scalar(None, noise, self)

    def tensor(self, noise: Noise) -> Tensor:
        """Return a tensor that holds a random number, as what torch makes of a float."""
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            made = torch.full((), nan, dtype=torch.float64)
            elements = self.interpreter.elements
            elements.attach(made, torch.tensor(elements.identities.id_of(noise)))
        return made

    def understood(self, name: str, ask: Callable[[], Found]) -> Found:
        """Return the answer of a function, which may say that noise is `NotUnderstood`."""
        noting = begin_own_code()
        try:
            return ask()
        except Exception as error:
            self.dispatch.tell(name, error)
        finally:
            end_own_code(noting)

    def left_open(self, tensor: Tensor) -> Any:
        """Return a tensor of the result, with the choices in it that nobody looked at."""
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            try:
                return left_open(tensor, self.interpreter.elements.identities)
            except NotUnderstood as reason:
                raise self.dispatch.blinded("the program's result", reason) from None
