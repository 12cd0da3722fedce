"""Identity of random numbers: the tensor elements that hold each number.

Views and detached copies of a tensor share its storage, so the storage identifies it through the
dispatcher. Each storage that holds random numbers has an integer tensor of the same length: 0 for
an ordinary number, otherwise the index of the `Noise` or `Choice`. A view of the storage
corresponds to the same view of this tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from draftproof.conformance.lanes.exact._choice import Choice
from draftproof.conformance.lanes.exact._errors import NotUnderstood
from draftproof.conformance.lanes.exact._noise import Noise, World
from draftproof.conformance.lanes.exact._split import storage_of

# Marks elements that were random in an earlier run of the program and not drawn again.
_STALE = -1


@dataclass
class _Shadow:
    storage: StorageWeakRef
    ids: Tensor
    dtype: torch.dtype


class Identities:
    """Random numbers of one program, run after run."""

    def __init__(self) -> None:
        self._numbers: list[Noise | Choice] = []
        self._ids: dict[Noise | Choice, int] = {}
        # Holding a weak reference keeps a storage's address from being used again.
        self._shadows: dict[int, _Shadow] = {}
        self._exposed: dict[int, StorageWeakRef] = {}

    def begin_run(self) -> None:
        """Forget the last run; memory that outlives it may be overwritten, but not read."""
        self._numbers.clear()
        self._ids.clear()
        for address in [k for k, s in self._shadows.items() if _is_freed(s.storage)]:
            del self._shadows[address]
        for shadow in self._shadows.values():
            shadow.ids[shadow.ids != 0] = _STALE

    def expose(self, tensor: Tensor) -> None:
        """Note that others can now read the tensor's memory without an operator."""
        storage = storage_of(tensor)
        self._exposed[storage._cdata] = _weak(storage)

    def is_exposed(self, tensor: Tensor) -> bool:
        """Return True if others read the tensor's memory, which then has no undecided numbers."""
        storage = storage_of(tensor)
        # Memory that numpy shares has lost the right to be resized.
        return storage._cdata in self._exposed or not storage.resizable()

    def id_of(self, number: Noise | Choice) -> int:
        """Return the id under which tensors hold `number`."""
        if number not in self._ids:
            self._numbers.append(number)
            self._ids[number] = len(self._numbers)
        return self._ids[number]

    def number(self, identity: int) -> Noise | Choice:
        """Return the number with this id. Raises `NotUnderstood` for a number of an earlier run."""
        if identity == _STALE:
            raise NotUnderstood("reads noise that was drawn in an earlier call and kept")
        return self._numbers[identity - 1]

    def of(self, tensor: Tensor) -> Tensor | None:
        """Return the ids of the tensor's elements (same shape), None if none is random."""
        if not self._shadows:
            return None
        if tensor.layout is not torch.strided:
            if any(self.of(part) is not None for part in parts(tensor)):
                raise NotUnderstood("keeps random numbers in a tensor that is not dense")
            return None
        shadow = self._shadow(tensor)
        if shadow is None:
            return None
        ids = _like_view(shadow, tensor)
        return ids if ids.any() else None

    def only(self, tensor: Tensor) -> Noise | Choice | None:
        """Return the random number in a tensor of one element, None if it is an ordinary number."""
        ids = self.of(tensor)
        return None if ids is None else self.number(int(ids))

    def among(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        """Return the tensors that hold random numbers."""
        return [t for t in tensors if self.of(t) is not None] if self._shadows else []

    def has_noise(self, tensor: Tensor) -> bool:
        """Return whether the tensor has a continuous random number."""
        return any(True for _ in self.noises(tensor))

    def noises(self, tensor: Tensor) -> Iterator[Noise]:
        """Yield the continuous random numbers among the tensor's elements."""
        return (number for number in self.numbers(tensor) if isinstance(number, Noise))

    def numbers(self, tensor: Tensor) -> Iterator[Noise | Choice]:
        """Yield the random numbers among the tensor's elements."""
        ids = self.of(tensor)
        if ids is not None:
            for identity in dict.fromkeys(ids.flatten().tolist()):
                if identity != 0:
                    yield self.number(identity)

    def attach(self, tensor: Tensor, ids: Tensor) -> None:
        """Declare the ids of the tensor's elements; `ids` are broadcast to its shape."""
        shadow = self._shadow(tensor)
        if shadow is None and ids.any():
            shadow = self._new_shadow(tensor)
        if shadow is not None:
            _like_view(shadow, tensor).copy_(ids)

    def settle(self, tensor: Tensor, world: World) -> None:
        """Decide every choice among the tensor's elements and write the values into it."""
        choices = self.choices(tensor)
        self.write(tensor, {identity: each.value(world) for identity, each in choices.items()})

    def choices(self, tensor: Tensor) -> dict[int, Choice]:
        """Return the choices among the tensor's elements, in their order, by id."""
        ids = self.of(tensor)
        if ids is None:
            return {}
        held = [identity for identity in dict.fromkeys(ids.flatten().tolist()) if identity]
        numbers = {identity: self.number(identity) for identity in held}
        return {key: each for key, each in numbers.items() if isinstance(each, Choice)}

    def write(self, tensor: Tensor, decided: Mapping[int, int]) -> None:
        """Write decided values into the tensor's elements, which are no longer random."""
        ids = self.of(tensor)
        if ids is None or not decided:
            return
        if ids.numel() == 1:
            # `ids` is a view of what stands beside the storage.
            identity = int(ids)
            if identity in decided:
                with torch.inference_mode():
                    tensor.detach().copy_(torch.tensor(decided[identity]))
                    ids.zero_()
            return
        shadow = self._shadows[storage_of(tensor)._cdata].ids
        places = _like_view(torch.arange(len(shadow), device=shadow.device), tensor).flatten()
        known = torch.tensor(sorted(decided), device=shadow.device)
        values = torch.tensor([decided[identity] for identity in sorted(decided)])
        held = ids.flatten()
        found = torch.searchsorted(known, held.contiguous()).clamp(max=len(known) - 1)
        is_decided = known[found] == held
        # Inference mode may write to every tensor; what was born in it, no other mode may.
        with torch.inference_mode():
            memory = tensor.detach().as_strided((len(shadow),), (1,), 0)
            memory[places[is_decided]] = values.to(memory)[found[is_decided]]
            shadow[places[is_decided]] = 0

    def _shadow(self, tensor: Tensor) -> Tensor | None:
        """Return the ids of all elements of the tensor's storage, None if none was ever random."""
        storage = storage_of(tensor)
        shadow = self._shadows.get(storage._cdata)
        if shadow is None:
            return None
        if shadow.dtype is not tensor.dtype:
            if shadow.ids.any():
                raise NotUnderstood("views random numbers as numbers of another type")
            return self._new_shadow(tensor)
        missing = storage.nbytes() // tensor.element_size() - len(shadow.ids)
        if missing > 0:
            # `resize_` made the storage longer; what it held stayed where it was.
            with torch.inference_mode(mode=False):
                shadow.ids = torch.cat([shadow.ids, shadow.ids.new_zeros(missing)])
        return shadow.ids

    def _new_shadow(self, tensor: Tensor) -> Tensor:
        storage = storage_of(tensor)
        length = storage.nbytes() // tensor.element_size()
        with torch.inference_mode(mode=False):
            ids = torch.zeros(length, dtype=torch.int64, device=tensor.device)
        self._shadows[storage._cdata] = _Shadow(_weak(storage), ids, tensor.dtype)
        return ids


def parts(tensor: Tensor) -> list[Tensor]:
    """Return the dense tensors of which a sparse one is made."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in {torch.sparse_csr, torch.sparse_bsr}:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in {torch.sparse_csc, torch.sparse_bsc}:
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def _weak(storage: torch.UntypedStorage) -> StorageWeakRef:
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # torch is untyped


def _is_freed(storage: StorageWeakRef) -> bool:
    return storage.expired()  # type: ignore[no-any-return,no-untyped-call]  # torch is untyped


def _like_view(memory: Tensor, tensor: Tensor) -> Tensor:
    return memory.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
