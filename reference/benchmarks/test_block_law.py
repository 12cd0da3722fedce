from __future__ import annotations

from itertools import product

from pytest_benchmark.fixture import BenchmarkFixture

from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import algorithm_named, emission_law

BUDGET_SECONDS = 2.0


def uneven(context: Path, multiplier: int) -> Row:
    """Return a row without zeros or ties, another one in every context."""
    rank = sum((token + 1) * 4**i for i, token in enumerate(context))
    shares = [1 + (multiplier * (rank + 7 * token + 1)) % 11 for token in range(3)]
    return tuple(rational(f"{share}/{sum(shares)}") for share in shares)


def test_the_law_of_block_is_found_within_its_budget(benchmark: BenchmarkFixture) -> None:
    contexts = [context for size in range(4) for context in product(range(3), repeat=size)]
    target = Model("target", 3, {context: uneven(context, 3) for context in contexts})
    draft = Model("draft", 3, {context: uneven(context, 5) for context in contexts})
    instance = Instance(target, draft, length=3)

    law = benchmark(emission_law, algorithm_named("block"), instance)

    assert law.expectation(lambda _: 1) == 1
    if benchmark.stats is not None:
        assert benchmark.stats.stats.median < BUDGET_SECONDS
