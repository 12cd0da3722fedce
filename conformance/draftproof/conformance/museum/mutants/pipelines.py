"""Pipelines whose text has a law different from their target's."""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

from draftproof.conformance.cases.rows import instance
from draftproof.conformance.museum.mutants.drafting import Drafting
from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.protocol.adapter import DraftRequest, Request, TextRequest
from draftproof.reference.model import Instance, Model


class Writing(Drafting):
    """Token verification in a pipeline that drafts up to two tokens, verifies and repeats."""

    name = "writing"

    def generate(self, request: TextRequest) -> Tensor:
        """Write a text [H] after an empty prompt."""
        text = context = torch.zeros(0, dtype=torch.int64)
        while len(text) < request.horizon:
            path, emitted = self.iteration(context, request.horizon - len(text), request)
            text = torch.cat([text, emitted])
            context = torch.cat([context, self.remembered(path, emitted)])
        return text

    def iteration(self, context: Tensor, left: int, request: TextRequest) -> tuple[Tensor, Tensor]:
        """Return the draft [L] and the emission of an iteration with `left` tokens to write."""
        models = _models(request.vocabulary, request.horizon)
        asked = DraftRequest(
            next_probs=lambda contexts: _rows(models.draft, context, contexts),
            rows=1,
            drafts=1,
            length=min(2, left - 1) if request.assisted else 0,
            vocabulary=request.vocabulary,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            generator=request.generator,
        )
        if asked.length == 0:
            own = self.processed(_rows(models.target, context, context[None, :0]), asked)
            return context[:0], self.token(own, context[None], asked)
        drafted = self.draft(asked)
        path = drafted.draft_tokens[0, 0]
        along = [_rows(models.target, context, path[None, :size]) for size in range(len(path) + 1)]
        p = self.of_target(torch.cat(along), asked)
        result = self.verify(
            Request(drafted.draft_tokens, drafted.draft_probs, p[None, None], asked.generator)
        )
        return path, torch.cat([path[: int(result.accepted_length)], result.next_token])

    def of_target(self, raw: Tensor, asked: DraftRequest) -> Tensor:
        """Return the target's rows [L+1, V] against which drafts are verified."""
        return self.processed(raw, asked)

    def remembered(self, path: Tensor, emitted: Tensor) -> Tensor:
        """Return the models' view of the text that an iteration has added."""
        return emitted


@cache
def _models(vocabulary: int, horizon: int) -> Instance:
    """Return toy models: their weights are at least 1/16, with logarithms of at most 2.8."""
    return instance("pipelines", vocabulary, horizon)


def _rows(model: Model, text: Tensor, contexts: Tensor) -> Tensor:
    """Return the model's rows [N, V] after a text and contexts [N, D]."""
    before = text.tolist()
    rows = [model((*before, *context)) for context in contexts.tolist()]
    return torch.tensor([[float(weight) for weight in row] for row in rows])


RIGHT = Writing()


pipeline = partial(mutant, breaks="text.lossless", of=Writing)

MUTANTS = (
    pipeline(
        "writes-by-the-raw-row",
        "https://github.com/huggingface/transformers/issues/47932",
        "https://github.com/huggingface/transformers/pull/47961",
        what="Drafts after temperature, top-k and top-p, "
        "and verifies as if it had drafted before them.",
        why="the ratio is too large by what the cut has left out",
        check="which draft row reaches the verifier: the one after temperature, top-k and top-p",
        also=("draft.declared",),
        declared=lambda raw, row, token: raw,
    ),
    pipeline(
        "bonus-of-the-raw-row",
        what="Draws the bonus from the target's row before temperature, top-k and top-p.",
        why="the bonus is sampled with the same options as any other token",
        check="whether the bonus row is processed like the verified rows",
        of_target=lambda raw, asked: torch.cat([RIGHT.processed(raw[:-1], asked), raw[-1:]]),
    ),
    pipeline(
        "remembers-what-it-rejected",
        what="Goes on after a rejection as if the rejected token had been written.",
        why="what was rejected is no part of the text, and must leave the caches",
        check="whether rejected tokens leave the caches (KV rollback)",
        remembered=lambda path, emitted: torch.cat([path[: len(emitted)], emitted[len(path) :]]),
    ),
)
