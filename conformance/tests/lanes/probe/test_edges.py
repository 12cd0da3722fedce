"""Noise at the ends of its range: what is put there, where, and how it combines."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.lanes.probe._edges import Put, attainable, exactly_one, runs_at
from draftproof.conformance.lanes.probe._tape import RowsMixed
from draftproof.reference.chance import NondeterministicProgram

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def runs(
    program: Any, *, rows: int = 1, ends: Any = attainable
) -> list[tuple[Any, tuple[Put, ...]]]:
    return list(runs_at(ends, program, rows=rows, seed=0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ends_are_next_to_what_the_generator_excludes(dtype: torch.dtype) -> None:
    noise = torch.empty(1, dtype=dtype)
    low, high = attainable("uniform", noise)
    assert low == 0
    below_one = torch.nextafter(torch.ones(1).to(dtype), noise.fill_(0.0))
    # Two numbers of a generator lie between neighbours just below 1 in no dtype.
    assert torch.tensor(high, dtype=dtype) == below_one


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_generators_do_return_their_ends(dtype: torch.dtype) -> None:
    """Each end has a probability above 2**-13; of 2**20 draws all miss one with exp(-128)."""
    drawn = torch.rand(2**20, dtype=dtype, generator=torch.Generator().manual_seed(0))
    assert (drawn.min().item(), drawn.max().item()) == attainable("uniform", drawn)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ends_of_clocks_contain_what_is_drawn(dtype: torch.dtype) -> None:
    clocks = torch.empty(2**16, dtype=dtype)
    clocks.exponential_(generator=torch.Generator().manual_seed(0))
    low, high = attainable("exponential", clocks)
    assert low <= clocks.min().item()
    assert clocks.max().item() <= high
    assert low > 0 or dtype is torch.float16


def test_a_tensor_is_as_drawn_or_whole_or_with_one_element_at_an_end() -> None:
    found = [values for (values,), _ in runs(lambda: (torch.rand(2).tolist(),))]
    drawn, high = found[0], 1 - 0.5**24
    assert found == [
        drawn,
        [0, 0],
        [high, high],
        [0, drawn[1]],
        [high, drawn[1]],
        [drawn[0], 0],
        [drawn[0], high],
    ]


def test_all_combine_but_single_elements() -> None:
    def program() -> tuple[Tensor, Tensor]:
        return torch.rand(2), torch.empty(3).exponential_()

    puts = [put for _, put in runs(program)]
    # 3 x 3 wholes, 4 elements of the first with 3 wholes, 3 wholes with 6 elements of the second.
    assert len(puts) == len(set(puts)) == 9 + 12 + 18
    assert max(sum(each.element is not None for each in put) for put in puts) == 1
    assert {each.operator for put in puts for each in put} == {"rand", "exponential_"}


def test_each_row_of_a_batch_has_the_same_elements_at_an_end() -> None:
    found = [values for values, put in runs(lambda: torch.rand(2, 2).tolist(), rows=2)]
    assert len(found) == 7
    drawn = found[0]
    assert found[3] == [[0, drawn[0][1]], [0, drawn[1][1]]]


def test_noise_that_has_not_the_batchs_rows_is_refused_even_if_the_program_catches_all() -> None:
    def program() -> int:
        try:
            torch.rand(3)
        except Exception:
            return 1
        return 0

    with pytest.raises(RowsMixed, match=r"rand draws \[3\] numbers for 2 rows"):
        runs(program, rows=2)


def test_more_than_four_tensors_follow_the_fourth() -> None:
    found = runs(lambda: [torch.rand(()).item() for _ in range(6)])
    assert len(found) == 3**4
    for values, _ in found:
        assert (values[3] in (0, 1 - 0.5**24)) == (values[5] in (0, 1 - 0.5**24))


def test_intervals_and_rates_are_kept() -> None:
    def program() -> tuple[float, float]:
        noise = torch.empty(1)
        return noise.uniform_(2, 3).item(), noise.exponential_(2.0).item()

    uniforms = {values[0] for values, put in runs(program) if put}
    clocks = {values[1] for values, put in runs(program) if len(put) == 2}
    assert {2.0, torch.nextafter(torch.tensor(3.0), torch.tensor(2.0)).item()} <= uniforms
    assert max(uniforms) < 3
    tiny = torch.finfo(torch.float32).smallest_normal
    assert min(clocks) == tiny / 2


def test_one_is_for_uniform_numbers_only() -> None:
    def program() -> tuple[float, float]:
        return torch.rand(()).item(), torch.empty(()).exponential_().item()

    found = runs(program, ends=exactly_one)
    assert [values[0] == 1 for values, _ in found] == [False, True]
    assert found[0][0][1] == found[1][0][1]
    assert str(found[1][1][0]) == "rand gives 1"


def test_other_draws_run_as_they_are() -> None:
    found = runs(lambda: torch.multinomial(torch.tensor([0.5, 0.5]), 1).tolist())
    assert len(found) == 1


def test_what_changes_from_run_to_run_is_refused() -> None:
    sizes = iter(range(1, 9))
    with pytest.raises(NondeterministicProgram):
        runs(lambda: torch.rand(next(sizes)).tolist())
