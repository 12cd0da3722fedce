"""The checks of an engine's tensors: shapes, dtypes and devices, which no device waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
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


def check_reals(where: device, **told: tuple[Tensor, Sizes]) -> None:
    """Raise `InvalidRequest` unless tensors are reals of their shapes on a device."""
    for name, (tensor, shape) in told.items():
        _check(name, tensor, shape, where, is_real=True)


def check_reals_if_given(where: device, **told: tuple[Tensor | None, Sizes]) -> None:
    """Raise `InvalidRequest` unless tensors are None, or reals of their shapes on a device."""
    for name, (tensor, shape) in told.items():
        if tensor is not None:
            _check(name, tensor, shape, where, is_real=True)


def check_some(what: str, name: str, tensor: Tensor) -> None:
    """Raise `InvalidRequest` if the last size of a tensor is 0, which tells how many there are."""
    if tensor.shape[-1] == 0:
        raise InvalidRequest(f"{name} must have at least 1 {what}, got {list(tensor.shape)}")


def _is(size: int, wanted: int | str | AtLeast) -> bool:
    if isinstance(wanted, AtLeast):
        return size >= wanted.size
    return isinstance(wanted, str) or size == wanted


def _is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _check(name: str, tensor: object, shape: Sizes, where: device, *, is_real: bool) -> None:
    kind = "reals" if is_real else "integers"
    wanted = f"{name} must be {kind} [{', '.join(map(str, shape))}] on {where}"
    if not isinstance(tensor, Tensor):
        told = "None" if tensor is None else type(tensor).__name__
        raise InvalidRequest(f"{wanted}, got {told}")
    sizes, dtype = tensor.shape, tensor.dtype
    fits = len(sizes) == len(shape) and all(map(_is, sizes, shape))
    is_kind = dtype.is_floating_point if is_real else _is_integer(dtype)
    if not fits or not is_kind or tensor.device != where:
        raise InvalidRequest(f"{wanted}, got {dtype} {list(sizes)} on {tensor.device}")
