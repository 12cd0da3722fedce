"""The exact lane: the law of a PyTorch program, by trying every outcome of its randomness.

The program runs under two torch modes. Its calls to the random generator return placeholders
whose elements have an identity; data movement is followed, the known arithmetic is solved,
and where the program looks at a random number its run splits. What it returns without a look
splits nothing: the run has a law of outcomes then. What cannot be followed raises
`OpaqueRandomness` with the operator and the program's own line. Never a wrong law.

    >>> import torch
    >>> observed = exact_law(lambda: torch.rand(2) < torch.tensor([0.25, 0.5]))
    >>> {outcome: str(weight) for outcome, weight in observed.law.items()}  # doctest: +ELLIPSIS
    {(True, True): '1/8', (True, False): '1/8', (False, True): '3/8', (False, False): '3/8'}

What is taken as ideal: uniform numbers are continuous (float32's are multiples of 2**-24; in
half and bfloat16 they are rounded as torch rounds them), and exponential and multinomial draws
have their exact law. What a program adds to a number or takes it times is not rounded, either.
What no mode of torch can see is not
seen here either: memory that a compiled extension reads through a raw pointer, and other
threads that were already running. Functions under `torch.compile` run as they are written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from math import isnan, nan
from typing import Any, Generic, TypeAlias, TypeVar

import numpy
import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from draftproof.conformance.lanes import _foreign as foreign
from draftproof.conformance.lanes._identity import Identities
from draftproof.conformance.lanes._noise import Choice, NotUnderstood, World
from draftproof.conformance.lanes._operators import Interpreter, tensors_in
from draftproof.conformance.lanes._scalar import (
    Scalar,
    floats_by_type,
    opened,
    refusals,
    require_own,
    scalars,
    tensor_of,
)
from draftproof.conformance.lanes.opaque import OpaqueRandomness, program_line
from draftproof.conformance.lanes.unwatched import hold
from draftproof.reference.chance import Chance, NondeterministicProgram, enumerate_runs
from draftproof.reference.errors import InvalidInput
from draftproof.reference.law import Law
from draftproof.reference.rational import ZERO, Rational

__all__ = ["ExactLaw", "OpaqueRandomness", "TooManyRuns", "exact_law", "hold_exact"]

Outcome = TypeVar("Outcome", bound=Hashable)


class TooManyRuns(RuntimeError):
    """The program has more random outcomes than were allowed."""


@dataclass(frozen=True)
class ExactLaw(Generic[Outcome]):
    """The law of a program, the runs that it took, and how far the true law may lie from it.

    `slack` bounds the total variation distance that comes from constants which guard noise
    against zero (`u + 1e-10`) and were dropped; it is 0 for a program without them.
    """

    law: Law[Outcome]
    runs: int
    slack: Rational


def exact_law(
    program: Callable[[], Outcome | Tensor],
    *,
    most_runs: int = 1_000_000,
    is_held: bool = True,
) -> ExactLaw[Any]:
    """Return the exact law of what `program` returns.

    The program is run once for every sequence of random outcomes that it looks at, so it must
    depend on nothing that changes from run to run. It may return tensors and arrays, and tuples,
    lists, dictionaries or dataclasses of them: they become nested tuples of numbers. Weights sum
    to exactly 1.

    Where laws are held against real runs (`unwatched.holding`), so is this one, unless `is_held`
    is False. Raises `OpaqueRandomness`, `TooManyRuns`, and whatever the program raises.
    """
    lane = _Lane(program, most_runs)
    weights: dict[Any, Rational] = {}
    with foreign.generators_untouched(program), _one_thread(), _uncompiled():
        runs = lane.runs()
        repeated = lane.again()
    for reading, probability in runs:
        for outcome, weight in reading:
            weights[outcome] = weights.get(outcome, ZERO) + probability * weight
    first, _ = runs[0]
    if repeated != first:  # in lists, where a NaN equals itself
        was, is_now = next(both for both in zip_longest(first, repeated) if [both[0]] != [both[1]])
        raise OpaqueRandomness(
            "the program",
            f"returned {_told(was)} in one run and {_told(is_now)} in another with the same random "
            f"choices: it drew from, or depends on, something that the exact lane does not see",
        )
    found = ExactLaw(Law(weights), len(runs), lane.slack)
    if is_held:
        hold_exact(found, program)
    return found


def hold_exact(
    found: ExactLaw[Any],
    program: Callable[[], Any],
    *,
    many: Callable[[int], Mapping[Hashable, int]] | None = None,
    at_once: int = 1,
) -> None:
    """Hold a program's law against real runs, if that is asked for (`unwatched.holding`).

    `many(n)` counts the outcomes of n runs, as a program that takes rows has them from one call;
    tensors in them are tuples. `at_once` rows cost about as much as one.
    """
    with _one_thread(), _uncompiled():
        hold(
            found.law,
            slack=found.slack,
            alone=len(found.law),
            rows=min(-(-len(found.law) // 2) * at_once, _MOST_ROWS),
            one=lambda: _frozen(program()),
            many=many,
        )


def _told(outcome: tuple[Hashable, Rational] | None) -> str:
    return "nothing" if outcome is None else repr(outcome[0])


# A watched run costs some twelve real ones: a real call for every outcome, and one of many rows,
# are a tenth of a campaign at most. More rows than these tell little more.
_MOST_ROWS = 1024


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch to one thread: for tensors so small, waking others costs a hundred times more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _uncompiled() -> contextlib.AbstractContextManager[Any]:
    """Let compiled functions run as they are written: what is compiled cannot be followed."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")  # type: ignore[no-any-return]  # torch is untyped here


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


