"""`random.calls`: consecutive calls, of one adapter object or of fresh ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

from draftproof.conformance.cases import cases
from draftproof.conformance.cases.long import drafted, uncertain
from draftproof.conformance.lanes.compared import Between, described, note
from draftproof.conformance.lanes.exchange import (
    Asked,
    answer,
    as_loaded,
    outcomes,
    request,
    told,
    with_noise,
)
from draftproof.conformance.lanes.observe import (
    EXACT,
    PROBE,
    SAMPLE,
    Observed,
    joint_laws,
    observed,
)
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program, Request, Result
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements._one_law import require_certain, sampled_calls
from draftproof.conformance.requirements.batches import judge_pairs
from draftproof.conformance.requirements.finding import FAIL, Finding, verdict_of
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.law import Law
from draftproof.reference.rational import ONE, ZERO, Rational, total


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on consecutive calls: pairs of calls, and calls after others."""
    for name, rows in _consecutive().items():
        lanes = (EXACT, PROBE, SAMPLE) if name == "same" else (EXACT, PROBE)
        judged = partial(judge_calls, name, rows)
        yield Task(f"calls.{name}", ("random.calls",), lanes, judged)
    for sequence in _sequences(declared, mode):
        behind = partial(judge_sequence, sequence)
        # One row a call, behind other calls, would take minutes; samples are of one object.
        is_sampled = declared.batch and not (sequence.are_several or sequence.are_fresh)
        lanes = (EXACT, PROBE, SAMPLE) if is_sampled else (EXACT, PROBE)
        yield Task(sequence.id, ("random.calls",), lanes, behind)


# --- two calls ---------------------------------------------------------------------------------


def _consecutive() -> dict[str, tuple[Asked, Asked]]:
    """Return pairs of rows for consecutive calls: equal, different, and of different length."""
    known = {case.id: case.instance for case in cases("quick")}
    short, first, second = (known[n] for n in ("generic.v2.l1", "generic.v2.l2", "banked"))
    return {
        "same": ((first, ((0, 1),)), (first, ((0, 1),))),
        "different": ((first, ((0, 1),)), (second, ((1, 0),))),
        "longer": ((short, ((1,),)), (first, ((1, 0),))),
    }


def judge_calls(
    name: str, rows: tuple[Asked, Asked], program: Program, terms: Terms
) -> list[Finding]:
    """Return the finding of `random.calls` on two consecutive calls of one adapter object."""
    declared, case = program.declared, f"calls.{name}"
    if terms.lane == SAMPLE:
        return [judge_pairs("random.calls", case, rows[0][0], program, terms)]

    def run(asked: Adapter, copies: int) -> Any:
        """Make both calls on a fresh copy."""
        fresh = as_loaded(asked)
        requests = (request([row] * copies, declared) for row in rows)
        return tuple(answer(fresh, with_noise(each, declared)) for each in requests)

    def read(raw: Any, copies: int) -> Sequence[Any]:
        each = (outcomes(r, [row] * copies) for r, row in zip(raw, rows, strict=True))
        return list(zip(*each, strict=True))

    vocabulary, lane = rows[0][0].vocabulary, terms.lane
    together = observed(program, run, read, vocabulary=vocabulary, lane=lane)
    alone = [joint_laws(program, [[row]], lane=lane)[0] for row in rows]
    for call, row in enumerate(rows, start=1):
        note([described(program.adapter, request([row], declared), call=call)])
    return [independence("random.calls", case, program, rows, together, alone, lane)]


def independence(
    requirement: str,
    case: str,
    program: Program,
    rows: Sequence[Asked],
    together: Observed,
    alone: Sequence[Observed],
    lane: str,
) -> Finding:
    """Return the finding of the independence of some emissions, of one row each.

    The joint law is compared with the product of the laws of the rows alone.
    """
    product = independent([law.of_row(0) for law in alone])
    distance = together.law.total_variation(product)
    # Each may be off by the rounding of one law, together and alone.
    allowed = 2 * total(allowed_distance(program.declared, i.vocabulary, i.length) for i, _ in rows)
    slack = together.slack + total(law.slack for law in alone)
    verdict = verdict_of(distance, allowed, slack)
    runs = together.runs + sum(law.runs for law in alone)
    detail = _dependence(rows, together.law, product) if verdict == FAIL else ""
    return Finding(requirement, case, verdict, distance, allowed, lane, runs, detail)


