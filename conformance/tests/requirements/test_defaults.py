"""Sources of randomness: none, one for each row, one for two verifiers, and a fork."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy
import pytest
import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.gates import GATED
from draftproof.conformance.museum.mutants.verifiers import Ragged
from draftproof.conformance.protocol.adapter import Program, Request, Result, program_of
from draftproof.conformance.requirements._defaults import repeated
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding

Findings = Callable[..., list[Finding]]
Right = Callable[[str], Program]

DEFAULT = "random.default"

pytestmark = pytest.mark.requirement("random.default")


@pytest.mark.parametrize("name", ["ragged", "torch-block", "torch-multipath-block", "transformers"])
def test_what_is_right_passes(findings: Findings, right: Right, name: str) -> None:
    found = [*findings(right(name), DEFAULT)]
    assert {"default.fork", "default.copies", "default.shared"} <= {each.case for each in found}
    assert {each.verdict for each in found} == {PASS}, [each.case for each in found]


HIDDEN = [name for name in GATED if name.split("-behind-")[1] in ("generator",)]


@pytest.mark.parametrize("name", HIDDEN)
def test_every_fault_is_found_without_a_generator(findings: Findings, name: str) -> None:
    assert GATED[name].breaks == DEFAULT
    assert FAIL in {
        each.verdict for each in findings(program_of(GATED[name].make()), DEFAULT, "quick")
    }


_STREAM = torch.Generator().manual_seed(1)


class Private(Ragged):
    """Draws from a stream of its own where the caller gives no generator."""

    name = "private"

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        own = request.generator or _STREAM
        return torch.rand(ratio.shape, dtype=ratio.dtype, generator=own)


def test_a_stream_that_a_fork_repeats_is_found(findings: Findings) -> None:
    (found,) = findings(program_of(Private()), DEFAULT, cases="default.fork")
    assert found.verdict == FAIL
    assert found.detail == (
        "a forked process whose generators are seeded otherwise repeats its parent's "
        "accepted lengths"
    )


class Copied(Ragged):
    """Draws from a copy of the request's generator."""

    name = "copied"

    def __init__(self) -> None:
        self.own: torch.Generator | None = None

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        if self.own is None and request.generator is not None:
            self.own = torch.Generator()
            self.own.set_state(request.generator.get_state())
        return torch.rand(ratio.shape, dtype=ratio.dtype, generator=self.own)

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        return torch.multinomial(rows, 1, generator=self.own)[:, 0]


def test_verifiers_that_copy_a_generator_repeat_each_other(findings: Findings) -> None:
    (found,) = findings(program_of(Copied()), DEFAULT, cases="default.copies")
    assert found.verdict == FAIL
    assert found.detail.startswith("two verifiers that draw from one generator in turn repeat")


class Apart(Ragged):
    """Draws for each row from the row's generator."""

    name = "apart"
    generators: ClassVar = True

    def verify(self, request: Request) -> Result:
        self.own = request.generators
        return super().verify(request)

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        if self.own is None:
            return super().coins(ratio, request)
        return torch.stack(
            [
                torch.rand(row.shape, dtype=row.dtype, generator=own)
                for row, own in zip(ratio, self.own, strict=True)
            ]
        )

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        if self.own is None:
            return super().draw(rows, request)
        return torch.cat(
            [
                torch.multinomial(row, 1, generator=own)
                for row, own in zip(rows, self.own, strict=True)
            ]
        )


class First(Apart):
    """Draws for all rows from the generator of the first."""

    name = "first"

    def verify(self, request: Request) -> Result:
        self.own = request.generators and request.generators[:1] * len(request.generators)
        return Ragged.verify(self, request)


class Ignored(Apart):
    """Draws from the global generator instead."""

    name = "ignored"

    def verify(self, request: Request) -> Result:
        self.own = None
        return Ragged.verify(self, request)


def test_a_row_draws_from_its_own_generator(findings: Findings) -> None:
    found = [*findings(program_of(Apart()), DEFAULT, cases="generators")]
    assert {each.case for each in found} == {
        "generators.generic.v3.l2",
        "generators.pair",
        "generators.own",
    }
    assert {each.verdict for each in found} == {PASS}


@pytest.mark.parametrize(
    ("made", "words"), [(First, "the order of the rows"), (Ignored, "the order of the rows")]
)
def test_and_from_no_other(findings: Findings, made: type[Apart], words: str) -> None:
    (found,) = findings(program_of(made()), DEFAULT, cases="generators.own")
    assert found.verdict == FAIL
    assert found.detail.startswith(f"depends on {words}: row ")


def emitted(seed: int) -> numpy.typing.NDArray[numpy.int64]:
    return numpy.random.default_rng(seed).integers(0, 3, (16, 36, 3))


def test_independent_calls_are_no_repetition_and_repeated_ones_are() -> None:
    assert repeated(emitted(0), emitted(1)) == ""
    assert repeated(emitted(0), emitted(0)) == "emissions"
    half = emitted(1)
    half[..., 0] = emitted(0)[..., 0]
    assert repeated(emitted(0), half) in ("emissions", "accepted lengths")
    # What is the same in every call is another fault.
    same = numpy.ones((16, 36, 3), dtype=numpy.int64)
    assert repeated(same, same) == ""
