"""The probe lane: the law of a program that the exact lane cannot trace, from its behaviour.

The exact lane cannot follow a compiled kernel, numpy between operators, or `u.item()` in Python's
arithmetic. This lane *feeds* the program: torch's random operators return chosen numbers, among
those that the generator can give, and the lane records the outcome. It finds by bisection which
noise leads to which outcome; the probability of an outcome is its share of the noise.

    >>> import torch
    >>> def verify(batch):
    ...     u = torch.rand(len(batch), 1)
    ...     return [int(x) for x in (u.numpy() <= [[0.0, 0.25]]).sum(1)]
    >>> (found,) = probed_laws(verify, 1, batched=True, vocabulary=2)
    >>> {outcome: str(weight) for outcome, weight in sorted(found.law.items())}
    {0: '12582911/16777216', 1: '1/4', 2: '1/16777216'}

**What is exact.** A wall is the last number of the noise before a change and the first after it, so
a coin's probability is a count of the generator's own numbers, the number 0 included.

**What is assumed** of each box of noise, after some points in it were tried:

* the program is constant in the box, if it is so at 16 random points, at 4 of them with each number
  at its lowest and at its highest, and with all numbers at these ends at once (numbers that may be
  clocks, since there are as many as tokens, are near the ends: in the outer 2**-12 of float32's
  numbers);

* a wall goes through the whole box, if the same wall shows in two contexts: other random points,
  or, if these do not show it, points that share half of their numbers with the first. One context
  is enough if no other shows a wall. The same holds for a wall that a twin's boxes predict, in up
  to eight contexts;

* V clocks race in the box, if the rates found by duels between them predict 24 outcomes, 12 of them
  on noise on which each clock is equally likely to ring first.

**What tests the law.** 512 points of each subject, drawn from the law of the noise and used for
nothing else, must have the outcome that the boxes predict, unless two clocks ring within 2**-19 of
each other, or closer than duels can resolve. Laws that are wrong on a share s of the noise pass
with probability (1 - s)**512 at most: 6e-3 for s = 1/100, 4e-12 for s = 1/20. If a box does not
predict a point, the lane searches the box again, and tests the new boxes on as many new points.
Further test points are on both sides of every wall, in each box through which the wall runs unseen:
an outcome that recurs behind an island of a different outcome is found everywhere if it is found
once. One point of each outcome is run again, elsewhere in a batch and for some points alone, to
check that no row depends on other rows, or on anything that is not fed.

**Many drafts of one instance** are judged as one law: the joint law of a draft and its outcome. A
draft of probability w has 4096 w test points, at least 16. If the law of draft d is wrong on a
share s_d of its noise, all points miss that with probability at most the product of
(1 - s_d)**(4096 w_d). Since the logarithm is concave, this is at most (1 - s)**4096 for the share
s = sum w_d s_d on which the law of the instance is wrong: 2e-2 for s = 1/1000, 1e-18 for s = 1/100.
Boxes of drafts of probability 1/16 or less are tried at fewer points: a box counts as constant if
it is so at 6 random points, at 2 of them with each number at its lowest and at its highest, and
with all at these ends; a wall that a twin predicts counts if it shows in two contexts. If a test
point of such a draft is not predicted, the lane starts anew as if each draft were judged
separately, with 512 points for each, because other drafts may have the same fault. Instances of 16
drafts or fewer are probed that way from the beginning. A batch of serving, of which dozens are
judged that differ in sizes, places and layouts, counts as a draft of probability 1/32.

A fault on a smaller share of the noise, away from the ends of all numbers, stays unseen, such as
one that acts only for u in 0.50001..0.50002. The law's `resolution` does not count it.

**What is refused**, with `OpaqueRandomness`: different outcomes with the same numbers, random
operators that cannot be fed, other generators, and noise that is neither compared nor raced.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, cycle, islice
from math import ceil
from typing import Any, Generic, TypeVar

import torch

from draftproof.conformance.lanes import _foreign as foreign
from draftproof.conformance.lanes._conditions import one_thread, uncompiled
from draftproof.conformance.lanes._streams import seeded
from draftproof.conformance.lanes.opaque import OpaqueRandomness, TooManyRuns
from draftproof.conformance.lanes.probe._confirm import Moves, confirmed
from draftproof.conformance.lanes.probe._interpreted import patched_once
from draftproof.conformance.lanes.probe._launches import interpreted
from draftproof.conformance.lanes.probe._race import Search
from draftproof.conformance.lanes.probe._search import (
    QUICK,
    SHARED,
    THOROUGH,
    Care,
    Cuts,
    Node,
    Sample,
    Searcher,
    Walls,
    agrees,
    error_of,
    forgetful,
    law_of,
    unsteady,
)
from draftproof.conformance.lanes.probe._tape import (
    NOWHERE,
    Playback,
    Point,
    RandomTensor,
    RowsMixed,
    Shallow,
    Tape,
)
from draftproof.conformance.lanes.unwatched import hold
from draftproof.reference.law import Law
from draftproof.reference.rational import ONE, Rational, readable

__all__ = ["OpaqueRandomness", "ProbedLaw", "TooManyRuns", "probed_laws"]

Outcome = TypeVar("Outcome", bound=Hashable)
Each = TypeVar("Each")

# The most rows of one call, so that a batch fits into memory.
_MOST_ROWS = 4096

# The most sections that an interval is cut into at a time: twice as many would spare an eighth of
# the calls of a wall, but each row costs time here, whatever it costs the program.
_MOST_SECTIONS = 128

# A call of a twin costs little: as much as an eighth of `at_once` rows of it.
_FEW_SECTIONS, _ROWS_TO_A_CALL = 32, 8

# Points of a subject that are run twice before anything else, one of a small part of an instance.
_REPEATED = 8

# Points that test what is judged as one law: of one subject, or of all drafts of an instance, where
# there are more than a few, of which each has some.
_HELD_BACK, _HELD_BACK_IN_ALL, _HELD_BACK_AT_LEAST = 512, 4096, 16

# Rows of a batch that is not understood that are run alone, too.
_COMPARED = 32

# One of so many subjects is searched first, so that the others can share what is found.
_WAVE = 16

# Rows that those may let expect of all: some minutes of a twin, half an hour of a kernel.
_MOST_IN_ALL = 4_000_000

# Times that a box is searched again because a point in it was not foretold.
_MOST_FINDS = 20


@dataclass(frozen=True)
class ProbedLaw(Generic[Outcome]):
    """Law of a program, a bound on its error, and the number of rows that were run.

    `resolution` bounds the total variation distance from the true law, if the assumptions of the
    module hold. Walls of uniform noise are exact. Each race, times the probability that it is run,
    adds three terms: the last gaps of its duels; 2**-19 (1 - sum of the squares of all shares), for
    clocks so close to each other that rounding decides; and V / 2**23, for the grid of the noise
    (derived at `Clocks`). Walls of discrete draws and of exponential noise, which are fed by sums
    and logarithms in double precision, add V / 2**51 each.
    """

    __repr__ = readable

    law: Law[Outcome]
    resolution: Rational
    runs: int


def probed_laws(
    verify: Callable[[Sequence[int]], Sequence[Outcome]],
    subjects: int,
    *,
    batched: bool,
    vocabulary: int,
    most_runs: int = 200_000,
    held_back: int = _HELD_BACK,
    shares: Sequence[Rational] | None = None,
    at_once: int = 1,
    twin: Callable[[Sequence[int]], Sequence[Outcome]] | None = None,
) -> tuple[ProbedLaw[Outcome], ...]:
    """Return the law of the outcome of each of the subjects 0..`subjects` - 1.

    `verify` runs the program once, on rows given by their subjects, and returns a hashable outcome
    for each. It is called with one row at a time unless `batched`, and also if a row of a batch
    does not behave as it does alone. `vocabulary` is the number of clocks in a race. `most_runs`
    bounds the rows that are run for one subject; `held_back` points test its law. If subjects are
    judged together, `shares` gives each subject's share of the law (`share_of`). If `at_once` rows
    of a batch cost about as much as one, walls are found in fewer calls with more rows; the bound
    is then `at_once` times larger.

    A `twin` is a faster program that should do the same. The lane finds the boxes of its noise
    first, and confirms them on the program in a few calls; it searches the program's own noise
    where they differ. The twin's behaviour decides nothing, except that if the twin takes far too
    many rows for all subjects, the program would as well.

    If laws are compared with real runs (`unwatched.holding`), these laws are too.

    Outcomes are distinguished by `==`. Raises `OpaqueRandomness`, `TooManyRuns`, and any error that
    the program raises.
    """
    refusal = None
    own = [ONE] * subjects if shares is None else shares
    program = _ProbedProgram(verify, vocabulary, most_runs, held_back, own, at_once, [0] * subjects)
    batched = batched and subjects > 0
    with one_thread(), uncompiled(), patched_once():
        foretold = _foretold(program, twin) if batched and twin is not None else None
    with (
        foreign.generators_untouched(partial(verify, (0,))),
        one_thread(),
        uncompiled(),
        patched_once(),
    ):
        try:
            try:
                laws = _laws(program, foretold, batched=batched)
            except _NotForetold:
                each = replace(program, shares=[ONE] * subjects)
                laws = _laws(each, foretold, batched=batched)
        except OpaqueRandomness as reason:
            # A generator that was touched says more, and is told of on the way out.
            refusal = reason
    if refusal is not None:
        raise refusal
    slacks = [found.resolution for found in laws]
    hold_probed([found.law for found in laws], verify, slacks=slacks, batched=batched)
    return laws


def share_of(weight: Rational, alike: int) -> Rational:
    """Return the share that a draft of probability `weight`, one of `alike`, has of its instance.

    If there are few drafts, each is searched and tested as if it were judged separately.
    """
    return ONE if alike <= _FEW else weight


def hold_probed(
    laws: Sequence[Law[Any]],
    verify: Callable[[Sequence[int]], Sequence[Any]],
    *,
    slacks: Sequence[Rational],
    batched: bool,
) -> None:
    """Compare laws that this lane computed, up to slacks, with real runs, if enabled.

    `verify` runs the program once on rows given by the numbers of their laws, from 0. If there are
    more than a few laws, they share the runs of a few. One call has rows of all laws, since a few
    rows cost as much as hundreds. One in `_INTERPRETED` of the calls of one row launches no kernel
    from a recording.
    """
    among = len(laws)
    calls, known = count(), dict[int, list[Any]]()

    def one(subject: int) -> Any:
        is_plain = next(calls) % _INTERPRETED == 0
        with interpreted() if is_plain else contextlib.nullcontext():
            return verify([subject])[0]

    def many(subject: int, rows: int) -> Counter[Any]:
        if rows not in known:
            asked = [each for each in range(among) for _ in range(rows)]
            known[rows] = [seen for part in _portions(asked, _MOST_ROWS) for seen in verify(part)]
        return Counter(known[rows][subject * rows : (subject + 1) * rows])

    with one_thread(), uncompiled(), patched_once():
        for subject, (law, slack) in enumerate(zip(laws, slacks, strict=True)):
            hold(
                law,
                slack=slack,
                alone=(_ALONE if batched else _REAL) * min(1.0, _FEW / among),
                rows=-(-_REAL * _FEW // max(among, _FEW)),
                one=partial(one, subject),
                many=partial(many, subject) if batched else None,
            )


# A law is probed by a thousand rows and more: so many real ones are a tenth at most, and where they
# are those of one call, so are two calls of one row: a campaign has hundreds of laws.
_REAL, _ALONE = 128, 2

# So many laws of one case are each tested, and held against real runs, as if there were no others;
# more of them share what those have.
_FEW = 16

# Interpreting takes ten times as long as a recording.
_INTERPRETED = 8


@dataclass(frozen=True)
class _ProbedProgram:
    """Program with the settings of its search, and the number of rows run for each subject."""

    verify: Callable[[Sequence[int]], Sequence[Any]]
    vocabulary: int
    most_runs: int
    held_back: int
    shares: Sequence[Rational]
    at_once: int
    runs: list[int]
    is_tested: bool = True
    """False for a twin, whose results are not trusted: it is not tested, and is watched less."""

    def care(self, subject: int) -> Care:
        """Return the care with which the noise of a subject is searched."""
        if not self.is_tested:
            return QUICK
        return THOROUGH if self.shares[subject] * _FEW > 1 else SHARED

    def points(self, subject: int) -> int:
        """Return the number of points that test the law of a subject."""
        share = self.shares[subject]
        if not self.is_tested:
            return _HELD_BACK_AT_LEAST
        if share == 1:
            return self.held_back
        return max(ceil(_HELD_BACK_IN_ALL * share), _HELD_BACK_AT_LEAST)

    def sections(self, intervals: int) -> int:
        """Return the number of sections of an interval, if this many intervals share a call."""
        if self.is_tested:
            return min(max(self.at_once // intervals, 2), _MOST_SECTIONS)
        return min(max(self.at_once // intervals // _ROWS_TO_A_CALL, 2), _FEW_SECTIONS)


_Boxes = tuple[Tape, list[Node]]
"""Tape of a twin, and the boxes of its noise for each subject."""


def _laws(
    program: _ProbedProgram, foretold: _Boxes | None, *, batched: bool
) -> tuple[ProbedLaw[Any], ...]:
    if batched:
        with contextlib.suppress(RowsMixed):
            return _Lane(program, alone=False, foretold=foretold).laws()
    return _Lane(program, alone=True).laws()


def _foretold(
    program: _ProbedProgram, twin: Callable[[Sequence[int]], Sequence[Any]]
) -> _Boxes | None:
    """Return the boxes of a twin's noise, None if the twin fails."""
    own = replace(program, verify=twin, runs=[0] * len(program.runs), is_tested=False)
    lane = _Lane(own, alone=False)
    try:
        # What it draws unseen leaves no trace, nor does what it sets.
        with seeded(0), _settings_kept():
            return lane.tape, lane.trees()
    except (KeyboardInterrupt, _TooManyInAll):
        raise
    except BaseException:
        # Whatever is wrong with it, the program is judged without it.
        return None


