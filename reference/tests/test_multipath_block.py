from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.rows import normalised
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law
from draftproof.reference.verifiers.block import keep
from draftproof.reference.verifiers.multipath_block import multipath_block

exact = settings.get_profile("exact")
few = settings(exact, max_examples=60)

MULTIPATH = ALGORITHMS["multipath_block"]

Rank = Callable[[Row, Row, int], tuple[Rational | int, ...]]
Instances = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]


def share(p: Row, q: Row, token: int) -> Rational:
    return p[token] / q[token] if q[token] else ZERO


RANKS: dict[str, Rank] = {
    "ratio": lambda p, q, token: (share(p, q, token), token),
    "reversed": lambda p, q, token: (-share(p, q, token), -token),
    "token id": lambda p, q, token: (token,),
    "least drafted": lambda p, q, token: (-q[token], -token),
}


def ordered(rank: Rank) -> Algorithm:
    def order(p: Row, q: Row) -> Sequence[int]:
        return sorted(range(len(q)), key=lambda token: rank(p, q, token))

    return replace(MULTIPATH, verify=partial(multipath_block, order=order))


def selected(instance: Instance, rank: Rank) -> Law[Path]:
    """The law of the highest path of K, by enumeration of all K-tuples of paths."""
    p, q = instance.target, instance.draft

    def height(path: Path) -> list[tuple[Rational | int, ...]]:
        return [rank(p(path[:i]), q(path[:i]), token) for i, token in enumerate(path)]

    masses: dict[Path, Rational] = {}
    text = q.text(instance.length)
    for paths in product(text, repeat=instance.drafts):
        highest = max(paths, key=height)
        masses[highest] = masses.get(highest, ZERO) + prod(map(text.__getitem__, paths), start=ONE)
    return Law(masses)


def by_prefix(instance: Instance, law: Law[Path]) -> dict[Path, Rational]:
    """A(xy) = min(A(x) p(y|x), Q'(xy)), Q' being the selected path's law."""
    accepted: dict[Path, Rational] = {(): ONE}
    for node in instance.draft.reachable(instance.length):
        if node:
            chosen = law.probability(lambda path, node=node: path[: len(node)] == node)  # type: ignore[misc]
            parent = node[:-1]
            accepted[node] = min(accepted[parent] * instance.target(parent)[node[-1]], chosen)
    return accepted


@pytest.mark.requirement("law.lossless", "length.expected")
@pytest.mark.parametrize("name", RANKS)
@few
@given(data=st.data())
def test_every_strict_order_follows_its_recursion_and_is_lossless(
    name: str, drafted: Instances, data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], trees=False))
    emitted = emission_law(ordered(RANKS[name]), instance)
    expected = by_prefix(instance, selected(instance, RANKS[name]))
    for node, mass in expected.items():
        kept = emitted.probability(lambda e, node=node: e.accepted[: len(node)] == node)  # type: ignore[misc]
        assert kept == mass
    assert expected_accepted(emitted) == total(expected.values()) - 1
    horizon = instance.length + 1
    assert continued(emitted, instance, horizon) == instance.target.text(horizon)


@few
@given(data=st.data())
def test_the_order_is_by_ratio_unless_another_one_is_given(
    drafted: Instances, data: st.DataObject
) -> None:
    instance = data.draw(drafted(["iid"], trees=False, longest=2))
    assert emission_law(MULTIPATH, instance) == emission_law(ordered(RANKS["ratio"]), instance)


@pytest.mark.parametrize("name", RANKS)
@few
@given(instance=...)
def test_one_path_is_verified_as_a_block(name: str, instance: Instance) -> None:
    block = emission_law(ALGORITHMS["block"], instance)
    assert emission_law(ordered(RANKS[name]), instance) == block


def test_more_drafts_can_be_worse(one_row: OneRow) -> None:
    values = [
        expected_accepted(emission_law(MULTIPATH, one_row("3/5 2/5", "1/2 1/2", drafts=drafts)))
        for drafts in range(1, 6)
    ]
    assert values == list(map(rational, ("9/10", "17/20", "29/40", "53/80", "101/160")))


@pytest.mark.parametrize(("drafts", "value"), [(1, "11/9"), (2, "131/81"), (3, "1289/729")])
def test_the_motivating_example(motivating: Instance, drafts: int, value: str) -> None:
    instance = replace(motivating, drafts=drafts)
    assert expected_accepted(emission_law(MULTIPATH, instance)) == rational(value)


# What is wrong, and must be seen to be wrong.


def selecting(
    *, first_of_equals: bool = False, skewed: bool = True, clipped: bool = False
) -> Algorithm:
    """Return the algorithm for one position with a part of it exchanged."""

    def verify(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        p, q = instance.target(()), instance.draft(())

        def height(token: int) -> Rational:
            return min(ONE, p[token] / q[token]) if clipped else p[token] / q[token]

        ranked = sorted(range(len(q)), key=lambda token: (height(token), token))
        lower = [total(q[t] for t in ranked[: ranked.index(token)]) for token in range(len(q))]
        law = normalised(
            [
                (low + x) ** instance.drafts - low**instance.drafts
                for low, x in zip(lower, q, strict=True)
            ]
        )
        siblings = drafts.siblings(())
        chosen = max(siblings, key=height if first_of_equals else ranked.index)
        kept, correction = keep((chosen,), [law if skewed else q], instance, chance)
        return emission(drafts, kept, chance.draw(correction))

    return Algorithm(name="selecting", title="", source="", verify=verify)


def first_token(algorithm: Algorithm, instance: Instance) -> list[Rational]:
    law = continued(emission_law(algorithm, instance), instance, 1)
    return [law[token,] for token in range(instance.vocabulary)]


Q = "1/5 1/5 3/5"


@pytest.mark.parametrize(
    ("target", "clipped", "output"),
    [
        ("2/5 2/5 1/5", False, "11/25 9/25 1/5"),
        ("1/2 3/10 1/5", True, "8/15 4/15 1/5"),
    ],
)
def test_selection_and_law_must_break_ties_alike(
    one_row: OneRow, target: str, clipped: bool, output: str
) -> None:
    """Taking the first drafted of equals is another order than the one of the skewed law."""
    instance = one_row(target, Q, drafts=2)
    wrong = selecting(first_of_equals=True, clipped=clipped)
    assert first_token(wrong, instance) == list(map(rational, output.split()))
    right = selecting(clipped=clipped)
    assert first_token(right, instance) == list(instance.target(()))


def test_the_selected_path_has_not_the_draft_s_law(one_row: OneRow) -> None:
    instance = one_row("1/2 3/10 1/5", Q, drafts=2)
    assert first_token(selecting(skewed=False), instance) != list(instance.target(()))
