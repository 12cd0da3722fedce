"""Requirement on the size of a verifier's input.

Id, level and wording are those of the specification's chapter 9.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.cases.case import Case
from draftproof.conformance.cases.long import drafted, uncertain
from draftproof.conformance.lanes.compared import Between
from draftproof.conformance.lanes.exchange import Asked, columns
from draftproof.conformance.lanes.observe import EXACT, PROBE, observe, observe_batch
from draftproof.conformance.protocol.adapter import Declaration, Program, Request, Result
from draftproof.conformance.protocol.loading import twin_of
from draftproof.conformance.requirements._one_law import judged_law
from draftproof.conformance.requirements.batches import judge_batch, tensors_of, with_tensors
from draftproof.conformance.requirements.finding import SKIPPED, Finding
from draftproof.conformance.requirements.task import Task, Terms

_ID = "number.offsets"


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on rows that are far apart in memory: along a path, and along a batch."""
    if mode == "quick":
        return
    yield Task("offsets.positions", (_ID,), (EXACT, PROBE), judge_positions)
    if declared.batch:
        yield Task("offsets.rows", (_ID,), (EXACT, PROBE), judge_rows)


_APART = 2**30
"""Distance of neighbours that are far apart, in entries: a number of 31 bits."""

_PLACES = 5
"""Number of rows at such distances: the third begins at 2**31 entries, the fifth at 2**32."""

_MAPPED = 4096
"""Number of rows in memory that is only mapped, 16 TiB in all: lanes ask for many rows at a
time."""

_LENGTH = _PLACES - 1


def judge_positions(program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `number.offsets` on a path whose positions are far apart."""
    name = "offsets.positions"
    if reason := _unmapped(program.declared):
        return [Finding(_ID, name, SKIPPED, detail=reason, applies=False)]
    case = Case(name, "", "standard", uncertain(name, _LENGTH, {2, _LENGTH}))
    return [judged_law(_ID, observe(_far(program), case, lane=terms.lane))]


def judge_rows(program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `number.offsets` on a batch whose rows are far apart.

    The rows at 2**31 and 2**32 entries are uncertain, and all others are certain.
    """
    name = "offsets.rows"
    if reason := _unmapped(program.declared):
        return [Finding(_ID, name, SKIPPED, detail=reason, applies=False)]
    certain = drafted(uncertain(f"{name}.certain", 1, set()))
    rows: list[Asked] = [certain] * _PLACES
    for place in (2, 4):
        rows[place] = drafted(uncertain(f"{name}.{place}", 1, {0, 1}))
    seen = observe_batch(_far(program), name, rows, lane=terms.lane, beside=program)
    return [judge_batch(seen, _ID)]


# --- far apart ---------------------------------------------------------------------------------


def _far(program: Program) -> Program:
    return replace(program, adapter=FarApart(program))


class FarApart(Between):
    """Adapter whose rows are far apart: those of a batch, or of a path of several tokens.

    Each request has as many rows as fit in its memory.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program.adapter)
        other = twin_of(program.adapter)
        self.same_as = None if other is None else FarApart(replace(program, adapter=other))

    def passed_on(self, request: Request) -> Request:
        """Return the request for as many rows as fit, far apart."""
        return _apart(_part(request, slice(_at_once(request))))

    def verify(self, asked: Request) -> Result:
        """Verify the rows, as many at a time as fit."""
        rows, at_once = len(asked.draft_tokens), _at_once(asked)
        found = []
        for start in range(0, rows, at_once):
            part = _part(asked, slice(start, start + at_once))
            result = copy(self._adapter).verify(_apart(part))
            found.append(columns(result, len(part.draft_tokens)))
        accepted, path, token = (torch.cat(column) for column in zip(*found, strict=True))
        return Result(accepted, path, token)


def _at_once(asked: Request) -> int:
    """Return how many of the rows of a request fit in the memory."""
    rows, _, length = asked.draft_tokens.shape
    # Longer paths lie side by side, all in the places that one of them needs.
    return _places(asked.draft_probs.device) if length == 1 else rows


def _part(asked: Request, rows: slice) -> Request:
    """Return the request for some of the rows."""
    return with_tensors(asked, {name: tensor[rows] for name, tensor in tensors_of(asked)})


def _apart(asked: Request) -> Request:
    """Return the request with the rows of target and draft far apart.

    Paths of one token are `_APART` entries from each other, and their positions half of that.
    Longer paths are adjacent, with their positions `_APART` entries from each other. Nothing else
    changes.
    """
    names = ("target_probs", "draft_probs", "target_logits", "draft_logits")
    given = {name: rows for name in names if (rows := getattr(asked, name)) is not None}
    is_short = asked.draft_tokens.shape[2] == 1
    changed: dict[str, Any] = {}
    for number, (name, rows) in enumerate(given.items()):
        memory = _memory(rows.dtype, rows.device)
        _, drafts, _, vocabulary = rows.shape
        between = (_APART, _APART // 2) if is_short else (drafts * vocabulary, _APART)
        strides = (between[0], vocabulary, between[1], 1)
        laid = memory.as_strided(rows.shape, strides, _BEFORE + number * _BESIDE)
        changed[name] = laid.copy_(rows)
    return replace(asked, **changed)


_BEFORE = 2**31
"""Entries before the first row: a negative offset leads to zeros, not to a crash."""

_BESIDE = 2**20
"""Entries between the rows of different tensors."""


def _places(device: torch.device) -> int:
    return _MAPPED if device.type == "cpu" else _PLACES


@lru_cache(maxsize=1)
def _memory(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return memory that is zero, and occupies space on a CPU only if it is written.

    Raises `OSError`, `ValueError`, `RuntimeError` or `MemoryError` if there is not enough.
    """
    entries = _BEFORE + _places(device) * _APART
    if device.type != "cpu":
        return torch.zeros(entries, dtype=dtype, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return torch.frombuffer(mmap.mmap(-1, entries * dtype.itemsize, flags=flags), dtype=dtype)


_MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0
"""Flag of a mapping that does not count before it is written; Python 3.13 has a name for it."""


def _unmapped(declared: Declaration) -> str:
    """Return the reason why memory of that size is not available, empty if it is."""
    try:
        _memory(getattr(torch, declared.dtype), torch.device(declared.device))
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        return f"no memory of that many entries can be had here: {error}"
    return ""
