"""What Python, numpy and the system draw has the law of what torch draws."""

from __future__ import annotations

import copy
import math
import random
import secrets
from collections.abc import Callable
from random import random as by_name
from typing import Any

import numpy
import pytest
import torch

from draftproof.conformance.lanes.exact import (
    OpaqueRandomness,
    TooManyRuns,
    _sources,
    exact_law,
)
from draftproof.conformance.lanes.exact._replay import Disagreement
from draftproof.conformance.lanes.exchange import as_loaded
from draftproof.conformance.lanes.unwatched import evidence, holding
from draftproof.reference.law import Law
from draftproof.reference.rational import ONE, exactly, rational

WEIGHTS = [0.125, 0.25, 0.625]
ROW = numpy.array(WEIGHTS)
DRAW = Law({0: rational("1/8"), 1: rational("1/4"), 2: rational("5/8")})
COIN = Law({True: rational("1/4"), False: rational("3/4")})
THIRDS = Law(dict.fromkeys(range(3), rational("1/3")))

OURS = numpy.random.default_rng(7)
OLD = numpy.random.RandomState(7)
PYTHONS = random.Random(7)
SYSTEM = secrets.SystemRandom()

EDGES = ROW.cumsum()


def scanned(u: Any) -> int:
    for token, weight in enumerate(WEIGHTS):
        u -= weight
        if u < 0:
            return token
    return len(WEIGHTS) - 1


def clock() -> float:
    return -math.log(random.random())


def by_alias() -> int:
    place = random.randrange(3)
    kept, alias = ((0.375, 2), (0.75, 2), (1.0, 2))[place]
    return place if random.random() < kept else alias


def by_a_loop() -> int:
    """One token is tried again and again: a loop of one way."""
    while True:
        if by_name() < 0.5:
            return scanned(by_name())


def shuffled() -> int:
    tokens = [0, 1, 2]
    OURS.shuffle(tokens)
    return tokens[0]


DRAWN: dict[str, tuple[Callable[[], Any], Law[Any]]] = {
    "random": (lambda: random.random() < 0.25, COIN),
    "random by name": (lambda: by_name() <= 0.25, COIN),
    "uniform": (lambda: random.uniform(1, 2) < 1.25, COIN),
    "randrange": (lambda: random.randrange(3), THIRDS),
    "randint": (lambda: random.randint(1, 3) - 1, THIRDS),
    "choice": (lambda: random.choice(range(3)), THIRDS),
    "choices": (lambda: random.choices(range(3), WEIGHTS)[0], DRAW),
    "choices alike": (lambda: random.choices(range(3))[0], THIRDS),
    "sample": (lambda: random.sample(range(3), 2)[1], THIRDS),
    "getrandbits": (lambda: random.getrandbits(2) < 1, COIN),
    "a whole number of a uniform": (lambda: int(random.random() * 3), THIRDS),
    "floor": (lambda: math.floor(random.random() * 3 - 1) + 1, THIRDS),
    "a scan": (lambda: scanned(random.random()), DRAW),
    "an instance": (lambda: PYTHONS.random() < 0.25, COIN),
    "a fresh instance": (lambda: random.Random().random() < 0.25, COIN),
    "an alias table": (by_alias, DRAW),
    "the system": (lambda: SYSTEM.random() < 0.25, COIN),
    "a secret": (lambda: secrets.randbelow(3), THIRDS),
    "a secret choice": (lambda: secrets.choice(range(3)), THIRDS),
    "secret bits": (lambda: secrets.randbits(2) < 1, COIN),
    "the least": (lambda: min(range(3), key=lambda i: clock() / WEIGHTS[i]), DRAW),
    "the most": (lambda: max(range(3), key=lambda i: WEIGHTS[i] / clock()), DRAW),
    "the most of alike": (lambda: max(range(3), key=lambda _: random.random()), THIRDS),
    "numpy": (lambda: bool(OURS.random() < 0.25), COIN),
    "numpy mirrored": (lambda: bool(ROW[1] > OURS.random()), COIN),
    "numpy's uniform": (lambda: bool(OURS.uniform(1, 2) < 1.25), COIN),
    "numpy's choice": (lambda: int(OURS.choice(3, p=ROW)), DRAW),
    "numpy's choice of a list": (lambda: int(OURS.choice([0, 1, 2], 1, replace=False)[0]), THIRDS),
    "numpy's integers": (lambda: int(OURS.integers(1, 3, endpoint=True)) - 1, THIRDS),
    "numpy's multinomial": (lambda: int(OURS.multinomial(1, ROW).argmax()), DRAW),
    "numpy's coin": (lambda: bool(OURS.binomial(1, 0.25)), COIN),
    "numpy's permutation": (lambda: int(OURS.permutation(3)[0]), THIRDS),
    "numpy's shuffle": (shuffled, THIRDS),
    "numpy's race": (lambda: int((ROW / OURS.exponential(size=3)).argmax()), DRAW),
    "numpy's race of few": (lambda: int(numpy.argmin(OLD.exponential(size=3) / ROW)), DRAW),
    "numpy's search": (lambda: int(numpy.searchsorted(EDGES, OURS.random(), side="right")), DRAW),
    "an array's search": (lambda: int(EDGES.searchsorted(OURS.random(), side="right")), DRAW),
    "numpy's edges": (lambda: int((OURS.random() < EDGES).argmax()), DRAW),
    "numpy's global one": (lambda: bool(numpy.random.rand() < 0.25), COIN),
    "numpy's global choice": (lambda: int(numpy.random.choice(3, p=WEIGHTS)), DRAW),
    "numpy's old one": (lambda: bool(OLD.random_sample() < 0.25), COIN),
    "numpy's fresh one": (lambda: bool(numpy.random.default_rng().random() < 0.25), COIN),
    "an array": (lambda: bool((OURS.random((2, 2)) < [[0.5, 1], [1, 0.5]]).all()), COIN),
    "an array in torch": (lambda: bool((torch.tensor(OURS.random(1)) < 0.25)[0]), COIN),
    "numbers in torch": (lambda: bool((torch.tensor([random.random()]) < 0.25)[0]), COIN),
    "torch's whole numbers": (lambda: int((torch.rand(1) * 3).long()), THIRDS),
}


