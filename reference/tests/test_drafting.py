from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.drafting import (
    SCHEMES,
    Drafts,
    FixedTree,
    GrowingTree,
    Siblings,
    all_inside,
    draft_law,
    draft_paths,
    most_probable,
    scheme_named,
    sibling_law,
    single_path,
)
from draftproof.reference.errors import InvalidInput, TokenOutOfRange, Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import rational, total
from draftproof.reference.rows import mass

exact = settings.get_profile("exact")
few = settings(exact, max_examples=40)

SiblingFormula = Callable[[str, Row, int], Law[Siblings]]
PathFormula = Callable[[Instance], Law[Drafts]]
Drafted = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]


def exact_row(text: str) -> Row:
    return tuple(map(rational, text.split()))


def subsets(items: range) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(items, n) for n in range(len(items) + 1)))


rows = st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 10**6]), min_size=1, max_size=4).filter(any)
drawn_rows = rows.map(lambda counts: tuple(rational(count) / sum(counts) for count in counts))


# What is drawn after one context.


@pytest.mark.requirement("draft.joint")
@pytest.mark.parametrize("scheme", SCHEMES)
@exact
@given(q=drawn_rows, width=st.integers(1, 4))
def test_the_siblings_have_the_law_of_the_papers(
    scheme: str, sibling_formula: SiblingFormula, q: Row, width: int
) -> None:
    width = min(width, 2) if scheme == "hub" else width
    assert sibling_law(scheme, q, width) == sibling_formula(scheme, q, width)


@pytest.mark.parametrize("scheme", SCHEMES)
@exact
@given(q=drawn_rows, width=st.integers(1, 4))
def test_the_closed_form_of_all_inside_is_the_probability(
    scheme: str, sibling_formula: SiblingFormula, q: Row, width: int
) -> None:
    width = min(width, 2) if scheme == "hub" else width
    law = sibling_formula(scheme, q, width)
    for inside in subsets(range(len(q))):
        probability = law.probability(lambda drawn, inside=inside: set(drawn) <= set(inside))  # type: ignore[misc]
        assert all_inside(scheme, q, width, inside) == probability


@exact
@given(q=drawn_rows)
def test_two_and_three_without_replacement_have_the_integrated_closed_forms(q: Row) -> None:
    """The exponential clocks, integrated by hand."""
    for inside in subsets(range(len(q))):
        outside = 1 - mass(q, inside)
        if outside == 0:
            continue
        once = total(q[i] / (1 - q[i]) for i in inside)
        two = (1 - outside) - outside * once
        three = two - outside * total(
            1 / (1 - q[i] - q[j]) - 1 / (1 - q[i]) - 1 / (1 - q[j]) + 1
            for i, j in combinations(inside, 2)
        )
        assert all_inside("without_replacement", q, 2, inside) == two
        assert all_inside("without_replacement", q, 3, inside) == three


@exact
@given(q=drawn_rows, width=st.integers(1, 4))
def test_two_draws_without_replacement_are_in_a_set_no_more_often(q: Row, width: int) -> None:
    for inside in subsets(range(len(q))):
        without = all_inside("without_replacement", q, width, inside)
        assert without <= all_inside("iid", q, width, inside)


def weights(law: Law[Siblings]) -> dict[Siblings, str]:
    return {siblings: str(weight) for siblings, weight in law.items()}


