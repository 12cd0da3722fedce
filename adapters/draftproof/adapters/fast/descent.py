"""Verification from the root down: one rule for one position, applied at every node on the way.

The requests of a batch go down together, each along the paths that are still *alive*: those that
share what it has accepted. A node's siblings are the tokens that were drafted after it, in drawing
order. Under the scheme "iid" every `step`-th path was drawn there, where a node has `step` paths
below it, and a token that came twice is two siblings; under the others equal tokens are one.

A rule never makes a residual row. Where it keeps no sibling, what is owed is

    ((1 - b) p - c q)+ + b p, apart from some tokens,

with scalars b, c for each request; the next token is drawn from it once, at the end. The bonus is
b = 1, c = 0. Here c is not bounded: where the draft's siblings took almost all of its mass, it is
one over what they left. Products with a q of 0 must be 0, so c stops at the largest float.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import draw, excess, rows_behind
from draftproof.conformance.adapter import Result


@dataclass(frozen=True)
class Siblings:
    """What was drafted after the node of every request, at one depth."""

    tokens: Tensor
    """[B, K] int64: in drawing order; behind the last of them it is repeated."""
    count: Tensor
    """[B] int64: how many they are, 0 where a request has stopped."""
    place: Tensor
    """[B, K] int64: where each stands among the drafted tokens [K L] of its request."""
    depth: int
    most: int
    """The most that any request can have here."""


@dataclass(frozen=True)
class SiblingChoice:
    """The sibling that a rule keeps, and what it owes where it keeps none."""

    token: Tensor
    """[B] int64: the token of the sibling, -1 for none."""
    c: Tensor
    """[B]: see the module."""
    b: Tensor | float = 0.0
    """[B]."""
    apart: Tensor | None = None
    """[B, K] or [B, 1] int64: the tokens that are owed `weight` instead, None if there are none."""
    weight: Tensor | float = 0.0
    """[B]."""


SiblingRule = Callable[[Siblings, Tensor, Tensor], SiblingChoice]
"""How one sibling is kept, or none, when p is to be followed and q was drawn from, of rows [B, V].

They are the rule's own where K > 1: it may write into them, and into `batch.room`.
"""


def descend(batch: Batch, rule: SiblingRule, mark: Tensor, *, scheme: str) -> Result:
    """Go down as long as the rule keeps siblings, and draw the next token at `mark` [B]."""
    accepted, going = torch.zeros_like(batch.lengths), batch.lengths > 0
    alive = (accepted[:, None] == 0).expand(-1, batch.drafts)
    c = torch.zeros_like(mark, dtype=batch.p.dtype)
    b, weight = torch.ones_like(c), torch.zeros_like(c)
    apart: Tensor | None = None
    for depth in range(batch.length):
        siblings = _siblings(batch, alive & going[:, None], depth, scheme)
        path = _first(alive)
        p = batch.p.row(path, depth, batch.room[0])
        choice = rule(siblings, p, batch.q.row(path, depth, batch.room[1]))
        goes_on = going & (choice.token >= 0)
        stops = going & ~goes_on
        c, b = torch.where(stops, choice.c, c), torch.where(stops, choice.b, b)
        weight = torch.where(stops, choice.weight, weight)
        if choice.apart is not None:
            old = choice.apart if apart is None else apart
            apart = torch.where(stops[:, None], choice.apart, old)
        is_kept = batch.tokens[:, :, depth] == choice.token[:, None]
        alive = alive & (is_kept | ~goes_on[:, None])
        accepted = accepted + goes_on
        going = goes_on & (accepted < batch.lengths)
    path = _first(alive)
    p, q = rows_behind(batch, path, accepted)
    owed = excess(p, q, 1 - b, c, out=q)
    if apart is not None:
        owed.scatter_(1, apart, weight[:, None].expand_as(apart))
    # Where nothing is left, target and draft differ by rounding alone, and p is drawn from.
    b = b.masked_fill(owed.sum(-1) == 0, 1)
    return Result(accepted, path, draw(owed.addcmul_(p, b[:, None]), mark))


def _siblings(batch: Batch, alive: Tensor, depth: int, scheme: str) -> Siblings:
    """Return the siblings on the paths [B, K] that are alive."""
    tokens = batch.tokens[:, :, depth]
    path = torch.arange(batch.drafts, device=tokens.device)
    # Where a scheme has run out of tokens there are fewer paths.
    most = min(batch.widths[depth], batch.drafts)
    if scheme == "iid":
        step = prod(batch.widths[depth + 1 :])
        are, most = alive & (path % step == 0), batch.drafts // step
    else:
        is_equal = tokens[:, :, None] == tokens[:, None, :]
        is_earlier = path[:, None] > path[None, :]
        are = alive & ~(is_equal & is_earlier & alive[:, None, :]).any(-1)
    count = are.sum(-1)
    order = are.long().sort(dim=-1, descending=True, stable=True).indices
    own = order.gather(1, torch.minimum(path, (count[:, None] - 1).clamp(min=0)))
    return Siblings(tokens.gather(1, own), count, own * batch.length + depth, depth, most)


def _first(alive: Tensor) -> Tensor:
    """Return the first path [B] of those that are alive."""
    return alive.long().argmax(1)