class _Lane:
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
            return [*enumerate_runs(self._run)]
        except _ScalarsMet:
            self._has_scalars = True
            self._outcomes = 0
            return [*enumerate_runs(self._run)]

    def again(self) -> Reading:
        """Return what is read of the first run, made again."""
        self._outcomes = 0
        reading, _ = next(enumerate_runs(self._run))
        return reading

    def _run(self, answers: Chance) -> Reading:
        """Return the program's outcomes under these answers."""
        self._identities.begin_run()
        bounded = _Bounded(answers)
        interpreter = Interpreter(self._identities, bounded)
        dispatch = _Dispatch(interpreter)
        python = _Python(dispatch)
        refused: list[OpaqueRandomness] = []
        try:
            with dispatch:
                with python, self._passing_for_floats(refused):
                    outcome = self._asked()
                frozen = _frozen(outcome, dispatch)
        finally:
            interpreter.streams.close()
            if python.has_scalars and not self._has_scalars:
                raise _ScalarsMet
            # A program that catches everything must not turn blindness into a law.
            unseen = dispatch.opaque or bounded.stopped or next(iter(refused), None)
            if unseen is not None:
                raise unseen
        self.slack = max(self.slack, interpreter.slack)

        def read(chance: Chance) -> Hashable:
            if self._outcomes == self._most_runs:
                raise TooManyRuns(f"the program has more than {self._most_runs} random outcomes")
            self._outcomes += 1
            try:
                return _read(frozen, interpreter.world.under(bounded.instead(chance)))
            except NotUnderstood as reason:
                raise dispatch.blinded("the program's result", reason) from None

        return [*enumerate_runs(read)]

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


# What an operator of torch never raises.
_NEVER_TORCHS = (ArithmeticError, AssertionError, AttributeError, InvalidInput, KeyError)


class _Dispatch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch is
    """Hands every operator to the interpreter."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Dynamo would otherwise be imported, for a second, to be told to keep out of here.
        return False

    def __init__(self, interpreter: Interpreter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch is
        self.interpreter = interpreter
        self.opaque: OpaqueRandomness | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not isinstance(func, OpOverload):
            raise self.blinded(str(func), NotUnderstood("runs a program inside of the program"))
        if _is_composite(func):
            # Inference mode does not take operators apart into the ones that we know.
            with self:
                return func.decompose(*args, **(kwargs or {}))
        # Our own code must not meet the guards that are set for the program's.
        with torch._C.DisableTorchFunction():
            try:
                return self.interpreter.run(func, args, kwargs or {})
            except NotUnderstood as reason:
                raise self.blinded(str(func), reason) from None
            except _NEVER_TORCHS as error:
                # Ours to answer for: the program must not be blamed for it.
                ours = NotUnderstood(f"could not be followed: {error!r}")
                raise self.blinded(str(func), ours) from error

    def blinded(self, operator: str, reason: NotUnderstood) -> OpaqueRandomness:
        """Return, and remember, the error that names the operator and the program's own line."""
        self.opaque = OpaqueRandomness(operator, str(reason), program_line())
        return self.opaque

    def settle(self, tensor: Tensor) -> None:
        """Decide the choices in a tensor that is about to be read past the dispatcher."""
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            self.interpreter.settle(tensor)


class _Python(TorchFunctionMode):
    """Guards the doors through which Python reads a tensor's memory past the dispatcher."""

    def __init__(self, dispatch: _Dispatch) -> None:
        super().__init__()
        self._dispatch = dispatch
        self.has_scalars = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _COPIERS and args and isinstance(args[-1], Tensor):
            return func(*args, **kwargs)
        if func in _READERS or func in _COPIERS:
            interpreter = self._dispatch.interpreter
            try:
                tensors = interpreter.identities.among(tensors_in(opened((args, kwargs))))
                for tensor in tensors:
                    self._dispatch.settle(tensor)
                    if not interpreter.identities.has_noise(tensor):
                        continue
                    self.has_scalars = self.has_scalars or func in (Tensor.item, Tensor.tolist)
                    if func is Tensor.item:
                        return Scalar(tensor.reshape(()))
                    if func is Tensor.tolist:
                        return scalars(tensor)
                    raise NotUnderstood(
                        "takes noise out of torch: compare it as a tensor, or as its item()"
                    )
            except NotUnderstood as reason:
                raise self._dispatch.blinded(func.__name__, reason) from None
        return func(*args, **kwargs)


