"""Likeness: the known faults that have the laws of a failing verifier, on the same cases.

Naming a known fault is faster than finding it. So the laws on some failing cases are compared with
the laws of the suspects, which are verifiers with one known fault each, and with the laws of common
confusions: a different algorithm, or different rows of the target or the draft.

Two programs that compute the same function differ by rounding alone, and each is off by
`allowed_distance` at most. So laws are *identical* here up to twice that distance, plus the
uncertainty of the lane. A case is compared only if it fails by more than three times that distance:
then nothing that is identical to the verifier can be correct on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import accumulate, islice, product
from typing import Any, Protocol

from draftproof.conformance.cases import Case, batches, cases
from draftproof.conformance.cases.large import large
from draftproof.conformance.cases.long import long
from draftproof.conformance.failure.counterexample import Progress, silently
from draftproof.conformance.failure.search import Tried
from draftproof.conformance.lanes.exchange import Asked, Failure, Outcome, as_given
from draftproof.conformance.lanes.observe import (
    BLINDNESS,
    COMPUTING,
    EXACT,
    as_observed,
    joint_laws,
    largest_allowed,
)
from draftproof.conformance.lanes.opaque import TooManyRuns
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program, Request
from draftproof.conformance.protocol.adapter import declaration as declared_by
from draftproof.conformance.protocol.tolerance import allowed_of_text
from draftproof.conformance.requirements._one_law import AskedOtherwise
from draftproof.conformance.requirements.calls import independent
from draftproof.conformance.requirements.finding import FAIL, Finding
from draftproof.conformance.requirements.laws import LAWS, fits
from draftproof.conformance.requirements.layouts import LAID, laid_out
from draftproof.conformance.requirements.settings import PLAIN, Setting, in_setting
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.errors import InvalidInput
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, exactly, total
from draftproof.reference.rows import normalised
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, verification_law

MOST_CASES = {"exact": 9, "probe": 3}
"""Maximum number of cases to compare, by the lane that observes the verifier."""

MOST_REQUESTS = 60
"""Maximum number of requests of all cases; a request has the drafts of one path, or of a batch."""

MOST_PROBED = 10_000
"""Maximum number of runs of all cases on the probe lane, unless the first case needs more."""

MOST_RUNS = 2_000
"""Maximum number of runs of suspects: about 3 s on one core."""

OWN = "draftproof"
"""Source of a fault that nobody has reported."""

_SCREENED = 2
"""Number of cases that screen suspects: a suspect identical on none of them skips the others."""

_BEYOND_ROUNDING = 3
"""Multiple of the distance explained by rounding at which a case clearly fails."""


class Suspect(Protocol):
    """Verifier with one known fault, and the requirements that it must fail."""

    @property
    def id(self) -> str:
        """The name in reports."""

    @property
    def must_fail(self) -> tuple[str, ...]:
        """The requirements that it fails."""

    @property
    def make(self) -> Callable[[], Adapter]:
        """Make the verifier."""

    @property
    def check(self) -> str:
        """The place to check in an identical verifier, to be read after "check"."""

    @property
    def source(self) -> tuple[str, ...]:
        """Where the fault was seen; `OWN` for a fault that nobody reported."""


@dataclass(frozen=True)
class Likeness:
    """The known faults that are identical to a verifier on most of its failing cases.

    `matches` has the number of cases by the name of the fault, the largest first; faults with the
    same number cannot be told apart on these cases. `compared` is the number of faults that were
    compared, `left_out` has the faults that were not, for lack of time or because the exact lane
    cannot see them. `checks` has the place to check for each match, `seen_in` the sources of its
    fault.
    """

    cases: tuple[str, ...]
    matches: Mapping[str, int]
    compared: int
    left_out: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    seen_in: Mapping[str, Sequence[str]] = field(default_factory=dict)


def likeness(
    program: Program,
    findings: Sequence[Finding],
    suspects: Sequence[Suspect],
    *,
    mode: str,
    searched: Tried | None = None,
    progress: Progress = silently,
) -> Likeness | None:
    """Return the suspects and confusions that have the laws of a failed verifier.

    `findings` are from a campaign of the mode, `searched` is the instance and setting of its case
    "search". Returns None if no case fails clearly on a law of one call, on a lane that computes
    laws.
    """
    chosen = _chosen(findings, mode, program.declared, searched)
    if not chosen:
        return None
    lane = chosen[0].lane
    seen = _as_far_as_seen(program, chosen, lane, progress)
    clear = [each for each in seen if _is_clear(each, program.declared)]
    if not clear:
        return None
    identical = dict(_confused(program.declared, clear))
    checks = {name: check for name, check, _ in _confusions(program.declared)}
    checks |= {suspect.id: suspect.check for suspect in suspects}
    seen_in = {suspect.id: [at for at in suspect.source if at != OWN] for suspect in suspects}
    compared, left_out = _compared(clear, _fitting(suspects, program.declared, findings))
    identical |= compared
    most = {name: count for name, count in identical.items() if 2 * count > len(clear)}
    return Likeness(
        tuple(each.case.id for each in clear),
        dict(sorted(most.items(), key=lambda each: -each[1])),
        len(identical),
        left_out,
        {name: checks[name] for name in most},
        {name: seen_in.get(name, []) for name in most},
    )


def likeness_to_json(found: Likeness) -> dict[str, Any]:
    """Return the `likeness` part of a certificate."""
    return {
        "cases": list(found.cases),
        "compared": found.compared,
        "left_out": list(found.left_out),
        "matches": [
            {
                "fault": fault,
                "identical": count,
                "check": found.checks.get(fault, ""),
                "seen_in": list(found.seen_in.get(fault, ())),
            }
            for fault, count in found.matches.items()
        ],
    }


# --- the cases ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailingCase:
    """Case that fails on a lane: its requests, and their changes.

    Each request has a weight; the weights of all drafts of an instance sum to 1.
    """

    id: str
    lane: str
    requests: tuple[tuple[Rational, tuple[Asked, ...]], ...]
    change: Callable[[Request], Request] | None = None
    setting: Setting = PLAIN


@dataclass(frozen=True)
class _Seen:
    """The laws of a case, one for each of its requests, and how far each may be off."""

    case: FailingCase
    laws: tuple[Law[Any], ...]
    off: Rational
    runs: int


def _chosen(
    findings: Sequence[Finding], mode: str, declared: Declaration, searched: Tried | None
) -> list[FailingCase]:
    """Return the cases to compare: cases of one row before all others, small cases first."""
    failing = {(each.case, each.lane): each for each in findings if _fails_clearly(each)}
    lane = next((lane for lane in COMPUTING if any(at == lane for _, at in failing)), EXACT)
    own = {case: each for (case, at), each in failing.items() if at == lane}
    asked: dict[str, FailingCase] = {}
    for source in (_of_one_row, _of_a_search, _otherwise, _long, _together):
        for each in source(own, lane, mode, declared, searched):
            asked.setdefault(each.id, each)
        if asked:
            break
    few = list(islice(asked.values(), MOST_CASES[lane]))
    sums = accumulate(len(each.requests) for each in few)
    few = [each for each, sum_ in zip(few, sums, strict=True) if sum_ <= MOST_REQUESTS]
    if lane == EXACT:
        return few
    runs = accumulate(own[each.id].runs if each.id in own else 0 for each in few)
    return [
        each for each, sum_ in zip(few, runs, strict=True) if each is few[0] or sum_ <= MOST_PROBED
    ]


def _fails_clearly(finding: Finding) -> bool:
    return (
        finding.verdict == FAIL
        and finding.lane in COMPUTING
        and finding.distance is not None
        and finding.allowed is not None
        and finding.distance > _BEYOND_ROUNDING * finding.allowed
    )


_Failing = Mapping[str, Finding]
"""The findings that fail clearly, by their cases."""


def _of_one_row(
    failing: _Failing, lane: str, mode: str, declared: Declaration, _: Tried | None
) -> Iterator[FailingCase]:
    known = [case for case in cases(mode) if case.id in failing]
    modes = list(dict.fromkeys(case.mode for case in cases(mode)))
    for case in sorted(known, key=lambda case: (modes.index(case.mode), _size(case.instance))):
        if failing[case.id].requirement in LAWS:
            yield _of_instance(case.id, lane, case.instance, declared)


def _of_a_search(
    failing: _Failing, lane: str, _: str, declared: Declaration, searched: Tried | None
) -> Iterator[FailingCase]:
    if searched is not None and "search" in failing:
        instance, setting = searched
        yield replace(_of_instance("search", lane, instance, declared), setting=setting)


def _otherwise(
    failing: _Failing, lane: str, mode: str, declared: Declaration, _: Tried | None
) -> Iterator[FailingCase]:
    """Yield the failing cases with a changed layout, or without a generator."""
    changes: dict[str, Callable[[Request], Request]] = {
        f"layout.{name}": partial(laid_out, name) for name in LAID
    }
    changes["default"] = partial(replace, generator=None)
    for case in cases(mode):
        for name, change in changes.items():
            if f"{name}.{case.id}" in failing:
                found = _of_instance(f"{name}.{case.id}", lane, case.instance, declared)
                yield replace(found, change=change)


def _long(
    failing: _Failing, lane: str, mode: str, declared: Declaration, _: Tried | None
) -> Iterator[FailingCase]:
    for group in long(mode):
        if group.id in failing:
            for case in group.cases[:_MOST_OF_A_GROUP]:
                yield _of_instance(case.id, lane, case.instance, declared)


_MOST_OF_A_GROUP = 3


def _together(
    failing: _Failing, lane: str, mode: str, _: Declaration, __: Tried | None
) -> Iterator[FailingCase]:
    for batch in (*batches(mode), *large(mode)):
        if batch.id in failing:
            yield FailingCase(batch.id, lane, ((ONE, batch.rows),))


def _of_instance(name: str, lane: str, instance: Instance, declared: Declaration) -> FailingCase:
    drawn = draft_law(as_given(instance, declared))
    requests = ((weight, ((instance, drafts),)) for drafts, weight in drawn.items())
    return FailingCase(name, lane, tuple(requests))


def _size(instance: Instance) -> int:
    return int(instance.vocabulary ** (instance.length * instance.drafts))


# --- the laws ----------------------------------------------------------------------------------


def _as_far_as_seen(
    program: Program, chosen: Sequence[FailingCase], lane: str, progress: Progress
) -> list[_Seen]:
    """Return the laws of a program on the cases on which a lane can see it."""
    # Requests of several vocabularies share no calls of the probe lane, which takes far longer.
    parts = [chosen] if lane == EXACT else [[case] for case in chosen]
    names = [part[0].id for part in parts]
    seen: list[_Seen] = []
    for part in progress(parts, len(parts), "known faults", names):
        with suppress(*BLINDNESS):
            seen += _seen(program, part, lane)
    return seen


def _seen(program: Program, chosen: Sequence[FailingCase], lane: str) -> list[_Seen]:
    """Return the laws of a program on cases; cases of one change and setting share their runs."""
    seen: dict[str, _Seen] = {}
    for change, setting in dict.fromkeys((case.change, case.setting) for case in chosen):
        own = [case for case in chosen if (case.change, case.setting) == (change, setting)]
        asked = in_setting(program, setting)
        if change is not None:
            asked = replace(asked, adapter=AskedOtherwise(asked.adapter, change))
        requests = [rows for case in own for _, rows in case.requests]
        found = iter(joint_laws(asked, requests, lane=lane))
        for case in own:
            laws = list(islice(found, len(case.requests)))
            seen[case.id] = _Seen(
                case,
                tuple(_unworded(law.law) for law in laws),
                max(law.slack for law in laws) + _allowed(program.declared, case),
                sum(law.runs for law in laws),
            )
    return [seen[case.id] for case in chosen]


def _allowed(declared: Declaration, case: FailingCase) -> Rational:
    """Return how far rounding can move the law of a request, summed over its random rows."""
    return max(
        len(random) * largest_allowed(declared, random)
        for _, rows in case.requests
        for random in [[row for row in rows if not _is_certain(row)] or rows[:1]]
    )


def _is_certain(row: Asked) -> bool:
    """Return True if the target is certain wherever a verifier can look."""
    instance, drafts = row
    contexts = {path[:size] for path in drafts for size in range(instance.length + 1)}
    return all(max(instance.target(context)) == 1 for context in contexts)


def _unworded(law: Law[Any]) -> Law[Any]:
    """Return a joint law in which failures differ only by their kind."""
    return law.map(lambda rows: tuple(map(_without_words, rows)))


def _without_words(outcome: Outcome) -> Outcome:
    if not isinstance(outcome, Failure):
        return outcome
    words = outcome.what.split()
    # What is raised has the words of its program, what is returned those of the lane.
    return Failure(" ".join(words[:3] if words[0] == "returned" else words[:1]))


def _distance(case: FailingCase, one: Sequence[Law[Any]], other: Sequence[Law[Any]]) -> Rational:
    laws = zip(case.requests, one, other, strict=True)
    return total(weight * law.total_variation(beside) for (weight, _), law, beside in laws)


def _is_clear(seen: _Seen, declared: Declaration) -> bool:
    """Return True if no correct verifier has these laws, as far as the reference knows its law."""
    try:
        right = _laws_of(_reference(declared), seen.case, declared)
    except InvalidInput:
        return True
    return _distance(seen.case, seen.laws, right) > _BEYOND_ROUNDING * seen.off


# --- the suspects ------------------------------------------------------------------------------


def _fitting(
    suspects: Sequence[Suspect], declared: Declaration, findings: Sequence[Finding]
) -> Iterator[tuple[str, Program]]:
    """Yield the suspects of the verifier's algorithm that must fail a law or failed requirement."""
    failed = {*LAWS, *(each.requirement for each in findings if each.verdict == FAIL)}
    for suspect in suspects:
        if failed.isdisjoint(suspect.must_fail):
            continue
        adapter = suspect.make()
        own = declared_by(adapter)
        if own.algorithm == declared.algorithm:
            # They compute in float32, or more exactly, whatever they are given.
            given = replace(own, dtype=declared.dtype, arithmetic="float32")
            yield suspect.id, Program(AskedOtherwise(adapter, _as_it_is), given)


