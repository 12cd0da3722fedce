"""The runs of a program, one after another: every run gives the next answers to its choices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from draftproof.conformance.lanes._identity import Identities
from draftproof.conformance.lanes._noise import NotUnderstood, World
from draftproof.conformance.lanes._operators import Interpreter, tensors_in
from draftproof.conformance.lanes._outcome import frozen, left_open, read
from draftproof.conformance.lanes._scalar import (
    Scalar,
    floats_by_type,
    opened,
    refusals,
    require_own,
    scalars,
)
from draftproof.conformance.lanes._streams import is_among
from draftproof.conformance.lanes._watch import EXPOSING, PASSED, Dispatch, Doors
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.reference.chance import Chance, NondeterministicProgram, Replay, enumerate_runs
from draftproof.reference.rational import ZERO, Rational


class TooManyRuns(RuntimeError):
    """The program has more random outcomes than were allowed."""


# More choices than this in one run are a loop that may go on for ever.
_MOST_CHOICES = 10_000


class _Bounded:
    """Passes a bounded number of choices on, and remembers why it stopped."""

    def __init__(self, chance: Chance, left: int = _MOST_CHOICES) -> None:
        self._chance = chance
        self._left = left
        self.stopped: RuntimeError | None = None

    def draw(self, weights: Sequence[Rational]) -> int:
        self._left -= 1
        try:
            if self._left < 0:
                raise TooManyRuns(
                    f"a run of the program made more than {_MOST_CHOICES} random choices"
                )
            return self._chance.draw(weights)
        except (TooManyRuns, NondeterministicProgram) as reason:
            self.stopped = reason
            raise

    def coin(self, probability: Rational) -> bool:
        return self.draw((probability, 1 - probability)) == 0

    def instead(self, chance: Chance) -> _Bounded:
        """Return what passes as many choices of another chance on as are left."""
        return _Bounded(chance, self._left)


Reading: TypeAlias = list[tuple[Hashable, Rational]]
"""The outcomes of a run, with their weights: several, where it returns what nobody looked at."""


class Replays:
    """Runs a program under one chance after another."""

    def __init__(self, program: Callable[[], Any], most_runs: int) -> None:
        self._program = program
        self._most_runs = most_runs
        self._identities = Identities()
        self._outcomes = 0
        self._has_scalars = False
        self.slack: Rational = ZERO

    def runs(self) -> list[tuple[Reading, Rational]]:
        """Return what was read of every run, with its weight.

        Once a program has taken a number out of torch, it is begun anew: what `type` is must not
        change while it runs.
        """
        try:
            return [*self._runs()]
        except _ScalarsMet:
            self._has_scalars = True
            self._outcomes = 0
            return [*self._runs()]

    def again(self) -> Reading:
        """Return what is read of the first run, made again."""
        self._outcomes = 0
        return self._run(Replay())[0]

    def _runs(self) -> Iterator[tuple[Reading, Rational]]:
        replay: Replay | None = Replay()
        known: list[torch.Generator] = []
        while replay is not None:
            reading, generators = self._run(replay)
            if not all(is_among(each, known) for each in generators):
                self._require_lasting(generators, replay)
                known += generators
            yield reading, replay.probability()
            replay = replay.next()

    def _require_lasting(self, generators: Sequence[torch.Generator], made: Replay) -> None:
        """Require that a run, made again, meets the same generators: it does not make them."""
        before = self._outcomes
        _, again = self._run(Replay(made.given))
        self._outcomes = before
        if not all(is_among(each, again) for each in generators):
            raise OpaqueRandomness(
                "Generator", "is made by the program in each run, which then decides what it draws"
            )

    def _run(self, answers: Chance) -> tuple[Reading, Sequence[torch.Generator]]:
        """Return what is read of a run under these answers, and its foreign generators."""
        self._identities.begin_run()
        bounded = _Bounded(answers)
        run = _Run(Interpreter(self._identities, World(bounded)))
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
        self.slack = max(self.slack, run.interpreter.slack)

        def read_under(chance: Chance) -> Hashable:
            if self._outcomes == self._most_runs:
                raise TooManyRuns(f"the program has more than {self._most_runs} random outcomes")
            self._outcomes += 1
            try:
                return read(kept, run.interpreter.world.under(bounded.instead(chance)))
            except NotUnderstood as reason:
                raise run.dispatch.blinded("the program's result", reason) from None

        return [*enumerate_runs(read_under)], run.interpreter.streams.foreign

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


class _ScalarsMet(Exception):
    """A run of the program took a number out of torch, and `type` did not say float of it."""


class _Run:
    """One run of a program, in one world."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.dispatch = Dispatch(interpreter.run)
        self.doors = Doors(self.dispatch, self._look)
        self.has_scalars = False

    def _look(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Decide the choices in tensors that are about to be read past the dispatcher."""
        identities = self.interpreter.identities
        for tensor in identities.among(tensors_in(opened((args, kwargs)))):
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                self.interpreter.settle(tensor)
            if not identities.has_noise(tensor):
                continue
            self.has_scalars = self.has_scalars or func in (Tensor.item, Tensor.tolist)
            if func is Tensor.item:
                return Scalar(tensor.reshape(()))
            if func is Tensor.tolist:
                return scalars(tensor)
            raise NotUnderstood(
                "takes noise out of torch: compare it as a tensor, or as its item()"
            )
        if func in EXPOSING:
            identities.expose(args[0])
        return PASSED

    def left_open(self, tensor: Tensor) -> Any:
        """Return a tensor of the result, with the choices in it that nobody looked at."""
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            try:
                return left_open(tensor, self.interpreter.identities)
            except NotUnderstood as reason:
                raise self.dispatch.blinded("the program's result", reason) from None
