"""Rows that are verified together and know of each other; tensors that are the caller's."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Ragged, Token, at, one_hot
from draftproof.conformance.protocol.adapter import Request, Result

# --- which request is which ------------------------------------------------------------------


@mutant(
    "bonus-of-the-next-request",
    "draftproof",
    breaks="batch.invariant",
    why="alone, every request is its own neighbour",
)
class BonusOfTheNextRequest(Token):
    """Draws the bonus from the next request's row."""

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        return p[:, -1:].roll(-1, 0)


@mutant(
    "draft-rows-reordered",
    "https://github.com/vllm-project/vllm/issues/41044",
    breaks="batch.invariant",
    why="requests were put in another order, and the draft's rows were not",
)
class DraftRowsReordered(Token):
    """Reads the draft's rows of the requests in reverse order."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        return path, q.flip(0), p


@mutant(
    "wrong-beyond-two-requests",
    "1CatAI/vllm, an issue of that fork",
    breaks="batch.invariant",
    why="a stride that fits two requests is right in every test of two",
)
class WrongBeyondTwoRequests(Token):
    """Finds the bonus row of a request by a stride that is right for the first two."""

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        return p[torch.arange(len(p)) % 2, -1:]


@mutant(
    "starts-before-the-buffer",
    "https://github.com/vllm-project/vllm-ascend/issues/16222",
    breaks="law.lossless",
    why="the first request has no one before it, and ends[-1] is the last one's end",
)
class StartsBeforeTheBuffer(Token):
    """Takes the start of a request from the end of the one before, also for the first."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        count, length, vocabulary = q.shape
        ends = torch.arange(1, count + 1) * length
        place = ends.roll(1)[:, None] + torch.arange(length)
        return path, q.reshape(-1, vocabulary)[place.clamp(max=count * length - 1)], p


@mutant(
    "sorted-and-not-put-back",
    "draftproof",
    breaks="batch.order",
    also=("batch.invariant",),
    why="the answers are right, each for another request",
)
class SortedAndNotPutBack(Token):
    """Sorts the requests by their first drafted token, and answers in that order."""

    def verify(self, request: Request) -> Result:
        order = request.draft_tokens[:, 0, 0].argsort(stable=True)
        tokens, q = request.draft_tokens[order], request.draft_probs[order]
        return super().verify(Request(tokens, q, request.target_probs[order], request.generator))


@mutant(
    "one-greedy-request-makes-all-greedy",
    "draftproof",
    breaks="batch.mixed",
    why="greedy and random requests share a batch; a flag for the batch fits one kind only",
)
class OneGreedyRequestMakesAllGreedy(Token):
    """Verifies a batch greedily as soon as the rows of one request are all certain."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        greedy = (p.amax(-1) == 1).all(-1).any()
        return path, q, torch.where(greedy, one_hot(p.argmax(-1), p), p)


# --- rows of different lengths ---------------------------------------------------------------


@mutant(
    "placeholder-as-token",
    "https://github.com/vllm-project/vllm/issues/46533",
    "https://github.com/vllm-project/vllm/issues/50939",
    "https://github.com/vllm-project/vllm-ascend/pull/10043",
    breaks="batch.ragged",
    why="the index -1 is the last token of the vocabulary",
)
class PlaceholderAsToken(Ragged):
    """Reads the placeholder -1 as a token that the draft was certain of."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return at(p, path % p.shape[-1]) / at(q.nan_to_num(1.0), path % p.shape[-1])


@mutant(
    "padding-is-a-mismatch",
    "vllm-gaudi, found by running it",
    breaks="batch.ragged",
    why="a shorter request that is accepted to its end has a bonus, too",
)
class PaddingIsAMismatch(Ragged):
    """Takes padding for rejected: a shorter request ends with its last draft, and has no bonus."""

    def verify(self, request: Request) -> Result:
        right = super().verify(request)
        if request.lengths is None:
            return right
        path, length = request.draft_tokens[:, 0], request.lengths
        lost = (length > 0) & (length < path.shape[1]) & (right.accepted_length == length)
        last = path.gather(1, (length - 1).clamp(min=0)[:, None])[:, 0]
        token = torch.where(lost, last, right.next_token)
        return Result(right.accepted_length - lost.long(), right.path, token)


@mutant(
    "last-bonus-overwritten",
    "tpu-inference, found by running it",
    breaks="batch.ragged",
    why="the flat output of a full batch has no place to spare for the padding",
)
class LastBonusOverwritten(Ragged):
    """Writes the padding of the flat output over the last request's next token."""

    def verify(self, request: Request) -> Result:
        right = super().verify(request)
        lengths = request.lengths
        if lengths is None or (lengths == request.draft_tokens.shape[2]).all():
            return right
        last = torch.arange(len(lengths)) == len(lengths) - 1
        return Result(right.accepted_length, right.path, right.next_token.masked_fill(last, 0))


@mutant(
    "bonus-of-the-longest",
    "draftproof",
    breaks="batch.ragged",
    why="the bonus row of a shorter request is not the last row of the tensor",
)
class BonusOfTheLongest(Ragged):
    """Takes a shorter request's bonus row for a residual, from which a draft is taken out."""

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        last = q[:, :1].expand_as(q)
        return torch.where((path >= 0)[..., None], (p - q).clamp(min=0), (p - last).clamp(min=0))


@mutant(
    "vectors-without-tail",
    "draftproof",
    breaks="batch.padding",
    why="a vocabulary that is padded to another size has its last tokens in the tail",
)
class VectorsWithoutTail(Token):
    """Goes over a large vocabulary in vectors of four, and leaves out what is left over."""

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        whole = rows.shape[-1] // 4 * 4
        vectors = rows[:, :whole] if whole > 4 else rows
        empty = vectors.sum(-1, keepdim=True) == 0
        return super().draw(torch.where(empty, 1.0, vectors), request)


# --- the caller's tensors --------------------------------------------------------------------


@mutant(
    "race-divides-in-place",
    "https://github.com/vllm-project/vllm/issues/16952",
    breaks="input.unchanged",
    why="the draft's rows are the caller's, who may need them again",
)
class RaceDividesInPlace(Token):
    """Divides the caller's rows of the draft by the race's clocks."""

    def verify(self, request: Request) -> Result:
        right = super().verify(request)
        clocks = torch.empty_like(request.draft_probs).exponential_(generator=request.generator)
        request.draft_probs.div_(clocks)
        return right


@mutant(
    "zeroes-in-place",
    "https://github.com/vllm-project/vllm-ascend/pull/2881",
    breaks="input.unchanged",
    why="the target's rows are the caller's, who may need them again",
)
class ZeroesInPlace(Token):
    """Takes the drafted tokens out of the caller's target rows once it has verified."""

    def verify(self, request: Request) -> Result:
        right = super().verify(request)
        request.target_probs[:, :, :-1].scatter_(-1, request.draft_tokens[..., None], 0.0)
        return right
