from __future__ import annotations

from itertools import product
from typing import Any

import torch
from pytest_benchmark.fixture import BenchmarkFixture
from transformers.generation.utils import _speculative_sampling

from draftproof.conformance.lanes.exact import ExactLaw, exact_law

BUDGET_SECONDS = 0.3
VOCABULARY, LENGTH = 4, 2

# Uneven rows, so that every draft can be rejected at every position.
DRAFT = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [4.0, 1.0, 2.0, 3.0]]]).log()
TARGET = torch.tensor([[[4.0, 3.0, 2.0, 1.0], [1.0, 1.0, 4.0, 4.0], [1.0, 2.0, 2.0, 3.0]]]).log()


def laws_of_all_drafts() -> list[ExactLaw[Any]]:
    drafts = product(range(VOCABULARY), repeat=LENGTH)
    return [law_of(torch.tensor([draft])) for draft in drafts]


def law_of(draft: torch.Tensor) -> ExactLaw[Any]:
    return exact_law(lambda: _speculative_sampling(draft, DRAFT, LENGTH, TARGET))


def test_the_law_of_transformers_is_found_within_its_budget(benchmark: BenchmarkFixture) -> None:
    laws = benchmark(laws_of_all_drafts)

    assert len(laws) == VOCABULARY**LENGTH
    assert all(sum(weight for _, weight in observed.law.items()) == 1 for observed in laws)
    if benchmark.stats is not None:
        assert benchmark.stats.stats.median < BUDGET_SECONDS
