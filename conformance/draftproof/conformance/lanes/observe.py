"""What is observed of an adapter: its law on a case, and on a batch of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from draftproof.conformance.cases import Case
from draftproof.conformance.lanes.exact import ExactLaw, TooManyRuns, exact_laws, hold_exact
from draftproof.conformance.lanes.exchange import (
    Asked,
    Outcome,
    as_given,
    as_loaded,
    columns,
    outcomes,
    raised,
    request,
    verified,
    with_noise,
)
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.lanes.probe import (
    ProbedLaw,
    hold_probed,
    points_held_back,
    probed_laws,
)
from draftproof.conformance.lanes.unwatched import watched_generator
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Request, declaration
from draftproof.conformance.protocol.loading import twin_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.reference.chance import NondeterministicProgram
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance
from draftproof.reference.rational import Rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm

EXACT, PROBE, SAMPLE, RUN = "exact", "probe", "sample", "run"
"""The lanes, strongest first, and single runs."""

COMPUTING = (EXACT, PROBE)
"""The lanes that compute laws."""

BLINDNESS = (OpaqueRandomness, NondeterministicProgram, TooManyRuns)
"""What a lane raises that cannot see a program."""


@dataclass(frozen=True)
class Observation:
    """The law of an adapter on one case, beside what it is judged by.

    `instance` has the rows that the adapter was really given, as exact rationals; `observed` has
    its law for every possible outcome of drafting, known up to `slack` in total variation.
    `algorithm` is None where the adapter's is not known to the reference.
    """

    case: str
    instance: Instance
    algorithm: Algorithm | None
    drafts: Law[Drafts]
    observed: Mapping[Drafts, Law[Outcome]]
    runs: int
    slack: Rational
    allowed: Rational
    lane: str = EXACT

    def emitted(self) -> Law[Outcome]:
        """Return the law of one iteration, drafting included."""
        return self.drafts.then(lambda drafts: self.observed[drafts])


@dataclass(frozen=True)
class BatchObservation:
    """The joint law of a batch, and the laws of its rows each observed alone."""

    case: str
    joint: Law[tuple[Outcome, ...]]
    alone: tuple[Law[Outcome], ...]
    runs: int
    slack: Rational
    allowed: Rational
    lane: str = EXACT


@dataclass(frozen=True)
class JointLaw:
    """The joint law of the outcomes of one request, known up to `slack` in total variation."""

    law: Law[tuple[Outcome, ...]]
    runs: int
    slack: Rational

    def of_row(self, row: int) -> Law[Outcome]:
        """Return the law of one row's outcome."""
        return self.law.map(lambda rows: rows[row])


def as_observed(emission: Emission) -> Outcome:
    """Return the emission as it is seen: what it leaves behind is no part of it."""
    return replace(emission, modified=())


def left_behind(law: Law[Emission]) -> dict[Outcome, Law[Emission]]:
    """Return the law of the emissions that look alike, by what is seen of each."""
    alike: dict[Outcome, dict[Emission, Rational]] = {}
    for emission, weight in law.items():
        alike.setdefault(as_observed(emission), {})[emission] = weight
    return {
        outcome: Law({e: weight / total(weights.values()) for e, weight in weights.items()})
        for outcome, weights in alike.items()
    }


def observe(adapter: Adapter, case: Case, *, lane: str = EXACT) -> Observation:
    """Observe the adapter's law on a case, for everything that can be drafted.

    Raises `OpaqueRandomness`, `TooManyRuns` or `NondeterministicProgram` where the lane is blind.
    """
    (seen,) = observe_together(adapter, [case], lane=lane)
    return seen


def observe_together(
    adapter: Adapter, cases: Sequence[Case], *, lane: str = EXACT
) -> list[Observation]:
    """Observe the adapter's laws on cases of one shape, which share calls on the probe lane.

    Raises as `observe` does.
    """
    declared = declaration(adapter)
    drafts = [draft_law(as_given(case.instance, declared)) for case in cases]
    asked = [
        [(case.instance, paths)] for case, law in zip(cases, drafts, strict=True) for paths in law
    ]
    laws = iter(joint_laws(adapter, asked, declared, lane=lane))
    return [
        _observation(case, law, [*islice(laws, len(law))], declared, lane)
        for case, law in zip(cases, drafts, strict=True)
    ]


