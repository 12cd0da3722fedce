"""Large offsets: rows that lie more than 2**31 entries apart are read where they are."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.conformance.museum.mutants.verifiers import Ragged
from draftproof.conformance.protocol.adapter import Program, Request, program_of
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding

Findings = Callable[..., list[Finding]]
Right = Callable[[str], Program]

OFFSETS = "number.offsets"

pytestmark = pytest.mark.requirement("number.offsets")


@triton.jit  # type: ignore[untyped-decorator]  # triton is untyped
def _gather(  # type: ignore[no-untyped-def]
    rows, out, stride, step, length, vocabulary, WIDE: tl.constexpr, V: tl.constexpr
):
    """Copy a row [V] of each position of each request."""
    row, position, token = tl.program_id(0), tl.program_id(1), tl.arange(0, V)
    place = row * length + position
    if WIDE:
        row, position = row.to(tl.int64), position.to(tl.int64)
    inside = token < vocabulary
    own = tl.load(rows + row * stride + position * step + token, mask=inside)
    tl.store(out + place * vocabulary + token, own, mask=inside)


class Gathered(Ragged):
    """Reads the target's rows with a kernel that counts entries in 64 bits, or in 32."""

    name = "gathered"
    wide = True

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, _ = super().rows(request)
        given = request.target_probs[:, 0]
        count, length, vocabulary = given.shape
        out = torch.empty(given.shape)
        sizes = given.stride(0), given.stride(1), length, vocabulary
        width = max(16, triton.next_power_of_2(vocabulary))
        _gather[count, length](given, out, *sizes, self.wide, width)
        return path, q, out


class Narrow(Gathered):
    """Counts entries in 32 bits."""

    name = "narrow"
    wide = False


class Indexed(Ragged):
    """Reads the target's rows by numbers of 32 bits."""

    name = "indexed"

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        rows, _, length, vocabulary = request.target_probs.shape
        stride, _, step, _ = request.target_probs.stride()
        base = request.target_probs.storage_offset()
        entries = torch.empty(0, dtype=p.dtype).set_(request.target_probs.untyped_storage())
        place = torch.arange(rows, dtype=torch.int32)[:, None] * stride
        place = place + torch.arange(length, dtype=torch.int32) * step
        return path, q, entries[place.long()[..., None] + base + torch.arange(vocabulary)]


@pytest.mark.parametrize("name", ["ragged", "torch-block", "transformers"])
def test_what_is_right_passes(findings: Findings, right: Right, name: str) -> None:
    found = [*findings(right(name), OFFSETS)]
    assert {each.verdict for each in found} == {PASS}, [each.detail for each in found]


def test_numbers_of_32_bits_are_found(findings: Findings) -> None:
    found = [*findings(program_of(Indexed()), OFFSETS)]
    assert {each.verdict for each in found} == {FAIL}


def test_a_kernel_that_counts_in_64_bits_passes_and_one_in_32_fails(findings: Findings) -> None:
    rows = "offsets.rows"
    assert [each.verdict for each in findings(program_of(Gathered()), OFFSETS, cases=rows)] == [
        PASS
    ]
    assert [each.verdict for each in findings(program_of(Narrow()), OFFSETS, cases=rows)] == [FAIL]


def test_no_memory_is_needed(findings: Findings, right: Right) -> None:
    """Of 16 TiB that are mapped, a few pages for each row."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert [*findings(right("ragged"), OFFSETS)]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**17
