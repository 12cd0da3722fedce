"""Arithmetic: monotone functions of one random number and at most one ordinary number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import copysign, inf, isinf, isnan, nan
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._signature import bound, name_of
from draftproof.conformance.lanes.exact._dtypes import NARROW, held
from draftproof.conformance.lanes.exact._elements import Elements, imaged, write
from draftproof.conformance.lanes.exact._errors import NotUnderstood, ran
from draftproof.conformance.lanes.exact._noise import SPENT, Noise
from draftproof.conformance.lanes.exact._steps import Affine, Clamp, Exp, Log, Reciprocal
from draftproof.conformance.lanes.precise import extended, is_infinite, log
from draftproof.reference.rational import ONE, ZERO, exactly, rational

# Of these torch does not round an operand that is a number to the type of the result first.
_UNROUNDED = {"div", "mul", "pow"}


def compute(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    """Apply a function of one random number, and of one ordinary number if it takes two."""
    given = bound(func, args, kwargs)
    if given.get("rounding_mode") is not None:
        raise NotUnderstood("rounds noise")
    operands: list[Any] = [a for a in args if isinstance(a, (Tensor, int, float))][:2]
    name = name_of(func)
    if name in ("clamp", "clamp_min", "clamp_max"):
        operands = operands[:1]
        if any(isinstance(given.get(end), Tensor) for end in ("min", "max")):
            raise NotUnderstood("clamps noise by tensors")
    ids, others = paired(elements, func, args, kwargs, operands)
    out: Tensor = ran(func, args, kwargs)
    if out.dtype.is_complex:
        raise NotUnderstood("combines noise with a number that is not real")
    if out.dtype in NARROW:
        _require_rounded_once(out.dtype, operands, given)
    identities = elements.identities
    constants: dict[int, float] = {}
    # Numbers that have come the same way go on the same way: a row has thousands of them.
    known: dict[Hashable, tuple[Noise, Noise | float]] = {}

    def image(place: int, identity: int) -> int:
        noise = identities.number(abs(identity))
        assert isinstance(noise, Noise)
        if noise.uniform is SPENT:
            return elements.spent()
        way = id(noise.steps), id(noise.range), id(noise.likely), noise.is_swamped
        key = (*way, others[place], identity > 0)
        if key not in known:
            operation = Operation(noise, others[place], given, first=identity > 0)
            # What has come the same way is kept, so that no other one has its ids.
            known[key] = noise, _result(name, operation, out.dtype)
        _, made = known[key]
        if isinstance(made, Noise):
            return identities.id_of(made.of(noise.uniform))
        constants[place] = made
        return 0

    new_ids = imaged(ids, image)
    write(out, constants)
    elements.attach(out, new_ids)
    return out


def _result(name: str, operation: Operation, dtype: torch.dtype) -> Noise | float:
    """Return the result of an operation; a random result is rounded as its type requires."""
    result = ARITHMETIC[name](operation)
    if isinstance(result, Noise):
        return held(result, dtype)
    if operation.noise.can_be_nan:
        raise NotUnderstood("makes a number of noise that may be none")
    return result


def paired(
    elements: Elements, func: OpOverload, args: Any, kwargs: Any, operands: Sequence[Any]
) -> tuple[Tensor, list[float]]:
    """Broadcast one or two operands; return ids and the ordinary numbers paired with them.

    An id is negative if the random number is the second operand.
    """
    if len(operands) == 1:
        ids = elements.ids(operands[0])
        return ids, [nan] * ids.numel()
    dtype = torch.result_type(*operands)
    if dtype.is_complex:
        raise NotUnderstood("combines noise with a number that is not real")
    tensors = [
        operand if isinstance(operand, Tensor) else torch.tensor(operand, dtype=torch.float64)
        for operand in operands
    ]
    try:
        first, second = torch.broadcast_tensors(*map(elements.ids, tensors))  # type: ignore[no-untyped-call]  # torch is
    except RuntimeError:
        # Torch says in its own words what does not go together.
        ran(func, args, kwargs)
        raise
    if ((first != 0) & (second != 0)).any():
        raise NotUnderstood("combines two random numbers")
    if ((first == -1) | (second == -1)).any():
        elements.identities.number(-1)
    if dtype in NARROW:
        _require_narrow(elements, name_of(func), tensors, dtype)
    left, right = (tensor.to(dtype).double().expand(first.shape) for tensor in tensors)
    others = torch.where(first != 0, right, left)
    return first - second, others.flatten().tolist()


def _require_narrow(
    elements: Elements, name: str, operands: Iterable[Tensor], dtype: torch.dtype
) -> None:
    """Require that torch rounds each operand exactly where the lane rounds it."""
    for operand in operands:
        if elements.identities.has_noise(operand):
            if operand.dtype is not dtype:
                raise NotUnderstood("combines wide noise with narrow numbers")
        elif name in _UNROUNDED and (operand.to(dtype).double() != operand.double()).any():
            raise NotUnderstood("combines narrow noise with a number that its type rounds")


def _require_rounded_once(
    dtype: torch.dtype, operands: Sequence[Any], given: dict[str, Any]
) -> None:
    """Require that a narrow result is rounded only once, at the end of the operator."""
    is_wider = len(operands) == 2 and torch.result_type(*operands) is not dtype
    if is_wider or abs(given.get("alpha", 1)) != 1:
        raise NotUnderstood("computes narrow noise of what is rounded on the way")


@dataclass
class Operation:
    """Random number, the ordinary number combined with it, and the operator's arguments."""

    noise: Noise
    other: float
    given: dict[str, Any]
    first: bool

    def scaled(self, noise: Noise, factor: float) -> Noise | float:
        if factor == 0 and (noise.can_be(inf) or noise.can_be(-inf)):
            raise NotUnderstood("multiplies noise that may be infinite by zero")
        if isnan(factor):
            return nan
        if factor == 0 or isinf(factor):
            return factor * self.sign(noise)
        return noise.then(Affine(exactly(factor), ZERO))

    def shifted(self, noise: Noise | float, shift: float) -> Noise | float:
        if isinstance(noise, Noise) and isinf(shift) and -shift in noise.likely:
            raise NotUnderstood("adds infinity to noise that may be infinite")
        if isinstance(noise, float) or isinf(shift) or isnan(shift):
            return shift + noise if isinstance(noise, float) else shift
        return noise.then(Affine(ONE, exactly(shift)))

    def sign(self, noise: Noise) -> int:
        low, high = noise.range
        if low < 0 < high or noise.can_be(ZERO):
            raise NotUnderstood("combines noise of either sign with zero or infinity")
        return 1 if low >= 0 else -1

    def add(self, sign: int = 1) -> Noise | float:
        """Return first + sign * alpha * second."""
        weight = self.weight(sign)
        if self.first:
            return self.shifted(self.noise, weight * self.other)
        return self.shifted(self.scaled(self.noise, weight), self.other)

    def weight(self, sign: int) -> float:
        """Return sign * alpha; for an integer alpha of 0 the result is positive zero."""
        alpha = self.given.get("alpha", 1)
        if self.noise.has_atoms and abs(alpha) != 1:
            raise NotUnderstood("computes noise that has atoms of what is rounded on the way")
        return float(sign * alpha)

    def subtract_reversed(self) -> Noise | float:
        """Return other - alpha * self, as rsub does."""
        weight = self.weight(-1)
        if self.first:
            return self.shifted(self.scaled(self.noise, weight), self.other)
        return self.shifted(self.noise, weight * self.other)

    def multiply(self) -> Noise | float:
        return self.scaled(self.noise, self.other)

    def divide(self) -> Noise | float:
        if not self.first and self.other == 0:
            return self.other * self.sign(self.noise)
        if not self.first:
            return self.scaled(self.inverse(), self.other)
        if self.other == 0:
            # The zero's own sign counts: x / -0.0 is negative for positive x.
            return copysign(inf, self.other) * self.sign(self.noise)
        if isinf(self.other) and any(map(is_infinite, self.noise.likely)):
            raise NotUnderstood("divides noise that may be infinite by infinity")
        if isinf(self.other) or isnan(self.other):
            return copysign(0.0, self.other) * self.sign(self.noise) if isinf(self.other) else nan
        return self.noise.then(Affine(1 / exactly(self.other), ZERO))

    def inverse(self) -> Noise:
        if self.noise.can_be(ZERO):
            raise NotUnderstood("divides by noise that may be zero")
        return self.noise.then(Reciprocal())

    def power(self) -> Noise | float:
        low, high = self.noise.range
        if not self.first or low < 0:
            raise NotUnderstood("raises to a power what is not positive noise")
        if self.other == 0:
            return 1.0
        if isinf(self.other) and high <= 1 and not self.noise.can_be(ONE):
            return 0.0 if self.other > 0 else inf
        if isinf(self.other) or isnan(self.other):
            raise NotUnderstood("raises noise to a power that is no number")
        return self.noise.then(Log(), Affine(exactly(self.other), ZERO), Exp())

    def clamp(self) -> Noise | float:
        low, high = (self.bound(end) for end in ("min", "max"))
        return self.noise.then(
            Clamp(
                -inf if low is None else extended(low),
                inf if high is None else extended(high),
            )
        )

    def bound(self, end: str) -> float | None:
        """Return the end of a clamp, rounded to the tensor's type as the operator does."""
        value = self.given.get(end)
        dtype = self.given["self"].dtype
        return None if value is None else float(torch.tensor(value, dtype=dtype))

    def limit(self, *, above: bool) -> Noise | float:
        if isnan(self.other):
            return nan
        edge = extended(self.other)
        return self.noise.then(Clamp(edge, inf) if above else Clamp(-inf, edge))

    def log(self, base: int | None = None) -> Noise | float:
        noise = self.noise.then(Log())
        return noise if base is None else noise.then(Affine(1 / log(rational(base)), ZERO))

    def absolute(self) -> Noise | float:
        return self.noise.then(Affine(rational(self.sign(self.noise)), ZERO))


ARITHMETIC: dict[str, Callable[[Operation], Noise | float]] = {
    "abs": Operation.absolute,
    "add": Operation.add,
    "clamp": Operation.clamp,
    "clamp_max": Operation.clamp,
    "clamp_min": Operation.clamp,
    "div": Operation.divide,
    "exp": lambda x: x.noise.then(Exp()),
    "expm1": lambda x: x.noise.then(Exp(), Affine(ONE, -ONE)),
    "log": Operation.log,
    "log10": lambda x: x.log(10),
    "log1p": lambda x: x.noise.then(Affine(ONE, ONE), Log()),
    "log2": lambda x: x.log(2),
    "maximum": lambda x: x.limit(above=True),
    "minimum": lambda x: x.limit(above=False),
    "mul": Operation.multiply,
    "neg": lambda x: x.noise.then(Affine(-ONE, ZERO)),
    "pow": Operation.power,
    "reciprocal": Operation.inverse,
    "rsub": Operation.subtract_reversed,
    "sqrt": lambda x: x.noise.then(Log(), Affine(rational("1/2"), ZERO), Exp()),
    "sub": lambda x: x.add(-1),
}
