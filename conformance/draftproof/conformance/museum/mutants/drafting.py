"""Drafters that declare another law than the one they draw from."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.texts import Recursive
from draftproof.conformance.museum.mutants.verifiers import Token, one_hot, tempered
from draftproof.conformance.protocol.adapter import DraftRequest, DraftResult


class Drafter:
    """K i.i.d. paths from the processed rows of a draft model, which are what is declared."""

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
        """Return the draft model's rows [N, V] after what is drawn [N, D]."""
        return request.next_probs(drawn)

    def processed(self, raw: Tensor, request: DraftRequest) -> Tensor:
        """Return the rows at the request's temperature, cut to its top-k and top-p."""
        return top_p(top_k(heated(raw, request.temperature), request.top_k), request.top_p)

    def token(self, rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
        """Draw a token [N] from rows [N, V] after what is drawn [N, D]."""
        return torch.multinomial(rows, 1, generator=request.generator)[:, 0]

    def declared(self, raw: Tensor, row: Tensor, token: Tensor) -> Tensor:
        """Return the rows [N, V] that the verifier is told."""
        return row

    def shaped(
        self, drawn: Tensor, declared: Tensor, request: DraftRequest
    ) -> tuple[Tensor, Tensor]:
        """Return tokens [B, K, L] and rows [B, K, L, V]."""
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


@mutant(
    "declares-the-raw-row",
    "https://github.com/huggingface/transformers/issues/47932",
    "https://github.com/huggingface/transformers/pull/47961",
    breaks="draft.declared",
    why="the verifier accepts and corrects for a draft that was not drawn",
)
class DeclaresTheRawRow(Drafting):
    """Draws after temperature, top-k and top-p, and declares the row before them."""

    def declared(self, raw: Tensor, row: Tensor, token: Tensor) -> Tensor:
        return raw


@mutant(
    "greedy-drafts-of-a-softmax",
    "https://github.com/huggingface/transformers/issues/32867",
    "https://github.com/huggingface/transformers/pull/33534",
    "https://github.com/jaymody/speculative-sampling/issues/3",
    "https://github.com/z-lab/dflash/issues/74",
    breaks="draft.declared",
    why="a draft that is certain must be declared so",
)
class GreedyDraftsOfASoftmax(Drafting):
    """Drafts the most probable token, and declares the row that it was the most probable of."""

    def token(self, rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
        return rows.argmax(-1)


@mutant(
    "drafts-in-bfloat16",
    "https://github.com/deepseek-ai/DeepSpec/issues/31",
    breaks="draft.declared",
    why="rounding changes probabilities by up to 1 in 256, and the ratio does not know",
)
class DraftsInBfloat16(Drafting):
    """Draws from rows rounded to bfloat16, and declares them as they were."""

    def token(self, rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
        return super().token(rows.bfloat16().float(), drawn, request)


@mutant(
    "best-of-two-drafts",
    "https://github.com/apple/ml-recurrent-drafter/issues/6",
    breaks="draft.declared",
    why="the more probable of two samples is more probable than one sample",
)
class BestOfTwoDrafts(Drafting):
    """Draws two tokens, keeps the more probable one, and declares the row of one draw."""

    def token(self, rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
        two = torch.multinomial(rows, 2, replacement=True, generator=request.generator)
        return two.gather(1, rows.gather(1, two).argmax(1, keepdim=True))[:, 0]


@mutant(
    "cuts-before-it-heats",
    "tpu-inference, found by reading it",
    breaks="draft.declared",
    why="top-p keeps other tokens of a row that has another temperature",
)
class CutsBeforeItHeats(Drafting):
    """Draws from rows that were cut before they were heated, and declares the other order."""

    def draft(self, request: DraftRequest) -> DraftResult:
        self._request = request
        return super().draft(request)

    def processed(self, raw: Tensor, request: DraftRequest) -> Tensor:
        cut = top_p(top_k(raw, request.top_k), request.top_p)
        return heated(cut, request.temperature)

    def declared(self, raw: Tensor, row: Tensor, token: Tensor) -> Tensor:
        return super().processed(raw, self._request)


@mutant(
    "declares-the-row-before",
    "https://github.com/NVIDIA/TensorRT-LLM/pull/12588",
    breaks="draft.declared",
    why="the row of another position says nothing of this token",
)
class DeclaresTheRowBefore(Drafting):
    """Declares the row of the first position for all positions."""

    def shaped(
        self, drawn: Tensor, declared: Tensor, request: DraftRequest
    ) -> tuple[Tensor, Tensor]:
        return super().shaped(drawn, declared[:, :1].expand_as(declared).contiguous(), request)


@mutant(
    "drafts-that-all-differ",
    "draftproof",
    breaks="draft.joint",
    why="siblings without replacement are not independent, as i.i.d. siblings are",
)
class DraftsThatAllDiffer(DraftingSeveral):
    """Draws siblings without replacement, and calls them i.i.d."""

    def token(self, rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
        if drawn.shape[1] > 0:
            return super().token(rows, drawn, request)
        roots = rows[:: request.drafts]
        return torch.multinomial(roots, request.drafts, generator=request.generator).flatten()


@mutant(
    "drafts-that-all-agree",
    "draftproof",
    breaks="draft.joint",
    why="two copies of one path are one draft, not two",
)
class DraftsThatAllAgree(DraftingSeveral):
    """Draws one path and hands it over K times."""

    def shaped(
        self, drawn: Tensor, declared: Tensor, request: DraftRequest
    ) -> tuple[Tensor, Tensor]:
        tokens, rows = super().shaped(drawn, declared, request)
        return tokens[:, :1].expand_as(tokens).clone(), rows[:, :1].expand_as(rows).clone()