@pytest.mark.parametrize(
    ("scheme", "q", "width", "law"),
    [
        ("iid", "1/3 2/3", 2, {(0, 0): "1/9", (0, 1): "2/9", (1, 0): "2/9", (1, 1): "4/9"}),
        ("without_replacement", "1/3 2/3", 3, {(0, 1): "1/3", (1, 0): "2/3"}),
        ("without_replacement", "0 1 0", 2, {(1,): "1"}),
        ("hub", "1/4 1/2 1/4", 2, {(0, 1): "1/4", (2, 1): "1/4", (1, 0): "1/4", (1, 2): "1/4"}),
        ("hub", "2/5 2/5 1/5", 2, {(1, 0): "2/5", (2, 0): "1/5", (0, 1): "4/15", (0, 2): "2/15"}),
        ("hub", "0 1", 2, {(1,): "1"}),
        ("hub", "1/3 2/3", 1, {(0,): "1/3", (1,): "2/3"}),
        ("greedy", "1/4 1/2 1/4", 2, {(1, 0): "1/2", (1, 2): "1/2"}),
        ("greedy", "1/4 1/4 1/4 1/4", 3, {(0, 1, 2): "1/2", (0, 1, 3): "1/2"}),
        ("greedy", "1/2 0 1/2", 3, {(0, 2): "1"}),
        ("greedy", "0 1 0", 2, {(1,): "1"}),
        ("greedy", "1/3 2/3", 1, {(0,): "1/3", (1,): "2/3"}),
    ],
)
def test_siblings_by_hand(scheme: str, q: str, width: int, law: dict[Siblings, str]) -> None:
    """Supports that run out, a sure hub, and equals: the smallest token first."""
    assert weights(sibling_law(scheme, exact_row(q), width)) == law


def test_the_most_probable_tokens_are_the_smallest_of_equals_and_never_impossible() -> None:
    assert most_probable(exact_row("1/6 1/3 1/6 1/3"), 3) == (1, 3, 0)
    assert most_probable(exact_row("1/2 0 1/2"), 3) == (0, 2)
    assert most_probable(exact_row("1"), 0) == ()


# What is drawn on the whole tree.


@pytest.mark.requirement("draft.joint")
@pytest.mark.parametrize("scheme", SCHEMES)
@few
@given(data=st.data())
def test_the_paths_are_siblings_after_siblings(
    scheme: str, drafted: Drafted, path_formula: PathFormula, data: st.DataObject
) -> None:
    instance = data.draw(drafted([scheme]))
    assert draft_law(instance) == path_formula(instance)


@exact
@given(instance=..., scheme=st.sampled_from(sorted(SCHEMES)))
def test_one_path_is_the_text_of_the_draft_under_every_scheme(
    instance: Instance, scheme: str
) -> None:
    instance = replace(instance, scheme=scheme)
    assert draft_law(instance) == instance.draft.text(instance.length).map(lambda path: (path,))
    alone = enumerate_law(lambda chance: single_path(GrowingTree(instance, chance)))
    assert alone == instance.draft.text(instance.length)


@exact
@given(instance=..., drafts=st.integers(2, 3))
def test_iid_paths_multiply(instance: Instance, drafts: int) -> None:
    instance = replace(instance, length=min(instance.length, 2), drafts=drafts)
    text = instance.draft.text(instance.length)
    together: Law[Drafts] = Law.certain(())
    for _ in range(drafts):
        together = together.then(lambda some: text.map(lambda path: (*some, path)))
    assert draft_law(instance) == together


def test_paths_are_the_leaves_from_left_to_right(one_row: OneRow) -> None:
    """Equal probabilities: the greedy law takes tokens 0 and 1 everywhere, in this order."""
    instance = one_row("1/2 1/2", "1/2 1/2", length=2, scheme="greedy", branching=[2, 2])
    assert draft_law(instance) == Law.certain(((0, 0), (0, 1), (1, 0), (1, 1)))


def test_a_support_that_runs_out_leaves_fewer_paths(one_row: OneRow) -> None:
    instance = one_row(
        "1/2 1/2 0", "1/3 2/3 0", length=2, scheme="without_replacement", branching=[3, 2]
    )
    assert {len(paths) for paths in draft_law(instance)} == {4}


# The tree that is drawn while it is asked, and the one that is there already.


def nodes_of(paths: Drafts) -> list[Path]:
    return sorted({path[:size] for path in paths for size in range(len(path) + 1)})


