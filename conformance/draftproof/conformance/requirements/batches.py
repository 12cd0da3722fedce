"""Requirements on batches: rows that are verified together must be independent.

Ids, levels and wording are those of the specification's chapter 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy
import torch
from scipy.special import bdtrc
from torch import Tensor

from draftproof.conformance.cases import BatchCase, Case, batches, cases
from draftproof.conformance.cases.together import (
    Undrafted,
    mixed,
    ragged,
    reordered,
    with_padding_rows,
)
from draftproof.conformance.lanes._streams import seeded
from draftproof.conformance.lanes.cache import Coming
from draftproof.conformance.lanes.exchange import (
    Asked,
    Outcome,
    as_given,
    as_loaded,
    columns,
    outcomes,
    raised,
    request,
    with_noise,
)
from draftproof.conformance.lanes.observe import (
    EXACT,
    PROBE,
    RUN,
    SAMPLE,
    BatchObservation,
    Observed,
    joint_laws,
    largest_allowed,
    observe_batch,
    shares_of,
    with_rows_alone,
)
from draftproof.conformance.lanes.statistics import Budget
from draftproof.conformance.protocol.adapter import (
    Adapter,
    AdapterFailed,
    Declaration,
    InvalidAdapter,
    Program,
    Request,
    UnknownAdapter,
    program_of,
)
from draftproof.conformance.protocol.loading import other_backend
from draftproof.conformance.protocol.tolerance import UNIT_ROUNDOFF, allowed_distance
from draftproof.conformance.requirements.finding import (
    ERROR,
    FAIL,
    PASS,
    SKIPPED,
    Finding,
    verdict_of,
)
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.pairs import sample_pairs
from draftproof.conformance.requirements.sampled import TestResult
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on batches; for B = 1 alone, those on its padding and its caller's tensors.

    The sample lane judges only the task on neighbours in a batch of equal rows: larger joint laws
    have too many outcomes to count.
    """
    if declared.batch:
        yield from _independence_tasks(declared, mode)
    for case in _padded_cases(mode):
        judged = partial(judge_padded_vocabulary, case)
        yield Task(f"{case.id}.padded", ("batch.padding",), (EXACT, PROBE), judged)
    yield Task("tensors", ("input.unchanged",), (RUN,), partial(judge_unchanged, mode))
    yield Task("backends", ("batch.backends",), (RUN,), partial(judge_backends, mode))


def _independence_tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    judged: list[tuple[str, Iterable[BatchCase], Judge, Requests]] = [
        ("batch.invariant", _fitting(batches(mode), declared), judge_case, _with_rows_alone),
        ("batch.mixed", mixed(mode), judge_mixed, _with_rows_alone),
        ("batch.order", reordered(mode), judge_order, _in_both_orders),
    ]
    if declared.ragged:
        judged.append(("batch.ragged", ragged(mode), judge_ragged, _with_rows_alone))
        judged.append(
            ("batch.padding", with_padding_rows(mode), judge_padding_rows, _without_padding)
        )
    for requirement, judged_on, judge, requests in judged:
        for batch in judged_on:
            lanes = (EXACT, PROBE, SAMPLE) if batch.id == _SAMPLED else (EXACT, PROBE)
            judged_by, asks = partial(judge, batch), partial(_asked, requests, batch)
            yield Task(batch.id, (requirement,), lanes, judged_by, asks=asks)


def _asked(requests: Requests, batch: BatchCase, declared: Declaration) -> Coming:
    return [(rows, declared) for rows in requests(batch)]


def _with_rows_alone(batch: BatchCase) -> list[Sequence[Asked]]:
    return with_rows_alone(batch.rows)


def _in_both_orders(batch: BatchCase) -> list[Sequence[Asked]]:
    return [batch.rows, batch.rows[::-1]]


def _without_padding(batch: BatchCase) -> list[Sequence[Asked]]:
    """Return a batch, and the same batch without its padding rows."""
    return [batch.rows, [row for row in batch.rows if not isinstance(row[0], Undrafted)]]


def _fitting(given: Iterable[BatchCase], declared: Declaration) -> Iterator[BatchCase]:
    """Yield the batches of which the adapter declares that it takes every row's drafts."""
    for batch in given:
        rows = (Case(batch.id, "", batch.mode, instance) for instance, _ in batch.rows)
        if all(fits(row, declared) for row in rows):
            yield batch


Judge = Callable[[BatchCase, Program, Terms], list[Finding]]

