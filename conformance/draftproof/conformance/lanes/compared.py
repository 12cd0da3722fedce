"""Compared laws: the sizes, shapes and conditions of the requests whose laws are compared.

A law of two tokens says nothing about a law of two hundred thousand. So for every law that a task
compares, Draftproof notes the request for it, in the form in which it reached the verifier, after
every change. `noting` opens the scope of a task; the lanes note what they observe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.protocol.adapter import GENERATED, STORED, Adapter, Request
from draftproof.reference.rational import ZERO, Rational


@dataclass(frozen=True)
class Compared:
    """Request behind a compared law: its sizes, its form, and how hard its rows are.

    `call` is 1 for the first call of an adapter object. `atoms` is the largest number of tokens to
    which a row gives mass, `distance` the largest TV(p, q) of a position; both it and `smallest_q`,
    the smallest positive weight of the draft, are rounded to two digits.
    """

    rows: int
    length: int
    drafts: int
    vocabulary: int
    dtype: str
    device: str
    layout: str
    generator: str
    call: int
    ragged: bool
    logits: bool
    trees: bool
    atoms: int
    smallest_q: float | None
    distance: float


class Between:
    """Adapter around the verifier that passes on requests other than those that it gets."""

    earlier: int = 0
    """The calls to the verifier before the adapter passes a request on."""

    def __init__(self, adapter: Adapter) -> None:
        self.name, self.version, self.algorithm = adapter.name, adapter.version, adapter.algorithm
        self._adapter = adapter

    def passed_on(self, request: Request) -> Request:
        """Return the request that the inner adapter gets: the first one, if there are several."""
        raise NotImplementedError

    def behind(self) -> Adapter:
        """Return the adapter that gets the requests that are passed on."""
        return self._adapter


def described(adapter: Adapter | None, request: Request, *, call: int = 1) -> Compared:
    """Return the description of a request, in the form in which it reaches the inner verifier."""
    while isinstance(adapter, Between):
        call += adapter.earlier
        adapter, request = adapter.behind(), adapter.passed_on(request)
    rows, drafts, length, vocabulary = request.draft_probs.shape
    target, draft = _positions(request)
    drafted = draft[draft > 0]
    smallest = _rounded(drafted.min()) if drafted.numel() else None
    apart = (target[: len(draft)] - draft).abs().sum(-1)
    atoms = max(int((each > 0).sum(-1).max()) for each in (target, draft) if each.numel())
    lengths = request.lengths
    return Compared(
        rows=rows,
        length=length,
        drafts=drafts,
        vocabulary=vocabulary,
        dtype=str(request.draft_probs.dtype).removeprefix("torch."),
        device=str(request.draft_probs.device),
        layout=_layout(request),
        generator=_generator(request),
        call=call,
        ragged=lengths is not None and bool((lengths != length).any()),
        logits=request.draft_logits is not None,
        trees=request.branching is not None,
        atoms=atoms,
        smallest_q=smallest,
        distance=_rounded(apart.max() / 2) if apart.numel() else 0.0,
    )


def _positions(request: Request) -> tuple[Tensor, Tensor]:
    """Return the rows [N, V] of all positions: the target's, the draft's beside the first of them.

    Padding is left out; the bonus rows of the target come last.
    """
    target, draft = request.target_probs.double(), request.draft_probs.double()
    vocabulary, length = draft.shape[-1], draft.shape[2]
    lengths = request.lengths
    if lengths is None:
        parts = (target[:, :, :length], target[:, :, length:], draft)
        beside, bonus, own = (part.reshape(-1, vocabulary) for part in parts)
        return torch.cat([beside, bonus]), own
    place = torch.arange(length + 1, device=lengths.device)
    is_drafted = (place < lengths[:, None])[:, None].expand(target.shape[:-1])
    is_bonus = (place == lengths[:, None])[:, None].expand(target.shape[:-1])
    return torch.cat([target[is_drafted], target[is_bonus]]), draft[is_drafted[:, :, :length]]


def _layout(request: Request) -> str:
    """Return the layout of the request's tensor that differs most from a contiguous one."""
    tensors = [each for each in vars(request).values() if isinstance(each, Tensor)]
    return max(map(_layout_of, tensors), key=STORED.index)


def _layout_of(tensor: Tensor) -> str:
    contiguous, offset, strided, expanded = STORED
    sides = zip(tensor.shape, tensor.stride(), strict=True)
    if any(stride == 0 and size > 1 for size, stride in sides):
        return expanded
    if not tensor.is_contiguous():
        return strided
    return offset if tensor.storage_offset() else contiguous


def _generator(request: Request) -> str:
    given, own, none = GENERATED
    # A generator for each row is newer than some adapters' requests.
    if getattr(request, "generators", None) is not None:
        return own
    return none if request.generator is None else given


def _rounded(number: Tensor) -> float:
    return float(f"{float(number):.1e}")


# --- what a task compares ---------------------------------------------------------------------


@dataclass
class Noted:
    """Compared laws of a task, each with its number of occurrences, and their certainty.

    Each probed law is within `resolution` of the true law.
    """

    laws: Counter[Compared] = field(default_factory=Counter)
    resolution: Rational = ZERO

    def forget(self) -> None:
        """Start anew, because a lane proved blind and the next lane begins."""
        self.laws, self.resolution = Counter(), ZERO


_NOTED: ContextVar[Noted | None] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Iterator[Noted]:
    """Note all laws that are compared in this block."""
    noted = Noted()
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


@contextmanager
def noting_nothing() -> Iterator[None]:
    """Note no law in this block: it is noted when it is used."""
    token = _NOTED.set(None)
    try:
        yield
    finally:
        _NOTED.reset(token)


def is_noting() -> bool:
    """Return True if compared laws are noted."""
    return _NOTED.get() is not None


def note(laws: Iterable[Compared]) -> None:
    """Note compared laws, if enabled."""
    if (noted := _NOTED.get()) is not None:
        noted.laws.update(laws)


def note_resolution(resolution: Rational) -> None:
    """Note the certainty of a probed law, if enabled."""
    if (noted := _NOTED.get()) is not None:
        noted.resolution = max(noted.resolution, resolution)


def compared_to_json(laws: Mapping[Compared, int]) -> list[dict[str, Any]]:
    """Return compared laws in the form of evidence, each with its number of requests."""
    return [{**vars(each), "laws": times} for each, times in laws.items()]
