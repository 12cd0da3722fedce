"""Noise that a program is fed: torch's random operators, answered from a tape.

A program's random numbers are *columns*, in the order in which it draws them. A *point* has an
index for every column: index k is the k-th of the grid of numbers that the generator can give, all
of which are equally likely. The number rises with its index, so a comparison with a threshold flips
at one index, which is an exact probability.

* `rand`, `uniform_`: the generator's own grid, 2**24 numbers in float32 and 2**53 in float64,
  including 0 but not 1. A half or bfloat16 number is a rounded float32 number, with 0 for 1.
* `exponential_`: -log(1 - U), U in the middles of 2**53 cells, rounded to the tensor's type.
* `bernoulli`, `multinomial`: the inverse of the distribution function at one of 2**53 numbers.
* `randint`, `random_`: the integers themselves.

Each row of a batch has its own chunk: every random tensor must have the rows in its leading
dimension, and a row's chunk is then what the row alone would draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from draftproof.conformance.lanes._drawn import DIGITS, drawn, rounds_uniforms
from draftproof.conformance.lanes._signature import bound, name_of
from draftproof.conformance.lanes._streams import SEEDS, is_among
from draftproof.conformance.lanes.opaque import OpaqueRandomness, program_line

Point: TypeAlias = NDArray[numpy.int64]
"""[D]: an index for each column of the tape that was known when the point was made."""

NOWHERE: Point = numpy.zeros(0, dtype=numpy.int64)
"""Point without columns, which chooses no number."""

# Indices are int64.
_MOST_NUMBERS = 2**62

# A program may have brought a few generators; one that makes them has more after as many calls.
_MOST_GENERATORS = 8

# Points made before a column was known hold, in it, what the program was given instead.
_BASE_SEED = 0


class RowsMixed(Exception):
    """Error of a batch that does not draw for every row the numbers that the row draws alone."""


@dataclass(frozen=True, eq=False)
class RandomTensor:
    """Columns [first, first + width) of one random tensor, for one row.

    `law` is "uniform", "exponential" or "discrete", `numbers` the size of the grid. A `raced` block
    may consist of clocks: its last dimension is the vocabulary.
    """

    call: int
    law: str
    dtype: torch.dtype
    first: int
    width: int
    numbers: int
    raced: bool
    operator: str
    source: str


class Tape:
    """Columns of a program's noise, in the order in which they were first drawn.

    It takes any generator, or, with `refuse_own`, no more than a few that are not the request's.
    """

    def __init__(self, vocabulary: int, *, refuse_own: bool = True) -> None:
        self.vocabulary = vocabulary
        self._refuse_own = refuse_own
        self._blocks: dict[object, RandomTensor] = {}
        self._random = numpy.random.default_rng(_BASE_SEED)
        self._base = NOWHERE
        self.owners: list[RandomTensor] = []
        self.numbers = NOWHERE
        self.is_sealed = False
        self.calls = 0
        self._foreign: list[torch.Generator] = []

    @property
    def form(self) -> list[tuple[object, ...]]:
        """Return the properties that programs with the same noise share; omit source lines."""
        return [
            (b.call, b.law, b.dtype, b.first, b.width, b.numbers, b.raced)
            for b in dict.fromkeys(self.owners)
        ]

    def meet(self, generator: torch.Generator | None, operator: str) -> None:
        """Note the generator of a draw. Raises `OpaqueRandomness` if every call has a new one.

        The program then makes its generators and may seed them, so that its draws are not random.
        """
        if generator is None or generator.initial_seed() in SEEDS or not self._refuse_own:
            return
        if not is_among(generator, self._foreign):
            self._foreign.append(generator)
        if len(self._foreign) > _MOST_GENERATORS:
            reason = "draws from generators that the program makes, which decides what they draw"
            raise OpaqueRandomness(operator, reason, program_line())

    def padded(self, point: Point) -> Point:
        """Return the point, extended by the indices fed for columns unknown when it was made."""
        return numpy.concatenate([point, self._base[len(point) :]])

    def block(
        self, call: int, law: str, numbers: int, shape: Sequence[int], out: Tensor, operator: str
    ) -> RandomTensor:
        """Return the block of a random tensor whose part for one row has this shape.

        Raises `RowsMixed` for a new block if the tape is sealed.
        """
        key = (call, law, numbers, out.dtype, tuple(shape))
        if key not in self._blocks:
            if self.is_sealed:
                raise RowsMixed(f"{operator} draws {list(shape)} numbers a row, unlike before")
            vocabulary = self.vocabulary
            block = RandomTensor(
                call=call,
                law=law,
                dtype=out.dtype,
                first=len(self.owners),
                width=prod(shape),
                numbers=numbers,
                raced=law != "discrete" and vocabulary > 1 and tuple(shape[-1:]) == (vocabulary,),
                operator=operator,
                source=program_line(),
            )
            base = self._random.integers(0, numbers, block.width)
            self._base = numpy.concatenate([self._base, base])
            self.numbers = numpy.concatenate([self.numbers, numpy.full(block.width, numbers)])
            self.owners += [block] * block.width
            self._blocks[key] = block
        return self._blocks[key]


class Playback(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch is
    """Mode that answers the random operators of one run of a program from a point per row."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Dynamo would otherwise be imported, for a second, to be told to keep out of here.
        return False

    def __init__(self, tape: Tape, points: Sequence[Point]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch is
        self._tape = tape
        self._rows = len(points)
        self._points = numpy.stack([tape.padded(point) for point in points])
        self.drawn: list[RandomTensor] = []
        self._refused: Exception | None = None

    def finish(self) -> None:
        """Raise the error raised within the program, which may have caught it.

        Raises `RowsMixed` if the run drew more or fewer tensors than earlier runs.
        """
        if self._refused is not None:
            raise self._refused
        if self._tape.is_sealed and len(self.drawn) != self._tape.calls:
            raise RowsMixed(f"{len(self.drawn)} random operators ran, {self._tape.calls} before")
        self._tape.calls = len(self.drawn)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, OpOverload) and torch.Tag.nondeterministic_seeded in func.tags:
            if torch._C._dispatch_has_kernel_for_dispatch_key(
                func.name(),  # type: ignore[no-untyped-call]  # torch is untyped
                "CompositeImplicitAutograd",
            ):
                with self:
                    return func.decompose(*args, **kwargs)
            try:
                return self._fed(func, args, kwargs)
            except (OpaqueRandomness, RowsMixed) as refused:
                self._refused = self._refused or refused
                raise
        return func(*args, **kwargs)

    def _fed(self, func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Tensor:
        feed = _FED.get(name_of(func))
        if feed is None:
            reason = "draws random numbers of a kind that cannot be fed"
            raise OpaqueRandomness(str(func), reason, program_line())
        given = bound(func, args, kwargs)
        self._tape.meet(given.get("generator"), str(func))
        out = drawn(func, args, kwargs)
        values = feed(self, str(func), out, given)
        out.copy_(values.reshape(out.shape))
        return out

    def _drawn(self, operator: str, law: str, numbers: int, out: Tensor) -> NDArray[numpy.int64]:
        """Return the indices of the next random tensor's elements, in row-major order."""
        if numbers > _MOST_NUMBERS:
            reason = "draws integers from a range that is too wide to be fed"
            raise OpaqueRandomness(operator, reason, program_line())
        shape = list(out.shape)
        if self._rows > 1:
            if not shape or shape[0] % self._rows:
                raise RowsMixed(f"{operator} draws {shape} numbers for {self._rows} rows")
            shape[0] //= self._rows
        block = self._tape.block(len(self.drawn), law, numbers, shape, out, operator)
        self.drawn.append(block)
        if len(self._tape.owners) > self._points.shape[1]:
            self._points = numpy.stack([self._tape.padded(point) for point in self._points])
        return self._points[:, block.first : block.first + block.width].reshape(-1)

    def _uniform(self, operator: str, out: Tensor, given: dict[str, Any]) -> Tensor:
        digits = 53 if out.dtype is torch.float64 else 24
        if not out.dtype.is_floating_point:
            raise OpaqueRandomness(operator, "draws noise that is not real", program_line())
        indices = self._drawn(operator, "uniform", 2**digits, out)
        if out.dtype in DIGITS:
            unit = _narrow(indices, out.dtype, operator)
        else:
            unit = torch.from_numpy(indices * 0.5**digits).to(out.dtype)
        low, high = float(given.get("from", 0.0)), float(given.get("to", 1.0))
        return unit if (low, high) == (0, 1) else unit * (high - low) + low

    def _exponential(self, operator: str, out: Tensor, given: dict[str, Any]) -> Tensor:
        indices = self._drawn(operator, "exponential", 2**53, out)
        return torch.from_numpy(clock(indices) / float(given["lambd"])).to(out.dtype)

    def _bernoulli(self, operator: str, out: Tensor, given: dict[str, Any]) -> Tensor:
        chances = torch.as_tensor(given.get("p", given["self"]), dtype=torch.float64)
        marks = self._drawn(operator, "discrete", 2**53, out) * 0.5**53
        return torch.from_numpy(marks).reshape(out.shape) < chances.cpu()

    def _multinomial(self, operator: str, out: Tensor, given: dict[str, Any]) -> Tensor:
        weights: Tensor = given["self"].detach().double().cpu()
        rows = weights.reshape(-1, weights.shape[-1]).clone()
        marks = torch.from_numpy(self._drawn(operator, "discrete", 2**53, out) * 0.5**53)
        picks = torch.empty(out.shape, dtype=torch.int64).reshape(len(rows), -1)
        for place, mark in enumerate(marks.reshape(len(rows), -1).unbind(1)):
            sums = rows.cumsum(-1)
            sums /= sums[:, -1:].clone()
            picks[:, place] = torch.searchsorted(sums, mark[:, None], right=True)[:, 0]
            if not given["replacement"]:
                rows.scatter_(1, picks[:, place : place + 1], 0.0)
        return picks

    def _integer(self, operator: str, out: Tensor, given: dict[str, Any]) -> Tensor:
        low = given.get("low", 0)
        indices = self._drawn(operator, "discrete", given["high"] - low, out)
        return torch.from_numpy(low + indices)

    def _any_number(self, operator: str, out: Tensor, given: dict[str, Any]) -> Tensor:
        low, high = given.get("from", 0), given.get("to")
        if high is None:
            # As torch says: floats keep to the integers that they can represent.
            top = 2 / torch.finfo(out.dtype).eps if out.is_floating_point() else None
            high = 1 + (torch.iinfo(out.dtype).max if top is None else int(top))
        indices = self._drawn(operator, "discrete", high - low, out)
        return torch.from_numpy(low + indices)


class Shallow:
    """Mode that answers the random functions of torch that one run of a program itself calls.

    It does not see draws within operators, so it serves only programs whose results are not
    trusted.
    """

    def __init__(self, tape: Tape, points: Sequence[Point]) -> None:
        self._playback = Playback(tape, points)
        self._mode = _Calls(self._playback)

    def __enter__(self) -> Shallow:
        self._mode.__enter__()  # type: ignore[no-untyped-call]  # torch is
        return self

    def __exit__(self, *raised: Any) -> None:
        self._mode.__exit__(*raised)  # type: ignore[no-untyped-call]  # torch is

    @property
    def drawn(self) -> list[RandomTensor]:
        """The blocks that were drawn."""
        return self._playback.drawn

    def finish(self) -> None:
        """Raise the error raised within the program, which may have caught it."""
        self._playback.finish()


class _Calls(TorchFunctionMode):
    def __init__(self, playback: Playback) -> None:
        super().__init__()
        self._playback = playback

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not _is_fed(func):
            return func(*args, **(kwargs or {}))
        with self._playback:
            return func(*args, **(kwargs or {}))


_FED: dict[str, Callable[[Playback, str, Tensor, dict[str, Any]], Tensor]] = {
    "bernoulli": Playback._bernoulli,
    "exponential": Playback._exponential,
    "multinomial": Playback._multinomial,
    "rand": Playback._uniform,
    "rand_like": Playback._uniform,
    "randint": Playback._integer,
    "randint_like": Playback._integer,
    "random": Playback._any_number,
    "uniform": Playback._uniform,
}


@cache
def _is_fed(func: Callable[..., Any]) -> bool:
    return getattr(func, "__name__", "").rstrip("_") in _FED


def clock(indices: NDArray[numpy.int64]) -> NDArray[numpy.float64]:
    """Return exponential clocks: -log(1 - U) at U = (index + 1/2) / 2**53."""
    below = numpy.minimum(indices, 2**52) + 0.5
    above = numpy.minimum(2**53 - indices, 2**52) - 0.5
    early: NDArray[numpy.float64] = -numpy.log1p(-below * 0.5**53)
    late: NDArray[numpy.float64] = -numpy.log(above * 0.5**53)
    return numpy.where(indices < 2**52, early, late)


def _narrow(indices: NDArray[numpy.int64], dtype: torch.dtype, operator: str) -> Tensor:
    """Return narrow uniform numbers in rising order: rounded float32 numbers, 0 for 1."""
    if not rounds_uniforms(dtype):
        reason = "draws narrow noise, whose law in this release of torch is not known"
        raise OpaqueRandomness(operator, reason, program_line())
    digits = DIGITS[dtype]
    wide = torch.arange(2**24 - 2 ** (24 - digits), 2**24) * 0.5**24
    to_zero = int((wide.to(dtype) == 1).sum())
    shifted = numpy.maximum(indices - to_zero, 0)
    return torch.from_numpy(shifted * 0.5**24).float().to(dtype)
