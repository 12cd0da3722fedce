"""Joining the runs of a verifier at the nodes where it comes together gives the same law."""

from __future__ import annotations

from collections import defaultdict
from math import prod

import pytest

from draftproof.reference.chance import Chance, enumerate_runs
from draftproof.reference.drafting import GrowingTree
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.ledger.instances import seeded
from draftproof.reference.model import Instance
from draftproof.reference.rational import ZERO, Rational
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law

# Vocabulary and widths: copies of a node, zeros that end siblings early, and branches below.
SHAPES = [
    (3, (1, 1)),
    (2, (2, 1, 1)),
    (3, (3, 1)),
    (2, (3, 1, 1)),
    (2, (2, 2)),
    (3, (2, 2)),
    (2, (2, 1, 2)),
    (3, (1, 3)),
]

every_drafting = pytest.mark.parametrize(
    ("algorithm", "scheme"),
    [
        (algorithm, scheme)
        for algorithm in ALGORITHMS.values()
        for scheme in (algorithm.schemes if algorithm.most_drafts != 1 else ("iid",))
    ],
    ids=lambda value: value.name if isinstance(value, Algorithm) else value,
)


def law_run_by_run(algorithm: Algorithm, instance: Instance) -> Law[Emission]:
    """Return the law from every run of the text alone: one run for each sequence of answers."""

    def program(chance: Chance) -> Emission:
        return algorithm.verify(GrowingTree(instance, chance), instance, chance)

    weights: defaultdict[Emission, Rational] = defaultdict(lambda: ZERO)
    for emission, weight in enumerate_runs(program):
        weights[emission] += weight
    return Law(weights)


def instances(algorithm: Algorithm, scheme: str) -> list[Instance]:
    """Return instances of every shape that the algorithm takes."""
    return [
        instance
        for vocabulary, widths in SHAPES
        if prod(widths) <= (algorithm.most_drafts or 8)
        and (algorithm.trees or max(widths[1:]) == 1)
        and (scheme != "hub" or max(widths) <= 2)
        for instance in seeded(
            3,
            vocabulary,
            length=len(widths),
            drafts=prod(widths),
            scheme=scheme,
            branching=widths if max(widths[1:]) > 1 else (),
        )
    ]


@every_drafting
def test_runs_that_join_at_nodes_have_the_law_of_all_runs(
    algorithm: Algorithm, scheme: str
) -> None:
    for instance in instances(algorithm, scheme):
        assert emission_law(algorithm, instance) == law_run_by_run(algorithm, instance)


def test_the_algorithms_that_read_all_paths_at_once_walk_freely() -> None:
    assert [name for name, each in ALGORITHMS.items() if each.walk is None] == [
        "block",
        "greedy_block",
        "spectr_gbv",
        "recursive_greedy_block",
        "scored_multipath_block",
    ]
