"""Outcomes: results of a program as values that can be compared and counted."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from inspect import isfunction
from itertools import chain
from math import isfinite, isnan, nan
from typing import Any

import numpy
import torch
from torch import Tensor

from draftproof.conformance.lanes.exact._array import Array, opened
from draftproof.conformance.lanes.exact._choice import Choice, Doubles, doubles_of
from draftproof.conformance.lanes.exact._errors import NotUnderstood
from draftproof.conformance.lanes.exact._identity import Identities
from draftproof.conformance.lanes.exact._noise import World
from draftproof.conformance.lanes.exact._scalar import Scalar, tensor_of


@dataclass(frozen=True, eq=False)
class Unread:
    """Tensor in a result, with its undecided choices by their places."""

    values: Tensor
    choices: dict[int, Choice]

    def read(self, world: World) -> Any:
        """Return the tensor's values in a world, as nested lists."""
        values = self.values.clone()
        flat = values.view(-1)
        for place, choice in self.choices.items():
            flat[place] = choice.value(world)
        return values.tolist()


def frozen(outcome: Any, of_tensor: Callable[[Tensor], Any] = Tensor.tolist) -> Hashable:
    """Return the outcome with every tensor as nested tuples of plain numbers.

    `of_tensor` converts a tensor to lists, or to an `Unread`, which stays as it is.
    """
    if isinstance(outcome, Scalar):
        outcome = tensor_of(outcome)
    if isinstance(outcome, Array):
        outcome = opened(outcome)
    if isinstance(outcome, Tensor):
        outcome = of_tensor(outcome)
        if isinstance(outcome, Unread):
            return outcome
    if isinstance(outcome, (numpy.ndarray, numpy.generic)):
        outcome = outcome.tolist()
    if dataclasses.is_dataclass(outcome) and not isinstance(outcome, type):
        outcome = [getattr(outcome, field.name) for field in dataclasses.fields(outcome)]
    if isinstance(outcome, (list, tuple)):
        return tuple(frozen(value, of_tensor) for value in outcome)
    if isinstance(outcome, dict):
        return frozen([*outcome.items()], of_tensor)
    if isinstance(outcome, (set, frozenset)):
        return frozenset(frozen(value, of_tensor) for value in outcome)
    return _comparable(outcome)


def left_open(tensor: Tensor, identities: Identities) -> Any:
    """Return a tensor's values as lists, or an `Unread` if it contains choices.

    Raises `NotUnderstood` for a continuous number. No dispatcher may be active.
    """
    ids = identities.of(tensor)
    if ids is None:
        return tensor.tolist()
    numbers = {
        place: identities.number(identity)
        for place, identity in enumerate(ids.flatten().tolist())
        if identity
    }
    choices = {place: each for place, each in numbers.items() if isinstance(each, Choice)}
    if len(choices) < len(numbers):
        raise NotUnderstood("is continuous: it has no finite law")
    values = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return Unread(values.copy_(tensor), choices)


def read(outcome: Any, world: World) -> Hashable:
    """Return a frozen outcome in a world, which decides choices that were not looked at."""
    if isinstance(outcome, Unread):
        return frozen(outcome.read(world))
    if isinstance(outcome, tuple):
        return tuple(read(each, world) for each in outcome)
    if isinstance(outcome, frozenset):
        return frozenset(read(each, world) for each in outcome)
    found: Hashable = outcome
    return found


def undecided(outcome: Any, world: World) -> list[Choice]:
    """Return the choices in a frozen outcome that a world has not decided, each once."""
    if isinstance(outcome, Unread):
        choices = dict.fromkeys(outcome.choices.values())
        return [each for each in choices if world.of(each) is None]
    if isinstance(outcome, (tuple, frozenset)):
        return [*dict.fromkeys(chain.from_iterable(undecided(each, world) for each in outcome))]
    return []


def row_of_number(outcome: Any, world: World) -> Doubles:
    """Return, in a world, the row of a frozen outcome that is one whole number.

    Raises `TypeError` for anything else.
    """
    inner = _unwrapped(outcome)
    if isinstance(inner, Unread) and inner.values.numel() == 1:
        return doubles_of(inner.choices[0], world)
    return Doubles(numpy.array([number_in(outcome)]), numpy.ones(1), 0.0)


def number_in(outcome: Any) -> int:
    """Return the whole number that is a frozen outcome, or its only part. Raises `TypeError`."""
    inner = _unwrapped(outcome)
    if not isinstance(inner, (int, float)) or not isfinite(inner) or inner != int(inner):
        raise TypeError(f"the program must return a whole number with its outcome, got {outcome!r}")
    return int(inner)


def _unwrapped(outcome: Any) -> Any:
    """Return the content of nested tuples of one part."""
    while isinstance(outcome, tuple) and len(outcome) == 1:
        (outcome,) = outcome
    return outcome


_STANDARD = sys.stdlib_module_names
"""Modules whose classes, such as `Fraction`, compare by value."""


def _comparable(outcome: Any) -> Hashable:
    """Return an outcome that equals the same outcome of another run."""
    if isinstance(outcome, float) and isnan(outcome):
        # Two NaNs are equal only if they are the same object.
        return nan
    kind: Any = type(outcome)
    if isinstance(outcome, (Enum, type)):
        # Every run has the same ones.
        return outcome
    has_own = isfunction(kind.__eq__) and kind.__module__.partition(".")[0] not in _STANDARD
    if outcome is not None and (kind.__hash__ is None or kind.__eq__ is object.__eq__ or has_own):
        # A comparison of the program's own may read tensors when no run is watched any more.
        raise TypeError(
            f"the program returned {kind.__name__} {outcome!r}, which has no value to be "
            f"compared by: return tensors, numbers or strings, or nests of them"
        )
    return outcome  # type: ignore[no-any-return]  # whatever the program returned
