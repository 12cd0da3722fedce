"""Settings: the surroundings of an instance in a call, all of them certain.

A fault may hide behind a length, a batch, an id, a layout, a call or a missing generator.
Everything that a setting adds to a request is certain, so the law is still that of the instance,
and costs as few runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.lanes.compared import Between
from draftproof.conformance.lanes.exchange import columns
from draftproof.conformance.protocol.adapter import Adapter, Program, Request, Result
from draftproof.conformance.protocol.loading import twin_of
from draftproof.conformance.requirements.layouts import laid_out


@dataclass(frozen=True)
class Setting:
    """Surroundings of an instance in a call."""

    before: int = 0
    """The number of certain tokens that every row drafts before its own."""
    rows: int = 1
    """The number of rows of the batch, all but one of them certain."""
    row: int = 0
    """The index of the uncertain row."""
    empty: bool = False
    """True for other rows that draft nothing, which only ragged adapters take."""
    tokens: int = 0
    """The number of tokens of probability zero, with ids below those of the instance."""
    calls: int = 0
    """The number of earlier calls of the same object, of one certain row each."""
    layout: str = ""
    """The layout of all tensors, empty for the contiguous layout."""
    dtype: str = ""
    """The dtype of all rows, empty for the adapter's own dtype."""
    generator: bool = True
    """False for requests that have no generator."""


PLAIN = Setting()
"""Setting without surroundings."""


