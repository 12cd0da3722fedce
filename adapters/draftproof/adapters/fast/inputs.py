"""From a request or an engine's tensors to a batch, checked where the contract asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch, Rows, Softmax
from draftproof.conformance.adapter import Request

DTYPES = ("float32", "float64", "float16", "bfloat16")
"""The dtypes of rows that the fast verifiers take."""


class InvalidRequest(ValueError):
    """The request breaks its contract; the message says what, where, and what would be right."""


def checked(request: Request, *, most_drafts: int, rows: bool = True) -> None:
    """Check a request of the adapter protocol. Raises `InvalidRequest`.

    What waits for the device, since an answer is fetched, is left out without `rows`: all that is
    read of the rows, tokens and lengths.
    """
    tokens, q, p = request.draft_tokens, request.draft_probs, request.target_probs
    _check_shapes(tokens, q, p)
    count, drafts, length = tokens.shape
    if drafts > most_drafts:
        many = "one path" if most_drafts == 1 else f"at most {most_drafts} paths"
        raise InvalidRequest(f"this verifier takes {many} per row, got {drafts}")
    lengths = request.lengths
    if lengths is not None and (lengths.shape != (count,) or lengths.dtype != torch.int64):
        raise InvalidRequest(
            f"lengths must be int64 [{count}], got {lengths.dtype} {list(lengths.shape)}"
        )
    if not rows:
        return
    lengths = _lengths(request)
    outside = (lengths < 0) | (lengths > length)
    if outside.any():
        where = outside.nonzero()[0].tolist()
        raise InvalidRequest(f"lengths{where} is {int(lengths[where[0]])}, not in 0..{length}")
    inside = torch.arange(length + 1, device=tokens.device) <= lengths[:, None, None]
    drafted = inside[..., 1:]
    _check_tokens(tokens, drafted, q.shape[-1])
    _check_rows("draft_probs", q, drafted)
    _check_rows("target_probs", p, inside)
    _check_left(request.state, lengths)


def flattened(request: Request) -> dict[str, Any]:
    """Return what an engine passes to `engine.verify` for a request of the adapter protocol.

    Rows of one path and of one length are not copied.
    """
    tokens, q, p = request.draft_tokens, request.draft_probs, request.target_probs
    lengths, longest, own = _lengths(request), tokens.shape[2], request.generators

    def positions(rows: Tensor, more: int) -> Tensor:
        """Return what is given at the positions [B, K, D, ...] of requests, [n, K, ...]."""
        rows = rows.movedim(1, 2)
        if request.lengths is None:
            return rows.flatten(0, 1)
        return rows[torch.arange(longest + more, device=rows.device) < lengths[:, None] + more]

    return {
        "draft_token_ids": positions(tokens, 0),
        "cu_num_draft_tokens": lengths.cumsum(0),
        "max_spec_len": longest,
        "draft_probs": positions(q, 0),
        "target_probs": positions(p, 1),
        "generators": request.generator if own is None else [*own],
        "branching": request.branching,
        "state": request.state,
    }


def from_request(request: Request, *, most_drafts: int) -> Batch:
    """Return the batch of a request of the adapter protocol, for noise of one's own.

    Raises `InvalidRequest`.
    """
    checked(request, most_drafts=most_drafts)
    flat = flattened(request)
    return from_flat(
        flat["draft_token_ids"],
        flat["cu_num_draft_tokens"],
        lying(flat["draft_probs"]),
        lying(flat["target_probs"]),
        longest=flat["max_spec_len"],
        branching=request.branching,
        state=request.state,
    )


@dataclass(frozen=True)
class Lying:
    """The rows of a model at n positions of K drafts, as they lie in memory, one after another.

    Row k of position i has the number `by_position` i + `by_draft` k, or the one that the `index`
    has there.
    """

    values: Tensor
    """[N, V], of any strides."""
    by_position: int
    by_draft: int
    positions: int
    softmax: Softmax | None = None
    """How they become probabilities, None where they are."""
    index: Tensor | None = None
    """[M] int64, None where rows lie in the order of positions."""

    @property
    def own(self) -> Tensor:
        """The rows [M, V] in their order, copied where there is an `index`."""
        return self.values if self.index is None else self.values[self.index]

    def number(self, position: Tensor, draft: Tensor | int) -> Tensor:
        """Return the number of the row of a draft at a position, int64, of any shape."""
        return position * self.by_position + draft * self.by_draft


def lying(rows: Tensor) -> Lying:
    """Return rows [n, K, V] as they lie.

    They are copied only where no one stride leads from each to the next: where the drafts of a
    position lie neither side by side, nor in one place, nor each behind all positions of the last.
    """
    count, drafts, _ = rows.shape
    if drafts > 1 and rows.stride(1) == 0:
        return Lying(rows[:, 0], 1, 0, count)
    if drafts > 1 and rows.stride(1) > rows.stride(0):
        return Lying(rows.transpose(0, 1).flatten(0, 1), 1, count, count)
    return Lying(rows.flatten(0, 1), drafts, 1, count)


def indexed(rows: Tensor, index: Tensor) -> Lying:
    """Return rows of which the `index` [n] or [n, K] tells the number of each position's.

    They are [N, V], or [R, S, V] where row s of r has the number r S + s. A number that is none of
    0..N-1 counts as the next one that is. None is copied.
    """
    numbers = index.long().clamp(0, rows.shape[:-1].numel() - 1)
    values = rows
    if rows.dim() == 3:
        values, numbers = _in_line(rows, numbers)
    if numbers.dim() == 1:
        return Lying(values, 1, 0, len(numbers), index=numbers)
    return Lying(values, numbers.shape[1], 1, len(numbers), index=numbers.flatten())


def _in_line(rows: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows [R, S, V] one after another, and where those of such numbers are among them.

    Where no one stride leads from each to the next, what both strides are multiples of does: some
    of what lies in between is then no row.
    """
    (many, steps, vocabulary), (over, along, step) = rows.shape, rows.stride()
    if over == steps * along or many == 1 or steps == 1:
        return rows.flatten(0, 1), numbers
    stride = gcd(over, along)
    if stride == 0:
        return rows[0, :1], torch.zeros_like(numbers)
    count = ((many - 1) * over + (steps - 1) * along) // stride + 1
    place = (numbers // steps) * (over // stride) + (numbers % steps) * (along // stride)
    return rows.as_strided((count, vocabulary), (stride, step)), place


@dataclass(frozen=True)
class EngineBatch:
    """What an engine has of B requests with n positions together, as kernels are told of it."""

    tokens: Tensor
    """[n, K], integer."""
    ends: Tensor
    """[B], integer."""
    p: Lying
    q: Lying | None
    """None where the draft is certain of its tokens."""
    longest: int
    noise: Tensor | tuple[Tensor, Tensor]
    """Numbers [B, W] in [0, 1), float64, or the seeds and positions [B] they are counted from."""
    p_temperature: Tensor | None = None
    """[B], where the target's logits are heated as they are read; likewise the draft's."""
    q_temperature: Tensor | None = None
    branching: tuple[int, ...] | None = None
    state: Mapping[str, Tensor] | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        """How many tokens were drawn after a context, by its depth."""
        return (self.branching or (self.tokens.shape[1], *[1] * self.longest))[: self.longest]

    @property
    def vocabulary(self) -> int:
        """The vocabulary size V, of the model that has more tokens."""
        widths = [rows.values.shape[1] for rows in (self.p, self.q) if rows is not None]
        return max(widths)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that is computed in: float32, or float64 where a model has rows of it."""
        dtype = torch.promote_types(self.p.values.dtype, torch.float32)
        return dtype if self.q is None else torch.promote_types(self.q.values.dtype, dtype)

    def room(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return memory that nobody has written, in the dtype that is computed in unless told."""
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.tokens.device)

    def told(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return room for the tokens emitted [B, L+1], and what is accepted, path and count [B]."""
        requests, whole = len(self.ends), torch.int64
        emitted = self.room(requests, self.longest + 1, dtype=torch.int32)
        accepted, path = (self.room(requests, dtype=whole) for _ in range(2))
        return emitted, accepted, path, self.room(requests, dtype=torch.int32)


def from_flat(
    tokens: Tensor,
    ends: Tensor,
    q: Lying,
    p: Lying,
    *,
    longest: int,
    branching: tuple[int, ...] | None = None,
    state: Mapping[str, Tensor] | None = None,
) -> Batch:
    """Return the batch of an engine's tensors, requests of different lengths one after another.

    `tokens` [n, K] are the drafted ones of all requests, `ends` [B] where each one's end, and no
    request has more than `longest` of them. `q` has a row for each, `p` one more for every request.
    A request's draft ends before its first token that is none of 0..V-1. Nothing beyond the tensors
    is read, whatever `ends` and tokens are. All is computed in the target's dtype: where only the
    draft's rows are float64, the target's are copied to it.
    """
    if q.values.dtype == torch.float64:
        p = replace(p, values=p.values.to(torch.float64))
    count, drafts = tokens.shape
    starts = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]])
    depth = torch.arange(longest + 1, device=tokens.device)
    within = depth[:-1] < (ends - starts)[:, None]
    # Behind all tokens stands one that is none.
    here = torch.where(within, starts[:, None] + depth[:-1], count).clamp(0, count)
    padded = torch.cat([tokens, tokens.new_full((1, drafts), -1)])[here]
    padded = padded.movedim(-1, 1).long()
    is_token = (padded >= 0) & (padded < max(p.values.shape[1], q.values.shape[1]))
    lengths = is_token.all(1).long().cumprod(-1).sum(-1)
    drafted = depth[:-1] < lengths[:, None]
    request = torch.arange(len(ends), device=tokens.device)
    rows = starts[:, None] + request[:, None] + depth.minimum(lengths[:, None])
    rows = rows.clamp(0, count + len(ends) - 1)
    path = torch.arange(drafts, device=tokens.device)[:, None]
    return Batch(
        tokens=torch.where(drafted[:, None], padded, 0).contiguous(),
        lengths=lengths,
        q=Rows(
            q.values, q.number(torch.where(drafted, here, 0)[:, None], path), q.softmax, q.index
        ),
        p=Rows(p.values, p.number(rows[:, None], path), p.softmax, p.index),
        branching=branching,
        state=state,
    )


def flat_of(batch: Batch, noise: Tensor) -> EngineBatch:
    """Return a batch as an engine has it, whose requests have one number of positions each."""
    count, drafts, longest = batch.tokens.shape
    inside = torch.arange(longest, device=noise.device) < batch.lengths[:, None, None]
    tokens = batch.tokens.where(inside, -1).movedim(1, 2).reshape(-1, drafts)
    ends = torch.arange(1, count + 1, device=noise.device) * longest

    def laid(rows: Rows) -> Lying:
        at = rows.at.movedim(1, 2).reshape(-1)
        index = at if rows.index is None else rows.index[at]
        soft, whole = rows.softmax, None
        if soft is not None:
            parts = soft.scale, soft.largest, soft.least, soft.last
            whole = Softmax(*(part if part is None else part[at] for part in parts))
        positions = count * rows.at.shape[2]
        return Lying(rows.values, drafts, 1, positions, whole, index)

    heat = None
    if batch.p.softmax is not None and batch.p.softmax.scale is not None:
        heat = 1 / batch.p.softmax.scale[batch.p.at[:, 0, 0]]
    q = laid(batch.q) if len(tokens) > 0 else None
    return EngineBatch(
        *(tokens, ends, laid(batch.p), q, longest, noise, heat, heat),
        branching=batch.branching,
        state=batch.state,
    )


def _lengths(request: Request) -> Tensor:
    """Return how many tokens each row drafts, [B] int64."""
    rows, _, longest = request.draft_tokens.shape
    if request.lengths is not None:
        return request.lengths
    return torch.full((rows,), longest, device=request.draft_tokens.device)


def _check_left(state: Mapping[str, Tensor] | None, lengths: Tensor) -> None:
    """Check that a request of which something is left drafts: it is taken from the draft's rows."""
    if state is None or "left" not in state or len(state["left"]) != len(lengths):
        return
    lost = (lengths == 0) & (state["left"] > 0).any(-1)
    if lost.any():
        where = lost.nonzero()[0].tolist()
        raise InvalidRequest(
            f"lengths{where} is 0, but state says that a block goes on there: at least one token "
            f"must be drafted, whose row tells what is left of the target"
        )


def _check_shapes(tokens: Tensor, q: Tensor, p: Tensor) -> None:
    if tokens.dim() != 3 or tokens.dtype != torch.int64:
        raise InvalidRequest(
            f"draft_tokens must be int64 [B, K, L], got {tokens.dtype} {list(tokens.shape)}"
        )
    rows, drafts, length = tokens.shape
    if q.dim() != 4 or q.shape[:3] != tokens.shape:
        raise InvalidRequest(
            f"draft_probs must be [{rows}, {drafts}, {length}, V] to match draft_tokens, "
            f"got {list(q.shape)}"
        )
    expected = (rows, drafts, length + 1, q.shape[-1])
    if p.shape != expected:
        raise InvalidRequest(
            f"target_probs must be {list(expected)}, one row more than draft_probs, "
            f"got {list(p.shape)}"
        )


def _check_tokens(tokens: Tensor, drafted: Tensor, vocabulary: int) -> None:
    outside = ((tokens < 0) | (tokens >= vocabulary)) & drafted
    if outside.any():
        where = outside.nonzero()[0].tolist()
        raise InvalidRequest(
            f"draft_tokens{where} is {int(tokens[tuple(where)])}, not in 0..{vocabulary - 1}"
        )


def _check_rows(name: str, rows: Tensor, present: Tensor) -> None:
    """Check the rows [B, K, D, V] that are `present` [B, 1, D], one depth after another.

    Copies of another dtype, and masks, are as large as one depth then, not as all of the input.
    """
    # A softmax in float32 is off by V roundings, and storing it by one of the row's dtype.
    allowed = rows.shape[-1] * torch.finfo(torch.float32).eps + torch.finfo(rows.dtype).eps
    wide = torch.promote_types(rows.dtype, torch.float32)
    for depth in range(rows.shape[2]):
        here = rows[:, :, depth]
        # NaN fails every comparison, so it is caught by asking for what must hold.
        is_right = (here.amin(-1) >= 0) & ((here.sum(-1, dtype=wide) - 1).abs() <= allowed)
        if (present[:, :, depth] & ~is_right).any():
            _refuse(name, rows, present, allowed)


def _refuse(name: str, rows: Tensor, present: Tensor, allowed: float) -> None:
    """Raise `InvalidRequest` with the first entry that is no probability, or row that is no law."""
    bad = ~(rows >= 0) & present[..., None]
    if bad.any():
        where = bad.nonzero()[0].tolist()
        raise InvalidRequest(
            f"{name}{where} is {float(rows[tuple(where)])}, it must be a probability"
        )
    sums = rows.sum(-1, dtype=torch.float64)
    where = (~((sums - 1).abs() <= allowed) & present).nonzero()[0].tolist()
    raise InvalidRequest(f"{name}{where} sums to {float(sums[tuple(where)])}, it must sum to 1")
