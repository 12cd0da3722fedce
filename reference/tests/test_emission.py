from __future__ import annotations

from draftproof.reference.drafting import FixedTree
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import ONE, ZERO, rational

HALF = rational("1/2")
FREE = Model("target", 2, {(): (HALF, HALF)}, context_free=True)
PATHS = ((0, 0), (1, 0), (1, 1), (1, 0))
TREE = FixedTree(PATHS, Instance(FREE, FREE, length=2, drafts=4))

EVEN, ZEROS, ONES = (HALF, HALF), (ONE, ZERO), (ZERO, ONE)


def test_an_emission_is_what_was_accepted_and_one_token_more() -> None:
    assert Emission(0, (1, 0), 2).tokens == (1, 0, 2)
    assert Emission(0, (), 2).tokens == (2,)


def test_emissions_on_different_paths_are_different_outcomes() -> None:
    assert Emission(0, (), 1) != Emission(1, (), 1)
    assert len({Emission(0, (), 1), Emission(0, (), 1)}) == 1


def test_emissions_that_leave_another_target_are_different_outcomes() -> None:
    assert Emission(0, (), 1, (((), EVEN),)) != Emission(0, (), 1)


def test_an_accepted_prefix_is_on_the_first_path_that_has_it() -> None:
    for accepted, path in (((), 0), ((0,), 0), ((1,), 1), ((1, 0), 1), ((1, 1), 2)):
        assert emission(TREE, accepted, 0) == Emission(path, accepted, 0)


def test_modified_rows_are_kept_where_the_text_may_still_come_and_named_from_there() -> None:
    rows = {(): EVEN, (1,): ONES, (0,): ZEROS, (1, 0): EVEN, (1, 0, 1): ONES, (1, 0, 0): ZEROS}
    left = emission(TREE, (1,), 0, rows).modified
    assert left == (((), EVEN), ((0,), ZEROS), ((1,), ONES))
    assert emission(TREE, (), 1, rows).modified == (
        ((), ONES),
        ((0,), EVEN),
        ((0, 0), ZEROS),
        ((0, 1), ONES),
    )
    assert emission(TREE, (1, 1), 0, rows).modified == ()


def test_the_order_in_which_rows_were_found_is_no_part_of_the_outcome() -> None:
    rows = {(0, 1): ONES, (0,): EVEN, (0, 0): ZEROS}
    backwards = dict(reversed(rows.items()))
    assert emission(TREE, (), 0, rows) == emission(TREE, (), 0, backwards)