def independent(laws: Sequence[Law[Any]]) -> Law[tuple[Any, ...]]:
    """Return the joint law of independent outcomes."""
    joint: dict[tuple[Any, ...], Rational] = {(): ONE}
    for law in laws:
        joint = {(*so_far, each): w * v for so_far, w in joint.items() for each, v in law.items()}
    return Law(joint)


def _dependence(rows: Sequence[Asked], seen: Law[Any], independent: Law[Any]) -> str:
    """Describe the outcomes with the largest excess; among equals, the first."""
    expected = dict(independent.items())
    excess = {each: weight - expected.get(each, ZERO) for each, weight in seen.items()}
    worst = max(excess, key=lambda each: excess[each])
    said = "; then, ".join(told(drafts, did) for (_, drafts), did in zip(rows, worst, strict=True))
    often, should = (float(of.get(worst, ZERO)) for of in (dict(seen.items()), expected))
    if len(rows) == 1:
        return f"{said} with probability {often:.3g}, and {should:.3g} alone"
    return f"{said}: both with probability {often:.3g}, and {should:.3g} if calls are independent"


# --- sequences of calls ------------------------------------------------------------------------

_SHAPES = ((1, 2), (4, 3), (2, 5), (8, 4), (1, 3))
"""Rows B and tokens L of five calls: both batches and drafts grow and shrink."""


@dataclass(frozen=True)
class Call:
    """Single call: its rows B, its tokens L, and whether the first row is uncertain."""

    rows: int
    length: int
    is_uncertain: bool = False

    def asked(self, copies: int = 1) -> list[Asked]:
        """Return the rows to verify, `copies` times over."""
        certain = _row("calls.certain", self.length)
        first = self.first() if self.is_uncertain else certain
        return [first, *[certain] * (self.rows - 1)] * copies

    def first(self) -> Asked:
        """Return the uncertain row: its first and last drafted tokens can be rejected."""
        return _row(f"calls.{self.length}", self.length, 0, self.length - 1)


@lru_cache(maxsize=32)
def _row(name: str, length: int, *positions: int) -> Asked:
    """Return a row that is uncertain at these positions; lanes ask for it thousands of times."""
    return drafted(uncertain(name, length, {*positions}))


@dataclass(frozen=True)
class CallSequence:
    """Consecutive calls, of one adapter object or each of a fresh one."""

    id: str
    calls: tuple[Call, ...]
    are_fresh: bool = False

    @property
    def are_several(self) -> bool:
        """True if the joint law of several calls is needed."""
        return sum(call.is_uncertain for call in self.calls) > 1


def _sequences(declared: Declaration, mode: str) -> Iterator[CallSequence]:
    """Yield the sequences of a mode: each call after the others, and pairs of uncertain calls."""
    shapes = [(rows if declared.batch else 1, length) for rows, length in _SHAPES]

    def upto(*places: int) -> tuple[Call, ...]:
        return tuple(Call(*shapes[i], i in places) for i in range(max(places) + 1))

    for at in _QUICK if mode == "quick" else range(1, len(shapes)):
        yield CallSequence(f"calls.sequence.{at}", upto(at))
    if mode != "quick":
        yield CallSequence("calls.fresh", upto(len(shapes) - 2), are_fresh=True)
        for first, second in ((0, 1), (2, 3), (0, 4)):
            yield CallSequence(f"calls.both.{first}.{second}", upto(first, second))
        rows = 4 if declared.batch else 1
        again = (Call(rows, 3, is_uncertain=True), Call(1, 5), Call(rows, 3, is_uncertain=True))
        yield CallSequence("calls.again", again)


_QUICK = (1, 3)
"""Indices of the calls that grow; the second of them is also the fourth call."""


