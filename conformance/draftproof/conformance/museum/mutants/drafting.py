"""Drafters whose declared law differs from the law that they draw from."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.texts import Recursive
from draftproof.conformance.museum.mutants.verifiers import Token, one_hot, tempered
from draftproof.conformance.protocol.adapter import DraftRequest, DraftResult


class Drafter:
    """K i.i.d. paths from the processed rows of a draft model, which it declares."""

    def draft(self, request: DraftRequest) -> DraftResult:
        """Draft B times K paths of L tokens."""
        drawn = torch.zeros(request.rows * request.drafts, 0, dtype=torch.int64)
        declared = []
        for _ in range(request.length):
            raw = self.raw(drawn, request)
            row = self.processed(raw, request)
            token = self.token(row, drawn, request)
            declared.append(self.declared(raw, row, token))
            drawn = torch.cat([drawn, token[:, None]], 1)
        return DraftResult(*self.shaped(drawn, torch.stack(declared, 1), request))

    def raw(self, drawn: Tensor, request: DraftRequest) -> Tensor:
        """Return the draft model's rows [N, V] after the drafted tokens [N, D]."""
        return request.next_probs(drawn)

    def processed(self, raw: Tensor, request: DraftRequest) -> Tensor:
        """Return the rows at the request's temperature, cut to its top-k and top-p."""
        return top_p(top_k(heated(raw, request.temperature), request.top_k), request.top_p)

    def token(self, rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
        """Draw a token [N] from rows [N, V] after the drafted tokens [N, D]."""
        return torch.multinomial(rows, 1, generator=request.generator)[:, 0]

    def declared(self, raw: Tensor, row: Tensor, token: Tensor) -> Tensor:
        """Return the rows [N, V] that the drafter declares to the verifier."""
        return row

    def shaped(
        self, drawn: Tensor, declared: Tensor, request: DraftRequest
    ) -> tuple[Tensor, Tensor]:
        """Return tokens as [B, K, L] and rows as [B, K, L, V]."""
        shape = request.rows, request.drafts, request.length
        return drawn.view(shape), declared.view(*shape, -1)


def heated(rows: Tensor, temperature: float) -> Tensor:
    """Return the rows [N, V] at a temperature; at 0 the most probable token is certain."""
    if temperature == 0:
        return one_hot(rows.argmax(-1), rows)
    return rows if temperature == 1 else tempered(rows, temperature)


def top_k(rows: Tensor, k: int) -> Tensor:
    """Return the rows [N, V] cut to the k most probable tokens, all if k is 0."""
    if k == 0 or k >= rows.shape[-1]:
        return rows
    ranked, order = rows.sort(dim=-1, descending=True, stable=True)
    kept = torch.zeros_like(rows).scatter(-1, order[:, :k], ranked[:, :k])
    return kept / kept.sum(-1, keepdim=True)


def top_p(rows: Tensor, p: float) -> Tensor:
    """Return the rows [N, V] cut to the most probable tokens that together reach p."""
    if p >= 1:
        return rows
    ranked, order = rows.sort(dim=-1, descending=True, stable=True)
    reached_before = ranked.cumsum(-1) - ranked
    kept = torch.zeros_like(rows).scatter(-1, order, ranked * (reached_before < p))
    return kept / kept.sum(-1, keepdim=True)


class Drafting(Drafter, Token):
    """Token verification with the drafter that goes with it."""

    name = "drafting"


class DraftingSeveral(Drafter, Recursive):
    """Recursive rejection with the drafter that goes with it."""

    name = "drafting-several"
    max_drafts = 2


class CutsBeforeItHeats(Drafting):
    """A drafter that cuts its rows before it applies the temperature."""

    def draft(self, request: DraftRequest) -> DraftResult:
        self._request = request
        return super().draft(request)

    def processed(self, raw: Tensor, request: DraftRequest) -> Tensor:
        cut = top_p(top_k(raw, request.top_k), request.top_p)
        return heated(cut, request.temperature)

    def declared(self, raw: Tensor, row: Tensor, token: Tensor) -> Tensor:
        return super().processed(raw, self._request)


RIGHT = Drafting()


def better_of_two(rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
    two = torch.multinomial(rows, 2, replacement=True, generator=request.generator)
    return two.gather(1, rows.gather(1, two).argmax(1, keepdim=True))[:, 0]


def first_for_all(drawn: Tensor, declared: Tensor, request: DraftRequest) -> tuple[Tensor, Tensor]:
    return RIGHT.shaped(drawn, declared[:, :1].expand_as(declared).contiguous(), request)


def different_at_root(rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
    if drawn.shape[1] > 0:
        return RIGHT.token(rows, drawn, request)
    roots = rows[:: request.drafts]
    return torch.multinomial(roots, request.drafts, generator=request.generator).flatten()


def first_path(drawn: Tensor, declared: Tensor, request: DraftRequest) -> tuple[Tensor, Tensor]:
    tokens, rows = RIGHT.shaped(drawn, declared, request)
    return tokens[:, :1].expand_as(tokens).clone(), rows[:, :1].expand_as(rows).clone()


drafter = partial(mutant, breaks="draft.declared", of=Drafting)

MUTANTS = (
    drafter(
        "declares-the-raw-row",
        "https://github.com/huggingface/transformers/issues/47932",
        "https://github.com/huggingface/transformers/pull/47961",
        what="Draws after temperature, top-k and top-p, and declares the row before them.",
        why="the verifier accepts and corrects for a draft that was not drawn",
        check="which row is declared: the one after temperature, top-k and top-p",
        declared=lambda raw, row, token: raw,
    ),
    drafter(
        "greedy-drafts-of-a-softmax",
        "https://github.com/huggingface/transformers/issues/32867",
        "https://github.com/huggingface/transformers/pull/33534",
        "https://github.com/jaymody/speculative-sampling/issues/3",
        "https://github.com/z-lab/dflash/issues/74",
        what="Drafts the most probable token, "
        "and declares the row that it was the most probable of.",
        why="a draft that is certain must be declared so",
        check="whether greedy drafts are declared as certain (one-hot)",
        token=lambda rows, drawn, request: rows.argmax(-1),
    ),
    drafter(
        "drafts-in-bfloat16",
        "https://github.com/deepseek-ai/DeepSpec/issues/31",
        what="Draws from rows rounded to bfloat16, and declares them as they were.",
        why="rounding changes probabilities by up to 1 in 256, and the ratio does not know",
        check="whether drafts are drawn from the rows that are declared, at their precision",
        token=lambda rows, drawn, request: RIGHT.token(rows.bfloat16().float(), drawn, request),
    ),
    drafter(
        "best-of-two-drafts",
        "https://github.com/apple/ml-recurrent-drafter/issues/6",
        what="Draws two tokens, keeps the more probable one, and declares the row of one draw.",
        why="the more probable of two samples is more probable than one sample",
        check="whether several draws are made and the best is kept",
        token=better_of_two,
    ),
    mutant(
        "cuts-before-it-heats",
        "tpu-inference, found by reading it",
        what="Draws from rows that were cut before they were heated, and declares the other order.",
        why="top-p keeps other tokens of a row that has another temperature",
        check="the order of temperature and top-p: the same in drawing and declaring",
        breaks="draft.declared",
        of=CutsBeforeItHeats,
    ),
    drafter(
        "declares-the-row-before",
        "https://github.com/NVIDIA/TensorRT-LLM/pull/12588",
        what="Declares the row of the first position for all positions.",
        why="the row of another position says nothing of this token",
        check="which row is declared at each position",
        shaped=first_for_all,
    ),
    mutant(
        "drafts-that-all-differ",
        what="Draws siblings without replacement, and calls them i.i.d.",
        why="siblings without replacement are not independent, as i.i.d. siblings are",
        check="whether siblings are drawn with replacement, as i.i.d. drafts are",
        breaks="draft.joint",
        of=DraftingSeveral,
        token=different_at_root,
    ),
    mutant(
        "drafts-that-all-agree",
        what="Draws one path and hands it over K times.",
        why="two copies of one path are one draft, not two",
        check="whether every path is drawn by itself",
        breaks="draft.joint",
        of=DraftingSeveral,
        shaped=first_path,
    ),
)
