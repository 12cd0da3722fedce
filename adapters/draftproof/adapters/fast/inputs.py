"""From a request or an engine's tensors to a batch, checked where the contract asks for it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch, Rows, Softmax
from draftproof.conformance.adapter import Request

DTYPES = ("float32", "float64", "float16", "bfloat16")
"""The dtypes of rows that the fast verifiers take."""


class InvalidRequest(ValueError):
    """The request breaks its contract; the message says what, where, and what would be right."""


def from_request(request: Request, *, most_drafts: int, checked: bool = True) -> Batch:
    """Return the batch of a request of the adapter protocol, whose rows stay where they are.

    What is `checked` waits for the device: every row is read, and an answer fetched. Raises
    `InvalidRequest`; unchecked, for shapes only.
    """
    tokens, q, p = request.draft_tokens, request.draft_probs, request.target_probs
    _check_shapes(tokens, q, p)
    _, drafts, length = tokens.shape
    if drafts > most_drafts:
        many = "one path" if most_drafts == 1 else f"at most {most_drafts} paths"
        raise InvalidRequest(f"this verifier takes {many} per row, got {drafts}")
    lengths = _lengths(request, checked=checked)
    depth = torch.arange(length + 1, device=tokens.device)
    inside = depth[None, None] <= lengths[:, None, None]
    drafted = inside[..., 1:]
    if checked:
        _check_tokens(tokens, drafted, q.shape[-1])
        _check_rows("draft_probs", q, drafted)
        _check_rows("target_probs", p, inside)
        _check_left(request.state, lengths)
    return Batch(
        tokens=torch.where(drafted, tokens, 0),
        lengths=lengths,
        q=_block(q),
        p=_block(p),
        branching=request.branching,
        state=request.state,
    )


def from_flat(
    tokens: Tensor,
    ends: Tensor,
    q: Tensor,
    p: Tensor,
    *,
    longest: int,
    q_softmax: Softmax | None = None,
    p_softmax: Softmax | None = None,
    branching: tuple[int, ...] | None = None,
    state: Mapping[str, Tensor] | None = None,
) -> Batch:
    """Return the batch of an engine's tensors, requests of different lengths one after another.

    `tokens` [n, K] are the drafted ones of all requests, `ends` [B] where each one's end, and no
    request has more than `longest` of them. `q` [n, K, V] has a row for each, `p` [n + B, K, V]
    one more for every request. A request's draft ends before its first token -1.
    """
    drafts = tokens.shape[1]
    starts = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]])
    depth = torch.arange(longest + 1, device=tokens.device)
    within = depth[:-1] < (ends - starts)[:, None]
    here = torch.where(within, starts[:, None] + depth[:-1], 0)
    nothing = tokens.new_full((1, drafts), -1)
    padded = torch.where(within[..., None], torch.cat([tokens, nothing])[here], -1)
    padded = padded.movedim(-1, 1).long()
    lengths = (padded >= 0).all(1).long().cumprod(-1).sum(-1)
    request = torch.arange(len(ends), device=tokens.device)
    rows = starts[:, None] + request[:, None] + depth.minimum(lengths[:, None])
    path = torch.arange(drafts, device=tokens.device)[:, None]
    return Batch(
        tokens=torch.where(depth[:-1] < lengths[:, None, None], padded, 0),
        lengths=lengths,
        q=Rows(q.flatten(0, 1), here[:, None] * drafts + path, q_softmax),
        p=Rows(p.flatten(0, 1), rows[:, None] * drafts + path, p_softmax),
        branching=branching,
        state=state,
    )


def _block(rows: Tensor) -> Rows:
    """Return rows [B, K, D, V] as those of a batch."""
    at = torch.arange(rows.shape[:3].numel(), device=rows.device).view(rows.shape[:3])
    return Rows(rows.flatten(0, 2), at, is_block=True)


def _lengths(request: Request, *, checked: bool) -> Tensor:
    """Return how many tokens each row drafts, [B] int64."""
    rows, _, longest = request.draft_tokens.shape
    lengths = request.lengths
    if lengths is None:
        return torch.full((rows,), longest, device=request.draft_tokens.device)
    if lengths.shape != (rows,) or lengths.dtype != torch.int64:
        raise InvalidRequest(
            f"lengths must be int64 [{rows}], got {lengths.dtype} {list(lengths.shape)}"
        )
    outside = (lengths < 0) | (lengths > longest)
    if checked and outside.any():
        where = outside.nonzero()[0].tolist()
        raise InvalidRequest(f"lengths{where} is {int(lengths[where[0]])}, not in 0..{longest}")
    return lengths


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