def in_setting(program: Program, setting: Setting) -> Program:
    """Return the program that asks a verifier in a setting."""
    if setting == PLAIN:
        return program
    declared = program.declared
    if setting.dtype:
        declared = replace(declared, dtype=setting.dtype)
    # A row of many tokens costs as much as many rows do.
    at_once = max(declared.at_once * _SHORT // max(entries(setting), _SHORT), 1)
    return Program(_Surrounded(program.adapter, setting), replace(declared, at_once=at_once))


_SHORT = 64
"""Number of entries of a row of usual size."""


def entries(setting: Setting) -> int:
    """Return the number of entries of the target's rows in a setting, for L = 3 and V = 4."""
    return setting.rows * (setting.before + 4) * (setting.tokens + 4)


def smaller_settings(setting: Setting) -> Iterator[Setting]:
    """Yield settings one step smaller: without a dimension, or with less of it."""
    for name, plain in asdict(PLAIN).items():
        if getattr(setting, name) != plain:
            yield _with(setting, name, plain)
    for name in ("before", "rows", "row", "tokens", "calls"):
        size, least = getattr(setting, name), getattr(PLAIN, name)
        for smaller in (size // 2, size - 1):
            if least < smaller < size:
                yield _with(setting, name, smaller)


def _with(setting: Setting, name: str, value: Any) -> Setting:
    """Return the setting with a different value, and an uncertain row within its batch."""
    changed: dict[str, Any] = {**asdict(setting), name: value}
    return Setting(**{**changed, "row": min(changed["row"], changed["rows"] - 1)})


def told_setting(setting: Setting) -> str:
    """Return a setting in words, empty for the plain one."""
    told = {
        "before": f"after {setting.before} certain tokens",
        "rows": f"in row {setting.row} of {setting.rows}, the others certain",
        "empty": "beside rows that draft nothing",
        "tokens": f"at token ids from {setting.tokens} on",
        "calls": f"behind {setting.calls} certain calls",
        "layout": f"in the layout {setting.layout!r}",
        "dtype": f"in {setting.dtype}",
        "generator": "without a generator",
    }
    return ", ".join(told[name] for name in told if name in setting_to_json(setting))


def setting_to_json(setting: Setting) -> dict[str, Any]:
    """Return the dimensions in which a setting is not plain."""
    return {name: value for name, value in asdict(setting).items() if value != getattr(PLAIN, name)}


class _Surrounded(Between):
    """Adapter that puts its requests into a setting, and answers for their rows alone."""

    def __init__(self, adapter: Adapter, setting: Setting) -> None:
        super().__init__(adapter)
        self._setting, self.earlier = setting, setting.calls
        other = twin_of(adapter)
        self.same_as = None if other is None else _Surrounded(other, setting)

    def verify(self, request: Request) -> Result:
        """Verify each row of a request among those of the setting.

        Every row has a share of every call, so that a lane can ask for many at once.
        """
        setting = self._setting
        adapter, plain = copy(self._adapter), self._longer(request)
        for _ in range(setting.calls):
            adapter.verify(_certain(plain, setting.tokens))
        asked = self.passed_on(request)
        result = adapter.verify(asked)
        if setting.rows == 1 and not setting.before and not setting.tokens:
            return result
        own = slice(setting.row, None, setting.rows)
        accepted, path, token = (each[own] for each in columns(result, len(asked.draft_tokens)))
        return Result(
            accepted - setting.before if setting.before else accepted,
            path,
            token - setting.tokens if setting.tokens else token,
        )

    def passed_on(self, request: Request) -> Request:
        """Return the request in its setting."""
        setting, asked = self._setting, self._longer(request)
        if setting.rows > 1:
            other = _certain(asked, setting.tokens)
            asked = _among(asked, _emptied(other) if setting.empty else other, setting)
        return laid_out(setting.layout, asked) if setting.layout else asked

    def _longer(self, request: Request) -> Request:
        """Return the request with the tokens and the ids before its own."""
        setting = self._setting
        if not setting.generator:
            request = replace(request, generator=None)
        request = _widened(request, setting.tokens) if setting.tokens else request
        return _lengthened(request, setting.before, setting.tokens) if setting.before else request


_SURE = {
    "draft_probs": (1.0, 0.0),
    "target_probs": (1.0, 0.0),
    "draft_logits": (0.0, -torch.inf),
    "target_logits": (0.0, -torch.inf),
}
"""Rows of a request: the rows of a certain token, and those of a token of probability zero."""


def _with_rows(
    request: Request, made: Callable[[Tensor, float, float], Tensor], **others: Any
) -> Request:
    """Return the request with other rows, `made` from its own, and other fields."""
    own: dict[str, Tensor | None] = {name: getattr(request, name) for name in _SURE}
    changed: dict[str, Any] = {
        name: made(rows, *_SURE[name]) for name, rows in own.items() if rows is not None
    }
    return replace(request, **changed, **others)


def _widened(request: Request, tokens: int) -> Request:
    """Return the request with tokens of probability zero before its own."""

    def wide(rows: Tensor, _: float, never: float) -> Tensor:
        return torch.cat([rows.new_full((*rows.shape[:-1], tokens), never), rows], -1)

    path = request.draft_tokens
    return _with_rows(request, wide, draft_tokens=torch.where(path >= 0, path + tokens, path))


def _lengthened(request: Request, before: int, token: int) -> Request:
    """Return the request with certain tokens before its own."""

    def long(rows: Tensor, sure: float, never: float) -> Tensor:
        ahead = rows[:, :, :1].expand(-1, -1, before, -1)
        return torch.cat([_sure(ahead, token, sure, never), rows], 2)

    path, lengths = request.draft_tokens, request.lengths
    return _with_rows(
        request,
        long,
        draft_tokens=torch.cat([path.new_full((*path.shape[:2], before), token), path], 2),
        lengths=None if lengths is None else lengths + before,
    )


def _certain(request: Request, token: int) -> Request:
    """Return a request of certain rows, as many as in a given request."""

    def like(rows: Tensor, sure: float, never: float) -> Tensor:
        return _sure(rows, token, sure, never)

    path, lengths = request.draft_tokens, request.lengths
    return _with_rows(
        request,
        like,
        draft_tokens=torch.full_like(path, token),
        lengths=None if lengths is None else torch.full_like(lengths, path.shape[2]),
    )


def _emptied(certain: Request) -> Request:
    """Return a request of a certain row that drafts nothing: it emits its first token."""
    path, length = certain.draft_tokens, certain.draft_tokens.shape[2]

    def first(rows: Tensor, *_: float) -> Tensor:
        padded = torch.full_like(rows, torch.nan)
        # Of the target's rows, which are one more than the draft's, the first is kept.
        kept = rows.shape[2] - length
        padded[:, :, :kept] = rows[:, :, :kept]
        return padded

    lengths = torch.zeros(len(path), dtype=torch.int64, device=path.device)
    return _with_rows(certain, first, draft_tokens=torch.full_like(path, -1), lengths=lengths)


def _sure(rows: Tensor, token: int, sure: float, never: float) -> Tensor:
    """Return rows like the given ones, which are certain of a token."""
    made = torch.full_like(rows, never, memory_format=torch.contiguous_format)
    made[..., token] = sure
    return made


def _among(request: Request, certain: Request, setting: Setting) -> Request:
    """Return the request with certain rows before and after each of its own."""
    count = len(request.draft_tokens)
    # The rows of the request follow those of the certain one.
    order = torch.arange(count)[:, None].repeat(1, setting.rows)
    order[:, setting.row] += count

    def batched(name: str) -> Any:
        own, other = getattr(request, name), getattr(certain, name)
        if not isinstance(own, Tensor):
            return own
        return torch.cat([other, own])[order.flatten().to(own.device)]

    return replace(request, **{each.name: batched(each.name) for each in fields(Request)})
