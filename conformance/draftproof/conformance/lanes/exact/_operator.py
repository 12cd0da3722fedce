"""One operator on the memory of one run: its schema, arguments and result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._signature import tensors_in
from draftproof.conformance.lanes.exact._errors import NotTogether
from draftproof.conformance.lanes.exact._races import Ranking
from draftproof.conformance.lanes.exact._split import address, is_dense, seen_as, storage_of
from draftproof.reference.rational import Rational


@dataclass(frozen=True)
class OperatorResult:
    """Result of one operator on one memory."""

    result: Any
    """Returned value, with carriers in place of the views that were written."""
    error: Exception | None
    memory: Mapping[int, Tensor]
    """Versions that were read and written, by the address of the carrier."""
    slacks: Mapping[Ranking, Rational]
    kind: Hashable
    """Key that must be equal for runs to go on together."""


class Views:
    """Views of one memory that an operator is given in place of carriers."""

    def __init__(self, call: Called, memory: Mapping[int, Tensor]) -> None:
        self._call = call
        self._memory = memory
        self._views = {
            own: seen.of(memory[seen.key]) for own, seen in call.seen.items() if seen.key in memory
        }
        self._given = {id(view): own for own, view in self._views.items()}

    def own(self, carrier: Tensor) -> Tensor:
        """Return the view for an argument; the same argument has the same view object.

        Torch compares arguments by identity.
        """
        return self._views.get(id(carrier), carrier)

    def carrier(self, returned: Tensor) -> Tensor:
        """Return the argument that a returned tensor represents, or a new tensor itself.

        Raises `NotTogether` for a tensor that shares the memory of an argument.
        """
        if id(returned) in self._given:
            return self._call.seen[self._given[id(returned)]].carrier
        if not is_dense(returned) or self._is_memory_of_an_argument(address(returned)):
            raise NotTogether(f"returns what runs do not have each for itself: {self._call.func}")
        return returned

    def require_unchanged(self) -> None:
        """Require that all views still show the same part of the same memory.

        Raises `NotTogether`.
        """
        for own, view in self._views.items():
            seen = self._call.seen[own]
            if _place(view) != seen.place or address(view) != address(self._memory[seen.key]):
                raise NotTogether(f"changes the shape of what runs have: {self._call.func}")

    def _is_memory_of_an_argument(self, where: int) -> bool:
        return where in self._call.addresses or any(
            where == address(own) for own in self._memory.values()
        )


class Called:
    """Call of an operator: its properties that are the same on every memory."""

    def __init__(self, func: OpOverload, args: Any, kwargs: Any, keys: Mapping[int, int]) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.addresses = {*keys.values()}
        """Addresses of the storages of all arguments."""
        self.seen = {
            id(carrier): Seen(carrier, keys[id(carrier)]) for carrier in tensors_in((args, kwargs))
        }
        """Tensors among the arguments, by their ids."""


class Seen:
    """Carrier, and the part of its memory that it shows."""

    def __init__(self, carrier: Tensor, key: int) -> None:
        self.carrier, self.key = carrier, key
        self.place = _place(carrier)
        self._is_special = carrier.is_neg() or carrier.is_conj()

    def of(self, version: Tensor) -> Tensor:
        """Return the part that the carrier shows of a version of its memory."""
        shape, stride, offset, dtype = self.place
        if version.dtype is not dtype or self._is_special:
            return seen_as(version, self.carrier)
        return version.as_strided(shape, stride, offset)


@cache
def _written_arguments(func: OpOverload) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the places and the names of the arguments that an operator writes to."""
    arguments = func._schema.arguments
    are = [a.alias_info is not None and a.alias_info.is_write for a in arguments]
    places = tuple(i for i, a in enumerate(arguments) if are[i] and not a.kwarg_only)
    return places, tuple(a.name for i, a in enumerate(arguments) if are[i])


def written_by(func: OpOverload, args: Any, kwargs: Any) -> Iterator[Tensor]:
    """Yield the tensors that an operator writes to."""
    places, names = _written_arguments(func)
    yield from tensors_in(args[place] for place in places if place < len(args))
    yield from tensors_in(kwargs[name] for name in names if name in kwargs)


@cache
def returns_views(func: OpOverload) -> bool:
    """Return whether an operator returns a view of an argument that it does not write."""
    returned = [each.alias_info for each in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def mapped(value: Any, image: Callable[[Tensor], Tensor]) -> Any:
    """Return a nest of tuples, lists and dictionaries with every tensor replaced by its image."""
    if isinstance(value, Tensor):
        return image(value)
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(each, image) for each in value])
    if isinstance(value, dict):
        return {name: mapped(each, image) for name, each in value.items()}
    return value


def _place(tensor: Tensor) -> tuple[torch.Size, tuple[int, ...], int, torch.dtype]:
    return tensor.shape, tensor.stride(), int(tensor.storage_offset()), tensor.dtype


def form(result: Any, given: Collection[int]) -> Hashable:
    """Return everything Python sees of a result without reading a tensor; `given` are arguments."""
    if isinstance(result, Tensor):
        own = id(result) if id(result) in given else storage_of(result).nbytes()
        return own, _place(result), result.requires_grad, result.is_inference()
    if isinstance(result, (list, tuple)):
        return type(result), *(form(each, given) for each in result)
    return type(result), result.hex() if isinstance(result, float) else repr(result)


# What has one of these tags, or names, writes to what its schema says.
_KEEP_THEIR_SCHEMA = {torch.Tag.core, torch.Tag.pointwise, torch.Tag.reduction}
_ALSO = {"copy_", "cumprod", "searchsorted", "stack"}


@cache
def keeps_its_schema(func: OpOverload) -> bool:
    """Return whether an operator is known to write only to what its schema declares."""
    return not _KEEP_THEIR_SCHEMA.isdisjoint(func.tags) or func._schema.name[6:] in _ALSO