@pytest.mark.parametrize(("program", "expected"), DRAWN.values(), ids=DRAWN)
def test_a_draw_from_elsewhere_has_its_law(program: Callable[[], Any], expected: Law[Any]) -> None:
    assert exact_law(program).law == expected


@pytest.mark.parametrize("wrong", ["numpy's choice", "a scan", "an alias table"])
def test_a_wrong_law_from_elsewhere_is_seen(wrong: str) -> None:
    """A program whose weights are those of another row is not taken for the right one."""
    program, _ = DRAWN[wrong]
    other = Law({0: rational("1/8"), 1: rational("3/8"), 2: rational("1/2")})
    assert exact_law(program).law.total_variation(other) == rational("1/8")


def test_numpys_gumbel_noise_races() -> None:
    law = exact_law(lambda: int(numpy.argmax(numpy.log(ROW) + OURS.gumbel(size=3)))).law
    assert law.total_variation(DRAW) < ONE / 2**50


def test_python_races_by_logarithms() -> None:
    edge = 0.25
    law = exact_law(lambda: -math.log(random.random()) < edge).law
    assert abs(law[True] - exactly(-math.expm1(-edge))) < ONE / 2**50


def test_a_result_may_be_an_array_of_choices() -> None:
    program: Callable[[], Any] = lambda: OURS.random(2) < [0.25, 1]  # noqa: E731
    law = exact_law(program).law
    assert law == COIN.map(lambda is_less: (is_less, True))


def test_random_numbers_pass_for_those_of_numpy() -> None:
    def told() -> tuple[bool, ...]:
        one, many = OURS.random(), OURS.random(2)
        kinds = type(one) is float, type(many) is numpy.ndarray
        return *kinds, isinstance(one, float), isinstance(many, numpy.ndarray), many.shape == (2,)

    assert set(exact_law(told).law) == {(True,) * 5}


def test_numpys_own_errors_are_the_programs() -> None:
    with pytest.raises(ValueError, match="do not sum to 1"):
        exact_law(lambda: OURS.choice(3, p=[0.5, 0.5, 0.5]))


# --- what is no randomness ---------------------------------------------------------------------


def rewound() -> tuple[bool, ...]:
    state = random.getstate()
    first = random.random() < 0.5
    random.setstate(state)
    return first, random.random() < 0.5


def copied() -> tuple[bool, ...]:
    return tuple(bool(each.random() < 0.5) for each in (OURS, copy.deepcopy(OURS)))


def seeded_anew() -> bool:
    numpy.random.seed(3)
    return bool(numpy.random.rand() < 0.5)


def drawn_past_it() -> bool:
    found = OURS.random() < 0.5
    OURS.bit_generator.random_raw()
    return bool(found)


def caught() -> int:
    try:
        return int(OURS.normal() < 0)
    except Exception:
        return 1


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda: random.Random(3).random() < 0.5, "Random is made by the program in each run"),
        (lambda: numpy.random.default_rng(3).random() < 0.5, "PCG64 is made by the program"),
        (lambda: numpy.random.RandomState(3).rand() < 0.5, "MT19937 is made by the program"),
        (rewound, "seeded, in a way that is not followed"),
        (copied, "a copy of another generator"),
        (seeded_anew, "was drawn from or seeded"),
        (drawn_past_it, "PCG64 was drawn from, or seeded, in a way that is not followed"),
        (caught, "Generator.normal is not followed"),
        (lambda: bool(OURS.random(2).sum() < 1), "takes noise out of torch"),
        (lambda: OURS.choice(3, 2, replace=False, p=ROW).tolist(), "without replacement"),
        (lambda: sorted([0, 1, 2], key=lambda _: clock()), "that has been looked at before"),
        (lambda: (u := random.random()) < random.random() and u < 0.5, "decided a race"),
        (lambda: random.getrandbits(53) < 1, "draws 53 bits; 16 are followed"),
        (lambda: OURS.multinomial(2, ROW).tolist(), "counts several draws"),
    ],
)
def test_what_is_not_random_or_not_followed_is_refused(
    program: Callable[[], Any], reason: str
) -> None:
    with pytest.raises(OpaqueRandomness, match=reason):
        exact_law(program)


