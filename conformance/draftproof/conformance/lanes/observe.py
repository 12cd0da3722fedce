"""Observations of an adapter: its law on a case, and on a batch of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from draftproof.conformance.cases import Case
from draftproof.conformance.lanes.cache import LawCache, cache_for
from draftproof.conformance.lanes.compared import (
    described,
    is_noting,
    note,
    note_resolution,
)
from draftproof.conformance.lanes.exact import (
    ExactLaw,
    TooManyRuns,
    exact_laws,
    hold_exact,
)
from draftproof.conformance.lanes.exchange import (
    Asked,
    Going,
    Outcome,
    as_given,
    as_loaded,
    columns,
    columns_left,
    outcomes,
    outcomes_left,
    raised,
    request,
    verified,
    with_noise,
)
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.lanes.probe import (
    ProbedLaw,
    hold_probed,
    probed_laws,
    share_of,
)
from draftproof.conformance.lanes.unwatched import watched_generator
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program, Request
from draftproof.conformance.protocol.loading import twin_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.reference.chance import NondeterministicProgram
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance
from draftproof.reference.rational import ONE, Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm

Subject = TypeVar("Subject")

EXACT, PROBE, SAMPLE, RUN = "exact", "probe", "sample", "run"
"""Lanes, strongest first, and single runs."""

COMPUTING = (EXACT, PROBE)
"""Lanes that compute laws."""

BLINDNESS = (OpaqueRandomness, NondeterministicProgram, TooManyRuns)
"""Exceptions of a lane that cannot see a program."""


@dataclass(frozen=True)
class Observation:
    """The law of an adapter on one case, beside the data by which it is judged.

    `instance` has the rows that the adapter was really given, as exact rationals; `observed` has
    its law for every possible outcome of drafting, known up to `slack` in total variation.
    `algorithm` is None where the reference does not have the adapter's algorithm.
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
    """The joint law of a batch, and the law of each of its rows observed alone."""

    case: str
    joint: Law[tuple[Outcome, ...]]
    alone: tuple[Law[Outcome], ...]
    runs: int
    slack: Rational
    allowed: Rational
    lane: str = EXACT


@dataclass(frozen=True)
class Observed:
    """A law, the number of runs that it took, and a bound on its distance from the true law."""

    law: Law[Any]
    runs: int
    slack: Rational

    def of_row(self, row: int) -> Law[Any]:
        """Return the law of the outcome of one row of a request."""
        return self.law.map(lambda rows: rows[row])


def as_observed(emission: Emission) -> Outcome:
    """Return the visible part of an emission: the state that it leaves is not part of it."""
    return replace(emission, modified=())


def left_behind(law: Law[Emission]) -> dict[Outcome, Law[Emission]]:
    """Return, for each visible emission, the law of the emissions that look like it."""
    alike: dict[Outcome, dict[Emission, Rational]] = {}
    for emission, weight in law.items():
        alike.setdefault(as_observed(emission), {})[emission] = weight
    return {
        outcome: Law({e: weight / total(weights.values()) for e, weight in weights.items()})
        for outcome, weights in alike.items()
    }


def observe(program: Program, case: Case, *, lane: str = EXACT) -> Observation:
    """Observe the program's law on a case, for all possible drafts.

    Raises `OpaqueRandomness`, `TooManyRuns` or `NondeterministicProgram` where the lane is blind.
    """
    (seen,) = observe_together(program, [case], lane=lane)
    return seen


def observe_together(
    program: Program, cases: Sequence[Case], *, lane: str = EXACT
) -> list[Observation]:
    """Observe the program's laws on cases of one shape, which share calls on the probe lane.

    Raises as `observe` does.
    """
    drafts = [draft_law(as_given(case.instance, program.declared)) for case in cases]
    asked = [
        [(case.instance, paths)] for case, law in zip(cases, drafts, strict=True) for paths in law
    ]
    shares = [share for law in drafts for share in shares_of(law)]
    laws = iter(joint_laws(program, asked, lane=lane, shares=shares))
    return [
        _observation(case, law, [*islice(laws, len(law))], program.declared, lane)
        for case, law in zip(cases, drafts, strict=True)
    ]


