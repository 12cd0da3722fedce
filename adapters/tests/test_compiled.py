"""What verifiers cost a GPU that need not be there: a planted fault of each kind is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from benchmarks import compiled
from benchmarks.ceilings import (
    COMPILED_TODAY,
    LEAN,
    MOST_LAUNCHES,
    MOST_READS,
    code_excesses,
    figures,
    kernel_excesses,
    launch_excesses,
    read_excesses,
)
from benchmarks.compiled import EVERY, CompiledKernel, Uncompiled, apart, read
from benchmarks.inputs import Size
from benchmarks.launches import launches
from benchmarks.machine_code import MachineCode
from benchmarks.traffic import Traffic, drafted, reads, traffic
from benchmarks.unfilled import DRAFTING, Shape, call

from draftproof.adapters.fast import KERNELS, TEXTS

WAYS = [True, False]
"""Whether rows are logits."""


# --- kernels -----------------------------------------------------------------------------


@cache
def planted() -> dict[str, CompiledKernel]:
    """Return the kernels of `planted.py` by the fault that is in them."""
    found = apart(str(Path(__file__).parent / "planted.py"))
    return {row["fault"]: read(row["kernel"]) for row in found}


def test_a_lean_kernel_exceeds_nothing() -> None:
    lean = planted()["none"]
    assert [*kernel_excesses(lean, torch.float32)] == []
    assert lean.code is not None
    (sweep,) = lean.code.sweeps
    # 4096 numbers of 4 bytes for 128 threads.
    assert (sweep.wide_loads, sweep.narrow_loads, sweep.doubles) == (8, 0, 0)
    assert lean.code.instructions > sweep.instructions > 0


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("constants", "32 narrow loads in a sweep, at most 10"),
        ("double", "instructions of float64 in a loop over V"),
        ("spill", "spills: "),
        ("unaligned", "a sweep without loads of 128 bits"),
    ],
)
def test_a_fault_of_a_kernel_is_told(fault: str, told: str) -> None:
    assert any(told in excess for excess in code_excesses(planted()[fault], 10)), planted()[fault]


def test_the_figures_of_a_name_are_the_most_of_its_kernels() -> None:
    found = figures([planted()["none"], planted()["double"], planted()["constants"]])
    assert [*found] == ["stats"]
    assert (found["stats"].registers, found["stats"].narrow_loads) == (80, 32)
    assert found["stats"].swept_doubles == 64


def test_a_kernel_has_a_step_and_keeps_to_its_registers_and_instructions() -> None:
    lean = planted()["none"]
    unknown = replace(lean, kernel="sort")
    assert [*kernel_excesses(unknown, torch.float32)] == [
        "is of no step of the pipeline: stats, decide, masses, finish"
    ]
    assert lean.code is not None
    fat = replace(lean, code=replace(lean.code, registers=49))
    assert "49 registers, at most 48" in kernel_excesses(fat, torch.float32)
    # A number of bfloat16 is half as wide: as many loads are twice the numbers.
    (body, sweep), rest = lean.code.regions[:2], lean.code.regions[2:]
    long = replace(
        lean.code,
        regions=(replace(body, instructions=800), replace(sweep, wide_loads=16), *rest),
    )
    fat, count = replace(lean, code=long), long.instructions
    assert f"{count} instructions for 64 numbers, at most 736" in kernel_excesses(
        fat, torch.float32
    )
    assert [*kernel_excesses(fat, torch.bfloat16)] == []


def test_as_many_programs_as_registers_and_threads_are_there_for() -> None:
    code = MachineCode(registers=64, stack=0, spill_stores=0, spill_loads=0, regions=())
    kernel = replace(planted()["none"], code=code, warps=4)
    assert kernel.programs == 8
    assert replace(kernel, warps=1).programs == 32
    assert replace(kernel, code=replace(code, registers=33)).programs == 12
    assert replace(kernel, code=None).programs == 0


def test_what_is_no_kernel_is_told() -> None:
    with pytest.raises(Uncompiled, match="'nothing' is not one of"):
        apart(compiled.__file__, "nothing")
    with pytest.raises(Uncompiled, match="'sm_90:5' is no TARGET:V:DTYPE:WAY"):
        apart(compiled.__file__, "--at", "sm_90:5", "token")


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", [*KERNELS, DRAFTING])
def test_kernels_are_what_they_are_stated_to_be(name: str) -> None:
    """Lean ones at all that engines serve; the others, which take minutes, at one place."""
    at = ["--all"] if name in LEAN else []
    found = apart(compiled.__file__, *at, "--json", name)
    kernels = [(read(row["kernel"]), getattr(torch, row["dtype"])) for row in found]
    excesses = {
        f"{kernel.kernel} for {kernel.target}, {dtype}": [*kernel_excesses(kernel, dtype)]
        for kernel, dtype in kernels
    }
    if name in LEAN:
        assert {kernel.target for kernel, _ in kernels} == {place.target for place in EVERY}
        assert not any(excesses.values()), excesses
        return
    assert any(excesses.values()), f"{name} may be of LEAN"
    own = [kernel for kernel, _ in kernels]
    assert not any("spills" in told for each in excesses.values() for told in each), excesses
    if name in COMPILED_TODAY:
        assert figures(own) == COMPILED_TODAY[name]


# --- launches ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_a_call_launches_what_is_stated_and_never_waits(name: str) -> None:
    shapes = [Shape(vocabulary=128_256, logits=logits) for logits in WAYS]
    found = [launches(call(name, shape)) for shape in shapes]
    assert all(each.waits is None for each in found)
    assert [excess for each in found for excess in launch_excesses(each)] == []


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if not text.waits])
def test_the_torch_form_never_waits_either(name: str) -> None:
    assert launches(call(name, Shape(vocabulary=128_256, length=2), form="torch")).waits is None


GIVEN = torch.empty(4, 4, device="meta")


@torch.library.custom_op("planted::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    """Launch three operators in one."""
    return (x + 1).cumsum(-1).mul(2)


@thrice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize(
    ("run", "count"),
    [
        (lambda: GIVEN + 1, 1),
        (lambda: torch.empty_like(GIVEN).view(2, 8)[0].expand(3, 8), 0),
        (lambda: torch.zeros_like(GIVEN), 1),
        (lambda: GIVEN[0].fill_(1), 1),
        (lambda: GIVEN.__setitem__(0, 1.0), 1),
        # The number becomes a tensor of the GPU first.
        (lambda: torch.where(GIVEN > 0, GIVEN, 1.0), 3),
        (lambda: torch.ones(3) + 1, 0),
        (lambda: thrice(GIVEN), 3),
    ],
)
def test_an_operator_more_is_counted(run: Callable[[], object], count: int) -> None:
    found = launches(run)
    assert (found.count, found.waits) == (count, None), found


@pytest.mark.parametrize(
    ("run", "operator"),
    [
        (lambda: GIVEN[0, 0].item(), "_local_scalar_dense"),
        (lambda: bool((GIVEN > 0).any()), "_local_scalar_dense"),
        (lambda: GIVEN.nonzero(), "nonzero"),
        (lambda: GIVEN[GIVEN > 0], "index"),
        (lambda: GIVEN.__setitem__(GIVEN > 0, 1.0), "index_put_"),
        (lambda: torch.masked_select(GIVEN, GIVEN > 0), "masked_select"),
        (lambda: torch.unique(GIVEN), "_unique2"),
        (lambda: torch.repeat_interleave(GIVEN.long()[0]), "repeat_interleave"),
        (lambda: torch.equal(GIVEN, GIVEN), "equal"),
        (lambda: GIVEN.cpu(), "_to_copy"),
        (lambda: torch.ones(3).to("meta"), "_to_copy"),
        (lambda: GIVEN.copy_(torch.ones(4, 4)), "copy_"),
        (lambda: torch.tensor([1, 2], device="meta"), "tensor"),
    ],
)
def test_a_wait_is_told_with_its_place(run: Callable[[], object], operator: str) -> None:
    waits = launches(run).waits
    assert waits is not None
    assert waits.startswith(f"{operator} in {__file__}:")


def test_a_launch_more_and_a_wait_exceed_the_goal() -> None:
    most = launches(lambda: [GIVEN + 1 for _ in range(MOST_LAUNCHES)])
    assert [*launch_excesses(most)] == []
    more = replace(most, kernels=("stats",))
    assert [*launch_excesses(more)] == ["6 operators and 1 kernels, at most 6 together"]
    assert [*launch_excesses(replace(most, waits="item in a.py:1"))] == [
        "waits for the device: item in a.py:1"
    ]


# --- reads -------------------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]  # Triton types kernels when it compiles them
def added(  # type: ignore[no-untyped-def]
    rows, sums, vocabulary, stride, TIMES: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    row, token = tl.program_id(0), tl.arange(0, TILE)
    total = 0.0
    for _ in range(TIMES):
        x = tl.load(rows + row * stride + token, mask=token < vocabulary, other=0.0)
        total += tl.sum(x.to(tl.float32), 0)
    tl.store(sums + row, total + tl.load(sums + row))


@pytest.mark.parametrize("times", [1, 2])
def test_every_number_that_is_loaded_is_counted_for_its_row(times: int) -> None:
    rows, sums = torch.ones(2, 3, 10, dtype=torch.bfloat16), torch.zeros(6)
    with reads([rows[:1], rows[1:]]) as (first, second):
        added[(5,)](rows, sums, 10, 10, times, 16)
    assert first.tolist() == [10 * times] * 3
    assert second.tolist() == [10 * times, 10 * times, 0]
    assert sums.tolist() == [10 * times] * 5 + [0]


def test_rows_that_lie_apart_are_not_counted() -> None:
    with pytest.raises(ValueError, match="one after another"), reads([torch.ones(4, 6)[:, :3]]):
        pass


def test_a_verifier_reads_no_less_than_what_it_must() -> None:
    """Of token verification: two rows of each request, and of logits all of them before."""
    size = Size(requests=3, length=2, vocabulary=50)
    found = {
        logits: traffic(
            "token",
            drafted(size, 1, seed=0, logits=logits, dtype=torch.float32),
            logits=logits,
        )
        for logits in WAYS
    }
    assert found[True].worst >= found[True].mean > 1
    assert found[True].mean - found[False].mean == pytest.approx(1)
    assert min(found[False].by_request) > 1 / 5


@pytest.mark.parametrize("logits", WAYS)
def test_paths_share_the_rows_of_what_they_have_in_common(logits: bool) -> None:
    given = drafted(Size(2, 3, 4), 4, seed=0, logits=logits, dtype=torch.float32)
    paths = range(4)
    for request in range(2):
        for one, other in ((i, k) for k in paths for i in range(k)):
            tokens = given.draft_tokens[request, [one, other]]
            for depth in range(4):
                if (tokens[0, :depth] == tokens[1, :depth]).all():
                    p = given.target_probs[request, [one, other], depth]
                    assert torch.equal(p[0], p[1])
                    if depth < 3:
                        q = given.draft_probs[request, [one, other], depth]
                        assert torch.equal(q[0], q[1])


def test_a_verifier_that_reads_more_exceeds_its_goal() -> None:
    assert [*read_excesses("block", Traffic((1.0, 1.7)), logits=True)] == []
    assert [*read_excesses("block", Traffic((1.1, 1.7)), logits=True)] == [
        "the rows are read 1.400 times on average, at most 1.35"
    ]
    assert [*read_excesses("k_seq", Traffic((9.0,)), logits=True)] == []


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("name", "logits"), MOST_READS)
def test_verifiers_read_what_they_are_stated_to_read(name: str, logits: bool) -> None:
    """With the benchmark's rows, drafts and noise of seed 0."""
    size, drafts = Size(16, 5, 32_000), min(4, TEXTS[name].most_drafts)
    given = drafted(size, drafts, seed=0, logits=logits, dtype=torch.float32)
    assert [*read_excesses(name, traffic(name, given, logits=logits), logits=logits)] == []


# --- the table ---------------------------------------------------------------------------


def test_what_has_figures_is_not_lean() -> None:
    assert {*KERNELS} >= LEAN
    assert {*COMPILED_TODAY} <= {*KERNELS, DRAFTING} - LEAN
