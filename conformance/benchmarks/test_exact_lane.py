from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor
from transformers.generation.utils import _speculative_sampling

from draftproof.conformance.lanes.exact import ExactLaw, RowLaw, exact_law, row_law
from draftproof.conformance.lanes.exchange import columns, request
from draftproof.conformance.lanes.unwatched import fresh_generator, holding
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.reference.chance import Chance, enumerate_rows
from draftproof.reference.drafting import FixedTree
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS

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


# --- the vocabulary of a real model ----------------------------------------------------------

WIDE, DEEP = 151_936, 4
GRAIN = 2**24


def wide_instance() -> tuple[Instance, Path]:
    """Return an instance of rows that floats hold exactly, and the path its draft likes best."""
    random = numpy.random.default_rng(1)
    liked = random.dirichlet(numpy.full(WIDE, 0.3))
    draft = random.multinomial(GRAIN, liked)
    target = random.multinomial(GRAIN, 0.7 * liked + 0.3 * random.dirichlet(numpy.full(WIDE, 0.3)))
    p, q = (
        Model(name, WIDE, {(): _row(counts)}, context_free=True)
        for name, counts in (("target", target), ("draft", draft))
    )
    path = tuple(numpy.argsort(draft)[::-1][:DEEP].tolist())
    return Instance(p, q, length=DEEP), path


def _row(counts: Any) -> Row:
    return tuple(rational(int(count)) / GRAIN for count in counts)


def test_the_law_at_the_vocabulary_of_a_real_model(benchmark: BenchmarkFixture) -> None:
    """Every token of every accepted length, held against real runs, and against the reference."""
    program, (instance, path) = load_program("torch-block"), wide_instance()
    declared = program.declared
    asked = request([(instance, (path,))], declared)

    def run() -> tuple[Tensor, Tensor]:
        given = replace(asked, generator=fresh_generator(declared.device))
        accepted, _, token = columns(program.adapter.verify(given), 1)
        return accepted, token

    def law() -> RowLaw:
        with holding(seed=1) as held:
            found = row_law(run, WIDE)
        # Nothing that the law excludes.
        assert held.alone[:-1].any()
        assert held.alone[-1] == 0
        return found

    def verified(chance: Chance) -> tuple[tuple[int], int]:
        said = ALGORITHMS["block"].verify(FixedTree((path,), instance), instance, chance)
        return (len(said.accepted),), said.next_token

    found = benchmark(law)
    right = enumerate_rows(verified, WIDE)
    distance = found.distance({o: numpy.array([*map(float, row)]) for o, row in right.items()})
    # A weight of the reference is cut off to a double.
    allowed = float(allowed_distance(declared, WIDE, DEEP)) + found.error + 2.0**-52
    assert distance <= allowed
    benchmark.extra_info |= {"distance": distance, "error": found.error, "runs": found.runs}
