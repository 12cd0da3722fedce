from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Drafts
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.mixture import Mix, most_kept_next
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.process import expected_accepted, is_lossless
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law
from draftproof.reference.verifiers.mixed_multipath_block import mixed_multipath_block

exact = settings.get_profile("exact")
few = settings(exact, max_examples=30)

MIXED, BLOCK = ALGORITHMS["mixed_multipath_block"], ALGORITHMS["block"]
MULTIPATH = ALGORITHMS["multipath_block"]

# Vocabulary, length and drafts.
SHAPES = [*product((2, 3, 4), (1,), (2, 3)), (2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 3, 2)]

Shaped = Callable[[int, int, int], st.SearchStrategy[Instance]]


def mixed(mix: Mix) -> Algorithm:
    return replace(MIXED, verify=partial(mixed_multipath_block, mix=mix))


def haphazard(owed: Sequence[Rational], highest: Row, uniform: Row) -> Rational:
    """A share without rhyme or reason, but the same whenever the same is known."""
    return rational(Random(f"{owed} {highest} {uniform}").choice(("0", "1/7", "1/2", "4/5", "1")))


def always(share: Rational) -> Mix:
    return lambda owed, highest, uniform: share


MIXES: dict[str, Mix] = {
    "never": always(ZERO),
    "sometimes": always(rational("1/3")),
    "always": always(ONE),
    "haphazard": haphazard,
    "most kept next": most_kept_next,
}


def accepted_by_hand(instance: Instance, mix: Mix) -> dict[Path, Rational]:
    """A(zy) = min(A(z) p(y|z), Q'(zy)), with Q' by enumeration of all K-tuples of paths.

    `reached[z]` has the mass of every tuple of paths from which z is selected.
    """
    text, tokens = instance.draft.text(instance.length), range(instance.vocabulary)
    drafted = {
        paths: prod(map(text.__getitem__, paths), start=ONE)
        for paths in product(text, repeat=instance.drafts)
    }
    reached: dict[Path, dict[Drafts, Rational]] = {(): drafted}
    accepted: dict[Path, Rational] = {(): ONE}
    for z in instance.draft.reachable(instance.length - 1):
        p, q = instance.target(z), instance.draft(z)
        highest, uniform = (
            [
                {paths: weight * choice(z, paths, p, q)[y] for paths, weight in reached[z].items()}
                for y in tokens
            ]
            for choice in (highest_sibling, any_sibling)
        )
        laws = [tuple(total(by_tuple.values()) for by_tuple in law) for law in (highest, uniform)]
        share = mix([accepted[z] * x for x in p], *laws)
        for y in [token for token in tokens if q[token] != 0]:
            reached[*z, y] = {
                paths: share * highest[y][paths] + (1 - share) * uniform[y][paths]
                for paths in reached[z]
            }
            accepted[*z, y] = min(accepted[z] * p[y], total(reached[*z, y].values()))
    return accepted


def siblings(z: Path, paths: Drafts) -> list[int]:
    return [path[len(z)] for path in paths if path[: len(z)] == z]


def highest_sibling(z: Path, paths: Drafts, p: Row, q: Row) -> list[Rational]:
    here = siblings(z, paths)
    top = max(here, key=lambda y: (p[y] / q[y], y), default=None)
    return [ONE if y == top else ZERO for y in range(len(q))]


def any_sibling(z: Path, paths: Drafts, p: Row, q: Row) -> list[Rational]:
    here = siblings(z, paths)
    return [rational(here.count(y)) / (len(here) or 1) for y in range(len(q))]


def drawn(data: st.DataObject, shaped: Shaped) -> Instance:
    vocabulary, length, drafts = data.draw(st.sampled_from(SHAPES))
    return replace(data.draw(shaped(vocabulary, length, length)), drafts=drafts)


@pytest.mark.requirement("law.lossless", "length.expected")
@pytest.mark.parametrize("name", MIXES)
@few
@given(data=st.data())
def test_every_mix_follows_its_recursion_and_is_lossless(
    name: str, shaped_instances: Shaped, data: st.DataObject
) -> None:
    instance = drawn(data, shaped_instances)
    emitted = emission_law(mixed(MIXES[name]), instance)
    expected = accepted_by_hand(instance, MIXES[name])
    for z, mass in expected.items():
        kept = emitted.probability(lambda e, z=z: e.accepted[: len(z)] == z)  # type: ignore[misc]
        assert kept == mass
    assert expected_accepted(emitted) == total(expected.values()) - 1
    assert is_lossless(emitted, instance)


@few
@given(data=st.data())
def test_always_the_highest_is_multipath_block(
    shaped_instances: Shaped, data: st.DataObject
) -> None:
    instance = drawn(data, shaped_instances)
    assert emission_law(mixed(always(ONE)), instance) == emission_law(MULTIPATH, instance)


@few
@given(data=st.data())
def test_always_any_is_block_verification(shaped_instances: Shaped, data: st.DataObject) -> None:
    """Of what is accepted and the next token; the paths that they lie on differ."""
    instance = drawn(data, shaped_instances)

    def read(algorithm: Algorithm, drafts: int) -> Law[tuple[Path, int]]:
        emitted = emission_law(algorithm, replace(instance, drafts=drafts))
        return emitted.map(lambda e: (e.accepted, e.next_token))

    assert read(mixed(always(ZERO)), instance.drafts) == read(BLOCK, 1)


