"""The exact lane: the law of a PyTorch program, by trying every outcome of its randomness.

The program runs under two torch modes. Its calls to the random generator return placeholders whose
elements have an identity. The lane follows data movement, solves the known arithmetic, and splits
the run where the program looks at a random number. Random numbers that the program returns without
a look do not split the run: the run then has a law of outcomes. Operations that the lane cannot
follow raise `OpaqueRandomness` with the operator and the program's own line. The lane never returns
a wrong law.

    >>> import torch
    >>> observed = exact_law(lambda: torch.rand(2) < torch.tensor([0.25, 0.5]))
    >>> {outcome: str(weight) for outcome, weight in observed.law.items()}  # doctest: +ELLIPSIS
    {(True, True): '1/8', (True, False): '1/8', (False, True): '3/8', (False, False): '3/8'}

Random numbers are taken as ideal. Uniform numbers are continuous, although those of float32 are
multiples of 2**-24. In half and bfloat16 they are rounded as torch rounds them, and so are sums,
products and quotients with them; powers, exponentials and logarithms count as rounded once.
Exponential and multinomial draws have their exact law. Sums and products of a random number and a
constant are not rounded either. The lane refuses programs for which that would matter: if an edge
is within rounding of a point of positive probability, as of a clamped number, or if a large number
swamps a random one. It also refuses numbers that are likely too large or too small for their type.
It cannot see what no mode of torch can see: memory that a compiled extension reads through a raw
pointer, reads while torch's own functions are told to bypass modes, the state of a generator that
is read as numbers, and other threads that were already running. Functions under `torch.compile` run
uncompiled.

The lane also answers draws by Python's `random`, numpy's generators and `secrets` (`_sources`):
their uniform numbers are continuous, and their choices draw from the given weights. It gives up
runs of a loop that continues with next to no probability, and counts them as slack.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy
from numpy.typing import NDArray
from torch import Tensor

from draftproof.conformance.lanes import _foreign as foreign
from draftproof.conformance.lanes._conditions import is_made_again, one_thread, uncompiled
from draftproof.conformance.lanes.exact._choice import UNIT, Doubles
from draftproof.conformance.lanes.exact._outcome import frozen, number_in
from draftproof.conformance.lanes.exact._replay import (
    CompletedRun,
    Disagreement,
    require_same,
    row_readings,
    thorough,
)
from draftproof.conformance.lanes.exact._sources import followed
from draftproof.conformance.lanes.exact._walks import Walks, alike
from draftproof.conformance.lanes.opaque import OpaqueRandomness, TooManyRuns
from draftproof.conformance.lanes.unwatched import MOST, hold
from draftproof.reference.chance import NondeterministicProgram
from draftproof.reference.law import Law
from draftproof.reference.rational import ZERO, Rational, exactly, readable, total

__all__ = [
    "ExactLaw",
    "OpaqueRandomness",
    "RowLaw",
    "TooManyRuns",
    "exact_law",
    "exact_laws",
    "hold_exact",
    "row_law",
]

Outcome = TypeVar("Outcome", bound=Hashable)
Subject = TypeVar("Subject")


@dataclass(frozen=True)
class ExactLaw(Generic[Outcome]):
    """Law of a program, the number of its runs, and a bound on the error of the law.

    `slack` bounds the total variation distance from the true law. It comes from dropped constants
    that guard noise against zero (`u + 1e-10`), and from iterations of a loop that were given up;
    it is 0 for a program without them. `has_scalars` is true for a program that took random numbers
    out of torch.
    """

    __repr__ = readable

    law: Law[Outcome]
    runs: int
    slack: Rational
    has_scalars: bool = False


def exact_law(
    program: Callable[[], Outcome | Tensor],
    *,
    most_runs: int = 1_000_000,
    is_held: bool = True,
) -> ExactLaw[Any]:
    """Return the exact law of the outcome that `program` returns.

    The lane tries every sequence of random outcomes that the program looks at, so the program must
    depend on nothing that changes from run to run. It may return tensors and arrays, and tuples,
    lists, dictionaries or dataclasses of them: they become nested tuples of numbers. Weights sum to
    exactly 1.

    If laws are compared with real runs (`unwatched.holding`), this law is too, unless `is_held` is
    False. Raises `OpaqueRandomness`, `TooManyRuns`, and any error that the program raises.
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
    """Return the exact law of the outcome that `program` returns for each subject.

    Subjects are tensors, or tuples, lists, dictionaries or dataclasses that contain tensors. The
    program gets copies, and may write to them. It must do the same with similar subjects, except
    for what it reads in their tensors. Otherwise each law is as `exact_law` defines it.
    """
    laws: dict[int, ExactLaw[Any]] = {}
    with _watching(program):
        for group in alike(subjects):
            own = [subjects[number] for number in group]
            laws.update(zip(group, _laws(program, own, most_runs), strict=True))
    return [laws[number] for number in range(len(subjects))]


