"""`random.iterations`: drafting and verifying in one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import product
from typing import Any

import numpy
import torch
from torch import Tensor

from draftproof.conformance.cases import Case
from draftproof.conformance.cases.rows import fixed, instance
from draftproof.conformance.lanes import statistics
from draftproof.conformance.lanes._streams import seeded
from draftproof.conformance.lanes.compared import described, note
from draftproof.conformance.lanes.exchange import (
    Failure,
    Outcome,
    answer,
    as_given,
    as_loaded,
    outcomes,
    raised,
    request,
    with_noise,
)
from draftproof.conformance.lanes.observe import (
    EXACT,
    PROBE,
    SAMPLE,
    Observed,
    as_observed,
    observed,
    observed_each,
)
from draftproof.conformance.lanes.sample import compared_in, in_order
from draftproof.conformance.lanes.unwatched import fresh_generator
from draftproof.conformance.protocol.adapter import (
    Adapter,
    Declaration,
    DraftResult,
    Program,
    Request,
)
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.drafting import (
    DraftSetting,
    are_outside,
    drafted,
    each_drafted,
    numbered,
)
from draftproof.conformance.requirements.finding import (
    SKIPPED,
    UNREFERENCED,
    Finding,
    verdict_of,
)
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.sampled import (
    EFFORTS,
    SequentialTest,
    TestState,
    law_result,
)
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.law import Law
from draftproof.reference.model import Instance
from draftproof.reference.rational import ZERO
from draftproof.reference.verifiers import ALGORITHMS, verification_law


def tasks(declared: Declaration) -> Iterator[Task]:
    """Yield the tasks on drafting and verifying in one program, if the adapter drafts."""
    for case in _cases(declared) if declared.drafts else ():
        judged = partial(judge_iterations, case)
        lanes = (EXACT, PROBE, SAMPLE)
        yield Task(f"iterations.{case.id}", ("random.iterations",), lanes, judged)


def _cases(declared: Declaration) -> Iterator[Case]:
    """Yield the cases. A residual of one token, as with V = 2, reveals reused coins."""
    three = fixed("64 144 48", "192 32 32", length=2)
    yield Case("three-tokens", "a residual of two tokens", "quick", three)
    two = instance("iterations.two-tokens", 2, 2)
    yield Case("two-tokens", "rows of every context differ", "quick", two)
    pair = replace(fixed("64 144 48", "128 64 64", length=1), drafts=2, scheme=declared.scheme)
    several = Case("two-drafts", "two drafts of one token", "quick", pair)
    if declared.max_drafts > 1 and fits(several, declared):
        yield several


Drafted = tuple[Drafts, tuple[Any, ...]] | Failure
"""Drafts of a row: the paths, and the rows [K][L][V] declared for them."""


def judge_iterations(case: Case, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `random.iterations` on one case."""
    declared, given = program.declared, case.instance
    if terms.lane == SAMPLE:
        return [_sampled(case, program, terms)]
    asking = _asking(given, declared)

    def drafting(asked: Adapter, rows: int) -> DraftResult | str:
        return _drafted(as_loaded(asked), given, declared, rows)

    def iteration(asked: Adapter, rows: int) -> Any:
        """Draft and verify with one adapter object."""
        fresh = as_loaded(asked)
        drafted = _drafted(fresh, given, declared, rows)
        if isinstance(drafted, str):
            return drafted, drafted
        return drafted, answer(fresh, asking(drafted))

    def verification(asked: Adapter, drafted: DraftResult, rows: int) -> Any:
        """Verify drafts that a different adapter object drew."""
        tokens, declares = drafted.draft_tokens, drafted.draft_probs
        repeated = DraftResult(tokens.expand(rows, -1, -1), declares.expand(rows, -1, -1, -1))
        return answer(as_loaded(asked), asking(repeated))

    def read(raw: Any, rows: int) -> Sequence[tuple[Drafted, Outcome]]:
        drafted = _read(raw[0], rows)
        asked = [(given, _paths(each)) for each in drafted]
        return list(zip(drafted, outcomes(raw[1], asked), strict=True))

    def emitted(raw: Any, drafted: DraftResult, rows: int) -> Sequence[Outcome]:
        (paths,) = drafted.draft_tokens.tolist()
        return outcomes(raw, [(given, tuple(map(tuple, paths)))] * rows)

    lane: dict[str, Any] = {"vocabulary": given.vocabulary, "lane": terms.lane}
    together = observed(program, iteration, read, **lane)
    drafts = observed(program, drafting, _read, **lane)
    failed = [each for each in drafts.law if isinstance(each, Failure)]
    drawn = {each: _as_drafted(each) for each in drafts.law if not isinstance(each, Failure)}
    apart = {each: Observed(Law.certain(each), 0, ZERO) for each in failed}
    seen = observed_each(program, verification, emitted, [*drawn.values()], **lane)
    apart |= zip(drawn, seen, strict=True)
    note(described(program.adapter, asking(each)) for each in drawn.values())
    independent = drafts.law.then(lambda d: apart[d].law.map(lambda outcome: (d, outcome)))
    distance = together.law.total_variation(independent)
    # Drafts and emission may each be off by rounding, together and apart.
    allowed = 4 * allowed_distance(declared, given.vocabulary, given.length)
    # Of the laws apart, each counts as often as its drafts are drawn.
    slack = together.slack + drafts.slack + max(each.slack for each in apart.values())
    runs = together.runs + drafts.runs + sum(each.runs for each in apart.values())
    verdict = verdict_of(distance, allowed, slack)
    name = f"iterations.{case.id}"
    return [Finding("random.iterations", name, verdict, distance, allowed, terms.lane, runs)]


