"""Mutants that fail at the ends of the noise: an exact 0, an exact 1, a race without a winner."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.protocol.adapter import Request


def uniforms(rows: Tensor, request: Request) -> Tensor:
    return torch.rand(rows.shape, generator=request.generator)


def race(rows: Tensor, uniform: Tensor) -> Tensor:
    return (rows.log() - torch.log(-torch.log(uniform))).argmax(-1)


def beyond(rows: Tensor, request: Request) -> Tensor:
    cumulative = rows.cumsum(-1)
    mark = torch.rand(len(rows), 1, generator=request.generator) * cumulative[:, -1:]
    return (cumulative <= mark).sum(-1)


MUTANTS = (
    mutant(
        "accepts-at-equality",
        "https://github.com/sgl-project/sglang/issues/35771",
        "https://github.com/sgl-project/sglang/pull/35798",
        "https://github.com/vllm-project/vllm/pull/23803",
        what="Accepts where the coin is at most the ratio, not below it.",
        why="a float32 coin is exactly 0 once in 2^24 draws, and 0 <= p / q for a forbidden token",
        check="the comparison of coin and ratio: coin < ratio, not <=",
        breaks="random.boundary",
        passed=lambda coins, ratio: coins <= ratio,
    ),
    mutant(
        "race-over-zero-time",
        "https://github.com/pytorch/pytorch/issues/195077",
        "https://github.com/Lightning-AI/litgpt/issues/2325",
        what="Divides by the time -log(1 - u), which is exactly 0 for u = 0.",
        why="0 / 0 is no number, and no number wins every comparison",
        check="the exponential noise at 0: a division by 0",
        breaks="random.boundary",
        draw=lambda rows, request: (rows / -torch.log1p(-uniforms(rows, request))).argmax(-1),
    ),
    mutant(
        "race-without-winner",
        what="Adds the Gumbel noise -log(-log u), which is -inf for u = 0.",
        why="where the token that is certain gets the noise -inf, all are equal, and token 0 wins",
        check="the Gumbel noise at u = 0: it is -inf",
        breaks="random.boundary",
        draw=lambda rows, request: race(rows, uniforms(rows, request)),
    ),
    mutant(
        "race-guarded-above-one",
        what="Adds 1e-6 to the uniform number of its Gumbel noise, so that none is 0.",
        why="the guard lifts the largest number above 1, and the logarithm of what follows is none",
        check="the guard of the Gumbel noise: u + eps exceeds 1",
        breaks="random.boundary",
        draw=lambda rows, request: race(rows, uniforms(rows, request) + 1e-6),
    ),
    mutant(
        "coin-rounded-to-one",
        "sgl-project/sglang, found by reading it",
        what="Searches the running sum for the first token above the coin, "
        "and needs a coin below 1.",
        why="a seeded coin that was rounded up to 1 is above every running sum",
        check="the search of the running sum for a coin that is exactly 1",
        breaks="random.one",
        draw=beyond,
    ),
    mutant(
        "accepts-undrafted",
        "vllm-project/vllm before version 1, found by reading it",
        what="Rejects where the coin is at or above p / q, so that a ratio 0 / 0 is accepted.",
        why="0 / 0 is no number: it is not above the ratio, so it is accepted",
        check="the ratio 0 / 0: compare so that NaN rejects",
        breaks="input.undrafted",
        passed=lambda coins, ratio: ~(coins >= ratio),
    ),
)
