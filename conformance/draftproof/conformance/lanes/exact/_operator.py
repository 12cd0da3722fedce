"""One operator on the memory of one run: its schema, its arguments and its result."""

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
from draftproof.conformance.lanes.exact._split import address, is_dense, seen_as
from draftproof.reference.rational import Rational


@dataclass(frozen=True)
class OperatorResult:
    """Result of one operator on one memory."""

    result: Any
    """Returned nest, with carriers in the place of the views that were written."""
    error: Exception | None
    memory: Mapping[int, Tensor]
    """Versions that were read and written, by the address of the carrier."""
    slacks: Mapping[Ranking, Rational]
    kind: Hashable
    """Key that must be equal for runs to go on together."""


class Views:
    """Views of one memory that an operator is given in the place of carriers."""

    def __init__(
        self, func: OpOverload, keys: Mapping[int, int], memory: Mapping[int, Tensor]
    ) -> None:
        self._func = func
        self._keys = keys
        self._memory = memory
        self._given: dict[int, tuple[Tensor, Tensor]] = {}
        self._views: dict[int, Tensor] = {}

    def own(self, carrier: Tensor) -> Tensor:
        """Return the view for an argument: one object for one object, as torch compares them."""
        if self._keys[id(carrier)] not in self._memory:
            return carrier
        if id(carrier) not in self._views:
            view = seen_as(self._memory[self._keys[id(carrier)]], carrier)
            self._views[id(carrier)] = view
            self._given[id(view)] = view, carrier
        return self._views[id(carrier)]

    def carrier(self, returned: Tensor) -> Tensor:
        """Return the argument for which a returned tensor stands, or a new tensor itself."""
        if id(returned) in self._given:
            return self._given[id(returned)][1]
        if not is_dense(returned) or self._is_memory_of_an_argument(address(returned)):
            raise NotTogether(f"returns what runs do not have each for itself: {self._func}")
        return returned

    def require_unchanged(self) -> None:
        """Require that all views are still what their carriers are views of."""
        for view, carrier in self._given.values():
            own = self._memory[self._keys[id(carrier)]]
            if _place(view) != _place(carrier) or address(view) != address(own):
                raise NotTogether(f"changes the shape of what runs have: {self._func}")

    def _is_memory_of_an_argument(self, where: int) -> bool:
        return where in self._keys.values() or any(
            where == address(own) for own in self._memory.values()
        )


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
    """Return whether what an operator returns is an argument's memory that it does not write."""
    returned = [each.alias_info for each in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def mapped(value: Any, image: Callable[[Tensor], Tensor]) -> Any:
    """Return a nest of tuples, lists and dictionaries with other tensors."""
    if isinstance(value, Tensor):
        return image(value)
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(each, image) for each in value)
    if isinstance(value, dict):
        return {name: mapped(each, image) for name, each in value.items()}
    return value


def _place(tensor: Tensor) -> Hashable:
    return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype


def form(result: Any, given: Collection[int]) -> Hashable:
    """Return all that Python sees of a result without reading a tensor; `given` are arguments."""
    if isinstance(result, Tensor):
        own = id(result) if id(result) in given else result.untyped_storage().nbytes()
        return own, _place(result), result.requires_grad, result.is_inference()
    if isinstance(result, (list, tuple)):
        return type(result), *(form(each, given) for each in result)
    return type(result), result.hex() if isinstance(result, float) else repr(result)


# What has one of these tags, or names, writes to what its schema says.
_KEEP_THEIR_SCHEMA = {torch.Tag.core, torch.Tag.pointwise, torch.Tag.reduction}
_ALSO = {"copy_", "cumprod", "searchsorted", "stack"}


@cache
def keeps_its_schema(func: OpOverload) -> bool:
    """Return whether an operator is known to write to nothing but what its schema says."""
    return not _KEEP_THEIR_SCHEMA.isdisjoint(func.tags) or func._schema.name[6:] in _ALSO
