"""Stateful verification, got wrong: what is left behind, or what is made of it."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Block, GreedyBlock
from draftproof.conformance.protocol.adapter import Request, Result


@mutant(
    "leaves-no-state",
    "draftproof",
    breaks="law.state",
    why="what was accepted in excess is never repaid",
)
class LeavesNoState(GreedyBlock):
    """Verifies greedily, and leaves nothing behind."""

    def state(self, request: Request, result: Result) -> dict[str, Tensor] | None:
        return None


@mutant(
    "ignores-its-state",
    "draftproof",
    breaks="law.state",
    why="the target of the next block must be the modified one",
)
class IgnoresItsState(GreedyBlock):
    """Leaves what is owed behind, and verifies against the target's own rows all the same."""

    def told(self, request: Request) -> tuple[Tensor, Tensor]:
        ratio, left = super().told(request)
        return ratio, torch.zeros_like(left)


@mutant(
    "modifies-one-position-more",
    "draftproof",
    breaks="law.state",
    why="the position of the next token is repaid by the next token itself",
)
class ModifiesOnePositionMore(GreedyBlock):
    """Counts the positions left from the accepted tokens, without the next one."""

    def positions_left(self, left: Tensor, accepted: Tensor) -> Tensor:
        return (left - accepted[:, None]).clamp(min=0)


@mutant(
    "modifies-one-position-less",
    "draftproof",
    breaks="law.state",
    why="the last position of the block is modified as well",
)
class ModifiesOnePositionLess(GreedyBlock):
    """Takes the last position of a block for its bonus."""

    def positions_left(self, left: Tensor, accepted: Tensor) -> Tensor:
        return (left - accepted[:, None] - 2).clamp(min=0)


@mutant(
    "ratio-without-the-next-token",
    "draftproof",
    breaks="law.state",
    why="the next token is a part of the text that both models are compared on",
)
class RatioWithoutTheNextToken(GreedyBlock):
    """Goes on with the ratio of what was accepted."""

    def emitted_ratio(self, ratio: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return ratio


@mutant(
    "ratio-of-the-targets-own-rows",
    "draftproof",
    breaks="law.state",
    why="the target of a block within a block is the one that the outer block has modified",
)
class RatioOfTheTargetsOwnRows(GreedyBlock):
    """Compares the draft with the target's own rows, in blocks within blocks, too."""

    def said(self, targets: Tensor, p: Tensor) -> Tensor:
        return p[:, None].expand_as(targets)


@mutant(
    "forgets-outer-blocks",
    "draftproof",
    breaks="law.state",
    why="a block within a block does not repay what the outer one owes",
)
class ForgetsOuterBlocks(GreedyBlock):
    """Keeps what the last block owes, and forgets the blocks around it."""

    def told(self, request: Request) -> tuple[Tensor, Tensor]:
        ratio, left = super().told(request)
        return ratio, torch.cat([torch.zeros_like(left[:, :-1]), left[:, -1:]], 1)


@mutant(
    "greedy-block-with-capped-ratio",
    "draftproof",
    breaks="law.reference",
    also=("law.lossless", "length.expected"),
    why="that is block verification: it accepts less, and owes other tokens",
)
class GreedyBlockWithCappedRatio(GreedyBlock):
    """Caps the ratio at one."""

    def weights(self, ratio: Tensor) -> Tensor:
        return Block.weights(self, ratio)


@mutant(
    "states-of-other-rows",
    "draftproof",
    breaks="law.state",
    why="rows do not stay where they were: some stop, and others take their places",
)
class StatesOfOtherRows(GreedyBlock):
    """Gives every row what was left of the one before it in the batch."""

    def told(self, request: Request) -> tuple[Tensor, Tensor]:
        ratio, left = super().told(request)
        return ratio.roll(1, 0), left.roll(1, 0)
