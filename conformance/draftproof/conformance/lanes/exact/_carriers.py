"""Carriers of a walk, and the versions of their memory in its runs.

A *carrier* is a tensor that the program holds. If runs differ in its memory, that memory has no
meaning, and each class of runs has a version of it outside the carrier (`_split`).
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.lanes._signature import tensors_in
from draftproof.conformance.lanes.exact._errors import NotTogether
from draftproof.conformance.lanes.exact._identity import Identities, parts
from draftproof.conformance.lanes.exact._split import (
    Classes,
    Partitions,
    Regrouping,
    SplitMemory,
    address,
    alive,
    bits,
    classes,
    is_dense,
    seen_as,
    spoil,
    weak,
    whole,
)


class Carriers:
    """Carriers of one walk whose memory is split, by the addresses of their storages."""

    def __init__(self, identities: Identities) -> None:
        self.splits: dict[int, SplitMemory] = {}
        self.partitions = Partitions()
        self._identities = identities

    def add(self, carrier: Tensor, of: Classes, versions: list[Tensor]) -> None:
        """Add an overwritten carrier with its versions by the classes of runs."""
        self.splits[address(carrier)] = SplitMemory(weak(carrier), of, versions)

    def close(self) -> bool:
        """Set memory that outlives the walk to the first run's; return whether there is any."""
        if any(alive(split.storage) for split in self.splits.values()):
            # What goes round in circles is held by nobody else.
            gc.collect()
        outlive = [split.put_back() for split in self.splits.values()]
        for carrier, version in filter(None, outlive):
            ids = self._identities.of(version)
            if ids is not None:
                self._identities.attach(carrier, ids)
        return any(outlive)

    def addresses(self, values: Any) -> dict[int, int]:
        """Return the addresses of the storages of tensors, by the tensors' ids."""
        return {
            id(tensor): address(tensor) if is_dense(tensor) else self._no_address(tensor)
            for tensor in tensors_in(values)
        }

    def _no_address(self, tensor: Tensor) -> int:
        """Return 0 for a tensor that is not dense. Raises `NotTogether` if runs differ in it."""
        if any(address(part) in self.splits for part in parts(tensor)):
            raise NotTogether("keeps what differs between runs in a tensor that is not dense")
        return 0

    def shown(self, key: int, seen: Tensor) -> list[Tensor]:
        """Return the views of a carrier's versions that a tensor of the program shows."""
        split = self.splits.get(key)
        return [seen] if split is None else [seen_as(each, seen) for each in split.versions]

    def split(self, carrier: Tensor, of: Classes) -> SplitMemory:
        """Move a carrier's memory into one version for all runs, and overwrite the carrier.

        `of` has all runs in one class.
        """
        memory = whole(carrier)
        split = SplitMemory(weak(carrier), self.partitions.one(of), [])
        split.versions.append(self.copied(memory))
        self.splits[address(carrier)] = split
        self._identities.attach(memory, torch.zeros((), dtype=torch.int64))
        spoil(memory)
        return split

    def copied(self, memory: Tensor) -> Tensor:
        """Return a copy of all elements of a storage, with the same random numbers."""
        with torch.inference_mode(mode=False):
            copy = memory.clone()
        ids = self._identities.of(memory)
        if ids is not None:
            self._identities.attach(copy, ids)
        return copy

    def put(self, key: int, of: Classes, versions: list[Tensor]) -> None:
        """Replace the versions of a carrier, with equal versions merged into one."""
        split = self.splits[key]
        split.of, split.versions = self.merged(of, versions)

    def merged(self, of: Classes, versions: list[Tensor]) -> tuple[Classes, list[Tensor]]:
        """Return the classes of runs that have the same memory, and one version for each."""
        kinds = [self._kind(version) for version in versions]
        if None in kinds or len(set(kinds)) == len(kinds):
            return of, versions
        merged, first = classes(kinds[own] for own in of)
        return self.partitions.one(merged), [versions[of[run]] for run in first]

    def _kind(self, version: Tensor) -> Hashable:
        """Return a key that equal versions share, None for a version that is too large."""
        found = bits(version)
        ids = None if found is None else self._identities.of(version)
        return found if ids is None else (found, *ids.tolist())

    def partition(self, of: Classes) -> Classes:
        """Return the coarsest partition finer than `of` whose classes agree in all memory."""
        return self.partitions.product([of, *(each.of for each in self.splits.values())])[0]

    def forget(self) -> None:
        """Forget carriers that the program no longer holds, since they need no versions."""
        self.splits = {key: each for key, each in self.splits.items() if alive(each.storage)}

    def take(self, were: Sequence[int], more: Classes) -> Regrouping:
        """Give run i the versions of former run `were[i]`; return one more partition, regrouped."""
        self.forget()
        splits = self.splits.values()
        taken = self.partitions.taken(were, [*(split.of for split in splits), more])
        for split in splits:
            own = taken[id(split.of)]
            split.of, split.versions = own.of, [split.versions[was] for was in own.were]
        return taken[id(more)]
