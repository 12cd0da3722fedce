"""Mutants whose rows influence each other in a batch, or that write to the caller's tensors."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Ragged, Token, in_blocks, one_hot
from draftproof.conformance.protocol.adapter import Request, Result

RIGHT, RAGGED = Token(), Ragged()


def from_the_end_before(path: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    count, length, vocabulary = q.shape
    ends = torch.arange(1, count + 1) * length
    place = ends.roll(1)[:, None] + torch.arange(length)
    return q.reshape(-1, vocabulary)[place.clamp(max=count * length - 1)], p


def in_sorted_order(request: Request) -> Result:
    order = request.draft_tokens[:, 0, 0].argsort(stable=True)
    tokens, q = request.draft_tokens[order], request.draft_probs[order]
    return RIGHT.verify(Request(tokens, q, request.target_probs[order], request.generator))


def greedy_as_one(path: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    greedy = (p.amax(-1) == 1).all(-1).any()
    return q, torch.where(greedy, one_hot(p.argmax(-1), p), p)


def without_a_bonus(request: Request) -> Result:
    right = RAGGED.verify(request)
    if request.lengths is None:
        return right
    path, length = request.draft_tokens[:, 0], request.lengths
    lost = (length > 0) & (length < path.shape[1]) & (right.accepted_length == length)
    last = path.gather(1, (length - 1).clamp(min=0)[:, None])[:, 0]
    token = torch.where(lost, last, right.next_token)
    return Result(right.accepted_length - lost.long(), right.path, token)


def overwritten(request: Request) -> Result:
    right = RAGGED.verify(request)
    lengths = request.lengths
    if lengths is None or (lengths == request.draft_tokens.shape[2]).all():
        return right
    last = torch.arange(len(lengths)) == len(lengths) - 1
    return Result(right.accepted_length, right.path, right.next_token.masked_fill(last, 0))


def residual_at_the_end(p: Tensor, q: Tensor, path: Tensor) -> Tensor:
    last = q[:, :1].expand_as(q)
    return torch.where((path >= 0)[..., None], (p - q).clamp(min=0), (p - last).clamp(min=0))


def divided(request: Request) -> Result:
    right = RIGHT.verify(request)
    clocks = torch.empty_like(request.draft_probs).exponential_(generator=request.generator)
    request.draft_probs.div_(clocks)
    return right


def zeroed(request: Request) -> Result:
    right = RIGHT.verify(request)
    request.target_probs[:, :, :-1].scatter_(-1, request.draft_tokens[..., None], 0.0)
    return right


invariant = partial(mutant, breaks="batch.invariant")
ragged = partial(mutant, breaks="batch.ragged", of=Ragged)

MUTANTS = (
    # --- which request is which ---------------------------------------------------------------
    invariant(
        "bonus-of-the-next-request",
        what="Draws the bonus from the next request's row.",
        why="alone, every request is its own neighbour",
        check="the row offset of the bonus in the batch",
        bonus=lambda p, q: p[:, -1:].roll(-1, 0),
    ),
    invariant(
        "draft-rows-reordered",
        "https://github.com/vllm-project/vllm/issues/41044",
        what="Reads the draft's rows of the requests in reverse order.",
        why="requests were put in another order, and the draft's rows were not",
        check="whether the draft's rows are in the order of the requests",
        seen=lambda path, q, p: (q.flip(0), p),
    ),
    invariant(
        "wrong-beyond-two-requests",
        "1CatAI/vllm, an issue of that fork",
        what="Finds the bonus row of a request by a stride that is right for the first two.",
        why="a stride that fits two requests is right in every test of two",
        check="the stride between requests in the index of the bonus row",
        bonus=lambda p, q: p[torch.arange(len(p)) % 2, -1:],
    ),
    mutant(
        "starts-before-the-buffer",
        "https://github.com/vllm-project/vllm-ascend/issues/16222",
        what="Takes the start of a request from the end of the one before, also for the first.",
        why="the first request has no one before it, and ends[-1] is the last one's end",
        check="the start offset of the first request: 0",
        seen=from_the_end_before,
    ),
    mutant(
        "sorted-and-not-put-back",
        what="Sorts the requests by their first drafted token, and answers in that order.",
        why="the answers are right, each for another request",
        check="whether results are put back in the order of the requests",
        breaks="batch.order",
        also=("batch.invariant",),
        verify=in_sorted_order,
    ),
    mutant(
        "one-greedy-request-makes-all-greedy",
        what="Verifies a batch greedily as soon as the rows of one request are all certain.",
        why="greedy and random requests share a batch; a flag for the batch fits one kind only",
        check="whether the greedy flag is kept for each request",
        breaks="batch.mixed",
        seen=greedy_as_one,
    ),
    # --- rows of different lengths ------------------------------------------------------------
    ragged(
        "placeholder-as-token",
        "https://github.com/vllm-project/vllm/issues/46533",
        "https://github.com/vllm-project/vllm/issues/50939",
        "https://github.com/vllm-project/vllm-ascend/pull/10043",
        what="Reads the placeholder -1 as a token that the draft was certain of.",
        why="the index -1 is the last token of the vocabulary",
        check="whether padding (-1) is used as a token index",
        ratio=lambda p, q, path: RIGHT.ratio(p, q.nan_to_num(1.0), path % p.shape[-1]),
    ),
    ragged(
        "padding-is-a-mismatch",
        "vllm-gaudi, found by running it",
        what="Takes padding for rejected: a shorter request ends with its last draft, "
        "and has no bonus.",
        why="a shorter request that is accepted to its end has a bonus, too",
        check="the bonus of requests that are shorter than the batch",
        verify=without_a_bonus,
    ),
    ragged(
        "last-bonus-overwritten",
        "tpu-inference, found by running it",
        what="Writes the padding of the flat output over the last request's next token.",
        why="the flat output of a full batch has no place to spare for the padding",
        check="where padding of the flat output is written",
        verify=overwritten,
    ),
    ragged(
        "bonus-of-the-longest",
        what="Takes a shorter request's bonus row for a residual, from which a draft is taken out.",
        why="the bonus row of a shorter request is not the last row of the tensor",
        check="the bonus row of shorter requests: at their own length",
        residual=residual_at_the_end,
    ),
    mutant(
        "vectors-without-tail",
        what="Goes over a large vocabulary in vectors of four, and leaves out what is left over.",
        why="a vocabulary that is padded to another size has its last tokens in the tail",
        check="the remainder of the vocabulary after whole vectors",
        breaks="batch.padding",
        draw=lambda rows, request: RIGHT.draw(in_blocks(rows, 4, large=8), request),
    ),
    # --- the caller's tensors -----------------------------------------------------------------
    mutant(
        "race-divides-in-place",
        "https://github.com/vllm-project/vllm/issues/16952",
        what="Divides the caller's rows of the draft by the race's clocks.",
        why="the draft's rows are the caller's, who may need them again",
        check="operators in place (div_) on the caller's draft rows",
        breaks="input.unchanged",
        verify=divided,
    ),
    mutant(
        "zeroes-in-place",
        "https://github.com/vllm-project/vllm-ascend/pull/2881",
        what="Takes the drafted tokens out of the caller's target rows once it has verified.",
        why="the target's rows are the caller's, who may need them again",
        check="operators in place (scatter_) on the caller's target rows",
        breaks="input.unchanged",
        verify=zeroed,
    ),
)
