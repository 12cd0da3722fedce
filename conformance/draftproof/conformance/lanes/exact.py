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
seen here either: memory that a compiled extension reads through a raw pointer, what is read while
torch's own functions are told to pass modes by, and other threads that were already running.
Functions under `torch.compile` run as they are written.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from draftproof.conformance.lanes import _foreign as foreign
from draftproof.conformance.lanes._outcome import frozen
from draftproof.conformance.lanes._replay import (
    Disagreement,
    Made,
    TooManyRuns,
    require_same,
)
from draftproof.conformance.lanes._walks import Walks, alike
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.lanes.unwatched import hold
from draftproof.reference.chance import NondeterministicProgram
from draftproof.reference.law import Law
from draftproof.reference.rational import ZERO, Rational

__all__ = ["ExactLaw", "OpaqueRandomness", "TooManyRuns", "exact_law", "exact_laws", "hold_exact"]

Outcome = TypeVar("Outcome", bound=Hashable)
Subject = TypeVar("Subject")


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

    Every sequence of random outcomes that it looks at is tried, so it must depend on nothing that
    changes from run to run. It may return tensors and arrays, and tuples, lists, dictionaries or
    dataclasses of them: they become nested tuples of numbers. Weights sum to exactly 1.

    Where laws are held against real runs (`unwatched.holding`), so is this one, unless `is_held`
    is False. Raises `OpaqueRandomness`, `TooManyRuns`, and whatever the program raises.
    """

    def of_nothing(_: None) -> Any:
        return program()

    with _watching(program):
        (found,) = _laws(of_nothing, [None], most_runs)
    if is_held:
        hold_exact(found, program)
    return found


def exact_laws(
    program: Callable[[Subject], Any],
    subjects: Sequence[Subject],
    *,
    most_runs: int = 1_000_000,
) -> list[ExactLaw[Any]]:
    """Return the exact law of what `program` returns of each subject.

    Subjects are tensors, or tuples, lists, dictionaries or dataclasses of them and other things.
    The program gets copies, and may write to them. It must do the same with alike subjects, but for
    what it reads in their tensors. All else is as `exact_law` says, for each of them.
    """
    laws: dict[int, ExactLaw[Any]] = {}
    with _watching(program):
        for group in alike(subjects):
            own = [subjects[number] for number in group]
            laws.update(zip(group, _laws(program, own, most_runs), strict=True))
    return [laws[number] for number in range(len(subjects))]


@contextlib.contextmanager
def _watching(program: Callable[..., Any]) -> Iterator[None]:
    """Let nothing that the lane cannot follow go on unseen in a program."""
    with foreign.generators_untouched(program), _one_thread(), _uncompiled():
        yield


def _laws(
    program: Callable[[Subject], Any], subjects: Sequence[Subject], most_runs: int
) -> list[ExactLaw[Any]]:
    """Return the laws on subjects that are alike: of runs together, or else of each by itself."""
    walks = Walks(program, subjects, most_runs)
    try:
        return [_law(runs) for runs in walks.runs()]
    except (TooManyRuns, NondeterministicProgram, Disagreement):
        raise
    except Exception:
        # Run by run more can be followed, and it is the first run that raises what is raised.
        return [_replayed(walks, number) for number in range(len(subjects))]


def _replayed(walks: Walks, number: int) -> ExactLaw[Any]:
    """Return the law on a subject, run by run."""
    replays = walks.replays(number)
    runs = replays.runs(walks.begun(number))
    require_same(runs[0].reading, replays.made(()).reading)
    return _law(runs)


def _law(runs: Sequence[Made]) -> ExactLaw[Any]:
    weights: dict[Any, Rational] = {}
    for run in runs:
        probability = run.probability()
        for outcome, weight in run.reading:
            weights[outcome] = weights.get(outcome, ZERO) + probability * weight
    return ExactLaw(Law(weights), len(runs), max(run.slack for run in runs))


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
            one=lambda: frozen(program()),
            many=many,
        )


# More rows of a call than these tell little more.
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
