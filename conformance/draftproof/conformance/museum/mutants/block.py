"""Mutants of block verification."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.texts import BlockText
from draftproof.conformance.museum.mutants.verifiers import Block
from draftproof.reference.ledger import exhibits

RIGHT = Block()


def product_capped(ratio: Tensor) -> Tensor:
    product = ratio.cumprod(-1).clamp(max=1)
    return torch.cat([torch.ones_like(ratio[:, :1]), product], 1)


def mass_of_the_row_before(excess: Tensor, weight: Tensor, p: Tensor, q: Tensor) -> Tensor:
    own = (weight[:, 1:-1, None] * p[:, :-2] - q[:, :-1]).clamp(min=0).sum(-1)
    return torch.cat([torch.ones_like(own[:, :1]), own], 1)


block = partial(mutant, of=Block)

MUTANTS = (
    block(
        "block-by-products-of-coins",
        "https://github.com/vllm-project/vllm-ascend/issues/7807",
        "https://github.com/vllm-project/vllm-ascend/pull/7808",
        what="Keeps the longest prefix whose product of capped ratios is above the product of "
        "its coins.",
        why="a product of coins is no coin, and the tests of prefixes are not independent of it",
        check="how prefixes are tested: one coin for each prefix, no product of coins",
        passing=lambda mass, weight: weight[:, 1:],
        coins=lambda ratio, request: RIGHT.coins(ratio, request).cumprod(-1),
        correction=lambda excess, p, q: (p - q).clamp(min=0),
    ),
    mutant(
        "block-with-token-residual",
        "https://github.com/vllm-project/vllm-ascend/pull/9772",
        "https://github.com/vllm-project/vllm-ascend/pull/8308",
        what="Keeps what block verification keeps, and corrects as token verification does.",
        why="the correction must come from (w p - q)+, not from (p - q)+",
        check="the residual: (w p - q)+ with the block weight w, not (p - q)+",
        also=("random.fresh",),
        of=BlockText,
        text=exhibits.block_then_token_residual,
    ),
    mutant(
        "block-stops-at-first-failure",
        "https://github.com/vllm-project/vllm-ascend/pull/11985",
        what="Tests prefixes as block verification does, and stops at the first that fails.",
        why="the tests make up for prefixes that fail now and pass as part of a longer one",
        check="whether longer prefixes are tested after one has failed",
        of=BlockText,
        text=exhibits.block_with_break,
    ),
    block(
        "block-without-draft-rows",
        "https://github.com/vllm-project/vllm-ascend/pull/7603",
        "https://github.com/vllm-project/vllm-ascend/pull/7839",
        what="Lets the target's rows stand for the draft's.",
        why="drafts that come without rows are not drafts from the target",
        check="whether the verifier is given the draft's rows, or the target's in their place",
        also=("length.bounded",),
        seen=lambda path, q, p: (p[:, :-1], p),
    ),
    block(
        "block-without-cap",
        what="Multiplies the ratios first, and caps only their product.",
        why="a weight above 1 is lent to later tokens, and never paid back",
        check="the block weight: cap it at 1 at every position, not once at the end",
        weights=product_capped,
    ),
    block(
        "block-without-mass",
        what="Tests every prefix by its weight alone, "
        "and not by what the target still wants after it.",
        why="shorter prefixes are kept by their weight only if no longer one was tried before",
        check="the test of a prefix: the residual mass after it belongs in the probability",
        passing=lambda mass, weight: weight[:, 1:],
    ),
    block(
        "block-mass-of-the-row-before",
        "https://github.com/vllm-project/vllm-ascend/pull/7808",
        what="Weighs a prefix against the mass of the row of its last token, "
        "not of the row behind it.",
        why="what a prefix is weighed against is what the target wants after it; alike rows "
        "hide it",
        check="the row of the residual mass: the one after the prefix",
        also=("length.expected",),
        mass=mass_of_the_row_before,
    ),
    mutant(
        "block-flag-ignored",
        "https://github.com/vllm-project/vllm-ascend/issues/15673",
        what="Delivers token verification where block verification is asked for.",
        why="no text is lost, only the speed that was promised",
        check="whether the option for block verification reaches the verifier",
        breaks="law.reference",
        also=("length.expected", "length.optimal"),
        algorithm="block",
    ),
)
