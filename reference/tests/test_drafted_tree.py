"""Trees of drafted tokens: the optimum against a stranger's program, shapes against the others."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, product

import numpy as np
import pytest
from scipy.optimize import linprog

from draftproof.reference.ledger.instances import context_free, example, seeded
from draftproof.reference.model import Instance
from draftproof.reference.optimum import acceptance_rate, stateless
from draftproof.reference.optimum.drafted_tree import Tree, grown, shaped, shapes, tree_law
from draftproof.reference.rational import ONE, rational

PATH, TWO_PATHS, SIBLINGS = (((),),), (((),), ((),)), ((), ())
MIXED = (*seeded(6, 2, length=2, depth=2), *seeded(3, 3, length=2, depth=2))


def plans(instance: Instance, tree: Tree, left: int) -> list[dict[Tree, float]]:
    """Return the law of the whole tree under every plan that chooses by the tokens drawn alone."""
    found = []
    for z in [(), *tree] if left else []:
        row = instance.draft(z) if len(z) < instance.length else ()
        rest = {i: float(q) for i, q in enumerate(row) if q != 0 and (*z, i) not in tree}
        later = [plans(instance, tree | {(*z, i)}, left - 1) for i in rest]
        for chosen in product(*later) if rest else ():
            law: dict[Tree, float] = {}
            for q, part in zip(rest.values(), chosen, strict=True):
                for whole, mass in part.items():
                    law[whole] = law.get(whole, 0) + q * mass / sum(rest.values())
            found.append(law)
    return found or [{tree: 1.0}]


def by_a_stranger(instance: Instance, tokens: int) -> float:
    """Return the optimum over mixtures of plans, and over what is accepted of each whole tree."""
    laws = plans(instance, frozenset(), tokens)
    trees = list(dict.fromkeys(chain.from_iterable(laws)))
    stops = [(tree, x) for tree in trees for x in tree]
    worth = [0] * len(laws) + [len(x) for _, x in stops]
    rows, right = [], []
    for tree in trees:
        drawn = [-law.get(tree, 0.0) for law in laws]
        rows.append(drawn + [float(tree is other) for other, _ in stops])
        right.append(0.0)
    for text in {x for _, x in stops}:
        context, share = text[:-1], float(instance.target(text[:-1])[text[-1]])
        above = float(len(context) > 0)
        rows.append(
            [0.0] * len(laws)
            + [
                float(x[: len(text)] == text) - share * above * (x[: len(context)] == context)
                for _, x in stops
            ]
        )
        right.append(0.0 if context else share)
    mixed = [[1.0] * len(laws) + [0.0] * len(stops)]
    return float(-linprog(-np.array(worth), rows, right, mixed, [1.0]).fun)


@pytest.mark.parametrize("instance", MIXED)
def test_a_growing_tree_is_a_mixture_of_plans(instance: Instance) -> None:
    for tokens in (1, 2, 3) if instance.vocabulary == 2 else (1, 2):
        found = grown(instance, tokens)
        assert float(found.value) == pytest.approx(by_a_stranger(instance, tokens), abs=1e-7)


@pytest.mark.parametrize("instance", MIXED)
def test_shapes_of_whole_paths_are_the_stateless_optimum(instance: Instance) -> None:
    two = replace(instance, drafts=2, scheme="without_replacement")
    assert shaped(instance, PATH).value == stateless(instance).value
    assert shaped(instance, TWO_PATHS).value == stateless(two).value


@pytest.mark.parametrize("instance", MIXED)
def test_siblings_alone_have_the_acceptance_rate(instance: Instance) -> None:
    one = replace(instance, length=1, drafts=2, scheme="without_replacement")
    assert shaped(one, SIBLINGS).value == grown(one, 2).value == acceptance_rate(one).value


def test_no_shape_is_above_a_tree_that_grows() -> None:
    for instance in context_free(2, 3, length=2):
        for tokens in (1, 2, 3):
            most = grown(instance, tokens).value
            assert all(shaped(instance, shape).value <= most for shape in shapes(tokens))


def test_a_tree_grows_below_what_is_accepted_and_beside_what_is_not() -> None:
    found = grown(example("0 1", "1/2 1/2", length=2), 2)
    chosen = {name[1:]: x for name, x in found.solution.items() if name[0] == "after" and x != 0}
    right, wrong = frozenset({(1,)}), frozenset({(0,)})
    assert chosen == {(frozenset(), ()): 1, (right, (1,)): rational("1/2"), (wrong, ()): ONE / 2}
    assert found.value == rational("5/4")


def test_as_many_shapes_as_catalan_numbers() -> None:
    found = [shapes(tokens) for tokens in range(6)]
    assert [len(each) for each in found] == [1, 1, 2, 5, 14, 42]
    assert all(len(set(each)) == len(each) for each in found)


def test_what_cannot_be_drawn_is_left_out() -> None:
    here = example("1/2 1/2", "1 0", length=1)
    assert dict(tree_law(here, TWO_PATHS).items()) == {frozenset({(0,)}): 1}
    assert grown(here, 3).value == shaped(here, TWO_PATHS).value == rational("1/2")


def test_the_law_of_a_shape_draws_siblings_without_replacement() -> None:
    law = tree_law(example("1/2 1/2", "1/4 3/4", length=2), ((), ((),)))
    both = {(0,), (1,)}
    assert dict(law.items()) == {
        frozenset({*both, text}): rational(mass)
        for text, mass in {(1, 0): "1/16", (1, 1): "3/16", (0, 0): "3/16", (0, 1): "9/16"}.items()
    }
