"""Mutants of floating-point arithmetic: precision, guards against zero, masks, block sizes."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Checked, Logits, Token, at, in_blocks
from draftproof.conformance.protocol.adapter import Request

RIGHT = Token()


def of_joint_probabilities(p: Tensor, q: Tensor, path: Tensor) -> Tensor:
    joint = at(p, path).cumprod(-1) / at(q, path).cumprod(-1)
    before = torch.cat([torch.ones_like(joint[:, :1]), joint[:, :-1]], 1)
    return joint / before


def through_numpy(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    path, q, _ = RIGHT.rows(request)
    return path, q, torch.from_numpy(request.target_probs.numpy())[:, 0].float()


def of_logarithms(p: Tensor, q: Tensor, path: Tensor) -> Tensor:
    lp, lq = p.log(), q.log()
    return (lp + torch.log1p(-torch.exp((lq - lp).clamp(max=0)))).exp()


def divided_by_zero(path: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    greedy = p.amax(-1, keepdim=True) == 1
    return q, torch.where(greedy, (p.log() / 0.0).softmax(-1), p)


def last_of_the_block(rows: Tensor, request: Request) -> Tensor:
    unknown = rows.isnan().any(-1)
    known = torch.where(unknown[:, None], 1.0, rows)
    return RIGHT.draw(known, request).masked_fill(unknown, 8191)


MUTANTS = (
    mutant(
        "ratio-in-half-precision",
        "vllm-project/vllm before version 1, found by reading its tests",
        what="Casts p and q to float16 before it takes the ratio.",
        why="rows that are given in float32 are owed its precision",
        check="casts to float16 before the ratio",
        breaks="number.dtypes",
        ratio=lambda p, q, path: RIGHT.ratio(p.half(), q.half(), path).float(),
    ),
    mutant(
        "ratio-of-joint-probabilities",
        what="Multiplies the probabilities of all tokens so far before it takes the ratio.",
        why="the probability of a long text is 0 in float32, and 0 / 0 is no number",
        check="whether products of probabilities underflow before the ratio is taken",
        breaks="number.extreme",
        ratio=of_joint_probabilities,
    ),
    mutant(
        "numpy-has-no-bfloat16",
        what="Goes through numpy, which does not know a dtype that it declares.",
        why="what is declared must be taken",
        check="the dtypes that are declared, and what converts them",
        breaks="number.dtypes",
        dtypes=("float32", "bfloat16"),
        rows=through_numpy,
    ),
    mutant(
        "subtracts-masks",
        what="Computes log(p - q) as log p + log(1 - exp(log q - log p)).",
        why="a token that both mask has -inf minus -inf, which is no number",
        check="logits of -inf in both models: -inf minus -inf is NaN",
        breaks="number.masked",
        of=Logits,
        residual=of_logarithms,
    ),
    mutant(
        "divides-by-temperature-zero",
        "https://github.com/vllm-project/vllm/pull/27077",
        "https://github.com/vllm-project/vllm/issues/40269",
        what="Takes a certain row for one at temperature 0, and divides its logits by that.",
        why="a row at temperature 0 is greedy by a sentinel, and is divided by it all the same",
        check="rows at temperature 0: they must not be divided by it",
        breaks="batch.mixed",
        seen=divided_by_zero,
    ),
    mutant(
        "forgets-the-last-block",
        "https://github.com/vllm-project/vllm/issues/53029",
        what="Goes over the vocabulary in whole blocks of 8192 tokens, if there is one.",
        why="a vocabulary is seldom a multiple of the block size",
        check="the last, incomplete block of the vocabulary",
        breaks="number.tail",
        draw=lambda rows, request: RIGHT.draw(in_blocks(rows, 8192, large=8192), request),
    ),
    mutant(
        "no-number-is-the-last-of-a-block",
        "https://github.com/vllm-project/vllm/issues/21876",
        "https://github.com/vllm-project/vllm/issues/45060",
        "https://github.com/vllm-project/vllm/issues/53029",
        what="Lets rows that are not numbers through, "
        "and returns the last id of the block for them.",
        why="a row that is no number must end in an error, not in the last id of the block",
        check="rows with NaN: raise an error before drawing from them",
        breaks="input.rejected",
        of=Checked,
        is_invalid=lambda rows: Checked().is_invalid(rows[~rows.isnan().any(-1)]),
        draw=last_of_the_block,
    ),
    mutant(
        "no-number-is-accepted",
        "https://github.com/vllm-project/vllm/issues/41834",
        what="Looks for what is wrong with a row by comparisons, all of which a NaN passes.",
        why="a draft row that is no number passes every test that asks what must not be",
        check="the validation of rows: comparisons that NaN passes",
        breaks="input.rejected",
        of=Checked,
        is_invalid=lambda rows: bool((rows < 0).any() or ((rows.sum(-1) - 1).abs() > 1e-2).any()),
    ),
)
