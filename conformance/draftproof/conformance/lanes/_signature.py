"""Names, arguments and traits of PyTorch's operators, from their schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

TORCHS_OWN = {"aten", "prims"}
"""Namespaces of operators that do exactly what their schema states."""

# Operators whose result is the same memory seen in another shape.
VIEWS = {
    "_reshape_alias",
    "_unsafe_view",
    "alias",
    "as_strided",
    "detach",
    "diagonal",
    "expand",
    "lift_fresh",
    "permute",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "t",
    "transpose",
    "unbind",
    "unfold",
    "unsqueeze",
    "view",
}

# Operators that look at the shape and type of a tensor, never at an element.
SHAPES = {
    "empty_like",
    "full_like",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones_like",
    "zeros_like",
}


@cache
def name_of(func: OpOverload) -> str:
    """Return the operator's name, which it shares with its in-place form."""
    name = func._schema.name.removeprefix("aten::")
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


@cache
def is_random(func: OpOverload) -> bool:
    """Return True if the operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags


@cache
def reads_no_values(func: OpOverload) -> bool:
    """Return True if an operator neither reads an element of a tensor nor draws.

    Views, and results that depend on shapes and types alone, read no element.
    """
    # `view(dtype)` reads bits, and `out=` arguments are written to.
    is_harmless = name_of(func) in VIEWS | SHAPES and func._overloadname not in ("dtype", "out")
    return is_harmless and not is_random(func)


@cache
def _may_write(func: OpOverload) -> tuple[str, ...]:
    """Return the names of the operator's `out=` arguments."""
    arguments = func._schema.arguments
    return tuple(a.name for a in arguments if a.kwarg_only and a.alias_info is not None)


def written(func: OpOverload, kwargs: dict[str, Any]) -> list[str]:
    """Return the names of the `out=` arguments that the call gives."""
    return [name for name in _may_write(func) if kwargs.get(name) is not None]


def bound(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments by name, defaults included."""
    names, defaults = _parameters(func)
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


@cache
def _parameters(func: OpOverload) -> tuple[list[str], dict[str, Any]]:
    """Return the names of the operator's arguments, and the values of those that have a default."""
    arguments = func._schema.arguments
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
    return [argument.name for argument in arguments], defaults


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors in a nest of tuples, lists and dictionaries."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())
