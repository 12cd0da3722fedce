"""Mutants that are correct at small sizes, in order, with a generator: faults of serving alone."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.conformance.protocol.adapter import Request

RIGHT = Token()


def of_four_positions(ratio: Tensor, request: Request) -> Tensor:
    length = ratio.shape[1]
    return RIGHT.coins(ratio[:, :4], request).repeat(1, -(-length // 4))[:, :length]


def target_from_the_seventeenth_on(p: Tensor, q: Tensor, path: Tensor) -> Tensor:
    late = torch.arange(p.shape[1])[:, None] >= 16
    return torch.where(late, p, RIGHT.residual(p, q, path))


def of_eight_rows(ratio: Tensor, request: Request) -> Tensor:
    rows = len(ratio)
    return RIGHT.coins(ratio[:8], request).repeat(-(-rows // 8), 1)[:rows]


def of_the_first_block_of_rows(path: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    return q, p[torch.arange(len(p)) % 32]


def as_they_lie(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    def read(rows: Tensor) -> Tensor:
        return rows.as_strided(rows.shape, torch.empty(rows.shape, device="meta").stride())

    q, p = read(request.draft_probs), read(request.target_probs)
    return RIGHT.rows(replace(request, draft_probs=q, target_probs=p))


def of_offsets_in_31_bits(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    path, q, p = RIGHT.rows(request)
    first = torch.arange(len(p)) * request.target_probs.stride(0) % 2**31
    return path, q, p[first // max(request.target_probs.stride(0), 1)]


def one_where_no_generator_is_given(ratio: Tensor, request: Request) -> Tensor:
    coins = RIGHT.coins(ratio, request)
    return coins if request.generator is not None else coins[:, :1].expand_as(ratio)


MUTANTS = (
    mutant(
        "coins-of-four-positions",
        what="Indexes its coins by the position modulo 4.",
        why="a block of coins is read again at the fifth token, which falls as the first does",
        check="the index of the coins: the position itself, not modulo 4",
        breaks="law.long",
        coins=of_four_positions,
    ),
    mutant(
        "corrects-from-target-behind-sixteen",
        what="Corrects from the target from the seventeenth token on.",
        why="a loop that was unrolled for 16 tokens ends in another one, which lacks a step",
        check="the code for positions after the unrolled 16: its residual",
        breaks="law.long",
        residual=target_from_the_seventeenth_on,
    ),
    mutant(
        "coins-of-eight-rows",
        what="Indexes its coins by the row modulo 8.",
        why="rows that are eight apart are accepted and rejected alike",
        check="the index of the coins: the row itself, not modulo 8",
        breaks="batch.large",
        coins=of_eight_rows,
    ),
    mutant(
        "rows-of-the-first-block",
        what="Reads the target's rows by the row modulo 32.",
        why="a program of a kernel that forgets its number reads what the first one reads",
        check="the row index in the kernel: add the offset of its program",
        breaks="batch.large",
        seen=of_the_first_block_of_rows,
    ),
    mutant(
        "reads-as-if-contiguous",
        what="Takes the place of its rows, and forgets their strides.",
        why="rows of a padded vocabulary are read shifted, each by more than the one before",
        check="whether strides are passed to the kernel",
        breaks="input.layout",
        rows=as_they_lie,
    ),
    mutant(
        "offsets-of-31-bits",
        what="Finds the target's rows of a request by an offset of 31 bits.",
        why="offsets are counted in entries, and a batch of long rows has more of them than that",
        check="the integer type of memory offsets: 64 bits",
        breaks="number.offsets",
        rows=of_offsets_in_31_bits,
    ),
    mutant(
        "one-coin-without-a-generator",
        what="Decides all positions by one coin where the request has no generator.",
        why="the way that all of its tests take is not the way that is served",
        check="the path for requests without a generator: one coin for each position",
        breaks="random.default",
        coins=one_where_no_generator_is_given,
    ),
)
