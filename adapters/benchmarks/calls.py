"""What is compared on a CPU: our verifiers, in three ways, and others beside them.

The others read the same input, and check nothing: those from probabilities stand beside our
unchecked and our checked calls alike.
"""

from __future__ import annotations

from typing import Any

from benchmarks.engines import of_one_path
from benchmarks.measuring import Call
from benchmarks.peers import at_once, one_by_one
from torch import Tensor

from draftproof.adapters.fast import FastVerifier
from draftproof.adapters.fast.engine import verify
from draftproof.adapters.fast.inputs import flattened
from draftproof.conformance.protocol.adapter import Request

WAYS = {"unchecked": False, "checked": False, "logits": True}
"""The ways into our verifiers, and whether they take logits."""

OURS = ("token", "block")


def ours(name: str, way: str, request: Request) -> Call:
    """Return the call of our torch verifier."""
    if WAYS[way]:
        return lambda: verify(name, **as_logits(request))
    verifier = FastVerifier(name, checked=way == "checked")
    return lambda: verifier.verify(request)


def theirs(request: Request, *, logits: bool) -> dict[str, Call]:
    """Return the calls of the others that take such input."""
    tokens, q, p = of_one_path(request)
    calls: dict[str, Call] = {
        "batched": lambda: at_once(tokens, q, p, logits=logits),
        "listing": lambda: one_by_one(tokens, q, p, logits=logits),
    }
    if logits:
        calls["transformers"] = lambda: _transformers(tokens, q, p)
    return calls


def as_logits(request: Request) -> dict[str, Any]:
    """Return what an engine passes to `verify` for a request whose fields of rows have logits."""
    flat = flattened(request)
    q, p = flat.pop("draft_probs"), flat.pop("target_probs")
    return {**flat, "draft_logits": q, "target_logits": p}


def _transformers(tokens: Tensor, q: Tensor, p: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return what transformers emits, which takes one request at a time."""
    from transformers.generation.utils import _speculative_sampling

    length = tokens.shape[1]
    requests = zip(*(each.unsqueeze(1) for each in (tokens, q, p)), strict=True)
    return [
        _speculative_sampling(own, of_draft, length, of_target)
        for own, of_draft, of_target in requests
    ]
