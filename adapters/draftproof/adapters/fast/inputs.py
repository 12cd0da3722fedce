"""What every fast verifier does with its input first: check it, clear padding, widen floats."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.adapter import Request

DTYPES = ("float32", "float64", "float16", "bfloat16")
"""The dtypes of rows that the fast verifiers take."""


class InvalidRequest(ValueError):
    """The request breaks its contract; the message says what, where, and what would be right."""


def single_path(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ratio p/q of each drafted token [B, L], with q [B, L, V] and p [B, L+1, V].

    Padding becomes ratios of 0, which no coin passes, and rows of zeros: the excess of the bonus
    row over a draft of zeros is that row. Half-precision rows are widened to float32: residuals
    of rounded rows are noise. Raises `InvalidRequest`.
    """
    _check_shapes(request)
    if request.draft_tokens.shape[1] != 1:
        raise InvalidRequest(
            f"this verifier takes one path per row, got {request.draft_tokens.shape[1]}"
        )
    tokens, q, p = request.draft_tokens, request.draft_probs, request.target_probs
    drafted, present = _inside(request)
    if drafted is not None and present is not None:
        tokens = torch.where(drafted, tokens, 0)
        q = torch.where(drafted[..., None], q, 0)
        p = torch.where(present[..., None], p, 0)
    _check_tokens(tokens, q.shape[-1])
    _check_rows("draft_probs", q, drafted)
    _check_rows("target_probs", p, present)
    wide = torch.promote_types(p.dtype, torch.float32)
    path, q, p = tokens[:, 0], q[:, 0].to(wide), p[:, 0].to(wide)
    # A token that its draft cannot have said: accepted if the target can say it, else not.
    ratio = (path_probability(p[:, :-1], path) / path_probability(q, path)).nan_to_num()
    if drafted is not None:
        ratio = torch.where(drafted[:, 0], ratio, 0)
    return ratio, q, p


def path_probability(rows: Tensor, path: Tensor) -> Tensor:
    """Return the probability [B, L] of each path token in its row [B, L, V]."""
    return rows.gather(-1, path.unsqueeze(-1)).squeeze(-1)


def _inside(request: Request) -> tuple[Tensor | None, Tensor | None]:
    """Return where there are tokens [B, 1, L] and target rows [B, 1, L+1], None if everywhere."""
    lengths = request.lengths
    if lengths is None:
        return None, None
    rows, _, longest = request.draft_tokens.shape
    if lengths.shape != (rows,) or lengths.dtype != torch.int64:
        raise InvalidRequest(
            f"lengths must be int64 [{rows}], got {lengths.dtype} {list(lengths.shape)}"
        )
    outside = (lengths < 0) | (lengths > longest)
    if outside.any():
        where = outside.nonzero()[0].tolist()
        raise InvalidRequest(f"lengths{where} is {int(lengths[where[0]])}, not in 0..{longest}")
    if (lengths == longest).all():
        return None, None
    position = torch.arange(longest + 1, device=lengths.device)
    last = lengths[:, None, None]
    return position[:-1] < last, position <= last


def _check_shapes(request: Request) -> None:
    tokens, q, p = request.draft_tokens, request.draft_probs, request.target_probs
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


def _check_tokens(tokens: Tensor, vocabulary: int) -> None:
    outside = (tokens < 0) | (tokens >= vocabulary)
    if outside.any():
        where = outside.nonzero()[0].tolist()
        raise InvalidRequest(
            f"draft_tokens{where} is {int(tokens[tuple(where)])}, not in 0..{vocabulary - 1}"
        )


def _check_rows(name: str, rows: Tensor, present: Tensor | None) -> None:
    """Check rows that are `present`, None for all; the others have been cleared."""
    # NaN fails every comparison, so it is caught by asking for what must hold.
    bad = ~(rows >= 0)
    if bad.any():
        where = bad.nonzero()[0].tolist()
        raise InvalidRequest(
            f"{name}{where} is {float(rows[tuple(where)])}, it must be a probability"
        )
    # A softmax in float32 is off by V roundings, and storing it by one of the row's dtype.
    allowed = rows.shape[-1] * torch.finfo(torch.float32).eps + torch.finfo(rows.dtype).eps
    sums = rows.sum(-1, dtype=torch.float64)
    off = ~((sums - 1).abs() <= allowed)
    if present is not None:
        off &= present
    if off.any():
        where = off.nonzero()[0].tolist()
        raise InvalidRequest(f"{name}{where} sums to {float(sums[tuple(where)])}, it must sum to 1")
