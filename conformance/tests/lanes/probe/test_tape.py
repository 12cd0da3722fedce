"""What a program is fed is what torch's generator could have given it, in rising order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, tensor

from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.lanes.probe import _tape
from draftproof.conformance.lanes.probe._tape import NOWHERE, Playback, Point, RowsMixed, Tape

LAST = {torch.float32: 1 - 2.0**-24, torch.float64: 1 - 2.0**-53}
WEIGHTS = tensor([0.125, 0.0, 0.25, 0.625])


def played(program: Callable[[], Any], *points: Sequence[int]) -> Any:
    """Return what the program returns with its rows at these points."""
    tape = Tape(vocabulary=4)
    playback = Playback(tape, [numpy.array(point, dtype=numpy.int64) for point in points])
    with playback:
        result = program()
    playback.finish()
    return result


def drawn(program: Callable[[], Tensor]) -> Tape:
    """Return the tape of one run of the program."""
    tape = Tape(vocabulary=4)
    playback = Playback(tape, [NOWHERE])
    with playback:
        program()
    playback.finish()
    return tape


@pytest.mark.parametrize("dtype", LAST)
def test_uniform_numbers_are_those_of_torch(dtype: torch.dtype) -> None:
    def draw() -> Tensor:
        return torch.rand(3, dtype=dtype)

    numbers = int(drawn(draw).numbers[0])
    assert played(draw, [0, 1, numbers - 1]).tolist() == [0, 1 / numbers, LAST[dtype]]
    scaled = draw().double() * numbers
    assert torch.equal(scaled, scaled.round())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_uniform_numbers_have_the_law_of_rounded_ones(dtype: torch.dtype) -> None:
    """Torch rounds, and 1 becomes 0: every number comes as often, if in another order."""
    indices = numpy.arange(2**24)
    fed = _tape._narrow(indices, dtype, "rand")
    rounded = torch.from_numpy(indices * 0.5**24).float().to(dtype)
    ones = int((rounded == 1).sum())
    zeros = torch.zeros(ones, dtype=dtype)
    assert ones == 2 ** (23 - {torch.float16: 11, torch.bfloat16: 8}[dtype])
    assert torch.equal(fed, torch.cat([zeros, rounded[:-ones]]))


def test_clocks_rise_and_have_the_exponential_law() -> None:
    middle = 2**52
    indices = numpy.array([0, 1, 2**30, middle - 2, middle, middle + 2, 2**53 - 2, 2**53 - 1])
    times = _tape.clock(indices)
    assert (numpy.diff(times) > 0).all()
    assert times[0] == pytest.approx(2.0**-54, rel=1e-12)
    assert times[4] == pytest.approx(numpy.log(2), rel=1e-12)
    assert times[-1] == pytest.approx(54 * numpy.log(2), rel=1e-12)


def test_an_exponential_number_is_scaled_by_its_rate() -> None:
    median = [2**52]
    assert played(lambda: torch.empty(1).exponential_(2.0), median).tolist() == [
        pytest.approx(numpy.log(2) / 2, rel=1e-6)
    ]


def test_uniform_numbers_fill_an_interval() -> None:
    assert played(lambda: torch.empty(2).uniform_(-1, 3), [0, 2**22]).tolist() == [-1, 0]


DRAWS: dict[str, tuple[Callable[[], Tensor], dict[float, int]]] = {
    "multinomial": (
        lambda: torch.multinomial(WEIGHTS, 1),
        {0.0: 0, 0.124: 0, 0.125: 2, 0.374: 2, 0.375: 3, 0.999: 3},
    ),
    "multinomial, not normalised": (
        lambda: torch.multinomial(WEIGHTS[None] * 16, 1)[0],
        {0.0: 0, 0.125: 2, 0.999: 3},
    ),
    "bernoulli": (lambda: torch.bernoulli(WEIGHTS[2:3]), {0.0: 1, 0.249: 1, 0.25: 0}),
    "bernoulli in place": (lambda: torch.empty(1).bernoulli_(0.25), {0.0: 1, 0.249: 1, 0.25: 0}),
    "bernoulli by a tensor": (lambda: torch.ones(1).bernoulli_(WEIGHTS[2:3]), {0.249: 1, 0.25: 0}),
    "never": (lambda: torch.bernoulli(torch.zeros(1)), {0.0: 0}),
    "always": (lambda: torch.bernoulli(torch.ones(1)), {1 - 2.0**-53: 1}),
}


@pytest.mark.parametrize("name", DRAWS)
def test_discrete_draws_turn_at_their_weights(name: str) -> None:
    draw, expected = DRAWS[name]
    found = {share: int(played(draw, [int(share * 2**53)])) for share in expected}
    assert found == expected


def test_draws_without_replacement_take_what_is_left() -> None:
    def draw() -> Tensor:
        return torch.multinomial(WEIGHTS, 3)

    assert played(draw, [0, 0, 0]).tolist() == [0, 2, 3]
    assert played(draw, [2**53 - 1] * 3).tolist() == [3, 2, 0]
    assert played(lambda: torch.multinomial(WEIGHTS, 2, replacement=True), [0, 0]).tolist() == [
        0,
        0,
    ]


INTEGERS: dict[str, tuple[Callable[[], Tensor], int, list[int]]] = {
    "randint": (lambda: torch.randint(3, (1,)), 3, [0, 1, 2]),
    "randint, low": (lambda: torch.randint(2, 4, (1,)), 2, [2, 3]),
    "randint_like": (lambda: torch.randint_like(torch.zeros(1), 2), 2, [0, 1]),
    "random_": (lambda: torch.zeros(1, dtype=torch.int64).random_(5, 7), 2, [5, 6]),
    "random_, to": (lambda: torch.zeros(1).random_(2), 2, [0, 1]),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_their_own_grid(name: str) -> None:
    draw, count, values = INTEGERS[name]
    assert drawn(draw).numbers.tolist() == [count]
    assert [int(played(draw, [index])) for index in range(count)] == values


def test_integers_of_a_whole_type_have_its_range() -> None:
    assert drawn(lambda: torch.empty(1).random_()).numbers.tolist() == [2**24 + 1]
    assert drawn(lambda: torch.empty(1, dtype=torch.uint8).random_()).numbers.tolist() == [256]
    with pytest.raises(OpaqueRandomness, match="from a range that is too wide to be fed"):
        drawn(lambda: torch.empty(1, dtype=torch.int64).random_())


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.multinomial(tensor([-1.0, 2.0]), 1),
        lambda: torch.multinomial(tensor([0.0, 0.0]), 1),
        lambda: torch.multinomial(tensor([torch.nan, 1.0]), 1),
        lambda: torch.multinomial(tensor([1.0, 0.0]), 3),
        lambda: torch.bernoulli(tensor([1.5])),
        lambda: torch.empty(1).bernoulli_(-0.5),
        lambda: torch.empty(1).exponential_(-1.0),
        lambda: torch.empty(1).uniform_(3, 2),
    ],
)
def test_what_torch_refuses_is_refused_in_its_words(draw: Callable[[], Tensor]) -> None:
    with torch.random.fork_rng(), pytest.raises(RuntimeError) as torchs:
        draw()
    with pytest.raises(RuntimeError) as ours:
        played(draw, [0, 0, 0])
    assert str(ours.value) == str(torchs.value)


@pytest.mark.parametrize(
    ("draw", "operator"),
    [
        (lambda: torch.randn(2), "aten.randn"),
        (lambda: torch.randperm(2), "aten.randperm"),
        (lambda: torch.normal(tensor([0.0])), "aten.normal"),
        (lambda: torch.poisson(tensor([1.0])), "aten.poisson"),
    ],
)
def test_what_cannot_be_fed_is_named_with_its_line(
    draw: Callable[[], Tensor], operator: str
) -> None:
    with pytest.raises(OpaqueRandomness, match="of a kind that cannot be fed") as refusal:
        drawn(draw)
    assert refusal.value.operator.startswith(operator)
    assert "test_tape.py" in refusal.value.source


def test_a_program_cannot_catch_a_refusal() -> None:
    def program() -> None:
        try:
            torch.randn(1)
        except RuntimeError:
            return

    with pytest.raises(OpaqueRandomness):
        played(program, [])


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(1),
        lambda: torch.rand_like(WEIGHTS[:1]),
        lambda: torch.rand(1, generator=torch.Generator()),
        lambda: torch.empty(1).uniform_(),
        lambda: torch.rand(1, out=torch.empty(0)),
        lambda: torch.distributions.Uniform(0.0, 1.0).sample((1,)),
        lambda: torch.inference_mode()(torch.rand)(1),
    ],
)
def test_every_way_to_draw_is_fed_and_leaves_torchs_generator_alone(
    draw: Callable[[], Tensor],
) -> None:
    before = torch.get_rng_state()
    assert played(draw, [2**22]).tolist() == [0.25]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_row_has_its_own_chunk_of_every_draw() -> None:
    def program() -> tuple[Tensor, Tensor]:
        return torch.rand(2, 2), torch.randint(100, (2,))

    coins, integers = played(program, [2**21, 2**22, 7], [2**23, 0, 9])
    assert coins.tolist() == [[0.125, 0.25], [0.5, 0]]
    assert integers.tolist() == [7, 9]


@pytest.mark.parametrize("draw", [lambda: torch.rand(3), lambda: torch.rand(())])
def test_a_draw_that_does_not_grow_with_the_rows_is_noticed(draw: Callable[[], Tensor]) -> None:
    with pytest.raises(RowsMixed, match="numbers for 2 rows"):
        played(draw, [0], [0])


def test_a_sealed_tape_takes_no_other_draws() -> None:
    tape = drawn(lambda: torch.rand(2))
    tape.is_sealed = True
    points = [NOWHERE, NOWHERE]
    with pytest.raises(RowsMixed, match="unlike before"), Playback(tape, points):
        torch.rand(2)
    none = Playback(tape, points)
    with none:
        pass
    with pytest.raises(RowsMixed, match="0 random operators ran, 1 before"):
        none.finish()


def test_a_point_made_too_early_holds_what_was_fed_instead() -> None:
    tape = Tape(vocabulary=4)
    with Playback(tape, [NOWHERE]):
        fed = torch.rand(3)
    later: Point = tape.padded(NOWHERE)
    assert (fed.double() * 2**24).tolist() == later.tolist()
    with Playback(tape, [later]):
        assert torch.equal(torch.rand(3), fed)


def test_only_continuous_rows_of_the_vocabulary_may_race() -> None:
    def raced(draw: Callable[[], Tensor]) -> bool:
        return drawn(draw).owners[0].raced

    assert raced(lambda: torch.rand(1, 4))
    assert raced(lambda: torch.empty(2, 4).exponential_())
    assert not raced(lambda: torch.rand(4, 1))
    assert not raced(lambda: torch.rand(3))
    assert not raced(lambda: torch.bernoulli(WEIGHTS))


def test_generators_that_a_program_makes_anew_in_each_call_are_refused() -> None:
    lasting, tape = torch.Generator(), Tape(vocabulary=4)

    def call(made: Callable[[], torch.Generator]) -> None:
        playback = Playback(tape, [NOWHERE])
        with playback:
            torch.rand(1, generator=made())
        playback.finish()

    for _ in range(100):
        call(lambda: lasting)
    for seed in range(7):
        call(partial(torch.Generator().manual_seed, seed))
    with pytest.raises(OpaqueRandomness, match="generators that the program makes"):
        call(partial(torch.Generator().manual_seed, 7))
