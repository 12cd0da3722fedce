"""A correct engine: continuous batching, speculative decoding and a prefix cache in one file.

All requests of a call run at the same time. In each step the draft model proposes `length` tokens
for every request that goes on; the target reads them in one pass, token verification keeps some of
them, and the caches of both are rolled back. Each step is a method, so that a mutant overrides it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

from draftproof.conformance.lanes.engine.asking import Answer, Generation, SamplingParams, Tokens
from draftproof.conformance.museum.engines.model import Cache, Floats, Integers, Llama


@dataclass
class Running:
    """Running request: its text so far, and its random numbers."""

    asked: Generation
    tokens: list[int]
    random: numpy.random.Generator
    steps: int = 0

    @property
    def missing(self) -> int:
        """The number of tokens still to be written."""
        return len(self.asked.prompt) + self.asked.max_tokens - len(self.tokens)


@dataclass
class Slots:
    """Caches of target and draft for all requests of a call."""

    target: Cache
    draft: Cache


class MuseumEngine:
    """Engine with the models in a checkpoint's folder."""

    name = "museum-engine"
    version = "1"
    length = 3
    draft_length = length

    def __init__(self, folder: Path | str, *, seed: int | None = None) -> None:
        self.target = Llama(Path(folder) / "target")
        self.draft = Llama(Path(folder) / "draft")
        self.random = numpy.random.default_rng(seed)
        self.texts: dict[Tokens, list[tuple[Floats, Floats]]] = {}
        """The keys and values of earlier texts, as read by target and draft."""

    # --- a call -----------------------------------------------------------------------------

    def generate(self, requests: Sequence[Generation]) -> list[Answer]:
        """Return the answer to each request; all of them run at the same time."""
        running = [
            Running(each, [*each.prompt], numpy.random.default_rng(self._seed(each)))
            for each in requests
        ]
        # A mutant that rolls nothing back needs the slots of a step for each token.
        steps = max(each.missing for each in running) + 1
        longest = max(len(each.tokens) for each in running) + (self.length + 1) * steps
        slots = Slots(*(m.cache(len(running), longest) for m in (self.target, self.draft)))
        self.prefill(running, slots)
        while any(each.missing > 0 for each in running):
            self.step(running, slots)
        for row, each in enumerate(running):
            self.keep_prefix(each, slots, row)
        return [
            Answer(tuple(each.tokens[len(each.asked.prompt) :]), each.steps) for each in running
        ]

    def _seed(self, asked: Generation) -> int:
        return int(self.random.integers(2**63)) if asked.seed is None else asked.seed

    def prefill(self, running: Sequence[Running], slots: Slots) -> None:
        """Read each prompt without its last token, after the prefix that earlier requests read."""
        for row, each in enumerate(running):
            known = self.known_prefix(each.asked.prompt[:-1], slots, row)
            rest = each.asked.prompt[known:-1]
            if not rest:
                continue
            for model, cache in ((self.target, slots.target), (self.draft, slots.draft)):
                own = _row(cache, row)
                positions = self.read_from(known, len(rest))
                model.logits(numpy.array([rest]), positions[None], own)
                cache.lengths[row] += len(rest)

    def read_from(self, known: int, count: int) -> Integers:
        """Return the positions of `count` tokens of a prompt after its `known` tokens."""
        return known + numpy.arange(count)

    def step(self, running: Sequence[Running], slots: Slots) -> None:
        """Draft, verify, and roll back, for all requests that continue."""
        count = self.length if any(each.asked.speculation for each in running) else 0
        last = numpy.array([each.tokens[-1] for each in running])
        drafted, draft_rows = self.propose(running, slots.draft, last, count)
        read = numpy.concatenate([last[:, None], drafted], 1)
        logits = self.target.logits(read, self.positions(running, count + 1), slots.target)
        rows = self.target_rows(running, logits)
        for row, each in enumerate(running):
            if each.missing <= 0:
                continue
            own = count if each.asked.speculation else 0
            kept = self.verify(each, drafted[row, :own], draft_rows[row, :own], rows[row])
            kept = kept[: each.missing]
            each.tokens += kept
            each.steps += 1
        self.roll_back(running, slots, count)

    def positions(self, running: Sequence[Running], count: int) -> Integers:
        """Return the positions of the last token and of those after it."""
        ends = numpy.array([len(each.tokens) - 1 for each in running])
        return ends[:, None] + numpy.arange(count)

    # --- drafting -----------------------------------------------------------------------------

    def propose(
        self, running: Sequence[Running], cache: Cache, last: Integers, count: int
    ) -> tuple[Integers, Floats]:
        """Return drafted tokens [rows, count], and the rows [rows, count, V] they are drawn from.

        The draft reads all drafted tokens, so that its cache covers every token that may be kept.
        """
        drafted = numpy.zeros((len(running), count), dtype=numpy.int64)
        rows = numpy.zeros((len(running), count, self.draft.embedding.shape[0]))
        start = cache.lengths.copy()
        token, positions = last, self.positions(running, count + 1)
        for place in range(count + 1):
            logits = self.draft.logits(token[:, None], positions[:, place : place + 1], cache)
            cache.lengths += 1
            if place == count:
                break
            rows[:, place] = self.draft_rows(running, logits)[:, 0]
            drafted[:, place] = [
                draw(self.drawn_from(each, rows[row, place]), each.random)
                for row, each in enumerate(running)
            ]
            token = drafted[:, place]
        cache.lengths = start
        return drafted, rows

    def drawn_from(self, each: Running, row: Floats) -> Floats:  # noqa: ARG002  # mutants use it
        """Return the row that a drafted token is drawn from."""
        return row

    def draft_rows(self, running: Sequence[Running], logits: Floats) -> Floats:
        """Return the draft's rows, processed as each request asks."""
        return numpy.stack(
            [processed(own, each.asked.sampling) for own, each in zip(logits, running, strict=True)]
        )

    def target_rows(self, running: Sequence[Running], logits: Floats) -> Floats:
        """Return the target's rows, processed as each request asks."""
        return numpy.stack(
            [processed(own, each.asked.sampling) for own, each in zip(logits, running, strict=True)]
        )

    # --- verifying ----------------------------------------------------------------------------

    def verify(
        self, each: Running, drafted: Integers, draft_rows: Floats, target_rows: Floats
    ) -> list[int]:
        """Return the kept tokens and the next token, by token verification."""
        kept: list[int] = []
        for place, token in enumerate(drafted):
            p, q = target_rows[place], draft_rows[place]
            if not self.accepts(each, p[token], q[token]):
                return [*kept, self.corrected(each, p, q)]
            kept.append(int(token))
        return [*kept, draw(target_rows[len(drafted)], each.random)]

    def corrected(self, each: Running, p: Floats, q: Floats) -> int:
        """Return the token in place of a rejected one."""
        return draw(numpy.maximum(p - q, 0), each.random)

    def accepts(self, each: Running, p: float, q: float) -> bool:
        """Return True if a drafted token is kept, from its probabilities."""
        return bool(each.random.random() * q < p)

    def roll_back(self, running: Sequence[Running], slots: Slots, count: int) -> None:  # noqa: ARG002
        """Keep in the caches the entries of all tokens but the last."""
        for cache in (slots.target, slots.draft):
            cache.lengths[:] = [len(each.tokens) - 1 for each in running]

    # --- prefixes -----------------------------------------------------------------------------

    def known_prefix(self, prompt: Tokens, slots: Slots, row: int) -> int:
        """Put the known part of a prompt into the caches of a row, and return its length."""
        text = max(self.texts, key=lambda text: self.common(prompt, text), default=())
        known = self.common(prompt, text)
        if known:
            for cache, (keys, values) in zip(
                (slots.target, slots.draft), self.texts[text], strict=True
            ):
                cache.keys[row, :known] = keys[:known]
                cache.values[row, :known] = values[:known]
                cache.lengths[row] = known
        return known

    def common(self, prompt: Tokens, text: Tokens) -> int:
        """Return the length of the longest common prefix of two texts."""
        pairs = enumerate(zip(prompt, text, strict=False))
        same = min(len(prompt), len(text))
        return next((place for place, (a, b) in pairs if a != b), same)

    def keep_prefix(self, each: Running, slots: Slots, row: int) -> None:
        """Keep the entries of a text, for requests with the same prefix."""
        text = tuple(each.tokens[:-1])
        self.texts[text] = [
            (cache.keys[row, : len(text)].copy(), cache.values[row, : len(text)].copy())
            for cache in (slots.target, slots.draft)
        ]
        while len(self.texts) > _MOST_TEXTS:
            del self.texts[next(iter(self.texts))]


