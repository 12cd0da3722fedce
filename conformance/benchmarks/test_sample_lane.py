from __future__ import annotations

from functools import partial

from pytest_benchmark.fixture import BenchmarkFixture

from draftproof.conformance.cases.rows import instance
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.requirements.sampled import Effort, sample

EMISSIONS_PER_SECOND = 1e6
VOCABULARY, LENGTH = 8, 3

# A bias that so many emissions cannot exclude, so that every one of them is drawn.
EFFORT = Effort(2**20, 0.001)


def test_a_million_emissions_a_second(benchmark: BenchmarkFixture) -> None:
    """Drafting, verifying, encoding, counting and evidence; the exact laws are known before."""
    program, case = load_program("torch-block"), instance("bench", VOCABULARY, LENGTH)
    emissions = partial(sample, program, case, seed=1, effort=EFFORT)

    emissions()
    tested = benchmark(emissions)

    assert {found.emissions for found in tested.values()} == {EFFORT.emissions}
    assert "fail" not in {found.verdict for found in tested.values()}
    if benchmark.stats is not None:
        per_second = EFFORT.emissions / benchmark.stats.stats.median
        assert per_second >= EMISSIONS_PER_SECOND