def hold_observed(adapter: Adapter, case: Case, seen: Observation) -> None:
    """Hold the laws that were probed on a case against real runs, if that is asked for."""
    declared = declaration(adapter)
    drafts = list(seen.observed)

    def verify(subjects: Sequence[int]) -> tuple[Outcome, ...]:
        asked = [(case.instance, drafts[subject]) for subject in subjects]
        return verified(as_loaded(adapter), asked, declared)

    laws = [*seen.observed.values()]
    hold_probed(laws, verify, slacks=[seen.slack] * len(laws), batched=declared.batch)


def _observation(
    case: Case, drafts: Law[Drafts], laws: Sequence[JointLaw], declared: Declaration, lane: str
) -> Observation:
    instance = as_given(case.instance, declared)
    return Observation(
        case=case.id,
        instance=instance,
        algorithm=ALGORITHMS.get(declared.algorithm),
        drafts=drafts,
        observed={paths: law.of_row(0) for paths, law in zip(drafts, laws, strict=True)},
        runs=sum(law.runs for law in laws),
        slack=max(law.slack for law in laws),
        allowed=allowed_distance(declared, instance.vocabulary, instance.length),
        lane=lane,
    )


def observe_batch(
    adapter: Adapter, name: str, rows: Sequence[Asked], *, lane: str = EXACT
) -> BatchObservation:
    """Observe the joint law of a batch, and every row of it alone. Raises as `observe` does."""
    declared = declaration(adapter)
    (together,) = joint_laws(adapter, [rows], declared, lane=lane)
    alone = joint_laws(adapter, [[row] for row in rows], declared, lane=lane)
    instance = rows[0][0]
    return BatchObservation(
        case=name,
        joint=together.law,
        alone=tuple(law.of_row(0) for law in alone),
        runs=together.runs + sum(law.runs for law in alone),
        slack=together.slack + total(law.slack for law in alone),
        # Every row may be off by the rounding of one law, in the batch and alone.
        allowed=2 * len(rows) * allowed_distance(declared, instance.vocabulary, instance.length),
        lane=lane,
    )


# Eager draws at every position of three rows take some 30,000 runs; this is a minute or two.
_MOST_RUNS = 50_000


def joint_laws(
    adapter: Adapter, requests: Sequence[Sequence[Asked]], declared: Declaration, *, lane: str
) -> list[JointLaw]:
    """Return the joint law of the outcomes of each request, on the exact or the probe lane.

    Every run meets the adapter as it was loaded. Raises as `observe` does.
    """
    if lane not in COMPUTING:
        raise ValueError(f"a law is observed on the lane {EXACT!r} or {PROBE!r}, got {lane!r}")
    if lane == PROBE:
        return _probed(adapter, requests, declared)
    return _exact(adapter, requests, declared)


def _exact(
    adapter: Adapter, requests: Sequence[Sequence[Asked]], declared: Declaration
) -> list[JointLaw]:
    """Return the joint laws of requests, which are held against real runs, known or not."""
    known = _KNOWN.get() or Known(adapter)
    found = [known.get(adapter, rows, declared) for rows in requests]
    new = [number for number, law in enumerate(found) if law is None]
    computed = _computed(adapter, [requests[number] for number in new], declared)
    for number, law in zip(new, computed, strict=True):
        found[number] = law
        known.keep(adapter, requests[number], declared, law)
    return [
        _held(adapter, rows, declared, law)
        for rows, law in zip(requests, found, strict=True)
        if law is not None
    ]


def _computed(
    adapter: Adapter, requests: Sequence[Sequence[Asked]], declared: Declaration
) -> list[ExactLaw[Any]]:
    """Return the laws of the columns that requests come to, those of one shape in few walks."""
    if not requests:
        return []
    # All draw from one generator, each as if it were alone.
    generator = watched_generator(declared.device)
    asked = [
        (replace(request(rows, declared), generator=generator), len(rows)) for rows in requests
    ]

    def of_given(given: tuple[Request, int]) -> Any:
        return _answered(adapter, *given, declared)

    return exact_laws(of_given, asked, most_runs=_MOST_RUNS)


