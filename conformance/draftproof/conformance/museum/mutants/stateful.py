"""Mutants of stateful verification: of the state that it leaves, or of its use."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import GreedyBlock
from draftproof.conformance.protocol.adapter import Request

RIGHT = GreedyBlock()
stateful = partial(mutant, breaks="law.state", of=GreedyBlock)


def told_nothing(request: Request) -> tuple[Tensor, Tensor]:
    ratio, left = RIGHT.told(request)
    return ratio, torch.zeros_like(left)


def told_of_the_last(request: Request) -> tuple[Tensor, Tensor]:
    ratio, left = RIGHT.told(request)
    return ratio, torch.cat([torch.zeros_like(left[:, :-1]), left[:, -1:]], 1)


def told_of_other_rows(request: Request) -> tuple[Tensor, Tensor]:
    ratio, left = RIGHT.told(request)
    return ratio.roll(1, 0), left.roll(1, 0)


MUTANTS = (
    stateful(
        "leaves-no-state",
        what="Verifies greedily, and leaves nothing behind.",
        why="what was accepted in excess is never repaid",
        check="whether the modified target is handed to the next iteration",
        state=lambda request, result: None,
    ),
    stateful(
        "ignores-its-state",
        what="Leaves what is owed behind, and verifies against the target's own rows all the same.",
        why="the target of the next block must be the modified one",
        check="whether the next iteration verifies against the modified target",
        told=told_nothing,
    ),
    stateful(
        "modifies-one-position-more",
        what="Counts the positions left from the accepted tokens, without the next one.",
        why="the position of the next token is repaid by the next token itself",
        check="the number of positions still modified: L - accepted - 1",
        positions_left=lambda left, accepted: (left - accepted[:, None]).clamp(min=0),
    ),
    stateful(
        "modifies-one-position-less",
        what="Takes the last position of a block for its bonus.",
        why="the last position of the block is modified as well",
        check="the number of positions still modified: L - accepted - 1",
        positions_left=lambda left, accepted: (left - accepted[:, None] - 2).clamp(min=0),
    ),
    stateful(
        "ratio-without-the-next-token",
        what="Goes on with the ratio of what was accepted.",
        why="the next token is a part of the text that both models are compared on",
        check="whether the carried ratio includes the next token",
        emitted_ratio=lambda ratio, p, q: ratio,
    ),
    stateful(
        "ratio-of-the-targets-own-rows",
        what="Compares the draft with the target's own rows, in blocks within blocks, too.",
        why="the target of a block within a block is the one that the outer block has modified",
        check="which target the carried ratio uses: the modified one of the outer block",
        said=lambda targets, p: p[:, None].expand_as(targets),
    ),
    stateful(
        "forgets-outer-blocks",
        what="Keeps what the last block owes, and forgets the blocks around it.",
        why="a block within a block does not repay what the outer one owes",
        check="whether all unfinished blocks are carried, not the last one alone",
        told=told_of_the_last,
    ),
    stateful(
        "greedy-block-with-capped-ratio",
        what="Caps the ratio at one.",
        why="that is block verification: it accepts less, and owes other tokens",
        check="the cap on the ratio: greedy block verification has none",
        breaks="law.reference",
        also=("law.lossless", "length.expected"),
        most=1,
    ),
    stateful(
        "states-of-other-rows",
        what="Gives every row what was left of the one before it in the batch.",
        why="rows do not stay where they were: some stop, and others take their places",
        check="whether the carried state moves with its row when the batch is reordered",
        told=told_of_other_rows,
    ),
)
