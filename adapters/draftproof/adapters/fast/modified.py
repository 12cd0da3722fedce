"""The target that greedy block verification leaves behind: blocks inside of blocks.

A block keeps what its target M and the draft Q share. What follows inside of it repays the rest:
behind a text z the row is (r(z) M - Q)+, normalised, where r(z) = M(z) / Q(z) counts from the
block's start. The next block may start inside of this one, and has that row as its target.

All blocks have one draft, so no row is kept for any of them: where M = (a p - c q)+ / m and
r = b / d, the block leaves (b M - d q)+ = (ab p - (bc + dm) q)+ / m, two factors of the rows at
hand again. Only (b, d) goes from one iteration into the next; a token y makes it (b M(y), d q(y)).

Numerics. A ratio of L = 16 tokens overflows float32, and what the draft never says has none: so it
is two numbers, float64, the larger of them 1, and (a, c) likewise. d = 0 leaves M as it is. So does
a block that owes nothing: M and Q differ by rounding alone, or M never says what leads there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import mass, scaled
from draftproof.adapters.fast.inputs import InvalidRequest


@dataclass(frozen=True)
class Blocks:
    """N blocks of every request, the outer ones first: K of each iteration before, then this one's.

    A request that has fewer blocks has some with d = 0, which change nothing.
    """

    b: Tensor
    """[B, N] float64: what its target gives the text since the block's start, up to a factor."""
    d: Tensor
    """[B, N] float64: what the draft gives it, up to that factor."""
    left: Tensor
    """[B, G] int64: how many positions the blocks of each iteration before have left."""
    end: Tensor
    """[B] int64: at which depth the blocks of this iteration are over."""
    drafts: int
    """K: block n is of iteration n // K."""

    def with_one_more(self, where: Tensor) -> Blocks:
        """Return the blocks and one that starts here, at the requests `where` [B] says so."""
        b, d = pad(self.b, (0, 1), value=1.0), torch.cat([self.d, where[:, None].double()], 1)
        return replace(self, b=b, d=d)

    def is_inside(self, block: int, depth: int) -> Tensor | None:
        """Return whether a block modifies the rows [B] of a depth; None is never.

        The blocks of G iterations before, the last first, have at most G, G-1, .. positions left.
        """
        age = block // self.drafts
        if age >= self.left.shape[1]:
            return depth < self.end
        return depth < self.left[:, age] if depth <= age else None

    def after(self, targets: Targets, p: Tensor, q: Tensor) -> Blocks:
        """Return the blocks behind a token of probabilities p, q [B], from the targets there."""
        p, q = p[:, None].double(), q[:, None].double()
        said = (targets.a * p - targets.c * q)[:, :-1].clamp(min=0)
        b, d, _ = scaled(self.b * said, self.d * targets.mass[:, :-1] * q)
        return replace(self, b=b, d=d)


class Targets(NamedTuple):
    """The rows (a p - c q)+ / mass at one depth: the target's own, then what each block leaves."""

    a: Tensor
    """[B, N+1] float64."""
    c: Tensor
    """[B, N+1] float64."""
    mass: Tensor
    """[B, N+1] float64."""


def inherited(batch: Batch) -> Blocks:
    """Return the blocks of `batch.state`, and until where this iteration's are to go.

    That is a request's length; but one less where an older block goes on behind it. The bonus
    would be drawn from a row that needs the draft's, which is not given, so the last token is not
    verified. A request that drafts nothing knows no row of the draft, and loses what is left.
    Raises `InvalidRequest` for a state that is not of these requests.
    """
    lengths, drafts = batch.lengths, batch.drafts
    if batch.state is None:
        none = torch.ones(len(lengths), 0, dtype=torch.float64, device=lengths.device)
        return Blocks(none, none, none.long(), lengths, drafts)
    left, b, d = of_state(batch.state, len(lengths))
    more = 0, max(drafts - b.shape[2], 0)
    b, d = pad(b, more, value=1.0), pad(d, more)
    left = torch.where(lengths[:, None] > 0, left, 0)
    end = lengths - (left > lengths[:, None]).any(1).long()
    return Blocks(b.flatten(1), d.flatten(1), left, end, b.shape[2])


