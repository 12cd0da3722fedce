"""Memory that differs between runs that are made in one walk of a program.

The program holds one tensor, its *carrier*; the walk keeps each run's memory outside the carrier,
as *versions* of the whole storage. Runs with the same version are a class of a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from draftproof.conformance.lanes.exact._errors import NotTogether

Classes: TypeAlias = tuple[int, ...]
"""Class of each run: 0, 1, ... in order of first occurrence."""


def classes(kinds: Iterable[Hashable]) -> tuple[Classes, list[int]]:
    """Return the classes of runs with equal kinds, and the first run of each class."""
    known: dict[Hashable, int] = {}
    first: list[int] = []
    of: list[int] = []
    for run, kind in enumerate(kinds):
        own = known.setdefault(kind, len(known))
        if own == len(first):
            first.append(run)
        of.append(own)
    return tuple(of), first


class Partitions:
    """Partitions of the runs of a walk: one object for each, and their known products."""

    def __init__(self) -> None:
        self._known: dict[Classes, Classes] = {}
        self._products: dict[tuple[int, ...], tuple[Classes, list[int]]] = {}

    def one(self, of: Classes) -> Classes:
        """Return the one object that represents a partition."""
        return self._known.setdefault(of, of)

    def product(self, factors: Sequence[Classes]) -> tuple[Classes, list[int]]:
        """Return the coarsest partition finer than all factors, and the first run of each class."""
        key = tuple(map(id, factors))
        if key not in self._products:
            of, first = classes(factors[0] if len(factors) == 1 else zip(*factors, strict=True))
            self._products[key] = self.one(of), first
        return self._products[key]

    def taken(self, runs: Sequence[int], all_of: Iterable[Classes]) -> dict[int, Regrouping]:
        """Forget all other partitions; regroup these for runs of which run i was `runs[i]`.

        Return the regroupings by the object ids of the former partitions.
        """
        olds = {id(of): of for of in all_of}
        self._known, self._products = {}, {}
        found = {}
        for key, old in olds.items():
            of, first = classes([old[run] for run in runs])
            found[key] = Regrouping(self.one(of), [old[runs[run]] for run in first])
        return found


@dataclass(frozen=True)
class Regrouping:
    """Partition after runs were replaced, with the former class of each class."""

    of: Classes
    were: list[int]


@dataclass
class SplitMemory:
    """Versions of a storage, by the classes of runs."""

    storage: StorageWeakRef
    """Storage of the carrier. Holding the reference keeps its address from being reused."""
    of: Classes
    versions: list[Tensor]
    """[n] each: all elements of a version, in the dtype of the carrier."""

    def put_back(self) -> tuple[Tensor, Tensor] | None:
        """Write the first run's version into the carrier; return both, None if it was freed."""
        storage = alive(self.storage)
        if storage is None:
            return None
        mine = self.versions[self.of[0]]
        with torch.inference_mode(mode=False):
            carrier = torch.empty(0, dtype=mine.dtype, device=mine.device).set_(storage)
            return carrier.copy_(mine), mine


storage_of: Callable[[Tensor], torch.UntypedStorage] = torch._C.TensorBase.untyped_storage
"""Function that returns a tensor's storage, bypassing the guard of the watched program
(`_watch`)."""


def is_dense(tensor: Tensor) -> bool:
    """Return whether the tensor's elements are in one storage, at places given by strides."""
    return tensor.layout is torch.strided


def address(tensor: Tensor) -> int:
    """Return the address of the tensor's storage, valid while a weak reference to it is held."""
    found: int = storage_of(tensor)._cdata
    return found


def weak(tensor: Tensor) -> StorageWeakRef:
    """Return a weak reference to the tensor's storage."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]  # torch is


def alive(storage: StorageWeakRef) -> torch.UntypedStorage | None:
    """Return a storage, None if it has been freed."""
    found: torch.UntypedStorage | None = torch.UntypedStorage._new_with_weak_ptr(storage.cdata)
    return found


def whole(tensor: Tensor) -> Tensor:
    """Return all elements [n] of the tensor's storage."""
    length = storage_of(tensor).nbytes() // tensor.element_size()
    return tensor.detach().as_strided((length,), (1,), 0)


def seen_as(version: Tensor, carrier: Tensor) -> Tensor:
    """Return the elements of a version that a carrier shows, in its shape."""
    if version.dtype is not carrier.dtype:
        raise NotTogether("views numbers of runs that differ as numbers of another type")
    if carrier.is_neg() or carrier.is_conj():
        raise NotTogether("views numbers of runs that differ as their negatives or conjugates")
    return version.as_strided(carrier.size(), carrier.stride(), carrier.storage_offset())


def spoil(memory: Tensor) -> None:
    """Overwrite all elements [n] of a storage with values that no run has."""
    # Inference mode may write to every tensor.
    with torch.inference_mode():
        if memory.dtype.is_floating_point or memory.dtype.is_complex:
            memory.fill_(torch.nan)
        elif memory.dtype is not torch.bool:
            memory.fill_(torch.iinfo(memory.dtype).min)


def spoilt(tensor: Tensor) -> Tensor:
    """Return a tensor with the same form, but a new storage of values that no run has."""
    with torch.inference_mode(mode=tensor.is_inference()):
        made = torch.empty_like(whole(tensor))
        spoil(made)
        return seen_as(made, tensor)


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}
_MOST_COMPARED = 256


def bits(tensor: Tensor, *, most: int | None = _MOST_COMPARED) -> tuple[int, ...] | None:
    """Return the bits of a tensor's elements, None for more than `most`, if there is a limit."""
    if most is not None and tensor.numel() > most:
        return None
    if tensor.is_neg() or tensor.is_conj() or tensor.element_size() not in _BITS:
        raise NotTogether("has numbers of a kind whose bits are not known")
    dense = tensor.detach().contiguous().view(-1)
    found: list[int] = dense.view(_BITS[tensor.element_size()]).tolist()
    return tuple(found)
