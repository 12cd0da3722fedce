"""A call of kernels as one operator of torch, through which `torch.compile` passes.

A compiler sees what goes in and what comes out, and how large that is; the launches between are
those of any other call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.fast.modified import following

TENSORS = (
    "target_logits", "target_probs", "draft_logits", "draft_probs", "target_rows", "draft_rows",
    "temperature", "top_k", "top_p", "noise", "seeds", "positions",
)  # fmt: skip
"""The arguments of `verify` that are tensors or None."""

_SCHEMA = """(
    str name, Tensor draft_token_ids, Tensor cu_num_draft_tokens, SymInt max_spec_len,
    Tensor?[] tensors, int[]? branching, Tensor[] state, bool is_stateful
) -> Tensor[]"""

_STATE = ("left", "target", "draft")

Call = Callable[..., "tuple[Sequence[Tensor], Mapping[str, Tensor] | None]"]


def operator(verify: Callable[..., Any]) -> Call:
    """Register `draftproof::verify`, and return it as a function with the arguments of `verify`.

    It returns the tensors of `Verified`, and the state.
    """

    def called(
        name: str,
        draft_token_ids: Tensor,
        cu_num_draft_tokens: Tensor,
        max_spec_len: int,
        tensors: Sequence[Tensor | None],
        branching: Sequence[int] | None,
        state: Sequence[Tensor],
        is_stateful: bool,  # noqa: FBT001  # an operator's arguments have no keywords
    ) -> list[Tensor]:
        found = verify(
            name,
            draft_token_ids=draft_token_ids,
            cu_num_draft_tokens=cu_num_draft_tokens,
            max_spec_len=max_spec_len,
            branching=None if branching is None else tuple(branching),
            state=dict(zip(_STATE, state, strict=True)) if state else None,
            form="triton",
            **dict(zip(TENSORS, tensors, strict=True)),
        )
        left = [found.state[key] for key in _STATE] if is_stateful else []
        return [found.token_ids, found.accepted, found.path, found.num_sampled, *left]

    one = torch.library.custom_op("draftproof::verify", called, mutates_args=(), schema=_SCHEMA)
    one.register_fake(_sizes)

    def call(
        name: str, *, branching: tuple[int, ...] | None, state: Mapping[str, Tensor] | None,
        is_stateful: bool, draft_token_ids: Tensor, cu_num_draft_tokens: Tensor,
        max_spec_len: int, **tensors: Tensor | None,
    ) -> tuple[Sequence[Tensor], Mapping[str, Tensor] | None]:  # fmt: skip
        told = one(
            name,
            draft_token_ids,
            cu_num_draft_tokens,
            max_spec_len,
            [tensors[key] for key in TENSORS],
            branching,
            [] if state is None else [state[key] for key in _STATE],
            is_stateful,
        )
        return told[:4], dict(zip(_STATE, told[4:], strict=True)) if is_stateful else None

    return call


def _sizes(
    name: str,  # noqa: ARG001
    draft_token_ids: Tensor,
    cu_num_draft_tokens: Tensor,
    max_spec_len: int,
    tensors: Sequence[Tensor | None],  # noqa: ARG001
    branching: Sequence[int] | None,  # noqa: ARG001
    state: Sequence[Tensor],
    is_stateful: bool,  # noqa: FBT001
) -> list[Tensor]:
    """Return memory as large as what `verify` returns."""
    requests = len(cu_num_draft_tokens)
    drafts = 1 if draft_token_ids.dim() == 1 else draft_token_ids.shape[1]
    made = draft_token_ids.new_empty
    emitted = made(requests, max_spec_len + 1, dtype=torch.int32)
    whole = [made(requests, dtype=torch.int64) for _ in range(2)]
    found = [emitted, *whole, made(requests, dtype=torch.int32)]
    if is_stateful:
        before = dict(zip(_STATE, state, strict=True)) if state else None
        found += following(before, requests, drafts, max_spec_len, draft_token_ids.device)
    return found