@pytest.mark.parametrize("scheme", SCHEMES)
@few
@given(data=st.data())
def test_what_is_asked_first_does_not_change_what_is_drawn(
    scheme: str, drafted: Drafted, path_formula: PathFormula, data: st.DataObject
) -> None:
    instance = data.draw(drafted([scheme]))
    turns = data.draw(st.lists(st.integers(0, 2), max_size=instance.length))

    def drawn(chance: Chance) -> Drafts:
        tree = GrowingTree(instance, chance)
        node: Path = ()
        for turn in turns:
            siblings = tree.siblings(node)
            node = (*node, siblings[turn % len(siblings)])
            tree.first(node)
        paths = tree.paths()
        fixed = FixedTree(paths, instance)
        for asked in nodes_of(paths):
            assert tree.siblings(asked) == fixed.siblings(asked)
            assert tree.first(asked) == fixed.first(asked)
        assert (fixed.paths(), tree.paths()) == (paths, paths)
        return paths

    assert enumerate_law(drawn) == path_formula(instance)


@pytest.mark.parametrize("scheme", SCHEMES)
@few
@given(data=st.data())
def test_the_first_path_through_a_node_is_the_first(
    scheme: str, drafted: Drafted, data: st.DataObject
) -> None:
    instance = data.draw(drafted([scheme]))
    for paths in list(draft_law(instance))[:20]:
        tree = FixedTree(paths, instance)
        for node in nodes_of(paths):
            through = [i for i, path in enumerate(paths) if path[: len(node)] == node]
            assert tree.first(node) == min(through)
            below = dict.fromkeys(p[len(node)] for p in paths if p[: len(node)] == node != p)
            assert tuple(dict.fromkeys(tree.siblings(node))) == tuple(below)


def test_iid_siblings_of_a_node_that_was_drawn_twice_are_all_there(one_row: OneRow) -> None:
    paths = ((0, 1), (0, 0), (1, 0), (1, 1), (0, 1), (0, 1))
    instance = one_row("1/2 1/2", "1/2 1/2", length=2, branching=[3, 2])
    tree = FixedTree(paths, instance)
    assert tree.siblings(()) == (0, 1, 0)
    assert tree.siblings((0,)) == (1, 0, 1, 1)
    assert tree.siblings((1,)) == (0, 1)
    assert tree.siblings((0, 1)) == ()
    assert [tree.first(node) for node in ((), (0,), (0, 0), (1,), (1, 1))] == [0, 0, 1, 2, 3]


# What is refused.


def refused(kind: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        call()
    assert (type(refusal.value), str(refusal.value)) == (kind, message)


KNOWN = "known: iid, without_replacement, hub, greedy"


def test_an_unknown_scheme_is_refused(motivating: Instance) -> None:
    message = f"unknown drafting scheme 'best'; {KNOWN}"
    instance = replace(motivating, scheme="best")
    half = exact_row("1/2 1/2")
    refused(Unsupported, message, lambda: scheme_named("best"))
    refused(Unsupported, message, lambda: enumerate_law(lambda c: draft_paths(instance, c)))
    refused(Unsupported, message, lambda: draft_law(instance))
    refused(Unsupported, message, lambda: sibling_law("best", half, 2))
    refused(Unsupported, message, lambda: all_inside("best", half, 2, {0}))


def test_the_hub_has_one_companion(one_row: OneRow) -> None:
    message = "the scheme 'hub' draws pairs, the instance asks for 3 siblings"
    three = one_row("1/2 1/2", "1/2 1/2", drafts=3, scheme="hub")
    refused(Unsupported, message, lambda: draft_law(three))
    deeper = one_row("1/2 1/2", "1/2 1/2", length=2, branching=[1, 3], scheme="hub")
    refused(Unsupported, message, lambda: draft_law(deeper))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_set_of_what_is_no_token(scheme: str) -> None:
    half = exact_row("1/2 1/2")
    refused(TokenOutOfRange, "token 2 is not in 0..1", lambda: all_inside(scheme, half, 2, {2}))
    refused(TokenOutOfRange, "token -1 is not in 0..1", lambda: all_inside(scheme, half, 2, {-1}))


def test_one_path_is_not_two() -> None:
    class Two:
        def siblings(self, node: Path) -> Siblings:
            raise NotImplementedError

        def first(self, node: Path) -> int:
            raise NotImplementedError

        def paths(self) -> Drafts:
            return ((0,), (1,))

    with pytest.raises(ValueError, match="too many values"):
        single_path(Two())