def of_state(state: Mapping[str, Tensor], requests: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return `left` [B, G], and `target` and `draft` [B, G, K]. Raises `InvalidRequest`."""
    missing = [name for name in ("left", "target", "draft") if name not in state]
    if missing:
        raise InvalidRequest(f"state has no {missing[0]!r}: it must be what a call of this left")
    left, b, d = (state[name] for name in ("left", "target", "draft"))
    if left.dtype != torch.int64:
        raise InvalidRequest(f"state['left'] must be int64, got {left.dtype}")
    if left.dim() != 2 or b.dim() != 3 or d.shape != b.shape or b.shape[:2] != left.shape:
        found = ", ".join(f"{name!r} {list(state[name].shape)}" for name in state)
        raise InvalidRequest(f"state must be what a call of this left, of one form; got {found}")
    if len(left) != requests:
        raise InvalidRequest(
            f"state must have a row for each of the {requests} requests, got {len(left)}; one that "
            f"joins the batch has left 0"
        )
    return left, b, d


def following(
    before: Mapping[str, Tensor] | None,
    requests: int,
    drafts: int,
    longest: int,
    device: torch.device,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return memory that nobody has written, for what comes after a state: `left`, (b, d)."""
    known, width = (0, 0) if before is None else before["target"].shape[1:]
    iterations, width = max(known, longest - 1, 0), max(width, drafts)
    left = torch.empty(requests, iterations, dtype=torch.int64, device=device)
    target, draft = (
        torch.empty(requests, iterations, width, dtype=torch.float64, device=device)
        for _ in range(2)
    )
    return left, target, draft


def state(blocks: Blocks, emitted: Tensor, length: int) -> dict[str, Tensor]:
    """Return what is inherited from blocks behind `emitted` [B] of at most `length` + 1 tokens.

    `left` [B, L-1] int64 says how many positions the blocks of the last L-1 iterations have left,
    the oldest first; `target` and `draft` [B, L-1, K] float64 are (b, d) of each. What is over, and
    what has not been, has 0, 1 and 0: so has a request that joins a batch.
    """
    left = torch.cat([blocks.left, blocks.end[:, None]], 1)
    rows, known = left.shape
    aged = max(known - 1, length - 1) - known
    left = pad((left - emitted[:, None]).clamp(min=0), (aged, 0))

    def by_age(each: Tensor, none: float) -> Tensor:
        every = pad(each, (0, known * blocks.drafts - each.shape[1]), value=none)
        every = pad(every.view(rows, known, blocks.drafts), (0, 0, aged, 0), value=none)
        return every.masked_fill(left[..., None] == 0, none)

    return {"left": left, "target": by_age(blocks.b, 1.0), "draft": by_age(blocks.d, 0.0)}


def unmodified(blocks: Blocks) -> Targets:
    """Return the targets at a depth where all blocks are over."""
    one = pad(torch.ones_like(blocks.b), (0, 1), value=1.0)
    return Targets(one, torch.zeros_like(one), one)


def modified(
    p: Tensor, q: Tensor, blocks: Blocks, depth: int, out: Tensor
) -> tuple[Targets, Tensor]:
    """Return the targets at a depth of rows p, q [B, V], and the mass [B] that the last block owes.

    It is computed in `out`.
    """
    m = torch.ones(len(p), dtype=torch.float64, device=p.device)
    a, c, owed = m, torch.zeros_like(m), m
    levels = [(a, c, m)]
    for n, (b, d) in enumerate(zip(blocks.b.unbind(1), blocks.d.unbind(1), strict=True)):
        is_inside = blocks.is_inside(n, depth)
        if is_inside is not None:
            new_a, new_c, scale = scaled(b * a, b * c + d * m)
            rest = mass(p, q, new_a.to(p.dtype), new_c.to(p.dtype), out=out).double()
            owed = rest * scale / m
            modifies = is_inside & (rest > 0) & (d > 0)
            a, c = torch.where(modifies, new_a, a), torch.where(modifies, new_c, c)
            m = torch.where(modifies, rest, m)
        levels.append((a, c, m))
    return Targets(*(torch.stack(column, 1) for column in zip(*levels, strict=True))), owed
