"""Noise at the ends of its range: values that a generator gives once in millions of draws.

The lane runs a program once for every way to put the noise of its random operators there: each
tensor is left as drawn, or has all its elements at one end, or a single element. All these combine,
except that a run has at most one single element. No probability is computed, so some hundred runs
find a fault that no sample would ever show. The rows of a batch have the same elements at an end,
each in its own part of every tensor.

Only uniform and exponential noise is changed. `multinomial`, `bernoulli` and similar operators,
which make their own noise, run unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from draftproof.conformance.lanes._signature import bound, name_of
from draftproof.conformance.lanes._streams import seeded
from draftproof.conformance.lanes.probe._tape import RowsMixed
from draftproof.reference.chance import Chance, enumerate_runs
from draftproof.reference.rational import ONE

Outcome = TypeVar("Outcome")

Ends = Callable[[str, Tensor], tuple[float, ...]]
"""Function from a law, "uniform" on 0..1 or "exponential" of rate 1, and the tensor that holds the
noise, to the values at the ends of its range."""

# Random tensors that are put at their ends independently; all later ones follow the last of them.
_INDEPENDENT = 4

_LAWS = {
    "exponential": "exponential",
    "rand": "uniform",
    "rand_like": "uniform",
    "uniform": "uniform",
}

# How fine torch's uniform numbers are next to 1.
_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def attainable(law: str, noise: Tensor) -> tuple[float, ...]:
    """Return the smallest and the largest value that torch's generators can give.

    Uniform numbers are in [0, 1), in steps of 2**-53, -24, -11 or -8 below 1. Exponential numbers
    are documented to be positive: the smallest is torch's own guard, the smallest normal number. In
    float16 they are made in a wider type and then rounded, on a CPU to 0 once in 2**25 draws (3
    zeros in 10**8 with torch 2.13; none in float64, float32 and bfloat16), elsewhere to 2**-24. The
    largest follows from the 53 bits of the uniform number from which they are made.
    """
    if law == "uniform":
        return 0.0, 1 - 0.5 ** _DIGITS[noise.dtype]
    if noise.dtype is torch.float16:
        return (0.0 if noise.device.type == "cpu" else 0.5**24), 53 * log(2)
    return torch.finfo(noise.dtype).smallest_normal, 53 * log(2)


def exactly_one(law: str, _noise: Tensor) -> tuple[float, ...]:
    """Return 1 for a uniform number, to which rounding can take it; nothing for other laws."""
    return (1.0,) if law == "uniform" else ()


@dataclass(frozen=True)
class Put:
    """Noise of a row at an end: the operator, the value, and the element's index and count."""

    operator: str
    value: float
    element: int | None
    elements: int

    @property
    def moved(self) -> int:
        """The number of elements at the end."""
        return self.elements if self.element is None else 1

    def __str__(self) -> str:
        which = f"number {self.element} of {self.elements}" if self.element is not None else "all"
        return f"{self.operator} gives {self.value:.9g}" + (
            f" ({which})" if self.elements > 1 else ""
        )


def runs_at(
    ends: Ends, program: Callable[[], Outcome], *, rows: int, seed: int
) -> Iterator[tuple[Outcome, tuple[Put, ...]]]:
    """Yield the program's result and the changed noise of a row, for every way to change it.

    `seed` seeds the global generators, which give all other noise. The program must depend on
    nothing else that changes. Raises `NondeterministicProgram` if it does so visibly, and
    `RowsMixed` for a tensor whose leading dimension does not have the batch's `rows`.
    """

    def run(chance: Chance) -> tuple[Outcome, tuple[Put, ...]]:
        feed = _Feed(ends, chance, rows)
        with seeded(seed), feed:
            outcome = program()
        if feed.refused is not None:
            raise feed.refused
        return outcome, tuple(feed.put)

    return (found for found, _ in enumerate_runs(run))


class _Feed(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch is
    """Mode that puts the noise of one run at the ends that `chance` draws."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Dynamo would otherwise be imported, for a second, to be told to keep out of here.
        return False

    def __init__(self, ends: Ends, chance: Chance, rows: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch is
        self._rows = rows
        self._ends = ends
        self._chance = chance
        self._answers: list[int] = []
        self.put: list[Put] = []
        self.refused: Exception | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, OpOverload) and torch.Tag.nondeterministic_seeded in func.tags:
            if torch._C._dispatch_has_kernel_for_dispatch_key(
                func.name(),  # type: ignore[no-untyped-call]  # torch is untyped
                "CompositeImplicitAutograd",
            ):
                with self:
                    return func.decompose(*args, **kwargs)
            out = func(*args, **kwargs)
            law = _LAWS.get(name_of(func))
            if law is not None and out.dtype in _DIGITS and out.numel() > 0:
                try:
                    self._place(law, out, bound(func, args, kwargs), func._schema.name)
                except Exception as reason:
                    # Ours to answer for: the program must not be blamed for it, or catch it.
                    self.refused = reason
                    raise
            return out
        return func(*args, **kwargs)

    def _place(self, law: str, out: Tensor, given: dict[str, Any], operator: str) -> None:
        if self._rows > 1 and (out.dim() == 0 or len(out) % self._rows):
            raise RowsMixed(f"{operator} draws {list(out.shape)} numbers for {self._rows} rows")
        ends, elements = self._ends(law, out), out.numel() // self._rows
        answer = self._answer(len(ends), elements)
        if answer == 0:
            return
        place, end = divmod(answer - 1, len(ends))
        value = torch.tensor(_scaled(law, ends[end], out, given), dtype=out.dtype)
        element = place - 1 if place > 0 else None
        moved = torch.full((self._rows, elements), element is None)
        if element is not None:
            moved[:, element] = True
        out.masked_fill_(moved.view(out.shape).to(out.device), float(value))
        self.put.append(Put(operator.removeprefix("aten::"), float(value), element, elements))

    def _answer(self, ends: int, elements: int) -> int:
        """Return 0 for noise as drawn, else 1 + end + ends * (0 or 1 + element)."""
        whole = 1 + ends
        if len(self._answers) >= _INDEPENDENT:
            last = self._answers[-1]
            return last if last < whole else 0
        singled = any(answer >= whole for answer in self._answers)
        options = whole if singled or elements == 1 else whole + ends * elements
        self._answers.append(self._chance.draw([ONE] * options))
        return self._answers[-1]


def _scaled(law: str, unit: float, out: Tensor, given: dict[str, Any]) -> float:
    """Return the value of noise of the requested law, given the value of the unit law."""
    if law == "exponential":
        return unit / float(given["lambd"])
    low, high = float(given.get("from", 0.0)), float(given.get("to", 1.0))
    value = torch.tensor(low + unit * (high - low), dtype=out.dtype)
    if unit < 1 and float(value) >= high > low:
        # Rounding must not reach what the generator excludes.
        value = torch.nextafter(
            torch.tensor(high, dtype=out.dtype), torch.tensor(low).to(out.dtype)
        )
    return float(value)
