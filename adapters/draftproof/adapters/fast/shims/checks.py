"""The checks of an engine's tensors: shapes, dtypes and devices, which no device waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor, device

from draftproof.adapters.fast.inputs import InvalidRequest
from draftproof.adapters.fast.texts import FORMS

NAMES = ("token", "block")
"""The verifiers of one draft that need no state, which engines do not keep."""


@dataclass(frozen=True)
class AtLeast:
    """A size that may be larger."""

    size: int

    def __str__(self) -> str:
        return f"{self.size} or more"


Sizes: TypeAlias = tuple[int | str | AtLeast, ...]
"""Of a tensor; a letter stands for any size."""


def check_form(form: str) -> None:
    """Raise `InvalidRequest` unless there is such a form."""
    if form not in FORMS:
        raise InvalidRequest(f"form must be one of {', '.join(FORMS)}, got {form!r}")


def check_integers(where: device, **told: tuple[Tensor, Sizes]) -> None:
    """Raise `InvalidRequest` unless tensors are integers of their shapes on a device."""
    for name, (tensor, shape) in told.items():
        _check(name, tensor, shape, where, is_real=False)


def check_reals(where: device, **told: tuple[Tensor | None, Sizes]) -> None:
    """Raise `InvalidRequest` unless tensors, those that are given, are reals of their shapes."""
    for name, (tensor, shape) in told.items():
        if tensor is not None:
            _check(name, tensor, shape, where, is_real=True)


def _is(size: int, wanted: int | str | AtLeast) -> bool:
    if isinstance(wanted, AtLeast):
        return size >= wanted.size
    return isinstance(wanted, str) or size == wanted


def _check(name: str, tensor: Tensor, shape: Sizes, where: device, *, is_real: bool) -> None:
    sizes = tensor.shape
    fits = len(sizes) == len(shape) and all(map(_is, sizes, shape))
    if not fits or tensor.is_floating_point() != is_real or tensor.device != where:
        kind = "reals" if is_real else "integers"
        raise InvalidRequest(
            f"{name} must be {kind} [{', '.join(map(str, shape))}] on {where}, got "
            f"{tensor.dtype} {list(sizes)} on {tensor.device}"
        )
