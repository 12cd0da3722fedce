"""What every fast verifier does with its input first: check it, and widen narrow floats."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.adapter import Request


class InvalidRequest(ValueError):
    """The request breaks its contract; the message says what, where, and what would be right."""


def single_path(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    """Return the one path [B, L] with its rows q [B, L, V] and p [B, L+1, V], checked.

    Half-precision rows are widened to float32: residuals of rounded rows are noise.
    Raises `InvalidRequest`.
    """
    _check_shapes(request)
    if request.draft_tokens.shape[1] != 1:
        raise InvalidRequest(
            f"this verifier takes one path per row, got {request.draft_tokens.shape[1]}"
        )
    _check_tokens(request.draft_tokens, request.draft_probs.shape[-1])
    _check_rows("draft_probs", request.draft_probs)
    _check_rows("target_probs", request.target_probs)
    wide = torch.promote_types(request.target_probs.dtype, torch.float32)
    return (
        request.draft_tokens[:, 0],
        request.draft_probs[:, 0].to(wide),
        request.target_probs[:, 0].to(wide),
    )


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


def _check_rows(name: str, rows: Tensor) -> None:
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
    if off.any():
        where = off.nonzero()[0].tolist()
        raise InvalidRequest(f"{name}{where} sums to {float(sums[tuple(where)])}, it must sum to 1")