def _drafted(
    adapter: Adapter,
    given: Instance,
    declared: Declaration,
    rows: int,
    generator: torch.Generator | None = None,
) -> DraftResult | str:
    """Return the adapter's drafts for rows of the instance, or the message of an error."""
    setting = DraftSetting("iterations", "quick", given.draft, given.widths)
    try:
        found = drafted(adapter, setting, declared, rows=rows, generator=generator)
        if are_outside(found.draft_tokens, given.vocabulary):
            raise TypeError(f"draft must return tokens in 0..{given.vocabulary - 1}")
        return found
    except BaseException as error:
        return raised(error)


def _read(raw: Any, rows: int) -> Sequence[Drafted]:
    each = each_drafted(raw, rows)
    return [Failure(said) if isinstance(said, str) else said for said in each]


def _as_drafted(said: tuple[Drafts, Any]) -> DraftResult:
    paths, declares = said
    return DraftResult(torch.tensor([paths]), torch.tensor([declares], dtype=torch.float64))


def _paths(drafted: Drafted) -> Drafts:
    return () if isinstance(drafted, Failure) else drafted[0]


def _asking(given: Instance, declared: Declaration) -> Callable[..., Request]:
    """Return a function from drafts, with the rows that the drafter declared, to their request."""
    every = product(product(range(given.vocabulary), repeat=given.length), repeat=given.drafts)
    table = request([(given, paths) for paths in every], declared)
    tensors = {name: each for name, each in vars(table).items() if isinstance(each, Tensor)}

    def asking(drafts: DraftResult, generator: torch.Generator | None = None) -> Request:
        chosen = numbered(drafts.draft_tokens.flatten(1), given.vocabulary)
        chosen = chosen.to(table.draft_probs.device)
        gathered: dict[str, Any] = {name: each[chosen] for name, each in tensors.items()}
        # Memory of its own: the drafter may have kept what it has returned.
        rows = drafts.draft_probs.detach().to(table.draft_probs).clone()
        gathered |= {"draft_probs": rows, "draft_logits": rows.log() if declared.logits else None}
        own = generator or fresh_generator(declared.device)
        return with_noise(replace(table, **gathered, generator=own), declared)

    return asking


# --- where nothing can be seen but what comes out -----------------------------------------------


def _sampled(case: Case, program: Program, terms: Terms) -> Finding:
    """Test counts of (drafts, emission) against the draft law and the algorithm's own law.

    So a draft that is not drawn from its declared row, and an emission with a law different from
    its algorithm's, fail here, too.
    """
    requirement, name = "random.iterations", f"iterations.{case.id}"
    declared = program.declared
    algorithm = ALGORITHMS.get(declared.algorithm)
    if algorithm is None:
        reason = f"{UNREFERENCED}, against which what is counted is held"
        return Finding(requirement, name, SKIPPED, detail=reason, applies=False)
    given = as_given(case.instance, declared)
    law = draft_law(given).then(
        lambda d: verification_law(algorithm, given, d).map(lambda e: (d, as_observed(e)))
    )
    weights = numpy.array([*(float(weight) for weight in law.weights.values()), 0.0])
    allowed = 2 * allowed_distance(declared, given.vocabulary, given.length)
    null = statistics.null(weights, tolerance=float(allowed))
    budget = statistics.Budget(terms.false_alarm)
    test = SequentialTest(declared, case.instance, terms.seed_of(name), EFFORTS["quick"], budget)
    cells: dict[Any, int] = {pair: cell for cell, pair in enumerate(law)}
    fresh = replace(program, adapter=as_loaded(program.adapter))
    state, stream, sizes = TestState(), sha256(), set()
    generator = torch.Generator(declared.device).manual_seed(test.seed)
    with seeded(test.seed):
        for size in statistics.batch_sizes(test.effort.emissions):
            pairs = _drawn(fresh, case.instance, size, generator)
            numbers = numpy.array([cells.get(pair, len(cells)) for pair in pairs])
            stream.update(in_order(numbers))
            counts = {requirement: numpy.bincount(numbers, minlength=len(weights)).astype(float)}
            seen = state.with_counts(counts, {requirement: null}, stream.hexdigest())
            result = law_result(test, seen, requirement, null, "")
            state = seen.with_results({requirement: result})
            sizes.add(size)
            if not state.is_open:
                break
    note(compared_in(program.adapter, declared, case.instance, sizes))
    # What would have been detectable is not computed.
    result = replace(state.results[requirement], power=0.0)
    return result.finding(requirement, name, allowed=allowed, false_alarm=terms.false_alarm)


def _drawn(
    program: Program, given: Instance, rows: int, generator: torch.Generator
) -> Iterator[tuple[Drafts, Outcome]]:
    """Yield the drafts, and their emissions, for a number of rows."""
    adapter, declared = program.adapter, program.declared
    asking = _asking(given, declared)
    at_once = rows if declared.batch else 1
    for _ in range(0, rows, at_once):
        found = _drafted(adapter, given, declared, at_once, generator)
        if isinstance(found, str):
            yield from [((), Failure(found))] * at_once
            continue
        paths = [tuple(map(tuple, each)) for each in found.draft_tokens.tolist()]
        raw = answer(adapter, asking(found, generator))
        yield from zip(paths, outcomes(raw, [(given, each) for each in paths]), strict=True)
