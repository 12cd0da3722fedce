"""Calls of the fast verifiers on tensors that have shapes and no memory.

torch's `meta` device stands for a GPU: what is there and what the host has are told apart, nothing
is computed, and a call that looks at a number of the device's fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from draftproof.adapters.fast import TEXTS
from draftproof.adapters.fast.batch import Softmax
from draftproof.adapters.fast.drafting import siblings
from draftproof.adapters.fast.engine import verify

DRAFTING = "drafting"
"""The name of the drafters' kernels, among those of verifiers."""


@dataclass(frozen=True)
class Shape:
    """What the launches of a call depend on: B requests of K paths of L tokens over V tokens."""

    vocabulary: int
    dtype: torch.dtype = torch.float32
    logits: bool = True
    requests: int = 64
    length: int = 5
    drafts: int = 4
    """The most paths: a verifier of fewer has as many as it takes."""


def call(name: str, shape: Shape, *, form: str = "triton") -> Callable[[], object]:
    """Return a call of `verify`, as an engine makes it, with one generator for all requests."""
    if name == DRAFTING:
        return partial(_drafted, shape, form)
    text = TEXTS[name]
    drafts = min(shape.drafts, text.most_drafts, text.widest)
    count = shape.requests * shape.length
    ids = _empty(count, *[drafts] * (drafts > 1), dtype=torch.int32)
    p, q = (
        _empty(rows, *[drafts] * (drafts > 1), shape.vocabulary, dtype=shape.dtype)
        for rows in (count + shape.requests, count)
    )
    kind = "logits" if shape.logits else "probs"
    given: dict[str, Any] = {f"target_{kind}": p, f"draft_{kind}": q}
    return lambda: verify(
        name,
        draft_token_ids=ids,
        cu_num_draft_tokens=_empty(shape.requests, dtype=torch.int32),
        max_spec_len=shape.length,
        form=form,
        **given,
    )


def _drafted(shape: Shape, form: str) -> None:
    """Draft greedily: that has all of the drafters' kernels."""
    rows = _empty(shape.requests, shape.vocabulary, dtype=shape.dtype)
    marks = _empty(shape.requests, 2, dtype=torch.float64)
    soft = Softmax() if shape.logits else None
    siblings(rows, marks, scheme="greedy", form=form, softmax=soft)


def _empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")