Requests = Callable[[BatchCase], list[Sequence[Asked]]]
"""Function that returns the requests whose laws judge a batch."""

_SAMPLED = "batch.same"
"""Batch that stands for all batches on the sample lane."""

_NEIGHBOURS = "generic.v3.l2"
"""Case of its neighbouring rows: two tokens would not reveal a neighbour's bonus."""


# --- independence ------------------------------------------------------------------------


def batch_invariant(seen: BatchObservation) -> Rational:
    """`batch.invariant`: TV between the joint law and the product of its rows' laws."""
    return seen.joint.total_variation(independent_law(seen))


def judge_case(batch: BatchCase, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `batch.invariant` on a batch."""
    if terms.lane == SAMPLE:
        return [judge_pairs("batch.invariant", batch.id, neighbours(), program, terms)]
    return [judge_batch(observe_batch(program, batch.id, batch.rows, lane=terms.lane))]


def neighbours() -> Instance:
    """Return the instance of all rows of a batch that is sampled."""
    (found,) = (each.instance for each in cases("quick") if each.id == _NEIGHBOURS)
    return found


def judge_pairs(
    requirement: str,
    case: str,
    instance: Instance,
    program: Program,
    terms: Terms,
    *,
    tested: Callable[..., Mapping[str, TestResult]] = sample_pairs,
) -> Finding:
    """Return the finding of the independence of pairs, from the results of `tested`."""
    fresh = replace(program, adapter=as_loaded(program.adapter))
    seed, budget = terms.seed_of(case), Budget(terms.false_alarm)
    try:
        result = tested(fresh, instance, seed=seed, budget=budget)[requirement]
    except Unsupported as reason:
        return Finding(requirement, case, SKIPPED, detail=str(reason), applies=False)
    allowed = 2 * allowed_distance(program.declared, instance.vocabulary, instance.length)
    return result.finding(requirement, case, allowed=allowed, false_alarm=terms.false_alarm)


def judge_batch(seen: BatchObservation, requirement: str = "batch.invariant") -> Finding:
    """Return the finding of the independence of rows, on one observed batch."""
    return _finding(requirement, seen, batch_invariant(seen))


def independent_law(seen: BatchObservation) -> Law[tuple[Outcome, ...]]:
    """Return the joint law of a batch's rows under independence, with the law of each row alone."""
    return Law(
        {
            rows: prod((law[row] for law, row in zip(seen.alone, rows, strict=True)), start=ONE)
            for rows in product(*seen.alone)
        }
    )


def judge_mixed(batch: BatchCase, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `batch.mixed` on a batch of certain rows beside random ones."""
    seen = observe_batch(program, batch.id, batch.rows, lane=terms.lane)
    # A certain target can say one text, so whatever else its row emits lies outside its support.
    astray = max(
        law.probability(partial(_outside, instance))
        for law, (instance, _) in zip(seen.alone, batch.rows, strict=True)
    )
    return [_finding("batch.mixed", seen, max(batch_invariant(seen), astray))]


def _outside(instance: Instance, outcome: Outcome) -> bool:
    return not isinstance(outcome, Emission) or instance.target.joint(outcome.tokens) == 0


def judge_order(batch: BatchCase, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `batch.order` on a batch and on the same batch in reverse."""
    first, second = joint_laws(program, _in_both_orders(batch), lane=terms.lane)
    back = second.law.map(lambda rows: rows[::-1])
    allowed = 2 * len(batch.rows) * largest_allowed(program.declared, batch.rows)
    distance = first.law.total_variation(back)
    return [_measured("batch.order", batch.id, distance, allowed, terms, first, second)]


# --- padding -----------------------------------------------------------------------------


def judge_ragged(batch: BatchCase, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `batch.ragged` on a batch of rows of different lengths."""
    seen = observe_batch(program, batch.id, batch.rows, lane=terms.lane)
    return [judge_batch(seen, "batch.ragged")]


def judge_padding_rows(batch: BatchCase, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `batch.padding` on a batch padded with rows that draft nothing."""
    kept = [i for i, (instance, _) in enumerate(batch.rows) if not isinstance(instance, Undrafted)]
    filled, bare = joint_laws(program, _without_padding(batch), lane=terms.lane)
    marginal = filled.law.map(lambda rows: tuple(rows[index] for index in kept))
    rows = [batch.rows[index] for index in kept]
    allowed = 2 * len(kept) * largest_allowed(program.declared, rows)
    distance = marginal.total_variation(bare.law)
    return [_measured("batch.padding", batch.id, distance, allowed, terms, filled, bare)]


_PADDED = ("generic.v2.l2", "zeros.both", "equal.first", "generic.v3.l2")
"""Cases whose vocabulary is padded."""


def _padded_cases(mode: str) -> Iterator[Case]:
    chosen = _PADDED[:2] if mode == "quick" else _PADDED
    yield from (case for case in cases(mode) if case.id in chosen)


def judge_padded_vocabulary(case: Case, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `batch.padding` on a case whose vocabulary is padded."""
    vocabulary = case.instance.vocabulary
    # Two tokens of padding before each, two behind all: no multiple of a block's size.
    places = range(2, 3 * vocabulary, 3)
    padded = padded_vocabulary(case.instance, places, 3 * vocabulary + 2)
    drafts = draft_law(as_given(case.instance, program.declared))
    laws_of = partial(joint_laws, program, lane=terms.lane, shares=shares_of(drafts))
    bare = laws_of([[(case.instance, d)] for d in drafts])
    wide = [[(padded, tuple(renamed(path, places) for path in paths))] for paths in drafts]
    seen = laws_of(wide)
    distance = total(
        weight
        * one.of_row(0).map(partial(_as_padded, places=places)).total_variation(other.of_row(0))
        for weight, one, other in zip(drafts.weights.values(), bare, seen, strict=True)
    )
    both: list[Asked] = [(case.instance, ((),)), (padded, ((),))]
    allowed = 2 * largest_allowed(program.declared, both)
    return [_measured("batch.padding", f"{case.id}.padded", distance, allowed, terms, *bare, *seen)]


def padded_vocabulary(instance: Instance, places: Sequence[int], width: int) -> Instance:
    """Return the instance over `width` tokens, of which only those at `places` can be written."""

    def padded(model: Model) -> Model:
        rows = {}
        for context, row in model.rows.items():
            said = dict(zip(places, row, strict=True))
            rows[renamed(context, places)] = tuple(said.get(t, ZERO) for t in range(width))
        return Model(model.name, width, rows, model.context_free)

    return replace(instance, target=padded(instance.target), draft=padded(instance.draft))


def renamed(path: Path, places: Sequence[int]) -> Path:
    """Return the path in the tokens of a padded vocabulary."""
    return tuple(places[token] for token in path)


def _as_padded(outcome: Outcome, places: Sequence[int]) -> Outcome:
    if not isinstance(outcome, Emission):
        return outcome
    accepted, token = renamed(outcome.accepted, places), places[outcome.next_token]
    return Emission(outcome.path, accepted, token)


# --- the caller's tensors ----------------------------------------------------------------

_WATCHED = ("generic.v2.l2", "zeros.both", "disjoint", "equal", "banked")
"""Cases whose tensors are watched: their tokens are accepted, rejected, masked or void."""

_SEEDS = 8


def judge_unchanged(mode: str, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `input.unchanged`: every tensor is compared bit for bit, NaN included.

    The requests have all drafts of some cases, with several seeds, in tensors that are parts of
    larger ones, and in rows that share the same memory (stride 0). The comparison follows all
    calls, so that a later write to a tensor that the verifier kept counts as well. A write that is
    undone before the comparison goes unseen. A verifier that raises where rows share memory has
    written nothing, and passes.
    """
    declared = program.declared
    watched: list[tuple[str, list[_Watched]]] = []
    for case, rows in _watched_rows(mode, declared):
        layouts = {"": 1, " in shared memory": 4} if declared.batch and len(rows) == 1 else {"": 1}
        for (layout, times), seed in product(layouts.items(), range(_SEEDS)):
            asked = with_noise(request(rows, declared), declared)
            given = {name: _Watched(name, tensor, times) for name, tensor in tensors_of(asked)}
            put = with_tensors(asked, {name: each.tensor for name, each in given.items()})
            emitted(program.adapter, put, terms.seed_of(f"unchanged/{case}/{seed}"))
            watched.append((f"{case}{layout}", list(given.values())))
    written = [
        f"Request.{each.name} was changed on {where}"
        for where, tensors in watched
        for each in tensors
        if each.is_changed()
    ]
    verdict = FAIL if written else PASS
    detail = written[0] if written else ""
    return [
        Finding("input.unchanged", "tensors", verdict, lane=RUN, runs=len(watched), detail=detail)
    ]


def _watched_rows(mode: str, declared: Declaration) -> Iterator[tuple[str, Sequence[Asked]]]:
    for case in cases("quick"):
        if case.id in _WATCHED:
            rows = [(case.instance, paths) for paths in draft_law(case.instance)]
            yield from ((case.id, [row]) for row in rows)
            if declared.batch:
                yield case.id, rows
    if declared.ragged:
        yield from ((batch.id, batch.rows) for batch in ragged(mode))


class _Watched:
    """Tensor of a request, as a part of a larger memory, and its original content."""

    def __init__(self, name: str, tensor: Tensor, times: int) -> None:
        self.name = name
        size = tensor.numel()
        # As much again on both sides: what writes beside its tensor is caught, not crashed.
        self._memory = tensor.new_full((3 * size * times,), 1)
        part = self._memory[size * times :][:size].view(tensor.shape)
        part.copy_(tensor)
        self.tensor = part.expand(times * len(part), *part.shape[1:]) if times > 1 else part
        self._before = self._state()

    def is_changed(self) -> bool:
        return self._state() != self._before

    def _state(self) -> tuple[object, ...]:
        seen, memory = (
            each.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            for each in (self.tensor, self._memory)
        )
        return self.tensor.shape, self.tensor.stride(), seen, memory


def tensors_of(asked: Request) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a request, by name, its noise included."""
    for field in fields(asked):
        value = getattr(asked, field.name)
        if isinstance(value, Tensor):
            yield field.name, value
    for name, noise in (asked.noise or {}).items():
        yield f"noise[{name!r}]", noise


def with_tensors(asked: Request, tensors: Mapping[str, Tensor]) -> Request:
    """Return the request with other tensors, under the names of `tensors_of`."""
    noise = {name: tensors[f"noise[{name!r}]"] for name in asked.noise or {}}
    own: dict[str, Any] = {name: tensors[name] for name in tensors if hasattr(asked, name)}
    return replace(asked, noise=noise or None, **own)


# --- two backends ------------------------------------------------------------------------

NO_CASE = "none"
"""Case of the only finding if two backends cannot be compared on any case."""


@dataclass(frozen=True)
class Agreement:
    """Number of different emissions of two backends on the same rows and noise."""

    case: str
    rows: int
    different: int
    legal: Rational
    """Bound on the probability that rounding alone makes a row differ."""


def judge_backends(mode: str, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `batch.backends` on each of the `compared` cases, or on `NO_CASE`."""
    try:
        twin = other_backend(program.adapter)
        if twin is None:
            reason = "it names no other backend to agree with (same_as)"
            return [Finding("batch.backends", NO_CASE, SKIPPED, detail=reason, applies=False)]
        other = program_of(twin)
    except (UnknownAdapter, AdapterFailed, InvalidAdapter) as error:
        return [Finding("batch.backends", NO_CASE, ERROR, detail=f"same_as: {error}")]
    own, its = program.declared, other.declared
    if _noise(own) != _noise(its):
        reason = f"{own.name} and {its.name} take different noise: none can be shared"
        return [Finding("batch.backends", NO_CASE, ERROR, detail=reason)]
    given = compared(own, mode)
    shared = [case for case in given if fits(case, its)]

    def judged(case: Case) -> Finding:
        if case not in shared:
            reason = f"{its.name} does not take the drafts of this case"
            return Finding("batch.backends", case.id, SKIPPED, detail=reason, applies=False)
        seen = observe_agreement((program, other), case, terms.seed_of(f"backends/{case.id}"))
        return judge_agreement(seen, terms.false_alarm / len(shared))

    return [judged(case) for case in given]


def compared(declared: Declaration, mode: str) -> list[Case]:
    """Return the cases of the comparison with another backend: those that the adapter takes."""
    return [case for case in cases(mode) if fits(case, declared)]


def judge_agreement(seen: Agreement, false_alarm: float) -> Finding:
    """Return the finding of `batch.backends` on one case.

    Correct backends differ by more than the allowed share with probability `false_alarm` at most.
    """
    distance = rational(seen.different) / seen.rows
    allowed = largest_share(seen.rows, seen.legal, false_alarm)
    verdict = verdict_of(distance, allowed, ZERO)
    return Finding("batch.backends", seen.case, verdict, distance, allowed, RUN, seen.rows)


def largest_share(rows: int, chance: Rational, false_alarm: float) -> Rational:
    """Return a bound on the share of rows with a rare event, exceeded only by a false alarm.

    The event happens to each row with probability `chance` at most, independently: a binomial tail.
    """
    if chance >= 1:
        return ONE
    more_than = bdtrc(numpy.arange(rows + 1), rows, float(chance))
    return rational(int((more_than <= false_alarm).argmax())) / rows


_ROWS_TOGETHER, _ROWS_APART = 2048, 128
"""Numbers of rows in a comparison of two backends: verified together, and one at a time."""


def observe_agreement(backends: tuple[Program, Program], case: Case, seed: int) -> Agreement:
    """Compare two backends on every draft of a case, on shared noise or a shared seed."""
    kinds = tuple(backend.declared for backend in backends)
    rows: list[Asked] = [(case.instance, d) for d in draft_law(as_given(case.instance, kinds[0]))]
    together = all(declared.batch for declared in kinds)
    times = -(-(_ROWS_TOGETHER if together else _ROWS_APART) // len(rows))
    groups = [rows] if together else [[row] for row in rows for _ in range(times)]
    different = 0
    for number, group in enumerate(groups):
        different += _different(backends, group, times if together else 1, seed + number)
    size = case.instance.vocabulary, case.instance.length
    return Agreement(
        case.id, len(rows) * times, different, total(_legal(kind, *size) for kind in kinds)
    )


def _legal(declared: Declaration, vocabulary: int, length: int) -> Rational:
    """Return a bound on the probability that rounding changes an emission on given noise.

    Rounding moves the thresholds of coins, and the law of draws, by `allowed_distance` in all. A
    coin changes its side as often as its threshold moves; a race changes its winner at most twice
    as often as its law moves, a running sum V - 1 times at most (spec, chapter 7). In each of the L
    + 1 decisions one number of the noise's grid may be between two thresholds.
    """
    grid = (length + 1) * UNIT_ROUNDOFF["float32"]
    return max(2, vocabulary - 1) * (allowed_distance(declared, vocabulary, length) + grid)


def _different(backends: Sequence[Program], rows: Sequence[Asked], times: int, seed: int) -> int:
    """Return the number of rows, each repeated, with different outcomes on shared noise or seed."""
    found, noise = [], None
    for backend in backends:
        asked = request(rows, backend.declared)
        repeated = {name: each.repeat_interleave(times, 0) for name, each in tensors_of(asked)}
        asked = with_tensors(asked, repeated)
        if noise is None:
            _seeded(asked.generator, seed)
            noise = with_noise(asked, backend.declared).noise
        if noise is not None:
            device = asked.draft_probs.device
            asked = replace(asked, noise={n: each.clone().to(device) for n, each in noise.items()})
        found.append(emitted(backend.adapter, asked, seed, placed=False))
    first, second = found
    if first == second:
        return 0
    # Columns can differ in what counts for the same: two paths share what was accepted.
    every = [row for row in rows for _ in range(times)]
    return sum(a != b for a, b in zip(outcomes(first, every), outcomes(second, every), strict=True))


def _noise(declared: Declaration) -> dict[str, tuple[str | int, ...]]:
    return {name: tuple(form) for name, form in declared.noise.items()}


# --- runs and findings -------------------------------------------------------------------


def emitted(
    adapter: Adapter, asked: Request, seed: int, *, placed: bool = True
) -> list[list[object]] | str:
    """Return the columns of one run on a seed, or the message of its error.

    If errors are `placed`, the messages of two adapters that raise the same error differ.
    """
    with seeded(seed):
        _seeded(asked.generator, seed)
        try:
            result = columns(copy(adapter).verify(asked), len(asked.draft_tokens))
        except BaseException as error:
            return raised(error, placed=placed)
    return [column.tolist() for column in result]


def _seeded(generator: torch.Generator | None, seed: int) -> None:
    if generator is not None:
        generator.manual_seed(seed)


def _finding(requirement: str, seen: BatchObservation, distance: Rational) -> Finding:
    verdict = verdict_of(distance, seen.allowed, seen.slack)
    return Finding(requirement, seen.case, verdict, distance, seen.allowed, seen.lane, seen.runs)


def _measured(
    requirement: str,
    case: str,
    distance: Rational,
    allowed: Rational,
    terms: Terms,
    *laws: Observed,
) -> Finding:
    """Return the finding of a distance between laws, each known up to its slack."""
    verdict = verdict_of(distance, allowed, total(law.slack for law in laws))
    runs = sum(law.runs for law in laws)
    return Finding(requirement, case, verdict, distance, allowed, terms.lane, runs)
