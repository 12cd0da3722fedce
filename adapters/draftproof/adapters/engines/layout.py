"""Between the adapter protocol's block of rows and an engine's rows one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from draftproof.adapters.engines.released import MovedOn
from draftproof.conformance.adapter import Request, Result


def trusting(
    rows: str = "its own models",
    *,
    drafter: str = "its own models",
    logits: bool = True,
    **others: str,
) -> dict[str, str]:
    """Return why an adapter that trusts its rows and its drafter defines no invalid input.

    Rows of `logits` alone cannot break some rules; `others` are reasons of the adapter's own.
    """
    trusted = f"rows come from {rows} and are trusted"
    return {
        "nan": trusted,
        "negative": "it takes logits, which have no negative probabilities" if logits else trusted,
        "unnormalised": "it takes logits, which need no normalisation" if logits else trusted,
        "shape": trusted,
        "token": f"drafted tokens come from {drafter} and are trusted",
        **others,
    }


class OneRequest:
    """What an adapter declares that takes one request at a time, and its rows as logits."""

    batch = False
    logits = True
    undefined: ClassVar[Mapping[str, str]] = trusting()


class OneTree(OneRequest):
    """What it declares if the request's paths are the leaves of a tree."""

    trees = True
    max_drafts = 4


@dataclass(frozen=True)
class Flat:
    """One path for each of B requests, n drafted tokens together."""

    tokens: Tensor
    """[n] int32: the drafts, one behind the other."""
    lengths: list[int]
    """[B]: how many tokens each request drafts."""
    ends: Tensor
    """[B] int32: where the drafts of each end."""
    q: Tensor
    """[n, V]: the draft's rows, as logits."""
    p: Tensor
    """[n, V]: the target's rows at the drafted positions, as logits."""
    bonus: Tensor
    """[B, V]: the target's rows behind the drafts, as logits."""


def flattened(request: Request) -> Flat:
    """Return the request of an adapter that takes logits and one path as engines have it."""
    count, _, longest = request.draft_tokens.shape
    q, p = (rows[:, 0] for rows in logits_of(request))
    lengths = lengths_of(request)
    is_drafted = torch.arange(longest) < lengths[:, None]
    return Flat(
        tokens=request.draft_tokens[:, 0][is_drafted].int(),
        lengths=lengths.tolist(),
        ends=lengths.cumsum(0).int(),
        q=q[is_drafted],
        p=p[:, :longest][is_drafted],
        bonus=p[torch.arange(count), lengths],
    )


def logits_of(request: Request) -> tuple[Tensor, Tensor]:
    """Return the rows of the draft and the target as logits: those given, or logarithms."""
    q, p = request.draft_logits, request.target_logits
    return (
        request.draft_probs.log() if q is None else q,
        request.target_probs.log() if p is None else p,
    )


def lengths_of(request: Request) -> Tensor:
    """Return how many tokens each request drafts, [B] int64."""
    if request.lengths is not None:
        return request.lengths
    count, _, longest = request.draft_tokens.shape
    return torch.full((count,), longest)


def followed(request: Request, emitted: Tensor, accepted: int) -> Result:
    """Return what tokens [n] say of one request: those that are accepted, then the next one.

    An accepted length of -1 says that they are not as many, or that no path begins with them.
    """
    paths = request.draft_tokens[0]
    is_here = [torch.equal(path[: len(emitted) - 1], emitted[:-1]) for path in paths]
    is_whole = any(is_here) and len(emitted) == accepted + 1
    return Result(
        accepted_length=torch.tensor([accepted if is_whole else -1]),
        path=torch.tensor([is_here.index(True) if is_whole else 0]),
        next_token=emitted[-1:],
    )


def read(request: Request, emitted: Tensor) -> Result:
    """Return what rows [B, L+1] of tokens say, which end before their first -1.

    An accepted length of -1 says that a row is none: it is empty, goes on behind a -1, or begins
    with other tokens than the drafted ones. Raises `MovedOn` for tensors of other shapes.
    """
    drafted = request.draft_tokens[:, 0]
    expected = (len(drafted), drafted.shape[1] + 1)
    if emitted.shape != expected:
        raise MovedOn(
            f"it returned {[*emitted.shape]} where this adapter reads rows of tokens {[*expected]}"
        )
    is_there = emitted != -1
    count = is_there.sum(1)
    accepted = count - 1
    depth = torch.arange(drafted.shape[1])
    is_other = (emitted[:, :-1] != drafted) & (depth < accepted[:, None])
    has_hole = (is_there.long().diff(dim=1) > 0).any(1)
    return Result(
        accepted_length=accepted.masked_fill(is_other.any(1) | has_hole, -1),
        path=torch.zeros_like(count),
        next_token=emitted.gather(1, accepted.clamp(min=0)[:, None])[:, 0],
    )


class Unpinned:
    """The module torch, whose constructors pin no memory, which needs a GPU."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch, name)
        if name not in ("arange", "full", "ones", "tensor", "zeros"):
            return found

        def unpinned(*values: object, **options: object) -> object:
            return found(*values, **{k: v for k, v in options.items() if k != "pin_memory"})

        return unpinned
