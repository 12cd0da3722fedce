from __future__ import annotations

from functools import partial
from itertools import product
from statistics import median
from timeit import repeat

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest_benchmark.fixture import BenchmarkFixture

from draftproof.reference.optimum.large_vocabulary import acceptance_rate

LLAMA = 128_256
LINEAR_PROGRAM_SIZE = 300  # some seconds
BUDGET_SECONDS = {"iid": 0.025, "greedy": 0.025, "hub": 0.025, "without_replacement": 1.0}

Row = NDArray[np.float64]


def softmax_rows(vocabulary: int) -> tuple[Row, Row]:
    """Return a target and a draft as alike as two models are."""
    random = np.random.default_rng(0)
    shared = 2.5 * random.standard_normal(vocabulary)
    target, draft = (np.exp(shared + random.standard_normal(vocabulary)) for _ in range(2))
    return target / target.sum(), draft / draft.sum()


def one_near_one() -> tuple[Row, Row]:
    """Return rows as costly as any: all tokens matter, and at times far apart."""
    target, draft = softmax_rows(LLAMA)
    draft = draft * 1e-15
    draft[0] = 1
    return target, draft


@pytest.mark.parametrize(
    ("scheme", "drafts"),
    [
        *product(("iid", "without_replacement"), (2, 4, 8)),
        ("greedy", 2),
        ("greedy", 8),
        ("hub", 2),
    ],
)
def test_the_optimum_at_full_size_is_found_within_its_budget(
    benchmark: BenchmarkFixture, scheme: str, drafts: int
) -> None:
    rate = benchmark(acceptance_rate, *softmax_rows(LLAMA), scheme=scheme, drafts=drafts)

    assert 0 < rate < 1
    if benchmark.stats is not None:
        assert benchmark.stats.stats.median < BUDGET_SECONDS[scheme]


def test_the_costliest_draft_law_is_within_the_budget(benchmark: BenchmarkFixture) -> None:
    rate = benchmark(acceptance_rate, *one_near_one(), scheme="without_replacement", drafts=8)

    assert 0 < rate < 1
    if benchmark.stats is not None:
        assert benchmark.stats.stats.median < BUDGET_SECONDS["without_replacement"]


def test_the_linear_program_at_the_size_that_it_can_do(benchmark: BenchmarkFixture) -> None:
    """HiGHS on two independent drafts, beside the same rows and full size in closed form."""
    closed_form = partial(acceptance_rate, scheme="iid", drafts=2)
    rows = softmax_rows(LINEAR_PROGRAM_SIZE)

    rate = benchmark.pedantic(two_drafts_by_linear_program, rows, rounds=1)

    assert abs(rate - closed_form(*rows)) < 1e-6
    if benchmark.stats is not None:
        for vocabulary in (LINEAR_PROGRAM_SIZE, LLAMA):
            call = partial(closed_form, *softmax_rows(vocabulary))
            seconds = median(repeat(call, number=1, repeat=15))
            ratio = benchmark.stats.stats.median / seconds
            benchmark.extra_info[f"times the closed form at V = {vocabulary}"] = round(ratio)


def two_drafts_by_linear_program(target: Row, draft: Row) -> float:
    """Maximise what flows from tokens i to pairs (i, j) and (j, i): 2 V^2 variables."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    size = target.size
    first, second = (x.ravel() for x in np.indices((size, size)))
    pair = np.arange(size * size)
    # The second of two equal drafts takes what the first could: it is harmless.
    takers = np.concatenate((first, second, size + pair, size + pair))
    flows = np.tile(np.arange(2 * size * size), 2)
    capacities = np.concatenate((target, np.outer(draft, draft).ravel()))
    limits = coo_array((np.ones(takers.size), (takers, flows)))
    result = linprog(-np.ones(2 * size * size), A_ub=limits.tocsr(), b_ub=capacities)
    return float(-result.fun)