@dataclass(frozen=True)
class RowLaw:
    """The law of a program that returns an outcome and a token, in doubles.

    `rows[outcome]` [size] has the probabilities of the outcome with each token. Their total
    variation distance from the law is at most `error` plus `slack`; `slack` is as in `ExactLaw`.
    """

    rows: Mapping[Hashable, NDArray[numpy.float64]]
    runs: int
    slack: Rational
    error: float

    def distance(self, other: Mapping[Hashable, NDArray[numpy.float64]]) -> float:
        """Return the total variation distance from other rows, each [size]."""
        nothing = numpy.zeros(1)
        return 0.5 * sum(
            float(abs(self.rows.get(outcome, nothing) - other.get(outcome, nothing)).sum())
            for outcome in dict.fromkeys([*self.rows, *other])
        )


def row_law(
    program: Callable[[], tuple[Any, Any]],
    size: int,
    *,
    most_runs: int = 1_000_000,
    is_held: bool = True,
) -> RowLaw:
    """Return the law of a program that returns an outcome and a token in 0..size - 1.

    The outcome is any result that `exact_law` takes; the token is one whole number, in a tensor or
    not. A token that the program does not look at does not split the run, however large its range:
    its law is a row. So the law is in doubles, with a bound on its error. Raises as `exact_law`
    does, `TypeError` for a program that returns anything else, and `ValueError` for a token out of
    range.
    """

    def of_nothing(_: None) -> Any:
        return program()

    with _watching(program):
        walks = Walks(of_nothing, [None], most_runs, read=row_readings)
        (runs,) = _runs(walks, 1)
    found = _row_law(runs, size)
    if is_held:
        hold_rows(found, program)
    return found


def _row_law(runs: Sequence[CompletedRun], size: int) -> RowLaw:
    weights: dict[tuple[Hashable, Doubles], Rational] = {}
    for run in runs:
        for found, share in run.reading:
            pair = cast("tuple[Hashable, Doubles]", found)
            weights[pair] = weights.get(pair, ZERO) + run.probability * share
    rows: dict[Hashable, NDArray[numpy.float64]] = {}
    error = 0.0
    for (outcome, row), weight in weights.items():
        _require_within(row.values, size)
        own = rows.setdefault(outcome, numpy.zeros(size))
        numpy.add.at(own, row.values, float(weight) * row.shares)
        error += float(weight) * row.error
    # A weight is cut off to a double, multiplied, and added at most so many times.
    error += (len(weights) + 4) * UNIT * (1 + error)
    # What was given up is missing from the rows.
    slack = max(run.slack for run in runs) + total(run.given_up for run in runs)
    return RowLaw(rows, sum(run.count for run in runs), slack, error)


def _require_within(tokens: NDArray[numpy.int64], size: int) -> None:
    strays = tokens[(tokens < 0) | (tokens >= size)]
    if strays.size:
        raise ValueError(f"the program returned token {strays[0]}, which is not in 0..{size - 1}")


@contextlib.contextmanager
def _watching(program: Callable[..., Any]) -> Iterator[None]:
    """Watch the program, so that it cannot do unseen what the lane cannot follow."""
    with foreign.generators_untouched(program), followed(), one_thread(), uncompiled():
        yield


def _laws(
    program: Callable[[Subject], Any], subjects: Sequence[Subject], most_runs: int
) -> list[ExactLaw[Any]]:
    """Return the laws on similar subjects, from runs together, or from separate runs if need be."""
    return [_law(runs) for runs in _runs(Walks(program, subjects, most_runs), len(subjects))]


