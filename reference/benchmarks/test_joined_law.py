"""Laws of verifiers that promise what they forget, against one run for each sequence of answers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from time import process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from draftproof.reference.model import Instance, Model, Row
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import algorithm_named, emission_law


def without_zeros(vocabulary: int, length: int, drafts: int) -> Instance:
    """Return an instance with a row of its own in every context, all weights positive."""
    random = Random(1)  # noqa: S311  # the same in every run, which is the point

    def row() -> Row:
        counts = [random.randint(1, 9) for _ in range(vocabulary)]
        return tuple(rational(count) / sum(counts) for count in counts)

    contexts = [c for size in range(length + 1) for c in product(range(vocabulary), repeat=size)]
    target, draft = (
        Model(name, vocabulary, {context: row() for context in contexts})
        for name in ("target", "draft")
    )
    return Instance(target, draft, length, drafts)


# The ratios grow with the sizes: at V = 4 they were 7 and 6 when this was written.
@pytest.mark.parametrize(("name", "least_ratio"), [("k_seq", 3.0), ("traversal", 1.5)])
def test_joined_runs_are_faster_than_all_runs(
    benchmark: BenchmarkFixture, name: str, least_ratio: float
) -> None:
    algorithm, instance = algorithm_named(name), without_zeros(3, 3, 3)
    law = benchmark.pedantic(emission_law, (algorithm, instance), rounds=2)  # type: ignore[no-untyped-call]

    begun = process_time()
    assert emission_law(algorithm, instance) == law
    joined = process_time() - begun
    assert emission_law(replace(algorithm, promise=None), instance) == law
    ratio = (process_time() - begun - joined) / joined

    benchmark.extra_info["ratio"] = ratio
    if benchmark.stats is not None:
        assert ratio > least_ratio
