"""Pairs of emissions: the independence of neighbouring rows, and of consecutive calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    "random.calls": "consecutive calls depend on each other",
}
"""The requirements that are judged by pairs, and the words for a failure of each."""


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
    budget = budget or Budget(tests=2)
    test = SequentialTest(program.declared, instance, seed, effort, budget)
    cells = cells_of(as_given(instance, test.declared))
    both = _law_of_pairs(test, cells)
    laws = {each: both for each in _DEPENDENCE if test.declared.batch or each != "batch.invariant"}
    state, stream, sizes = TestState(), sha256(), set()
    random = numpy.random.default_rng(seed)
    with verifying(program, instance, cells, random) as verify:
        for size in batch_sizes(effort.emissions, smallest=2 * SMALLEST):
            rows = max(size // 4 * 2, 2)
            sizes.add(rows)
            calls = [cells.kind[verify(rows)[0]] for _ in range(2)]
            stream.update(in_order(numpy.stack(calls)))
            counts = {each: _counted(_pairs(each, calls), both) for each in laws}
            seen = state.with_counts(counts, laws, stream.hexdigest())
            state = seen.with_results(
                {each: law_result(test, seen, each, both, _DEPENDENCE[each]) for each in laws}
            )
            if not state.is_open:
                break
    for asked in compared_in(program.adapter, test.declared, instance, sizes):
        note([asked, replace(asked, call=2)])
    return {
        each: replace(
            found, detectable=detectable_bias(both, found.emissions, test.budget.threshold)
        )
        for each, found in state.results.items()
    }


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


def _pairs(requirement: str, calls: Sequence[Integers]) -> Integers:
    """Return the pairs [pairs, 2] that belong to a requirement."""
    if requirement == "random.calls":
        return numpy.stack(calls, 1)
    return numpy.concatenate([call.reshape(-1, 2) for call in calls])


def _counted(pairs: Integers, law: Null) -> Floats:
    """Return the number of times of each pair, by the cells of their law."""
    cell = pairs @ numpy.array([isqrt(len(law.law)), 1])
    return numpy.bincount(cell, minlength=len(law.law)).astype(float)