def _answered(adapter: Adapter, given: Request, rows: int, declared: Declaration) -> Any:
    """Return the columns of what an adapter answers, or the words of an error."""
    given = with_noise(given, declared)
    try:
        return columns(as_loaded(adapter).verify(given), rows)
    except BaseException as error:
        return raised(error)


def _held(
    adapter: Adapter, rows: Sequence[Asked], declared: Declaration, law: ExactLaw[Any]
) -> JointLaw:
    """Return the joint law of one request, held against real runs."""

    def asked(rows: Sequence[Asked]) -> Any:
        return _answered(adapter, request(rows, declared), len(rows), declared)

    def many(count: int) -> dict[Any, int]:
        """Count the columns of each row of a call, as a call of that row alone has them."""
        found = asked([*rows] * count)
        if isinstance(found, str):
            return {found: count}
        seen = Counter(zip(*(column.tolist() for column in found), strict=True))
        return {tuple((number,) for number in row): times for row, times in seen.items()}

    is_one = declared.batch and len(rows) == 1
    hold_exact(law, lambda: asked(rows), many=many if is_one else None, at_once=declared.at_once)
    return JointLaw(law.law.map(lambda outcome: outcomes(outcome, rows)), law.runs, law.slack)


class Known:
    """The exact laws of one adapter that were computed last: a campaign asks for some again."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self._laws: dict[Hashable, ExactLaw[Any]] = {}
        self._outcomes = 0

    def get(
        self, adapter: Adapter, rows: Sequence[Asked], declared: Declaration
    ) -> ExactLaw[Any] | None:
        """Return the law of a request, None where it is of another adapter or not known."""
        return self._laws.get((*rows, declared)) if adapter is self.adapter else None

    def keep(
        self, adapter: Adapter, rows: Sequence[Asked], declared: Declaration, law: ExactLaw[Any]
    ) -> None:
        """Keep a law of this adapter, and forget those that came first."""
        if adapter is not self.adapter:
            return
        self._laws[(*rows, declared)] = law
        self._outcomes += len(law.law)
        while self._outcomes > _MOST_KNOWN:
            first = next(iter(self._laws))
            self._outcomes -= len(self._laws.pop(first).law)


_MOST_KNOWN = 200_000
"""So many outcomes are kept in all: some hundred megabytes."""

_KNOWN: ContextVar[Known | None] = ContextVar("known", default=None)


@contextmanager
def knowing(known: Known) -> Iterator[None]:
    """Compute no law again that is known already, all of one adapter."""
    token = _KNOWN.set(known)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def _probed(
    adapter: Adapter, requests: Sequence[Sequence[Asked]], declared: Declaration
) -> list[JointLaw]:
    """Probe requests of one shape together: they share calls, and the lane tests that they can."""
    shapes = [(len(rows), max(i.length for i, _ in rows)) for rows in requests]
    found: dict[int, ProbedLaw[tuple[Outcome, ...]]] = {}
    for shape in dict.fromkeys(shapes):
        own = [index for index, other in enumerate(shapes) if other == shape]
        alike = [requests[index] for index in own]
        found.update(zip(own, _probed_alike(adapter, alike, declared), strict=True))
    laws = [found[index] for index in range(len(requests))]
    return [JointLaw(each.law, each.runs, each.resolution) for each in laws]


def _probed_alike(
    adapter: Adapter, requests: Sequence[Sequence[Asked]], declared: Declaration
) -> tuple[ProbedLaw[tuple[Outcome, ...]], ...]:
    def verify(asked: Adapter, subjects: Sequence[int]) -> list[tuple[Outcome, ...]]:
        rows = [row for subject in subjects for row in requests[subject]]
        flat = iter(verified(as_loaded(asked), rows, declared))
        return [tuple(islice(flat, len(requests[subject]))) for subject in subjects]

    vocabulary = requests[0][0][0].vocabulary
    other = twin_of(adapter)
    # What an adapter makes of each draft of an instance is judged together.
    alike = Counter(id(rows[0][0]) for rows in requests)
    return probed_laws(
        partial(verify, adapter),
        len(requests),
        batched=declared.batch,
        vocabulary=vocabulary,
        most_runs=_MOST_RUNS,
        held_back=[points_held_back(alike[id(rows[0][0])]) for rows in requests],
        at_once=declared.at_once,
        twin=None if other is None else partial(verify, other),
    )
