"""Floating-point arithmetic, got wrong: precision, guards against zero, masks, block sizes."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Checked, Logits, Token, at
from draftproof.conformance.protocol.adapter import Request


@mutant(
    "ratio-in-half-precision",
    "vllm-project/vllm before version 1, found by reading its tests",
    breaks="number.dtypes",
    why="rows that are given in float32 are owed its precision",
)
class RatioInHalfPrecision(Token):
    """Casts p and q to float16 before it takes the ratio."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return super().ratio(p.half(), q.half(), path).float()


@mutant(
    "ratio-of-joint-probabilities",
    "draftproof",
    breaks="number.extreme",
    why="the probability of a long text is 0 in float32, and 0 / 0 is no number",
)
class RatioOfJointProbabilities(Token):
    """Multiplies the probabilities of all tokens so far before it takes the ratio."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        joint = at(p, path).cumprod(-1) / at(q, path).cumprod(-1)
        before = torch.cat([torch.ones_like(joint[:, :1]), joint[:, :-1]], 1)
        return joint / before


@mutant(
    "numpy-has-no-bfloat16",
    "draftproof",
    breaks="number.dtypes",
    why="what is declared must be taken",
)
class NumpyHasNoBfloat16(Token):
    """Goes through numpy, which does not know a dtype that it declares."""

    dtypes = ("float32", "bfloat16")

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, _ = super().rows(request)
        return path, q, torch.from_numpy(request.target_probs.numpy())[:, 0].float()


@mutant(
    "subtracts-masks",
    "draftproof",
    breaks="number.masked",
    why="a token that both mask has -inf minus -inf, which is no number",
)
class SubtractsMasks(Logits):
    """Computes log(p - q) as log p + log(1 - exp(log q - log p))."""

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        lp, lq = p.log(), q.log()
        return (lp + torch.log1p(-torch.exp((lq - lp).clamp(max=0)))).exp()


@mutant(
    "divides-by-temperature-zero",
    "https://github.com/vllm-project/vllm/pull/27077",
    "https://github.com/vllm-project/vllm/issues/40269",
    breaks="batch.mixed",
    why="a row at temperature 0 is greedy by a sentinel, and is divided by it all the same",
)
class DividesByTemperatureZero(Token):
    """Takes a certain row for one at temperature 0, and divides its logits by that."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        greedy = p.amax(-1, keepdim=True) == 1
        return path, q, torch.where(greedy, (p.log() / 0.0).softmax(-1), p)


@mutant(
    "forgets-the-last-block",
    "https://github.com/vllm-project/vllm/issues/53029",
    breaks="number.vocabulary",
    why="a vocabulary is seldom a multiple of the block size",
)
class ForgetsTheLastBlock(Token):
    """Goes over the vocabulary in whole blocks of 8192 tokens, if there is one."""

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        whole = rows.shape[-1] // 8192 * 8192
        blocks = rows[:, :whole] if whole else rows
        empty = blocks.sum(-1, keepdim=True) == 0
        return super().draw(torch.where(empty, 1.0, blocks), request)


@mutant(
    "no-number-is-the-last-of-a-block",
    "https://github.com/vllm-project/vllm/issues/21876",
    "https://github.com/vllm-project/vllm/issues/45060",
    "https://github.com/vllm-project/vllm/issues/53029",
    breaks="input.rejected",
    why="a row that is no number must end in an error, not in the last id of the block",
)
class NoNumberIsTheLastOfABlock(Checked):
    """Lets rows that are not numbers through, and returns the last id of the block for them."""

    def is_invalid(self, rows: Tensor) -> bool:
        return super().is_invalid(rows[~rows.isnan().any(-1)])

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        unknown = rows.isnan().any(-1)
        known = torch.where(unknown[:, None], 1.0, rows)
        return super().draw(known, request).masked_fill(unknown, 8191)


@mutant(
    "no-number-is-accepted",
    "https://github.com/vllm-project/vllm/issues/41834",
    breaks="input.rejected",
    why="a draft row that is no number passes every test that asks what must not be",
)
class NoNumberIsAccepted(Checked):
    """Looks for what is wrong with a row by comparisons, all of which a NaN passes."""

    def is_invalid(self, rows: Tensor) -> bool:
        return bool((rows < 0).any() or ((rows.sum(-1) - 1).abs() > 1e-2).any())