_READERS = {
    Tensor.__array__,
    Tensor.__bool__,
    Tensor.__complex__,
    Tensor.__deepcopy__,
    Tensor.__dlpack__,
    Tensor.__float__,
    Tensor.__format__,
    Tensor.__index__,
    Tensor.__int__,
    Tensor.__reduce_ex__,
    Tensor.__repr__,
    Tensor.data_ptr,
    Tensor.item,
    Tensor.numpy,
    Tensor.storage,
    Tensor.tensor_split,
    Tensor.tolist,
    Tensor.untyped_storage,
    torch.save,
    torch.tensor_split,
}

# These read the tensors in a list, but pass a tensor itself on to the dispatcher.
_COPIERS = {Tensor.new, Tensor.new_tensor, torch.as_tensor, torch.asarray, torch.tensor}


@cache
def _is_composite(func: OpOverload) -> bool:
    name = func.name()  # type: ignore[no-untyped-call]  # torch is untyped
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")


def _frozen(outcome: Any, dispatch: _Dispatch | None = None) -> Hashable:
    """Return the outcome with every tensor as nested tuples of plain numbers.

    Under a dispatcher, one with choices that nobody looked at stays `_Unread`.
    """
    if isinstance(outcome, Scalar):
        outcome = tensor_of(outcome)
    if isinstance(outcome, Tensor):
        unread = None if dispatch is None else _unread(outcome, dispatch)
        if unread is not None:
            return unread
        outcome = outcome.tolist()
    if isinstance(outcome, (numpy.ndarray, numpy.generic)):
        outcome = outcome.tolist()
    if dataclasses.is_dataclass(outcome) and not isinstance(outcome, type):
        outcome = [getattr(outcome, field.name) for field in dataclasses.fields(outcome)]
    if isinstance(outcome, (list, tuple)):
        return tuple(_frozen(value, dispatch) for value in outcome)
    if isinstance(outcome, dict):
        return tuple((key, _frozen(value, dispatch)) for key, value in outcome.items())
    if isinstance(outcome, (set, frozenset)):
        return frozenset(_frozen(value, dispatch) for value in outcome)
    return _comparable(outcome)


@dataclass(frozen=True, eq=False)
class _Unread:
    """A tensor in a result with choices that nobody has looked at, by their places in it."""

    values: Tensor
    choices: dict[int, Choice]

    def read(self, world: World) -> Any:
        """Return the tensor's values in a world, as nested lists."""
        values = self.values.clone()
        flat = values.view(-1)
        for place, choice in self.choices.items():
            flat[place] = choice.value(world)
        return values.tolist()


def _unread(outcome: Tensor, dispatch: _Dispatch) -> _Unread | None:
    """Return a tensor in a result with the choices in it left open, None if there are none.

    Raises `OpaqueRandomness` for a number that is continuous.
    """
    identities = dispatch.interpreter.identities
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        ids = identities.of(outcome)
        if ids is None:
            return None
        try:
            numbers = {
                place: identities.number(identity)
                for place, identity in enumerate(ids.flatten().tolist())
                if identity
            }
        except NotUnderstood as reason:
            raise dispatch.blinded("the program's result", reason) from None
        choices = {place: each for place, each in numbers.items() if isinstance(each, Choice)}
        if len(choices) < len(numbers):
            continuous = NotUnderstood("is continuous: it has no finite law")
            raise dispatch.blinded("the program's result", continuous)
        values = torch.empty(outcome.shape, dtype=outcome.dtype, device=outcome.device)
        return _Unread(values.copy_(outcome), choices)


def _read(frozen: Any, world: World) -> Hashable:
    """Return the outcome in a world: what was not looked at is decided in it."""
    if isinstance(frozen, _Unread):
        return _frozen(frozen.read(world))
    if isinstance(frozen, tuple):
        return tuple(_read(each, world) for each in frozen)
    if isinstance(frozen, frozenset):
        return frozenset(_read(each, world) for each in frozen)
    outcome: Hashable = frozen
    return outcome


def _comparable(outcome: Any) -> Hashable:
    """Return an outcome that equals the same outcome of another run."""
    if isinstance(outcome, float) and isnan(outcome):
        # Two NaNs are equal only if they are the same object.
        return nan
    kind: Any = type(outcome)
    if outcome is not None and (kind.__hash__ is None or kind.__eq__ is object.__eq__):
        raise TypeError(
            f"the program returned {kind.__name__} {outcome!r}, which has no value to be "
            f"compared by: return tensors, numbers or strings, or nests of them"
        )
    return outcome  # type: ignore[no-any-return]  # whatever the program returned
