"""Pairs of emissions: the independence of rows of one batch, and of consecutive calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from math import isqrt

import numpy

from draftproof.conformance.lanes.compared import note
from draftproof.conformance.lanes.exchange import as_given
from draftproof.conformance.lanes.sample import (
    EmissionCells,
    Integers,
    cells_of,
    compared_in,
    in_order,
    verifying,
)
from draftproof.conformance.lanes.statistics import (
    SMALLEST,
    Budget,
    Floats,
    Null,
    batch_sizes,
    null,
    tally,
)
from draftproof.conformance.protocol.adapter import Program
from draftproof.conformance.requirements._nulls import (
    allowed_of,
    detectable_bias,
    emission_law_of,
)
from draftproof.conformance.requirements.sampled import (
    EFFORTS,
    Effort,
    SequentialTest,
    TestResult,
    TestState,
    law_result,
)
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance
from draftproof.reference.verifiers import ALGORITHMS

_DEPENDENCE = {
    "batch.invariant": "neighbouring rows depend on each other",
    "batch.large": "rows of a large batch depend on each other",
    "random.calls": "consecutive calls depend on each other",
}
"""Requirements that are judged by pairs, and the description of a failure of each."""

_Drawn = tuple[Integers, Mapping[str, Integers]]
"""Kinds of emissions [calls, rows], and the pairs [pairs, 2] of them by requirement."""


def sample_pairs(
    program: Program,
    instance: Instance,
    *,
    seed: int,
    effort: Effort = EFFORTS["quick"],
    budget: Budget | None = None,
) -> dict[str, TestResult]:
    """Return the results of `batch.invariant` and `random.calls` on this instance.

    Pairs are neighbouring rows of one batch, and the same row in two consecutive calls. The joint
    law of their accepted lengths and next tokens is tested against the product of the exact laws,
    so faults that `sample` finds in single emissions fail here, too. `TestResult.emissions` counts
    pairs. `batch.invariant` does not apply to a verifier that takes one row at a time.

    Raises `Unsupported` where the reference does not know the algorithm, or the algorithm does not
    take the instance.
    """
    asked = [each for each in _CONSECUTIVE if program.declared.batch or each != "batch.invariant"]

    def drawn(kinds: _Kinds, emissions: int) -> _Drawn:
        rows = max(emissions // 4 * 2, 2)
        calls = numpy.stack([kinds(rows) for _ in range(2)])
        return calls, {each: _pairs(each, calls) for each in asked}

    test = SequentialTest(program.declared, instance, seed, effort, budget or Budget(tests=2))
    return _judged(program, test, drawn)


def sample_apart(
    program: Program,
    instance: Instance,
    *,
    rows: int,
    pairs: Sequence[tuple[int, int]],
    seed: int,
    effort: Effort,
    budget: Budget,
) -> dict[str, TestResult]:
    """Return the result of `batch.large` on pairs of rows in batches of so many equal rows.

    No row is in two pairs. All else is as in `sample_pairs`.
    """
    places = numpy.array(pairs)

    def drawn(kinds: _Kinds, emissions: int) -> _Drawn:
        calls = numpy.stack([kinds(rows) for _ in range(-(-emissions // len(pairs)))])
        return calls, {"batch.large": calls[:, places].reshape(-1, 2)}

    test = SequentialTest(program.declared, instance, seed, effort, budget)
    return _judged(program, test, drawn)


_CONSECUTIVE = ("batch.invariant", "random.calls")
"""Requirements on neighbouring rows, and on the same row of two consecutive calls."""

_Kinds = Callable[[int], Integers]
"""Function that verifies a number of rows in one call, and returns the kinds of their emissions."""


def _judged(
    program: Program, test: SequentialTest, drawn: Callable[[_Kinds, int], _Drawn]
) -> dict[str, TestResult]:
    """Return the result of each requirement on the pairs that are `drawn`, batch by batch."""
    cells = cells_of(as_given(test.instance, test.declared))
    both = _law_of_pairs(test, cells)
    state, stream, sizes = TestState(), sha256(), set()
    random = numpy.random.default_rng(test.seed)
    with verifying(program, test.instance, cells, random) as verify:
        kinds = partial(_kinds, verify, cells)
        for size in batch_sizes(test.effort.emissions, smallest=2 * SMALLEST):
            calls, pairs = drawn(kinds, size)
            sizes.add(calls.shape[1])
            stream.update(in_order(calls))
            seen = state.with_counts(
                {each: _counted(own, both) for each, own in pairs.items()},
                dict.fromkeys(pairs, both),
                stream.hexdigest(),
            )
            state = seen.with_results(
                {each: law_result(test, seen, each, both, _DEPENDENCE[each]) for each in pairs}
            )
            if not state.is_open:
                break
    for asked in compared_in(program.adapter, test.declared, test.instance, sizes):
        # Behind other calls each is made of a fresh copy.
        note([asked] if asked.call > 1 else [asked, replace(asked, call=2)])
    return {
        each: replace(
            found, detectable=detectable_bias(both, found.emissions, test.budget.threshold)
        )
        for each, found in state.results.items()
    }


def _kinds(
    verify: Callable[[int], tuple[Integers, str]], cells: EmissionCells, rows: int
) -> Integers:
    return cells.kind[verify(rows)[0]]


def _law_of_pairs(test: SequentialTest, cells: EmissionCells) -> Null:
    """Return the law of two independent emissions, each given by its length and next token."""
    algorithm = ALGORITHMS.get(test.declared.algorithm)
    if algorithm is None:
        raise Unsupported(
            f"pairs of emissions are held against the law of an algorithm, and the reference does "
            f"not know {test.declared.algorithm!r}; it knows {', '.join(ALGORITHMS)}"
        )
    law = tally(cells.kind, emission_law_of(cells, algorithm), 0)
    allowed = allowed_of(cells.instance, test.declared)
    return null(numpy.outer(law, law).ravel(), tolerance=min(2 * allowed, 1.0))


def _pairs(requirement: str, calls: Integers) -> Integers:
    """Return the pairs [pairs, 2] that belong to a requirement."""
    return calls.T if requirement == "random.calls" else calls.reshape(-1, 2)


def _counted(pairs: Integers, law: Null) -> Floats:
    """Return the number of times of each pair, by the cells of their law."""
    cell = pairs @ numpy.array([isqrt(len(law.law)), 1])
    return numpy.bincount(cell, minlength=len(law.law)).astype(float)
