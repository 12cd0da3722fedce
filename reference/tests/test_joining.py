"""Joining runs at states: the same law from fewer runs, and false promises are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import pytest

from draftproof.reference import joining
from draftproof.reference.chance import Chance, NondeterministicProgram, enumerate_law
from draftproof.reference.drafting import Drafted, GrowingTree
from draftproof.reference.emission import Emission, emission
from draftproof.reference.joining import Continuation, Promise, joined_law, law_by_promise
from draftproof.reference.law import Law
from draftproof.reference.ledger.instances import seeded
from draftproof.reference.model import Instance, Path
from draftproof.reference.rational import Rational, rational
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law

HALF, THIRD = rational("1/2"), rational("1/3")

FALSE_PROMISE = (
    "two runs came to one state and went on differently: the state that the program promises "
    "is not all that the rest depends on"
)


def walk(chance: Continuation) -> int:
    """Promise three fair steps, up or down: from a place on, the way to it does not matter."""
    place = 0
    for step in range(3):
        chance.forget_all_but(step, place)
        place += 1 if chance.coin(HALF) else -1
    return place


def test_runs_that_come_to_one_state_go_on_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "_require_one_rest", lambda *_: None)
    ended: list[int] = []

    def watched(chance: Continuation) -> int:
        ended.append(walk(chance))
        return ended[-1]

    eighth = rational("1/8")
    assert joined_law(watched) == Law({3: eighth, 1: 3 * eighth, -1: 3 * eighth, -3: eighth})
    # Two runs from each of the three places before the last step, where all runs are eight.
    assert len(ended) == 6


@pytest.mark.parametrize(
    "rest",
    [
        lambda chance, toss: chance.coin(HALF if toss else THIRD),
        lambda chance, toss: toss,
        lambda chance, toss: toss or chance.coin(HALF),
        lambda chance, toss: bool(chance.forget_all_but(toss)),
        lambda chance, toss: toss and bool(chance.forget_all_but("on")),
    ],
    ids=["asks", "returns", "asks or returns", "comes to a state", "comes or returns"],
)
def test_a_state_on_which_the_rest_does_not_depend_alone_is_refused(
    rest: Callable[[Continuation, bool], bool],
) -> None:
    def program(chance: Continuation) -> bool:
        toss = chance.coin(HALF)
        chance.forget_all_but("tossed")
        return rest(chance, toss)

    with pytest.raises(NondeterministicProgram) as refusal:
        joined_law(program)
    assert str(refusal.value) == FALSE_PROMISE


def test_every_run_is_tested_where_that_is_asked_for() -> None:
    def program(chance: Continuation) -> bool:
        drawn = chance.draw((HALF, HALF / 2, HALF / 2))
        chance.forget_all_but("drawn")
        return drawn == 1

    # The first and the last run that come to the state do not tell it.
    assert joined_law(program) == Law.certain(False)
    with pytest.raises(NondeterministicProgram):
        joined_law(program, every_run=True)


def test_hidden_randomness_is_reported_before_and_after_a_state() -> None:
    def after(shares: Iterator[Rational], chance: Continuation) -> bool:
        chance.forget_all_but("begun")
        return chance.coin(next(shares))

    def before(shares: Iterator[Rational], chance: Continuation) -> bool:
        tossed = chance.coin(next(shares))
        chance.forget_all_but(tossed)
        return tossed

    for program, answered in ((after, 1), (before, 2)):
        shares = iter([HALF] * answered + [THIRD])
        with pytest.raises(NondeterministicProgram, match="random choice 0 had weights"):
            joined_law(partial(program, shares))


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


def instances(algorithm: Algorithm, scheme: str) -> Iterator[Instance]:
    """Yield instances of every shape that the algorithm takes."""
    for vocabulary, widths in SHAPES:
        if (
            prod(widths) <= (algorithm.most_drafts or 8)
            and (algorithm.trees or max(widths[1:]) == 1)
            and (scheme != "hub" or max(widths) <= 2)
        ):
            branching = widths if max(widths[1:]) > 1 else ()
            yield from seeded(
                3,
                vocabulary,
                length=len(widths),
                drafts=prod(widths),
                scheme=scheme,
                branching=branching,
            )


@every_drafting
def test_joined_runs_have_the_law_of_all_runs(algorithm: Algorithm, scheme: str) -> None:
    for instance in instances(algorithm, scheme):

        def program(chance: Chance, instance: Instance = instance) -> Emission:
            return algorithm.verify(GrowingTree(instance, chance), instance, chance)

        assert emission_law(algorithm, instance) == enumerate_law(program)


@every_drafting
def test_all_runs_that_come_to_one_state_go_on_in_the_same_way(
    algorithm: Algorithm, scheme: str
) -> None:
    if algorithm.promise is None:
        return
    for instance in instances(algorithm, scheme):
        law = law_by_promise(algorithm.verify, instance, algorithm.promise, every_run=True)
        assert law == emission_law(algorithm, instance)


def keep_the_smallest_token_so_far(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Go down to the first child; which text follows depends on what was drawn beside the way."""
    node: Path = ()
    least = instance.vocabulary
    while len(node) < instance.length:
        siblings = drafts.siblings(node)
        least, node = min(least, *siblings), (*node, siblings[0])
    return emission(drafts, node, chance.draw(instance.target(node)) if least else 0)


def keep_the_first_path(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Accept all of the first path, so that the order of the paths decides."""
    node = drafts.paths()[0]
    return emission(drafts, node, chance.draw(instance.target(node)))


def test_an_order_that_comes_last_is_asked_for_once() -> None:
    def verify(drafts: Drafted, _: Instance, __: Chance) -> int:
        return max(map(drafts.first, drafts.paths()))

    (instance,) = seeded(1, 3, length=2, drafts=2)
    with pytest.raises(TypeError, match="only one node's first path"):
        law_by_promise(verify, instance, Promise.AT_ONCE)


def test_a_false_promise_is_refused_in_every_law() -> None:
    (instance,) = seeded(1, 3, length=2, drafts=2)
    traversal = ALGORITHMS["traversal"]
    for verify in (keep_the_smallest_token_so_far, traversal.verify):
        with pytest.raises(NondeterministicProgram) as refusal:
            law_by_promise(verify, instance, Promise.DOWN)
        assert str(refusal.value) == FALSE_PROMISE
    assert law_by_promise(traversal.verify, instance, Promise.DEPTH_FIRST)
    with pytest.raises(NondeterministicProgram) as refusal:
        law_by_promise(keep_the_first_path, instance, Promise.AT_ONCE)
    assert str(refusal.value) == FALSE_PROMISE


def test_all_algorithms_of_several_paths_but_one_are_joined() -> None:
    assert [name for name, each in ALGORITHMS.items() if each.promise is None] == [
        "block",
        "greedy_block",
        "recursive_greedy_block",
    ]