def judge_sequence(given: CallSequence, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.calls` on the uncertain calls among several.

    The state that certain calls leave is the same in every run, so they add nothing to the joint
    law of the others, which is compared with the product of the laws of the uncertain rows alone.
    """
    if terms.lane == SAMPLE:
        behind = replace(program, adapter=_Behind(program, given.calls[:-1]))
        instance = next(case.instance for case in cases("quick") if case.id == _SAMPLED)
        return [sampled_calls("random.calls", given.id, behind, instance, terms)]
    require_certain(program, terms.lane)
    found = _judged(given, program, terms.lane)
    if found.verdict != FAIL:
        return [found]
    return [replace(found, detail=f"{_narrowed(given, program, terms.lane)}: {found.detail}")]


_SAMPLED = "generic.v3.l2"
"""Case whose emissions are sampled after other calls."""


def _judged(given: CallSequence, program: Program, lane: str) -> Finding:
    rows = [call.first() for call in given.calls if call.is_uncertain]
    together = _together(given, program, lane)
    alone = [joint_laws(program, [[row]], lane=lane)[0] for row in rows]
    for number, call in enumerate(given.calls, start=1):
        if call.is_uncertain:
            asked = request(call.asked(), program.declared)
            place = 1 if given.are_fresh else number
            note([described(program.adapter, asked, call=place)])
    return independence("random.calls", given.id, program, rows, together, alone, lane)


def _together(given: CallSequence, program: Program, lane: str) -> Observed:
    """Return the joint law of the uncertain rows of several calls."""
    declared = program.declared

    # Every copy has a share of every call, so the lane can probe many copies in one run.
    def run(asked: Adapter, copies: int) -> Any:
        one = as_loaded(asked)
        found = []
        for call in given.calls:
            adapter = as_loaded(asked) if given.are_fresh else one
            requested = with_noise(request(call.asked(copies), declared), declared)
            raw = answer(adapter, requested)
            if call.is_uncertain:
                found.append(raw)
        return tuple(found)

    def read(raw: Any, copies: int) -> Sequence[Any]:
        uncertain_ones = [call for call in given.calls if call.is_uncertain]
        each = (
            outcomes(columns, call.asked(copies))[:: call.rows]
            for columns, call in zip(raw, uncertain_ones, strict=True)
        )
        return list(zip(*each, strict=True))

    vocabulary = given.calls[-1].first()[0].vocabulary
    return observed(program, run, read, vocabulary=vocabulary, lane=lane)


def _narrowed(given: CallSequence, program: Program, lane: str) -> str:
    """Describe the fewest earlier calls after which the last call is wrong."""
    *earlier, last = given.calls
    for kept in _subsets(earlier):
        fewer = replace(given, calls=(*kept, last))
        if _judged(fewer, program, lane).verdict == FAIL:
            break
    own = f"a call of {_told(last)}"
    objects = "each of a fresh adapter" if given.are_fresh else "of one adapter"
    if not kept:
        return f"{own}, whatever came before"
    return f"{own} behind {' and '.join(map(_told, kept))}, {objects}"


def _subsets(calls: Sequence[Call]) -> Iterable[tuple[Call, ...]]:
    """Yield the subsequences of some calls that keep all uncertain calls, short ones first."""
    for size in range(len(calls) + 1):
        for places in combinations(range(len(calls)), size):
            kept = tuple(calls[i] for i in places)
            if sum(c.is_uncertain for c in kept) == sum(c.is_uncertain for c in calls):
                yield kept


def _told(call: Call) -> str:
    return f"B = {call.rows}, L = {call.length}"


class _Behind(Between):
    """Adapter that makes every call on a fresh copy, after some other calls."""

    def __init__(self, program: Program, earlier: Sequence[Call]) -> None:
        super().__init__(program.adapter)
        self._program, self._before = program, earlier
        self.earlier = len(earlier)

    def passed_on(self, request: Request) -> Request:
        """Return the request that follows the others."""
        return request

    def verify(self, asked: Request) -> Result:
        """Verify the rows, after the earlier calls."""
        fresh, declared = as_loaded(self._program.adapter), self._program.declared
        for call in self._before:
            before = replace(request(call.asked(), declared), generator=asked.generator)
            fresh.verify(with_noise(before, declared))
        return fresh.verify(asked)
