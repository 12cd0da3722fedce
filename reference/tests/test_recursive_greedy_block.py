from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Path
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import Rational, positive_part, rational, total
from draftproof.reference.verifiers import ALGORITHMS, emission_law
from draftproof.reference.verifiers.greedy_block import greedy_block

exact = settings.get_profile("exact")
few = settings(exact, max_examples=60)

RECURSIVE = ALGORITHMS["recursive_greedy_block"]

Instances = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]

Measure = dict[Path, Rational]


def prefixes(instance: Instance) -> list[Path]:
    return list(instance.draft.reachable(instance.length))


def joint(instance: Instance) -> tuple[Measure, Measure]:
    """Return the probability of every text of at most L tokens, by target and by draft."""
    texts = [x for size in range(instance.length + 1) for x in instance.target.text(size)]
    every = {*texts, *prefixes(instance)}
    return (
        {x: instance.target.joint(x) for x in every},
        {x: instance.draft.joint(x) for x in every},
    )


def stops(target: Measure, draft: Measure, node: Path) -> tuple[Measure, Measure]:
    """Return where one path through `node` stops, and what the texts are then owed.

    Below `node` the measures are conditional on it. What is owed to a text is spread from where
    the path stopped by rows in proportion to (p - q)+.
    """
    below = [x for x in target if x[: len(node)] == node]
    kept = {x: min(target[x] / target[node], draft[x] / draft[node]) for x in below}

    def children(x: Path) -> list[Path]:
        return [y for y in below if len(y) == len(x) + 1 and y[: len(x)] == x]

    where = {x: kept[x] - total(kept[y] for y in children(x)) for x in below}
    residual = {x: positive_part(target[x] / target[node] - draft[x] / draft[node]) for x in below}
    return where, residual


def accepted_masses(instance: Instance) -> Measure:
    """P(the accepted node is x), path by path, on measures instead of rows."""
    masses: Measure = {}

    def go_on(node: Path, target: Measure, draft: Measure, left: int, mass: Rational) -> None:
        if mass == 0:
            return
        if left == 0 or len(node) == instance.length:
            masses[node] = masses.get(node, rational(0)) + mass
            return
        passes = draft[node]
        if passes != 1:
            go_on(node, target, draft, left - 1, mass * (1 - passes))
        where, residual = stops(target, draft, node)
        for x, share in where.items():
            if share:
                go_on(x, spread(residual, x), draft, left - 1, mass * passes * share)

    def spread(residual: Measure, node: Path) -> Measure:
        law = {node: rational(1)}
        for x in sorted(residual, key=len):
            if len(x) > len(node) and x[: len(node)] == node:
                parent = x[:-1]
                row = total(residual[y] for y in residual if len(y) == len(x) and y[:-1] == parent)
                law[x] = law[parent] * residual[x] / row if law[parent] else rational(0)
        return law

    target, draft = joint(instance)
    go_on((), target, draft, instance.drafts, rational(1))
    return masses


@pytest.mark.requirement("length.expected")
@few
@given(data=st.data())
def test_where_it_stops(drafted: Instances, data: st.DataObject) -> None:
    instance = data.draw(drafted(["iid"], trees=False))
    kept = emission_law(RECURSIVE, instance).map(lambda emission: emission.accepted)
    assert dict(kept.items()) == accepted_masses(instance)


@few
@given(data=st.data())
def test_at_one_position_it_is_recursive_rejection(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], shapes=one_position))
    recursive = emission_law(ALGORITHMS["recursive_rejection"], instance)
    assert emission_law(RECURSIVE, instance) == recursive


@few
@given(data=st.data())
def test_the_first_path_alone_brings_what_greedy_block_verification_brings(
    drafted: Instances, data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], trees=False))
    emitted = emission_law(RECURSIVE, instance)
    for prefix in prefixes(instance):
        kept = emitted.probability(lambda e, prefix=prefix: e.accepted[: len(prefix)] == prefix)  # type: ignore[misc]
        assert kept >= min(instance.target.joint(prefix), instance.draft.joint(prefix))
    fewer = replace(instance, drafts=1, branching=())
    greedy = expected_accepted(emission_law(ALGORITHMS["greedy_block"], fewer))
    assert expected_accepted(emitted) >= greedy


def afresh(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Verify the second path, after the first was refused whole, against the old target."""

    class Alone:
        def __init__(self, path: Path) -> None:
            self.path = path

        def siblings(self, node: Path) -> Siblings:
            return self.path[len(node) : len(node) + 1]

        def first(self, node: Path) -> int:
            return drafts.first(node)

        def paths(self) -> tuple[Path, ...]:
            return (self.path,)

    first, *others = drafts.paths()
    verified = greedy_block(Alone(first), instance, chance)
    for path in others:
        if not verified.accepted:
            verified = greedy_block(Alone(path), instance, chance)
    return verified


def test_a_second_path_must_know_what_the_first_one_took(one_row: OneRow) -> None:
    instance = one_row("1/2 1/4 1/4", "1/5 3/10 1/2", length=2, drafts=2)
    law = emission_law(replace(RECURSIVE, verify=afresh), instance)
    assert continued(law, instance, 3) != instance.target.text(3)
    right = emission_law(RECURSIVE, instance)
    assert continued(right, instance, 3) == instance.target.text(3)