@pytest.mark.parametrize("name", MIXES)
@few
@given(instance=...)
def test_one_path_is_verified_as_a_block(name: str, instance: Instance) -> None:
    assert emission_law(mixed(MIXES[name]), instance) == emission_law(BLOCK, instance)


# The share that keeps most.


def laws(seed: int) -> tuple[list[Rational], Row, Row]:
    random = Random(seed)
    size = random.randint(1, 5)

    def masses() -> list[Rational]:
        return [rational(random.choice((0, 1, 1, 2, 3, 5, 8))) / 10 for _ in range(size)]

    return masses(), tuple(masses()), tuple(masses())


@exact
@given(seed=st.integers(0, 2**32 - 1))
def test_no_other_share_keeps_more_of_the_next_token(seed: int) -> None:
    """The share is compared with a grid and with every point where what is kept bends."""
    owed, highest, uniform = laws(seed)
    bends = [(u - a) / (u - h) for a, h, u in zip(owed, highest, uniform, strict=True) if u != h]
    grid = [rational(i) / 60 for i in range(61)]

    def kept(share: Rational) -> Rational:
        law = [share * h + (1 - share) * u for h, u in zip(highest, uniform, strict=True)]
        return total(map(min, owed, law))

    best = most_kept_next(owed, highest, uniform)
    assert 0 <= best <= 1
    assert kept(best) == max(kept(share) for share in [*grid, *bends] if 0 <= share <= 1)


def test_of_equally_good_shares_the_smallest_is_taken() -> None:
    halves = (rational("1/2"), rational("1/2"))
    assert most_kept_next(halves, halves, halves) == ZERO


@few
@given(data=st.data())
def test_at_one_position_it_is_never_below_its_ends(
    shaped_instances: Shaped, data: st.DataObject
) -> None:
    """Proved: both ends are shares that were compared."""
    instance = replace(drawn(data, shaped_instances), length=1)
    value = expected_accepted(emission_law(MIXED, instance))
    assert value >= expected_accepted(emission_law(MULTIPATH, instance))
    assert value >= expected_accepted(emission_law(BLOCK, replace(instance, drafts=1)))


def example(vocabulary: int, length: int, target: str, draft: str) -> Instance:
    """Two drafts; rows by context, "01: 1/2 1/2, ..."; elsewhere both models write token 0."""
    sure = (ONE, *(ZERO,) * (vocabulary - 1))

    def model(name: str, text: str) -> Model:
        rows = {z: sure for n in range(length + 1) for z in product(range(vocabulary), repeat=n)}
        for entry in text.split(","):
            context, row = entry.split(":")
            rows[tuple(map(int, context.strip()))] = tuple(map(rational, row.split()))
        return Model(name, vocabulary, rows)

    return Instance(model("target", target), model("draft", draft), length, drafts=2)


def test_the_choice_that_keeps_most_of_the_next_token_can_cost_the_text() -> None:
    """Below block verification: any share but zero takes mass that later positions would keep."""
    instance = example(2, 3, ":17/20 3/20", ":4/5 1/5, 1:7/10 3/10, 0:0 1, 00:0 1, 01:0 1, 11:0 1")
    assert expected_accepted(emission_law(MIXED, instance)) == rational("3067/2500")
    one = replace(instance, drafts=1)
    assert expected_accepted(emission_law(BLOCK, one)) == rational("123/100")


@pytest.mark.parametrize(
    ("target", "draft", "values"),
    [
        # Every share keeps as much at the root. None is taken, and the largest would be best.
        (":1/2 1/2 0", ":0 1/2 1/2, 1:1/2 0 1/2", "13/16 15/16"),
        # Shares up to 4/5 do.
        (":3/10 2/5 3/10", ":0 1/2 1/2, 1:1/2 0 1/2, 2:0 1 0", "81/80 21/20"),
    ],
)
def test_equal_shares_for_the_next_token_are_not_equal_for_the_text(
    target: str, draft: str, values: str
) -> None:
    """E[accepted length] with the least of equals, which is the rule, and by multipath."""
    instance = example(3, 2, target, draft)
    expected = [
        expected_accepted(emission_law(algorithm, instance)) for algorithm in (MIXED, MULTIPATH)
    ]
    assert expected == list(map(rational, values.split()))


# What is wrong, and must be seen to be wrong.


def test_a_share_that_depends_on_what_was_drawn_is_not_lossless() -> None:
    """The law of the selected path is computed for one share at a node, whatever was drafted."""
    instance = example(2, 1, ":1/2 1/2", ":1/2 1/2")

    def verify(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        share = ONE if drafts.siblings(())[0] == 0 else ZERO
        return mixed_multipath_block(drafts, instance, chance, mix=always(share))

    assert is_lossless(emission_law(MIXED, instance), instance)
    assert not is_lossless(emission_law(replace(MIXED, verify=verify), instance), instance)
