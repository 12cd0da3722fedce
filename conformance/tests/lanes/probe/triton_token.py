"""Token verification in Triton, right and wrong, and how far its laws are from those of torch.

A program of its own, because Triton decides when it is imported whether it interprets:

    TRITON_INTERPRET=1 python triton_token.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from draftproof.adapters.fast import FastVerifier
from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.exchange import Outcome, verified
from draftproof.conformance.lanes.probe import ProbedLaw, probed_laws
from draftproof.conformance.museum.mutants import BonusFromDraft
from draftproof.conformance.protocol.adapter import Adapter, Request, Result, declaration
from draftproof.reference.drafting import draft_law

ROWS = 64


@triton.jit  # type: ignore[untyped-decorator]  # triton is untyped
def verify_tokens(
    path: Any,
    q: Any,
    p: Any,
    coins: Any,
    clocks: Any,
    accepted: Any,
    next_token: Any,
    count: Any,
    bonus_from_draft: tl.constexpr,
    L: tl.constexpr,
    V: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """Accept while coin * q < p; then race over (p - q)+, or over the bonus row."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < count
    going = tl.full((ROWS,), 1, tl.int32)
    kept = tl.zeros((ROWS,), tl.int32)
    for i in tl.static_range(L):
        token = tl.load(path + row * L + i, mask=real, other=0)
        target = tl.load(p + (row * (L + 1) + i) * V + token, mask=real, other=0.0)
        draft = tl.load(q + (row * L + i) * V + token, mask=real, other=1.0)
        coin = tl.load(coins + row * L + i, mask=real, other=0.0)
        going = tl.where(coin * draft < target, going, 0)
        kept += going
    lane = tl.arange(0, WIDTH)[None, :]
    inside = real[:, None] & (lane < V)
    at, race = kept[:, None], row[:, None]
    wanted = tl.load(p + (race * (L + 1) + at) * V + lane, mask=inside, other=0.0)
    last = tl.minimum(at, L - 1)
    drafted = tl.load(q + (race * L + last) * V + lane, mask=inside, other=0.0)
    rest = tl.where(at < L, tl.maximum(wanted - drafted, 0.0), wanted)
    if bonus_from_draft:
        rest = tl.where(at < L, rest, drafted)
    clock = tl.load(clocks + race * V + lane, mask=inside, other=1.0)
    score = tl.where(lane < V, rest / clock, -1.0)
    tl.store(accepted + row, kept, mask=real)
    tl.store(next_token + row, tl.argmax(score, 1), mask=real)


class TritonToken:
    name, version, algorithm = "triton-token", "1", "token"

    def __init__(self, *, wrong: bool) -> None:
        self._wrong = wrong

    def verify(self, request: Request) -> Result:
        rows, _, length, vocabulary = request.draft_probs.shape
        coins = torch.rand(rows, length)
        clocks = torch.empty(rows, vocabulary).exponential_()
        accepted, token = torch.zeros(2, rows, dtype=torch.int64)
        verify_tokens[(triton.cdiv(rows, ROWS),)](
            request.draft_tokens.contiguous(),
            request.draft_probs.contiguous(),
            request.target_probs.contiguous(),
            coins,
            clocks,
            accepted,
            token,
            rows,
            self._wrong,
            length,
            vocabulary,
            ROWS,
            triton.next_power_of_2(vocabulary),
        )
        return Result(accepted, torch.zeros_like(accepted), token)


def distance(adapter: Adapter, model: Adapter) -> dict[str, float]:
    """Return the largest distance of the laws of two verifiers, and the resolution of both."""
    instance = next(case.instance for case in cases("quick") if case.id == "generic.v3.l2")
    drafted = list(draft_law(instance))[::4]

    def laws(judged: Adapter) -> tuple[ProbedLaw[Outcome], ...]:
        def verify(batch: Sequence[int]) -> tuple[Outcome, ...]:
            return verified(judged, [(instance, drafted[i]) for i in batch], declaration(judged))

        return probed_laws(verify, len(drafted), batched=True, vocabulary=3, held_back=128)

    pairs = list(zip(laws(adapter), laws(model), strict=True))
    return {
        "distance": float(max(a.law.total_variation(b.law) for a, b in pairs)),
        "resolution": float(max(a.resolution + b.resolution for a, b in pairs)),
    }


if __name__ == "__main__":
    reports = [
        distance(TritonToken(wrong=False), FastVerifier("token")),
        distance(TritonToken(wrong=True), BonusFromDraft()),
    ]
    sys.stdout.write(json.dumps(reports))