def _as_it_is(request: Request) -> Request:
    return request


def _compared(
    seen: Sequence[_Seen], suspects: Iterable[tuple[str, Program]]
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return on how many cases each suspect is identical, and the suspects that were left out."""
    screened, others = seen[:_SCREENED], seen[_SCREENED:]
    identical: dict[str, int] = {}
    left_out: list[str] = []
    runs = 0
    for name, suspect in suspects:
        try:
            if runs > MOST_RUNS:
                raise TooManyRuns(f"more than {MOST_RUNS} runs")
            count, cost = _identical(suspect, screened)
            if count:
                more, dear = _identical(suspect, others)
                count, cost = count + more, cost + dear
        except BLINDNESS:
            left_out.append(name)
        else:
            runs += cost
            identical[name] = count
    return identical, tuple(left_out)


def _identical(suspect: Program, seen: Sequence[_Seen]) -> tuple[int, int]:
    """Return on how many cases a suspect is identical, and its runs. Raises as a lane does."""
    fitting = [each for each in seen if _takes(suspect.declared, each.case)]
    own = _seen(suspect, [each.case for each in fitting], EXACT)
    count = sum(
        _distance(each.case, each.laws, beside.laws) <= each.off + beside.off
        for each, beside in zip(fitting, own, strict=True)
    )
    return count, sum(each.runs for each in own)


def _takes(declared: Declaration, case: FailingCase) -> bool:
    """Return True if a verifier declares to take the rows of a case."""
    rows = [row for _, asked in case.requests for row in asked]
    is_one = all(len(asked) == 1 for _, asked in case.requests)
    return (
        (declared.batch or is_one)
        and (declared.ragged or len({instance.length for instance, _ in rows}) == 1)
        and all(fits(Case("likeness", "", "quick", instance), declared) for instance, _ in rows)
    )


# --- the confusions ----------------------------------------------------------------------------

_RowLaw = Callable[[Instance, Drafts], Law[Outcome]]


def _laws_of(row_law: _RowLaw, case: FailingCase, declared: Declaration) -> tuple[Law[Any], ...]:
    """Return the laws of requests whose rows are independent, each by its own law.

    Raises `InvalidInput` if a row has no law.
    """
    return tuple(
        independent([row_law(as_given(instance, declared), drafts) for instance, drafts in rows])
        for _, rows in case.requests
    )


def _reference(declared: Declaration) -> _RowLaw:
    """Return the law of the declared algorithm, or of token verification if it is unknown."""
    return partial(_of_algorithm, ALGORITHMS.get(declared.algorithm, ALGORITHMS["token"]))


def _of_algorithm(algorithm: Algorithm, instance: Instance, drafts: Drafts) -> Law[Outcome]:
    return verification_law(algorithm, instance, drafts).map(as_observed)


def _confusions(declared: Declaration) -> Iterator[tuple[str, str, _RowLaw]]:
    """Yield the laws of common confusions, each with its name and a check to make."""
    check = f"which algorithm runs: the adapter declares {declared.algorithm}"
    for algorithm in ALGORITHMS.values():
        if algorithm.name != declared.algorithm:
            yield f"{algorithm.name} verification", check, partial(_of_algorithm, algorithm)
    own = _reference(declared)
    check = "the order of the arguments: the draft's rows and the target's"
    yield "target and draft exchanged", check, partial(_changed, own, _exchanged)
    for which in ("target", "draft"):
        check = f"whether a temperature is applied to the {which}'s rows once too often, or is lost"
        for temperature in TEMPERATURES:
            change = partial(_at_temperature, which, temperature)
            name = f"the {which} at temperature {temperature:g}"
            yield name, check, partial(_changed, own, change)


TEMPERATURES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.5, 2.0)
"""Temperatures that are commonly applied to rows by mistake."""


def _changed(
    row_law: _RowLaw, change: Callable[[Instance], Instance], instance: Instance, drafts: Drafts
) -> Law[Outcome]:
    return row_law(change(instance), drafts)


@lru_cache(maxsize=64)
def _exchanged(instance: Instance) -> Instance:
    """Return the instance with target and draft rows exchanged, where both exist."""
    vocabulary, length = instance.vocabulary, instance.length
    target = {c: instance.target(c) for c in _contexts(instance, instance.target, length)}
    draft = {c: instance.draft(c) for c in _contexts(instance, instance.draft, length - 1)}
    drafted = {context: target[context] for context in draft if context in target}
    return replace(
        instance,
        target=Model("target", vocabulary, {**target, **draft}),
        draft=Model("draft", vocabulary, drafted),
    )


def _contexts(instance: Instance, model: Model, depth: int) -> Iterator[Path]:
    """Yield the contexts of at most `depth` tokens that a model knows."""
    if not model.context_free:
        yield from (context for context in model.rows if len(context) <= depth)
        return
    for size in range(depth + 1):
        yield from product(range(instance.vocabulary), repeat=size)


@lru_cache(maxsize=64)
def _at_temperature(which: str, temperature: float, instance: Instance) -> Instance:
    model = instance.target if which == "target" else instance.draft
    rows = {context: _tempered(row, temperature) for context, row in model.rows.items()}
    changed = replace(model, rows=rows)
    if which == "target":
        return replace(instance, target=changed)
    return replace(instance, draft=changed)


def _tempered(row: Row, temperature: float) -> Row:
    """Return a row at a temperature, in doubles; at 0 it is certain of its first largest token."""
    if temperature == 0:
        return tuple(ONE if token == row.index(max(row)) else ZERO for token in range(len(row)))
    weights = [exactly((float(weight) / float(max(row))) ** (1 / temperature)) for weight in row]
    return normalised(weights)


def _confused(declared: Declaration, seen: Sequence[_Seen]) -> Iterator[tuple[str, int]]:
    """Yield each confusion's number of identical cases; if laws are equal, only the first's."""
    screened, others = seen[:_SCREENED], seen[_SCREENED:]
    known: list[Sequence[tuple[Law[Any], ...] | None]] = []
    for name, _, row_law in _confusions(declared):
        laws = [_laws_or_none(row_law, each.case, declared) for each in screened]
        if any(map(partial(_is_near, declared), screened, laws)):
            laws += [_laws_or_none(row_law, each.case, declared) for each in others]
        if laws not in known:
            known.append(laws)
            yield name, sum(map(partial(_is_near, declared), seen, laws))


def _is_near(declared: Declaration, seen: _Seen, laws: tuple[Law[Any], ...] | None) -> bool:
    """Return True if laws are identical to those of a verifier that may process its rows first."""
    if laws is None:
        return False
    off = seen.off + _processed(declared, seen.case)
    return _distance(seen.case, seen.laws, laws) <= off


def _laws_or_none(
    row_law: _RowLaw, case: FailingCase, declared: Declaration
) -> tuple[Law[Any], ...] | None:
    try:
        return _laws_of(row_law, case, declared)
    except InvalidInput:
        return None


def _processed(declared: Declaration, case: FailingCase) -> Rational:
    """Return how far rounding can move the law of a request whose rows are processed first."""
    return max(
        len(rows) * allowed_of_text(declared, rows[0][0].vocabulary, rows[0][0].length)
        for _, rows in case.requests
    )
