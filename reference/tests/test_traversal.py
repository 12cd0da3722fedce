from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Drafts, Siblings
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import ONE, ZERO, Rational, positive_part, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law

exact = settings.get_profile("exact")
few = settings(exact, max_examples=50)

TRAVERSAL = ALGORITHMS["traversal"]

Instances = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]


class Shrinking:
    """The tree of the drafts, with a target, a draft and a weight at every node that has children.

    `weight` is one's own after children were cut off, until then what the parent passes on.
    """

    def __init__(self, paths: Drafts, instance: Instance) -> None:
        nodes = [path[:i] for path in paths for i in range(instance.length)]
        self.children = {
            node: list(dict.fromkeys(p[len(node)] for p in paths if p[: len(node)] == node))
            for node in nodes
        }
        self.p = {node: list(instance.target(node)) for node in nodes}
        self.q = {node: list(instance.draft(node)) for node in nodes}
        self.own: dict[Path, Rational] = {(): ONE}

    def first_leaf(self) -> Path:
        leaf: Path = ()
        while self.children.get(leaf):
            leaf = (*leaf, self.children[leaf][0])
        return leaf

    def weight(self, node: Path) -> Rational:
        if node in self.own:
            return self.own[node]
        parent, token = node[:-1], node[-1]
        return min(ONE, self.weight(parent) * self.p[parent][token] / self.q[parent][token])

    def cut(self, leaf: Path, forgotten: str) -> None:
        """Cut a refused leaf off, without one of the three things that this tells its parent."""
        node, token = leaf[:-1], leaf[-1]
        weight, q = self.weight(node), self.q[node]
        owed = [positive_part(weight * a - b) for a, b in zip(self.p[node], q, strict=True)]
        mass = total(owed)
        if mass and forgotten != "target":
            self.p[node] = [x / mass for x in owed]
        if forgotten != "weight":
            self.own[node] = mass / (mass + 1 - weight) if mass else ZERO
        self.children[node].remove(token)
        left = [ZERO if t == token else x for t, x in enumerate(q)]
        if any(left) and forgotten != "draft":
            self.q[node] = [x / total(left) for x in left]


def by_cutting(forgotten: str = "") -> Algorithm:
    """Return traversal written as a loop: take the first leaf, keep it or cut it off."""

    def verify(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        tree = Shrinking(drafts.paths(), instance)
        while not chance.coin(tree.weight(tree.first_leaf())):
            tree.cut(tree.first_leaf(), forgotten)
        leaf = tree.first_leaf()
        return emission(drafts, leaf, chance.draw(tree.p.get(leaf, instance.target(leaf))))

    return replace(TRAVERSAL, name="by cutting", verify=verify)


@pytest.mark.requirement("law.reference")
@pytest.mark.parametrize("scheme", TRAVERSAL.schemes)
@few
@given(data=st.data())
def test_it_is_the_loop_that_cuts_off_leaves(
    scheme: str, drafted: Instances, data: st.DataObject
) -> None:
    instance = data.draw(drafted([scheme]))
    assert emission_law(TRAVERSAL, instance) == emission_law(by_cutting(), instance)


@few
@given(data=st.data())
def test_at_one_position_it_is_recursive_rejection_without_replacement(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    instance = data.draw(drafted(["without_replacement"], shapes=one_position))
    recursive = emission_law(ALGORITHMS["recursive_rejection"], instance)
    assert emission_law(TRAVERSAL, instance) == recursive


@few
@given(data=st.data())
def test_at_one_position_duplicates_are_wasted(
    drafted: Instances, one_position: list[tuple[int, Siblings]], data: st.DataObject
) -> None:
    """Merged, i.i.d. drafts are accepted no more often than by recursive rejection."""
    instance = data.draw(drafted(["iid"], shapes=one_position))
    value = expected_accepted(emission_law(TRAVERSAL, instance))
    recursive = expected_accepted(emission_law(ALGORITHMS["recursive_rejection"], instance))
    assert value <= recursive
    if instance.vocabulary == 2:
        assert value == recursive


@few
@given(instance=...)
def test_one_path_is_verified_as_a_block(instance: Instance) -> None:
    block = emission_law(ALGORITHMS["block"], instance)
    for scheme in TRAVERSAL.schemes:
        assert emission_law(TRAVERSAL, replace(instance, scheme=scheme)) == block


# What is wrong, and must be seen to be wrong.


@pytest.mark.parametrize("scheme", TRAVERSAL.schemes)
@pytest.mark.parametrize("part", ["draft", "target", "weight"])
def test_all_that_a_refusal_tells_must_be_used(scheme: str, part: str, one_row: OneRow) -> None:
    instance = one_row("1/2 3/10 1/5", "1/5 1/5 3/5", length=2, drafts=2, scheme=scheme)
    law = emission_law(by_cutting(forgotten=part), instance)
    assert continued(law, instance, 3) != instance.target.text(3)
    assert continued(emission_law(by_cutting(), instance), instance, 3) == instance.target.text(3)
