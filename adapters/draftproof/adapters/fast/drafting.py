"""Drafters: siblings drawn from the rows that are declared, by the scheme that a verifier expects.

All schemes do two things with a row: draw a token of those that are left, and take the most
probable one of them. An `Urn` has both. A token is drawn at a uniform float64 number of the running
sum, not by a race of V clocks: one number is enough.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Softmax, uniforms
from draftproof.adapters.fast.inputs import InvalidRequest
from draftproof.adapters.fast.sampling import Sampling, declared
from draftproof.adapters.fast.urn import Urn, urn
from draftproof.conformance.adapter import DraftRequest, DraftResult


class NotEnoughTokens(ValueError):
    """A scheme that draws no token twice is asked for more siblings than a row has tokens."""


def iid(urn: Urn, marks: Tensor) -> Tensor:
    """Draw each token from the whole row: the same token can come twice."""
    return torch.stack([urn.draw(mark, _none(marks)) for mark in marks.unbind(1)], 1)


def without_replacement(urn: Urn, marks: Tensor) -> Tensor:
    """Draw tokens one after another, each from what those before have left."""
    drawn = _none(marks)
    for mark in marks.unbind(1):
        drawn = torch.cat([drawn, urn.draw(mark, drawn)[:, None]], 1)
    return drawn


def hub(urn: Urn, marks: Tensor) -> Tensor:
    """Draw a token and the hub, the most probable one; or the hub and another token.

    Raises `InvalidRequest` for more than a pair.
    """
    if marks.shape[1] > 2:
        raise InvalidRequest(f"the scheme 'hub' draws pairs, not {marks.shape[1]} siblings")
    first = urn.draw(marks[:, 0], _none(marks))
    if marks.shape[1] == 1:
        return first[:, None]
    centre = urn.most_probable(_none(marks))
    other = urn.draw(marks[:, 1], centre[:, None])
    return torch.stack([first, torch.where(first == centre, other, centre)], 1)


def greedy(urn: Urn, marks: Tensor) -> Tensor:
    """Take the most probable tokens, all but one, and draw the last from the others."""
    top = _none(marks)
    for _ in range(marks.shape[1] - 1):
        top = torch.cat([top, urn.most_probable(top)[:, None]], 1)
    return torch.cat([top, urn.draw(marks[:, -1], top)[:, None]], 1)


_SCHEMES: dict[str, Callable[[Urn, Tensor], Tensor]] = {
    "iid": iid,
    "without_replacement": without_replacement,
    "hub": hub,
    "greedy": greedy,
}


def siblings(
    rows: Tensor,
    marks: Tensor,
    *,
    scheme: str,
    form: str = "torch",
    softmax: Softmax | None = None,
) -> Tensor:
    """Return the tokens [N, W] int64 drawn by a scheme after N contexts, at marks [N, W].

    `rows` [N, V] are probabilities, or logits where there is a `softmax`; marks are float64 in
    [0, 1). Nothing is checked, so nothing waits for the device: but for i.i.d. siblings each row
    must have W tokens of positive probability. Law: that of `draftproof.reference.drafting`.
    """
    if form == "torch":
        return _SCHEMES[scheme](urn(rows, softmax), marks)
    from draftproof.adapters.fast.kernels import drafting as kernels

    return _SCHEMES[scheme](kernels.urn(rows, softmax), marks)


def draft(request: DraftRequest, *, scheme: str, form: str = "torch") -> DraftResult:
    """Draft K paths of L tokens for B rows, and declare the rows that they are drawn from.

    The paths are those of a tree, in the order of its leaves. Its tokens come depth by depth, all
    those of a depth at once. Raises `NotEnoughTokens`, and `InvalidRequest` for a width that the
    scheme does not have.
    """
    widths = request.branching or (request.drafts, *[1] * (request.length - 1))
    device = None if request.generator is None else request.generator.device
    contexts = torch.zeros(request.rows, 0, dtype=torch.int64, device=device)
    along = []
    for width in widths:
        raw = request.next_probs(contexts)
        rows = declared(raw, _sampling(request, raw), logits=False)
        if scheme != "iid" and width > 1:
            _require_enough(rows, width, scheme)
        marks = uniforms(len(rows), width, request.generator, rows.device)
        drawn = siblings(rows, marks, scheme=scheme, form=form)
        contexts = torch.cat([contexts.repeat_interleave(width, 0), drawn.view(-1, 1)], 1)
        along.append(rows)
    shape = request.rows, request.drafts, request.length
    each = [rows.repeat_interleave(len(contexts) // len(rows), 0) for rows in along]
    return DraftResult(contexts.view(shape), torch.stack(each, 1).view(*shape, -1))


def _none(marks: Tensor) -> Tensor:
    """Return no tokens for every row, [N, 0]."""
    return marks.new_empty(len(marks), 0, dtype=torch.int64)


def _sampling(request: DraftRequest, rows: Tensor) -> Sampling:
    """Return the request's parameters for each of the rows, None where they change nothing."""

    def each(value: float, dtype: torch.dtype) -> Tensor:
        return torch.full((len(rows),), value, dtype=dtype, device=rows.device)

    # They are doubles, and which token top-p ends with depends on the last bit.
    return Sampling(
        temperature=each(request.temperature, torch.float64) if request.temperature != 1 else None,
        top_k=each(request.top_k, torch.int64) if request.top_k > 0 else None,
        top_p=each(request.top_p, torch.float64) if request.top_p < 1 else None,
    )


def _require_enough(rows: Tensor, width: int, scheme: str) -> None:
    count = (rows > 0).sum(-1)
    if (count < width).any():
        first = int((count < width).nonzero()[0])
        raise NotEnoughTokens(
            f"the scheme {scheme!r} is asked for {width} siblings, but the declared row of context "
            f"{first} has only {int(count[first])} tokens of positive probability"
        )