_MOST_TEXTS = 64


def processed(logits: Floats, sampling: SamplingParams) -> Floats:
    """Return rows [..., V] processed as a request asks, in the order of `SamplingParams`."""
    own = logits.astype(numpy.float64)
    for token, bias in sampling.logit_bias.items():
        own[..., token] += bias
    if sampling.allowed is not None:
        barred = numpy.ones(own.shape[-1], dtype=bool)
        barred[list(sampling.allowed)] = False
        own = numpy.where(barred, -numpy.inf, own)
    own = own / sampling.temperature
    weights = numpy.exp(own - own.max(-1, keepdims=True))
    rows = weights / weights.sum(-1, keepdims=True)
    least = numpy.zeros(rows.shape[:-1])
    if sampling.top_k is not None:
        least = -numpy.sort(-rows, -1)[..., sampling.top_k - 1]
    if sampling.top_p is not None:
        order = -numpy.sort(-rows, -1)
        last = (order.cumsum(-1) < sampling.top_p).sum(-1, keepdims=True)
        least = numpy.take_along_axis(order, last, -1)[..., 0]
    if sampling.min_p is not None:
        least = sampling.min_p * rows.max(-1)
    rows = numpy.where(rows >= least[..., None], rows, 0)
    normalised: Floats = rows / rows.sum(-1, keepdims=True)
    return normalised


def draw(weights: Floats, random: numpy.random.Generator) -> int:
    """Return a token drawn in proportion to weights [V]."""
    sums = weights.cumsum()
    return int((sums <= random.random() * sums[-1]).sum())


def _row(cache: Cache, row: int) -> Cache:
    """Return the cache of one row, which shares its memory."""
    own = slice(row, row + 1)
    return Cache(cache.keys[own], cache.values[own], cache.lengths[own].copy())
