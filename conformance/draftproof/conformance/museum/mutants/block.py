"""Block verification, got wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.texts import ReferenceStyle
from draftproof.conformance.museum.mutants.verifiers import Block, Token
from draftproof.conformance.protocol.adapter import Request
from draftproof.reference.ledger import exhibits


@mutant(
    "block-by-products-of-coins",
    "https://github.com/vllm-project/vllm-ascend/issues/7807",
    "https://github.com/vllm-project/vllm-ascend/pull/7808",
    breaks="law.lossless",
    why="a product of coins is no coin, and the tests of prefixes are not independent of it",
)
class BlockByProductsOfCoins(Block):
    """Keeps the longest prefix whose product of capped ratios is above the product of its coins."""

    def passing(self, mass: Tensor, weight: Tensor) -> Tensor:
        return weight[:, 1:]

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return super().coins(ratio, request).cumprod(-1)

    def correction(self, excess: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return (p - q).clamp(min=0)


@mutant(
    "block-with-token-residual",
    "https://github.com/vllm-project/vllm-ascend/pull/9772",
    "https://github.com/vllm-project/vllm-ascend/pull/8308",
    breaks="law.lossless",
    also=("random.fresh",),
    why="the correction must come from (w p - q)+, not from (p - q)+",
)
class BlockWithTokenResidual(ReferenceStyle):
    """Keeps what block verification keeps, and corrects as token verification does."""

    algorithm = "block"
    max_drafts = 1
    text = staticmethod(exhibits.block_then_token_residual)


@mutant(
    "block-stops-at-first-failure",
    "https://github.com/vllm-project/vllm-ascend/pull/11985",
    breaks="law.lossless",
    why="the tests make up for prefixes that fail now and pass as part of a longer one",
)
class BlockStopsAtFirstFailure(ReferenceStyle):
    """Tests prefixes as block verification does, and stops at the first that fails."""

    algorithm = "block"
    max_drafts = 1
    text = staticmethod(exhibits.block_with_break)


@mutant(
    "block-without-draft-rows",
    "https://github.com/vllm-project/vllm-ascend/pull/7603",
    "https://github.com/vllm-project/vllm-ascend/pull/7839",
    breaks="law.lossless",
    also=("length.bounded",),
    why="drafts that come without rows are not drafts from the target",
)
class BlockWithoutDraftRows(Block):
    """Lets the target's rows stand for the draft's."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, _, p = super().rows(request)
        return path, p[:, :-1], p


@mutant(
    "block-without-cap",
    "draftproof",
    breaks="law.lossless",
    why="a weight above 1 is lent to later tokens, and never paid back",
)
class BlockWithoutCap(Block):
    """Multiplies the ratios first, and caps only their product."""

    def weights(self, ratio: Tensor) -> Tensor:
        product = ratio.cumprod(-1).clamp(max=1)
        return torch.cat([torch.ones_like(ratio[:, :1]), product], 1)


@mutant(
    "block-without-mass",
    "draftproof",
    breaks="law.lossless",
    why="shorter prefixes are kept by their weight only if no longer one was tried before",
)
class BlockWithoutMass(Block):
    """Tests every prefix by its weight alone, and not by what the target still wants after it."""

    def passing(self, mass: Tensor, weight: Tensor) -> Tensor:
        return weight[:, 1:]


@mutant(
    "block-mass-of-the-row-before",
    "https://github.com/vllm-project/vllm-ascend/pull/7808",
    breaks="law.lossless",
    also=("length.expected",),
    why="what a prefix is weighed against is what the target wants after it; alike rows hide it",
)
class BlockMassOfTheRowBefore(Block):
    """Weighs a prefix against the mass of the row of its last token, not of the row behind it."""

    def mass(self, excess: Tensor, weight: Tensor, p: Tensor, q: Tensor) -> Tensor:
        own = (weight[:, 1:-1, None] * p[:, :-2] - q[:, :-1]).clamp(min=0).sum(-1)
        return torch.cat([torch.ones_like(own[:, :1]), own], 1)


@mutant(
    "block-flag-ignored",
    "https://github.com/vllm-project/vllm-ascend/issues/15673",
    breaks="law.reference",
    also=("length.expected", "length.optimal"),
    why="no text is lost, only the speed that was promised",
)
class BlockFlagIgnored(Token):
    """Delivers token verification where block verification is asked for."""

    algorithm = "block"