class _NotForetold(Exception):
    """Signal that a test point of a subject that is judged with others was not predicted."""


class _TooManyInAll(TooManyRuns):
    """Error of subjects that would take too long to search, extrapolated from the first of them."""


@contextlib.contextmanager
def _settings_kept() -> Iterator[None]:
    """Restore torch's default dtype and gradient mode at the end of the block."""
    kind, has_gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_default_dtype(kind)
        torch.set_grad_enabled(has_gradients)


class _Lane:
    """Search of a program's noise for all subjects, together or separately."""

    def __init__(
        self,
        program: _ProbedProgram,
        *,
        alone: bool,
        foretold: _Boxes | None = None,
    ) -> None:
        self._program = program
        self._alone = alone
        self._foretold = foretold
        # Where walls of some subjects are, and where those that were foretold are: others may share
        # them, and are asked about these first.
        self._hints: Walls = {}
        self._moved: Moves = {}
        self._cuts = Cuts() if alone else Cuts(program.sections)
        # In a batch all rows draw alike; alone, each subject may draw as it likes.
        shared = Tape(program.vocabulary, refuse_own=program.is_tested)
        self._tapes = [Tape(program.vocabulary) if alone else shared for _ in program.runs]

    @property
    def tape(self) -> Tape:
        """The tape of the first subject; in a batch all subjects share it."""
        return self._tapes[0]

    def laws(self) -> tuple[ProbedLaw[Any], ...]:
        """Return the laws of all subjects."""
        return tuple(
            ProbedLaw(Law(law_of(tree)), error_of(tree), runs)
            for tree, runs in zip(self.trees(), self._program.runs, strict=True)
        )

    def trees(self) -> list[Node]:
        """Return the boxes of the noise of each subject."""
        subjects = range(len(self._tapes))
        for subject in subjects if self._alone else subjects[:1]:
            (first, drawn), (second, again) = (self._played([(subject, NOWHERE)]) for _ in range(2))
            if drawn != again:
                raise forgetful(drawn, again)
            if list(first) != list(second):
                raise unsteady(first[0], second[0])
        if not self._alone:
            self.tape.is_sealed = True
        if self._foretold is not None and self._foretold[0].form != self.tape.form:
            # The twin draws other noise.
            self._foretold = None
        try:
            return self._searched(subjects)
        except OpaqueRandomness as refusal:
            if not self._alone and self._is_mixed():
                # Rows that disturb each other look like noise that is not understood.
                raise RowsMixed("rows of a batch are not understood") from refusal
            raise

    def _searched(self, subjects: Sequence[int]) -> list[Node]:
        """Return the boxes of all subjects; if there are many, some are searched first."""
        waves = [subjects]
        if len(subjects) > _WAVE and (self._foretold is not None or not self._program.is_tested):
            waves.insert(0, subjects[::_WAVE])
        found: dict[int, Node] = {}
        for wave in waves:
            found |= self._answered({each: self._law(each) for each in wave if each not in found})
            rows = sum(self._program.runs) * len(subjects) // max(len(found), 1)
            if len(found) < len(subjects) and rows > _MOST_IN_ALL:
                raise _TooManyInAll(f"{len(subjects)} subjects need some {rows:,} rows in all")
        return [found[subject] for subject in subjects]

    def _is_mixed(self) -> bool:
        """Return whether rows have different outcomes in a batch and alone."""
        subjects = list(islice(cycle(range(len(self._tapes))), _COMPARED))
        searcher = Searcher(self.tape, (len(self._tapes), 0))
        rows = list(zip(subjects, searcher.points(searcher.everything(), _COMPARED), strict=True))
        return list(self._run(rows)) != [self._run([row])[0] for row in rows]

    def _law(self, subject: int) -> Search[Node]:
        """Find the boxes of one subject, and test them on points that were held back."""
        program = self._program
        care = program.care(subject)
        searcher = Searcher(
            self._tapes[subject],
            (subject, 0),
            cuts=self._cuts,
            care=care,
            hints=self._hints,
        )
        if not program.is_tested:
            boxes = yield from searcher.explored(searcher.everything(), [])
            return (yield from self._held_back(searcher, boxes, subject))[0]
        # What is not to be understood is noticed before it is searched.
        repeated = 1 if care is SHARED else _REPEATED
        yield from self._steady(subject, searcher.points(searcher.everything(), repeated))
        tree: Node | None = None
        if self._foretold is not None:
            tree = yield from confirmed(searcher, self._foretold[1][subject], self._moved)
        if tree is None:
            tree = yield from searcher.explored(searcher.everything(), [])
        held, seen = yield from self._held_back(searcher, tree, subject)
        yield from self._steady(subject, list({outcome: point for point, outcome in seen}.values()))
        return held

    def _held_back(
        self, searcher: Searcher, tree: Node, subject: int
    ) -> Search[tuple[Node, Sample]]:
        """Return boxes that predict the outcomes at new points and beside walls, and these."""
        count = self._program.points(subject)
        for _ in range(_MOST_FINDS):
            points = searcher.points(searcher.everything(), count)
            points += searcher.beside_walls(tree, 2 * count)
            seen = list(zip(points, (yield points), strict=True))
            if all(agrees(tree, *each) for each in seen):
                return tree, seen
            if self._program.shares[subject] < 1 and self._program.is_tested:
                raise _NotForetold
            for each in seen:
                if not agrees(tree, *each):
                    tree = yield from searcher.corrected(tree, *each)
        raise TooManyRuns(f"{_MOST_FINDS} times a point was not foretold by what was found so far")

    def _steady(self, subject: int, points: list[Point]) -> Search[None]:
        """Raise unless points have the same outcomes twice, the second time elsewhere in a batch.

        Some of them are then run alone: of few subjects a few points each, of many subjects one
        point of every n-th.
        """
        first = yield points
        again = (yield points[::-1])[::-1]
        subjects = len(self._tapes)
        is_asked = not self._alone and subject % -(-subjects // _REPEATED) == 0
        alone = -(-_REPEATED // subjects) if is_asked else 0
        again[:alone] = [self._run([(subject, point)])[0] for point in points[:alone]]
        for one, other in zip(first, again, strict=True):
            if one != other:
                if not self._alone:
                    raise RowsMixed(f"a row is {one!r} in a batch and {other!r} alone")
                raise unsteady(one, other)

    def _answered(self, searches: dict[int, Search[Node]]) -> dict[int, Node]:
        """Return the results of the searches, which are answered in shared calls."""
        found: dict[int, Node] = {}
        answers: dict[int, list[Any] | None] = dict.fromkeys(searches)
        while answers:
            asked = []
            for subject, answer in answers.items():
                try:
                    search = searches[subject]
                    points = next(search) if answer is None else search.send(answer)
                    asked += [(subject, point) for point in points]
                except StopIteration as end:
                    found[subject] = end.value
            answers = {subject: [] for subject in answers if subject not in found}
            for rows in _portions(asked, 1 if self._alone else _MOST_ROWS):
                for (subject, _), outcome in zip(rows, self._run(rows), strict=True):
                    answers[subject].append(outcome)  # type: ignore[union-attr]  # made above
        return found

    def _run(self, rows: Sequence[tuple[int, Point]]) -> Sequence[Any]:
        return self._played(rows)[0]

    def _played(
        self, rows: Sequence[tuple[int, Point]]
    ) -> tuple[Sequence[Any], list[RandomTensor]]:
        """Run the program once; return the outcomes of its rows, and the drawn tensors."""
        program = self._program
        most = program.most_runs * program.at_once
        for subject, _ in rows:
            program.runs[subject] += 1
            if program.runs[subject] > most:
                raise TooManyRuns(f"subject {subject} needs more than {most} rows of the program")
        play = Playback if program.is_tested else Shallow
        playback = play(self._tapes[rows[0][0]], [point for _, point in rows])
        try:
            with playback:
                outcomes = program.verify([subject for subject, _ in rows])
        finally:
            # A program that catches everything must not turn a refusal into a law.
            playback.finish()
        if len(outcomes) != len(rows):
            raise ValueError(f"verify returned {len(outcomes)} outcomes for {len(rows)} rows")
        return outcomes, playback.drawn


def _portions(rows: Sequence[Each], size: int) -> Iterator[Sequence[Each]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