def _runs(walks: Walks, count: int) -> list[list[CompletedRun]]:
    """Return the runs on each of `count` subjects."""
    try:
        return walks.runs()
    except (TooManyRuns, NondeterministicProgram, Disagreement):
        raise
    except Exception:
        # Run by run more can be followed, and it is the first run that raises what is raised.
        return [_replayed(walks, number) for number in range(count)]


def _replayed(walks: Walks, number: int) -> list[CompletedRun]:
    """Return the runs on a subject, made one by one."""
    replays = walks.replays(number)
    runs = replays.runs(walks.begun(number))
    again = [run for count, run in enumerate(runs, 1) if is_made_again(count)]
    for run in thorough(again):
        require_same(run.reading, replays.made(run.answers).reading)
    return runs


def _law(runs: Sequence[CompletedRun]) -> ExactLaw[Any]:
    weights: dict[Any, Rational] = {}
    for run in runs:
        for outcome, weight in run.reading:
            weights[outcome] = weights.get(outcome, ZERO) + run.probability * weight
    given_up = total(run.given_up for run in runs)
    if given_up:
        weights = {outcome: weight / (1 - given_up) for outcome, weight in weights.items()}
    return ExactLaw(
        Law(weights),
        sum(run.count for run in runs),
        max(run.slack for run in runs) + given_up,
        any(run.has_scalars for run in runs),
    )


def hold_exact(
    found: ExactLaw[Any],
    program: Callable[[], Any],
    *,
    many: Callable[[int], Mapping[Hashable, int]] | None = None,
    at_once: int = 1,
) -> None:
    """Compare a program's law with real runs, if enabled (`unwatched.holding`).

    `many(n)` counts the outcomes of n rows of one call, for a program that takes rows; tensors in
    the outcomes are tuples. `at_once` rows cost about as much as one.
    """
    outcomes = len(found.law)
    usual = min(outcomes, _MOST_ALONE)
    alone = max(usual, min(outcomes * _BESIDE_SCALARS, MOST)) if found.has_scalars else usual
    with one_thread(), uncompiled():
        hold(
            found.law,
            slack=found.slack,
            alone=alone,
            rows=min(-(-outcomes // 2) * at_once, _MOST_ROWS),
            one=lambda: frozen(program()),
            many=many,
        )


def hold_rows(found: RowLaw, program: Callable[[], tuple[Any, Any]]) -> None:
    """Compare a law of rows with real runs, as `hold_exact` does.

    Tokens of a row are counted together, in up to 8 groups of about equal weight; tokens that the
    law excludes are in no group.
    """
    groups = {outcome: _grouped(row) for outcome, row in found.rows.items()}
    weights = {
        (outcome, group): exactly(float(row[groups[outcome] == group].sum()))
        for outcome, row in found.rows.items()
        for group in range(_GROUPS)
    }
    mass = total(weights.values())

    def one() -> Hashable:
        outcome, token = map(frozen, program())
        said = number_in(token)
        own = groups.get(outcome)
        return outcome, None if own is None or not 0 <= said < len(own) else int(own[said])

    coarse = Law({each: weight / mass for each, weight in weights.items()})
    with one_thread(), uncompiled():
        off = found.slack + exactly(found.error)
        hold(coarse, slack=off, alone=len(coarse), rows=0, one=one, many=None)


_GROUPS = 8


def _grouped(row: NDArray[numpy.float64]) -> NDArray[numpy.int64]:
    """Return the group [size] of each token of a row [size], -1 for a token without weight."""
    before = numpy.cumsum(row) - row
    group = (before / max(row.sum(), numpy.finfo(float).tiny) * _GROUPS).astype(numpy.int64)
    return numpy.where(row > 0, group.clip(0, _GROUPS - 1), -1)


# A program can tell a number that was taken out of torch from a float, in ways that cannot be
# closed (`_scalar`), and only real runs show what it does then. They are some ten times as fast as
# runs that are followed, so that as many more still cost less than the law did.
_BESIDE_SCALARS = 8

# All laws of a campaign are held together, hundreds of them, and those of several drafts have
# hundreds of outcomes each: more runs of one of them, and more rows of a call, tell little more.
_MOST_ALONE = 64
_MOST_ROWS = 1024
