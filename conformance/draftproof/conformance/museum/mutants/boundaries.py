"""Noise at the ends of its range: an exact 0, an exact 1, a race that nobody wins."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.conformance.protocol.adapter import Request


@mutant(
    "accepts-at-equality",
    "https://github.com/sgl-project/sglang/issues/35771",
    "https://github.com/sgl-project/sglang/pull/35798",
    "https://github.com/vllm-project/vllm/pull/23803",
    breaks="random.boundary",
    why="a float32 coin is exactly 0 once in 2^24 draws, and 0 <= p / q for a forbidden token",
)
class AcceptsAtEquality(Token):
    """Accepts where the coin is at most the ratio, not below it."""

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return coins <= ratio


@mutant(
    "race-over-zero-time",
    "https://github.com/pytorch/pytorch/issues/195077",
    "https://github.com/Lightning-AI/litgpt/issues/2325",
    breaks="random.boundary",
    why="0 / 0 is no number, and no number wins every comparison",
)
class RaceOverZeroTime(Token):
    """Divides by the time -log(1 - u), which is exactly 0 for u = 0."""

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        uniform = torch.rand(rows.shape, generator=request.generator)
        return (rows / -torch.log1p(-uniform)).argmax(-1)


@mutant(
    "race-without-winner",
    "draftproof",
    breaks="random.boundary",
    why="where the token that is certain gets the noise -inf, all are equal, and token 0 wins",
)
class RaceWithoutWinner(Token):
    """Adds the Gumbel noise -log(-log u), which is -inf for u = 0."""

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        uniform = torch.rand(rows.shape, generator=request.generator)
        return (rows.log() - torch.log(-torch.log(uniform))).argmax(-1)


@mutant(
    "race-guarded-above-one",
    "draftproof",
    breaks="random.boundary",
    why="the guard lifts the largest number above 1, and the logarithm of what follows is none",
)
class RaceGuardedAboveOne(Token):
    """Adds 1e-6 to the uniform number of its Gumbel noise, so that none is 0."""

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        uniform = torch.rand(rows.shape, generator=request.generator) + 1e-6
        return (rows.log() - torch.log(-torch.log(uniform))).argmax(-1)


@mutant(
    "coin-rounded-to-one",
    "sgl-project/sglang, found by reading it",
    breaks="random.one",
    why="a seeded coin that was rounded up to 1 is above every running sum",
)
class CoinRoundedToOne(Token):
    """Searches the running sum for the first token above the coin, and needs a coin below 1."""

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        cumulative = rows.cumsum(-1)
        mark = torch.rand(len(rows), 1, generator=request.generator) * cumulative[:, -1:]
        return (cumulative <= mark).sum(-1)


@mutant(
    "accepts-undrafted",
    "vllm-project/vllm before version 1, found by reading it",
    breaks="input.undrafted",
    why="0 / 0 is no number: it is not above the ratio, so it is accepted",
)
class AcceptsUndrafted(Token):
    """Rejects where the coin is at or above p / q, so that a ratio 0 / 0 is accepted."""

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return ~(coins >= ratio)