def test_a_constant_seed_is_a_disagreement_of_runs() -> None:
    with pytest.raises(Disagreement):
        exact_law(lambda: bool(numpy.random.default_rng(3).random() < 0.5))


def test_generators_are_left_as_they_were() -> None:
    def drawn() -> list[float]:
        return [random.random(), numpy.random.rand(), OURS.random(), OLD.rand(), PYTHONS.random()]

    keep = copy.deepcopy((OURS.bit_generator.state, OLD.get_state(), PYTHONS.getstate()))
    before = random.getstate(), numpy.random.get_state()
    expected = drawn()
    random.setstate(before[0])
    numpy.random.set_state(before[1])
    OURS.bit_generator.state = keep[0]
    OLD.set_state(keep[1])
    PYTHONS.setstate(keep[2])
    looked: Callable[[], Any] = lambda: [number < 0.5 for number in drawn()]  # noqa: E731
    exact_law(looked)
    assert drawn() == expected


# --- loops -------------------------------------------------------------------------------------


def test_a_loop_of_one_way_ends_where_next_to_nothing_is_left() -> None:
    found = exact_law(by_a_loop)
    assert 0 < found.slack < ONE / 2**40
    assert found.law.total_variation(DRAW) <= found.slack


def test_a_loop_that_parts_in_every_turn_says_so_at_once() -> None:
    def by_rejection() -> int:
        while True:
            token = random.choices(range(3), [0.25, 0.25, 0.5])[0]
            if random.random() < (0.25, 0.5, 0.75)[token]:
                return token

    with pytest.raises(TooManyRuns, match="a loop that may go on for ever"):
        exact_law(by_rejection)


# --- real runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["random", "numpy", "numpy's global choice", "a secret"])
def test_laws_are_held_against_real_runs(name: str) -> None:
    program, _ = DRAWN[name]
    with holding(5, times=200) as held:
        exact_law(program)
    assert held.alone.sum() >= 400
    assert held.alone[:-1].min() > 0  # runs are fresh: they come to every outcome
    assert held.alone[-1] == 0


def test_a_lane_that_answers_wrongly_is_found_by_real_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that forgot the weights of a choice would have a law all the same."""
    drawn = _sources._drawn
    monkeypatch.setattr(_sources, "_drawn", lambda weights: drawn([1.0] * len(weights)))
    program, right = DRAWN["numpy's choice"]
    with holding(5, times=200) as held:
        assert exact_law(program).law != right
    assert evidence([held.alone.tolist()]) > math.log(1e9)


def test_the_generators_of_an_adapter_go_on_in_its_copies() -> None:
    """A copy of a generator would draw the same in every call, real runs among them."""

    class Verifier:
        def __init__(self) -> None:
            self.numpys, self.pythons = numpy.random.default_rng(7), random.Random(7)
            self.state = [0]

    first = Verifier()
    adapter: Any = first
    copies: list[Any] = [as_loaded(adapter) for _ in range(2)]
    assert len({each.numpys.random() for each in copies}) == 2
    assert len({each.pythons.random() for each in copies}) == 2
    assert copies[0].state is not first.state


# --- operators of the program's own ------------------------------------------------------------


@torch.library.custom_op("draftprooftests::raced", mutates_args=())
def raced(weights: torch.Tensor, clocks: torch.Tensor) -> torch.Tensor:
    return (weights / clocks).argmax(-1)


@torch.library.custom_op("draftprooftests::drawn", mutates_args=())
def drawn_inside(weights: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(weights, 1)[0]


@torch.library.custom_op("draftprooftests::summed", mutates_args=())
def summed(clocks: torch.Tensor) -> torch.Tensor:
    return clocks.cumsum(-1) < 1


def test_an_operator_that_is_written_in_python_is_followed() -> None:
    weights = torch.tensor(WEIGHTS)
    by_race = exact_law(lambda: raced(weights, torch.empty(3).exponential_()))
    inside = exact_law(lambda: int(drawn_inside(weights)))
    assert (by_race.law, inside.law) == (DRAW, DRAW)


def test_what_such_an_operator_does_with_noise_is_seen() -> None:
    with pytest.raises(OpaqueRandomness, match="cumsum"):
        exact_law(lambda: summed(torch.empty(3).exponential_()))