def hold_observed(program: Program, case: Case, seen: Observation) -> None:
    """Compare the laws that the probe lane found on a case with real runs, and note them.

    Each takes place where it is enabled.
    """
    drafts = list(seen.observed)

    def verify(subjects: Sequence[int]) -> tuple[Outcome, ...]:
        asked = [(case.instance, drafts[subject]) for subject in subjects]
        return verified(as_loaded(program.adapter), asked, program.declared)

    _note(program, [[(case.instance, paths)] for paths in drafts])
    note_resolution(seen.slack)
    laws = [*seen.observed.values()]
    hold_probed(laws, verify, slacks=[seen.slack] * len(laws), batched=program.declared.batch)


def _observation(
    case: Case, drafts: Law[Drafts], laws: Sequence[Observed], declared: Declaration, lane: str
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


SERVED = rational("1/32")
"""Share of a batch of serving among all such batches, which differ in sizes, places and layouts,
and are judged separately."""


def observe_batch(
    program: Program,
    name: str,
    rows: Sequence[Asked],
    *,
    lane: str = EXACT,
    beside: Program | None = None,
    share: Rational = ONE,
) -> BatchObservation:
    """Observe the joint law of a batch, and the law of each row alone. Raises as `observe` does.

    A batch of serving is one of dozens, and gets a `share` of the points that test them (`SERVED`).
    A row that drafts nothing has no request: its law alone is its target's row. Rows alone are
    requested from the program, or from the program `beside` it.
    """
    requests = with_rows_alone(rows)
    laws_of = partial(joint_laws, lane=lane)
    shares = [share] * len(requests)
    if beside is None:
        together, *apart = laws_of(program, requests, shares=shares)
    else:
        (together,) = laws_of(program, requests[:1], shares=shares[:1])
        apart = laws_of(beside, requests[1:], shares=shares[1:])
    return _batch_observation(program, name, rows, together, apart, lane)


def batch_observed(
    program: Program, name: str, rows: Sequence[Asked], laws: Sequence[Observed]
) -> BatchObservation:
    """Return the observation of a batch from the probed laws of `with_rows_alone`.

    They are compared with real runs, and noted, each if enabled.
    """
    requests = with_rows_alone(rows)
    _note(program, requests)
    for own in _by_form(requests):
        found = [laws[place] for place in own]
        note_resolution(max(law.slack for law in found))
        hold_probed(
            [law.law for law in found],
            partial(
                _by_request, _ask(program), [requests[place] for place in own], program.adapter
            ),
            slacks=[law.slack for law in found],
            batched=program.declared.batch,
        )
    together, *apart = laws
    return _batch_observation(program, name, rows, together, apart, PROBE)


def _batch_observation(
    program: Program,
    name: str,
    rows: Sequence[Asked],
    together: Observed,
    apart: Sequence[Observed],
    lane: str,
) -> BatchObservation:
    requests = with_rows_alone(rows)
    known = {row: law for (row,), law in zip(requests[1:], apart, strict=True)}
    alone = tuple(
        known[row].of_row(0) if row in known else _first_token(as_given(row[0], program.declared))
        for row in rows
    )
    # What is certain is exact in every float; all else may be off by the rounding of one law, in
    # the batch and alone.
    random = [row for row, law in zip(rows, alone, strict=True) if len(law) > 1]
    return BatchObservation(
        case=name,
        joint=together.law,
        alone=alone,
        runs=together.runs + sum(law.runs for law in apart),
        slack=together.slack + total(known[row].slack for row in rows if row in known),
        allowed=2 * max(len(random), 1) * largest_allowed(program.declared, random or rows),
        lane=lane,
    )


def with_rows_alone(rows: Sequence[Asked]) -> list[Sequence[Asked]]:
    """Return the request for a batch, and one for each different row that drafts something."""
    return [rows, *([row] for row in dict.fromkeys(rows) if row[0].length > 0)]


def _first_token(instance: Instance) -> Law[Outcome]:
    row = instance.target(())
    return Law({Emission(0, (), token): weight for token, weight in enumerate(row)})


def largest_allowed(declared: Declaration, rows: Sequence[Asked]) -> Rational:
    """Return the largest distance of a row's law that rounding explains."""
    return max(
        allowed_distance(declared, instance.vocabulary, max(instance.length, 1))
        for instance, _ in rows
    )


# Eager draws at every position of three rows take some 30,000 runs; this is a minute or two.
_MOST_RUNS = 50_000

# An outcome has an emission for each row: so many of them take some 200 MB.
_MOST_EMISSIONS = 2**20

# Two calls of an eager verifier take some 1,000 runs; this is a minute.
_MOST_RUNS_OF_PROGRAMS = 20_000


def observed(
    program: Program,
    run: Callable[[Adapter, int], Any],
    read: Callable[[Any, int], Sequence[Any]],
    *,
    vocabulary: int,
    lane: str,
    most_runs: int = _MOST_RUNS_OF_PROGRAMS,
) -> Observed:
    """Return the law of `read(result)` of what `run` does, on the exact or the probe lane.

    `run(adapter, n)` does the same with an adapter n times over, in the rows of one batch, and
    `read(result, n)` returns the outcome of each. The adapter is the program's, or its twin. One
    that takes no batches runs with n = 1 only. Raises as `observe` does.
    """
    (found,) = observed_each(
        program,
        lambda asked, _, rows: run(asked, rows),
        lambda raw, _, rows: read(raw, rows),
        [None],
        vocabulary=vocabulary,
        lane=lane,
        most_runs=most_runs,
    )
    return found


def observed_each(
    program: Program,
    run: Callable[[Adapter, Subject, int], Any],
    read: Callable[[Any, Subject, int], Sequence[Any]],
    subjects: Sequence[Subject],
    *,
    vocabulary: int,
    lane: str,
    most_runs: int = _MOST_RUNS_OF_PROGRAMS,
) -> list[Observed]:
    """Return the laws of `observed` on each subject, in the form that `exact_laws` takes."""
    if lane == PROBE:

        def verify(subject: Subject, asked: Adapter, rows: Sequence[int]) -> Sequence[Any]:
            return read(run(asked, subject, len(rows)), subject, len(rows))

        return [
            _as_observed(law)
            for subject in subjects
            for law in _probed(program, partial(verify, subject), 1, vocabulary)
        ]

    def once(subject: Subject) -> Any:
        return run(program.adapter, subject, 1)

    def outcome(subject: Subject, raw: Any) -> Any:
        return read(raw, subject, 1)[0]

    laws = exact_laws(once, subjects, most_runs=most_runs)
    for subject, law in zip(subjects, laws, strict=True):
        hold_exact(law, partial(once, subject))
    return [
        Observed(law.law.map(partial(outcome, subject)), law.runs, law.slack)
        for subject, law in zip(subjects, laws, strict=True)
    ]


def shares_of(drafts: Law[Drafts]) -> list[Rational]:
    """Return the share that each possible draft has of the law of one iteration."""
    return [share_of(weight, len(drafts)) for weight in drafts.weights.values()]


def joint_laws(
    program: Program,
    requests: Sequence[Sequence[Asked]],
    *,
    lane: str,
    shares: Sequence[Rational] | None = None,
) -> list[Observed]:
    """Return the joint law of the outcomes of each request, on the exact or the probe lane.

    Every run starts from the adapter as loaded. Requests that are `shares` of what is judged as one
    law share the points of the probe lane. Raises as `observe` does.
    """
    if lane == EXACT:
        laws = _exact(program, requests)
    elif lane == PROBE:
        laws = _probed_together(program, requests, shares or [ONE] * len(requests))
    else:
        raise ValueError(f"a law is observed on the lane {EXACT!r} or {PROBE!r}, got {lane!r}")
    _note(program, requests)
    return laws


def _note(program: Program, requests: Sequence[Sequence[Asked | Going]]) -> None:
    """Note the laws of these requests, if enabled."""
    if is_noting():
        made = (request(rows, program.declared) for rows in requests)
        note(described(program.adapter, each) for each in made)


def laws_left(
    program: Program, requests: Sequence[Sequence[Going]], *, lane: str
) -> list[Observed]:
    """Return, for each request, the joint law of the `Left` of its rows.

    Only the numbers of the states are passed on, so an adapter cannot use anything else that it
    remembers. The states of the rows of one request come from one call. Raises as `observe` does.
    """

    def ask(asked: Adapter, rows: Sequence[Going]) -> Any:
        return _answered(asked, program.declared, columns_left, request(rows, program.declared))

    if lane == PROBE:

        def read(asked: Adapter, rows: Sequence[Going]) -> Sequence[Any]:
            return outcomes_left(ask(asked, rows), rows)

        found: dict[int, ProbedLaw[Any]] = {}
        for own in _by_form(requests):
            asked = [requests[index] for index in own]
            found.update(zip(own, _probed_alike(program, asked, read), strict=True))
        _note(program, requests)
        return [_as_observed(found[index]) for index in range(len(requests))]
    laws = _computed(program, requests, columns_left, _MOST_RUNS_OF_PROGRAMS)
    for rows, law in zip(requests, laws, strict=True):
        hold_exact(law, partial(ask, program.adapter, rows))
    _note(program, requests)
    return [
        Observed(law.law.map(partial(outcomes_left, rows=rows)), law.runs, law.slack)
        for rows, law in zip(requests, laws, strict=True)
    ]


def _exact(program: Program, requests: Sequence[Sequence[Asked]]) -> list[Observed]:
    """Return the joint laws of requests, cached or computed, compared with real runs."""
    cache = cache_for(program.adapter)
    found = [cache.get(program, rows) for rows in requests]
    new = [number for number, law in enumerate(found) if law is None]
    asked = [requests[number] for number in new]
    computed = _computed_ahead(program, asked, cache) if new else []
    for number, law in zip(new, computed, strict=True):
        found[number] = law
        cache.keep(program, requests[number], law)
    return [
        _held(program, rows, law)
        for rows, law in zip(requests, found, strict=True)
        if law is not None
    ]


def _computed_ahead(
    program: Program, asked: Sequence[Sequence[Asked]], cache: LawCache
) -> list[ExactLaw[Any]]:
    """Return the laws of requests, and cache those of similar future requests.

    One walk for all takes a third of the time, and gives the same laws. If it fails, the asked
    requests are walked alone: errors of the others are reported by their own tasks.
    """
    ahead = cache.ahead(program, asked)
    if ahead:
        try:
            laws = _computed(program, [*asked, *ahead], columns, _most_runs(asked))
        except Exception:
            cache.refuse(program, ahead)
        else:
            for rows, law in zip(ahead, laws[len(asked) :], strict=True):
                cache.keep(program, rows, law)
            return laws[: len(asked)]
    return _computed(program, asked, columns, _most_runs(asked))


def _most_runs(requests: Sequence[Sequence[Asked]]) -> int:
    """Return the maximum number of runs for the law of a request."""
    return min(_MOST_RUNS, _MOST_EMISSIONS // max(map(len, requests)))


_Taken = Callable[[Any, int], Any]
"""Function that extracts the observed part of the result of a request: `columns`, or
`columns_left`."""


def _computed(
    program: Program,
    requests: Sequence[Sequence[Asked | Going]],
    taken: _Taken,
    most_runs: int,
) -> list[ExactLaw[Any]]:
    """Return the laws of the observed part of results, in few walks; requests have one shape."""
    # All draw from one generator, each as if it were alone.
    declared = program.declared
    generator = watched_generator(declared.device)
    asked = [replace(request(rows, declared), generator=generator) for rows in requests]
    answered = partial(_answered, program.adapter, declared, taken)
    return exact_laws(answered, asked, most_runs=most_runs)


def _answered(adapter: Adapter, declared: Declaration, taken: _Taken, asked: Request) -> Any:
    """Return the observed part of an adapter's result, or the message of an error."""
    asked = with_noise(asked, declared)
    try:
        return taken(as_loaded(adapter).verify(asked), len(asked.draft_tokens))
    except BaseException as error:
        return raised(error)


def _held(program: Program, rows: Sequence[Asked], law: ExactLaw[Any]) -> Observed:
    """Return the joint law of one request, compared with real runs."""
    declared = program.declared

    def asked(rows: Sequence[Asked]) -> Any:
        return _answered(program.adapter, declared, columns, request(rows, declared))

    def many(count: int) -> dict[Any, int]:
        """Count the columns of each row of a call, in the form of a call of one row alone."""
        found = asked([*rows] * count)
        if isinstance(found, str):
            return {found: count}
        seen = Counter(zip(*(column.tolist() for column in found), strict=True))
        return {tuple((number,) for number in row): times for row, times in seen.items()}

    is_one = declared.batch and len(rows) == 1
    hold_exact(law, lambda: asked(rows), many=many if is_one else None, at_once=declared.at_once)
    return Observed(law.law.map(lambda outcome: outcomes(outcome, rows)), law.runs, law.slack)


def _probed_together(
    program: Program, requests: Sequence[Sequence[Asked]], shares: Sequence[Rational]
) -> list[Observed]:
    """Return the joint laws of requests, cached or probed, compared with real runs."""
    ask = _ask(program)
    cache, found = cache_for(program.adapter), dict[int, ProbedLaw[Any]]()
    for own in _by_form(requests):
        asked = [requests[index] for index in own]
        parts = [shares[index] for index in own]
        laws = cache.get_probed(program, asked, parts)
        if laws is None:
            most_runs = _most_runs(asked)
            laws = _probed_alike(program, asked, ask, shares=parts, most_runs=most_runs)
            cache.keep_probed(program, asked, parts, laws)
        else:
            hold_probed(
                [each.law for each in laws],
                partial(_by_request, ask, asked, program.adapter),
                slacks=[each.resolution for each in laws],
                batched=program.declared.batch,
            )
        found.update(zip(own, laws, strict=True))
    return [_as_observed(found[index]) for index in range(len(requests))]


_Ask = Callable[[Adapter, Sequence[Any]], Sequence[Any]]
"""Function that returns the adapter's results for rows that are asked together."""


def _ask(program: Program) -> _Ask:
    def ask(asked: Adapter, rows: Sequence[Asked]) -> Sequence[Any]:
        return verified(as_loaded(asked), rows, program.declared)

    return ask


def _probed_alike(
    program: Program,
    requests: Sequence[Sequence[Any]],
    ask: _Ask,
    **limits: Any,
) -> Sequence[ProbedLaw[Any]]:
    """Probe requests of one form together: they share calls, if the lane finds that they can."""
    verify, vocabulary = partial(_by_request, ask, requests), requests[0][0][0].vocabulary
    return _probed(program, verify, len(requests), vocabulary, **limits)


def _by_form(requests: Sequence[Sequence[Any]]) -> list[list[int]]:
    """Return the places of the requests of each form."""
    places: dict[Hashable, list[int]] = {}
    for place, rows in enumerate(requests):
        places.setdefault(_form(rows), []).append(place)
    return [*places.values()]


def _form(rows: Sequence[Asked | Going]) -> Hashable:
    """Return the form of requests that can share calls: for states, everything but the values."""
    states = [state for _, _, *states in rows for state in states]
    forms = (None if state is None else tuple(each[:-1] for each in state) for state in states)
    return len(rows), max(instance.length for instance, *_ in rows), tuple(forms)


def _by_request(
    ask: _Ask, requests: Sequence[Sequence[Any]], adapter: Adapter, subjects: Sequence[int]
) -> list[tuple[Any, ...]]:
    """Return the adapter's results for the rows of some of the requests, from one call."""
    asked = [requests[subject] for subject in subjects]
    flat = iter(ask(adapter, [row for rows in asked for row in rows]))
    return [tuple(islice(flat, len(rows))) for rows in asked]


def _probed(
    program: Program,
    verify: Callable[[Adapter, Sequence[int]], Sequence[Any]],
    subjects: int,
    vocabulary: int,
    **limits: Any,
) -> tuple[ProbedLaw[Any], ...]:
    """Return the laws of the results of `verify` on each subject with the adapter, or its twin."""
    other = twin_of(program.adapter)
    return probed_laws(
        partial(verify, program.adapter),
        subjects,
        batched=program.declared.batch,
        vocabulary=vocabulary,
        at_once=program.declared.at_once,
        twin=None if other is None else partial(verify, other),
        **limits,
    )


def _as_observed(law: ProbedLaw[Any]) -> Observed:
    note_resolution(law.resolution)
    return Observed(law.law, law.runs, law.resolution)
