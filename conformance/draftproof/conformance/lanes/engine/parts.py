"""Parts of a campaign on an engine: the requests that exercise each feature of serving.

A part sends batches of requests until it has its share of the tokens. Its requests depend on the
rows, the seed and earlier answers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy

from draftproof.conformance.checkpoint.rows import Context, KnownRows
from draftproof.conformance.lanes.engine.asking import Answer, Generation, SamplingParams, Tokens
from draftproof.conformance.lanes.engine.owed import owed_rows, plain_sampling
from draftproof.conformance.lanes.engine.wealth import Counted, Owed
from draftproof.conformance.lanes.statistics import Floats

Random = numpy.random.Generator

SHORT, LONG = 48, 512
"""Maximum number of tokens of one answer: many short answers, and some with 100 steps of an
engine."""

BLOCK, BLOCKS = 16, 32
"""Number of tokens of a block, in which many caches keep prefixes, and maximum number of blocks of
a prompt."""


@dataclass(frozen=True)
class Part:
    """Requests of one case, and the requirement that their tokens decide.

    `requests` run at the same time; they take turns with `samplings`. `share` is the part's share
    of all tokens.
    """

    case: str
    requirement: str
    share: float
    requests: int = 8
    longest: int = SHORT
    samplings: tuple[SamplingParams, ...] = (SamplingParams(),)
    speculation: bool = True
    is_mixed: bool = False
    """True if requests of one batch have different lengths."""
    is_resumed: bool = False
    """True if requests continue earlier texts, a few tokens at a time."""
    has_long_prompts: bool = False
    """True if prompts are long, and begin like earlier prompts."""
    is_seeded: bool = False
    """True if every request has a seed."""
    stream: bool = False
    has_control: bool = True
    """True to send the requests without speculation, too, if there is a control."""
    is_pooled: bool = False
    """True for a part that sends no requests, and counts the tokens of all parts with plain
    sampling again: a small fault that affects all parts shows only in all of them together."""

    def settings(self, plain: SamplingParams) -> frozenset[str]:
        """Return the settings that an engine needs for a part besides the plain ones."""
        return frozenset(name for each in self.samplings for name in each.apart(plain))


def parts_of(rows: KnownRows) -> tuple[Part, ...]:
    """Return all parts for a checkpoint, including those that an engine cannot take."""
    plain = plain_sampling(rows)
    cold, warm = (replace(plain, temperature=plain.temperature * by) for by in (0.75, 1.5))
    first, *_, last = rows.words
    # Half of the words that the barest row keeps.
    kept = (min(sum(p > 0 for p in row) for row in rows.target.values()) + 1) // 2
    settings = {
        "temperature-low": replace(cold, temperature=plain.temperature * 0.5),
        "temperature-high": warm,
        # The order of filters and temperature is seen where both are set.
        "top-k": replace(plain, top_k=kept),
        "top-p": replace(warm, top_p=0.7),
        "min-p": replace(warm, min_p=0.15),
        "logit-bias": replace(cold, logit_bias={first: 1.5, last: -1.5}),
        "allowed-tokens": replace(plain, allowed=frozenset(_allowed(rows))),
    }
    lossless, parameters = "engine.lossless", "engine.parameters"
    own = (plain,)
    return (
        Part("alone", lossless, 0.04, requests=1, longest=LONG, samplings=own),
        Part("together", lossless, 0.12, longest=LONG, samplings=own),
        Part("resumed", lossless, 0.08, samplings=own, is_resumed=True),
        Part("long-prompts", lossless, 0.04, longest=4, samplings=own, has_long_prompts=True),
        Part("seeded", lossless, 0.06, samplings=own, is_seeded=True),
        Part("streamed", lossless, 0.06, samplings=own, stream=True),
        Part(
            *("mixed-lengths", "engine.concurrent", 0.08),
            requests=24,
            longest=LONG,
            samplings=own,
            is_mixed=True,
        ),
        Part(
            *("mixed-settings", "engine.concurrent", 0.18),
            samplings=(cold, warm),
            is_mixed=True,
        ),
        Part(
            *("mixed-filters", "engine.concurrent", 0.08),
            samplings=(settings["top-k"], settings["min-p"], settings["logit-bias"]),
        ),
        *(
            Part(case, parameters, 0.3 / len(settings), samplings=(sampling,))
            for case, sampling in settings.items()
        ),
        Part("all-plain", lossless, 0.0, samplings=own, is_pooled=True),
    )


def _allowed(rows: KnownRows) -> Iterator[int]:
    """Yield all tokens except every third: every row gives some of them a probability."""
    yield from (word for place, word in enumerate(rows.words) if place % 3)


Place = tuple[int, bool, Context]
"""Place of a token, counted separately: the number of a sampling, a flag for the first tokens of
answers, and the states of the last tokens."""


@dataclass
class Asked:
    """Tokens of one part that have been counted so far."""

    part: Part
    rows: KnownRows
    random: Random
    owed: Mapping[Place, Owed]
    counted: Counted[Place]
    texts: list[Tokens] = field(default_factory=list)
    """Earlier texts, to continue."""
    outside: int = 0
    """Tokens to which the target gives no probability, whatever the settings."""
    framed: int = 0
    """Those of them that it gives a probability elsewhere, in contexts that reach into the
    prompt."""
    written: int = 0
    steps: int = 0
    stepped: int = 0
    """The tokens of answers that report their steps."""
    said: int = 0
    """The number of these answers."""
    path: list[tuple[int, float]] = field(default_factory=list)
    """The number of tokens and the log evidence at each look."""
    pending: dict[Place, Floats] = field(default_factory=dict)
    """Counts since the last look."""
    cells: dict[Place, list[int]] = field(default_factory=dict)
    """The tokens after each context, in order."""

    def batch(self, left: int) -> list[Generation]:
        """Return the next requests, which request at most `left` tokens in all."""
        requests: list[Generation] = []
        number = min(self.part.requests, left)
        for place in range(number):
            # One token at least is left for each of the others.
            requests.append(self._request(place, left - (number - place - 1)))
            left -= requests[-1].max_tokens
        return requests

    def add(self, requests: Sequence[Generation], answers: Sequence[Answer]) -> None:
        """Count the tokens of answers, and look at the evidence when there are enough."""
        for place, (request, answer) in enumerate(zip(requests, answers, strict=True)):
            text = request.prompt + answer.tokens
            self._count(self._setting(place), text, len(request.prompt))
            self.texts = [*self.texts[-_MOST_TEXTS:], text]
            self.written += len(answer.tokens)
            if answer.steps is not None:
                self.steps += answer.steps
                self.stepped += len(answer.tokens)
                self.said += 1
        waiting = sum(counts.sum() for counts in self.pending.values())
        if self.outside or waiting >= max(_SMALLEST, self.counted.tokens // 4):
            self.look()

    def look(self) -> None:
        """Bet on the tokens since the last look."""
        if self.pending:
            self.counted.add(self.pending)
            self.pending = {}
            self.path.append((self.counted.tokens, self.counted.log_evidence))

    @property
    def stream(self) -> str:
        """The SHA-256 of all tokens, by their contexts."""
        told = sorted((repr(place), cells) for place, cells in self.cells.items())
        return sha256(repr(told).encode()).hexdigest()

    def _setting(self, place: int) -> int:
        return place % len(self.part.samplings)

    def _request(self, place: int, most: int) -> Generation:
        part, random = self.part, self.random
        longest = int(random.integers(1, part.longest + 1)) if part.is_mixed else part.longest
        prompt = _words(self.rows, random, self.rows.memory + int(random.integers(0, 8)))
        if part.is_resumed:
            longest = int(random.integers(1, 5))
            if self.texts and random.random() < _RESUMED:
                text = self.texts[int(random.integers(len(self.texts)))]
                prompt = text[: int(random.integers(self.rows.memory, len(text) + 1))]
        elif part.has_long_prompts:
            prompt = _words(self.rows, random, _long(random))
            if self.texts and random.random() < _ALIKE:
                text = self.texts[int(random.integers(len(self.texts)))]
                known = int(random.integers(1, min(len(text), len(prompt)) + 1))
                prompt = text[:known] + prompt[known:]
        return Generation(
            prompt,
            min(longest, most),
            part.samplings[self._setting(place)],
            seed=int(random.integers(2**31)) if part.is_seeded else None,
            speculation=part.speculation,
            stream=part.stream,
        )

    def _count(self, setting: int, text: Tokens, start: int) -> None:
        memory, rows = self.rows.memory, self.rows
        words = len(rows.words)
        for end in range(start, len(text)):
            states = tuple(rows.state_of.get(each, 0) for each in text[end - memory : end])
            cell = rows.state_of.get(text[end], words + 1) - 1
            is_outside = cell == words or not rows.target[states][cell]
            self.outside += is_outside
            self.framed += is_outside and cell < words and end < start + memory
            place = (setting, end == start, states)
            if place in self.owed:
                self.pending.setdefault(place, numpy.zeros(words + 1))[cell] += 1
                self.cells.setdefault(place, []).append(cell)


_FIRST = " in the first tokens of answers"

_SMALLEST = 256
"""Minimum number of tokens between two looks; later, a quarter of all counted tokens."""

_RESUMED = 0.9
"""Share of the requests of a resumed part that continue an earlier text."""

_ALIKE = 0.7
"""Share of the long prompts that begin like an earlier text."""

_MOST_TEXTS = 64


def asked(part: Part, rows: KnownRows, *, dtype: str | None, seed: int) -> Asked:
    """Return a part before its first request."""
    owed = {
        (place, is_first, context): replace(each, place=_FIRST if is_first else "")
        for place, sampling in enumerate(part.samplings)
        for context, each in owed_rows(rows, sampling, dtype=dtype, others=part.samplings).items()
        for is_first in (False, True)
    }
    return Asked(part, rows, numpy.random.default_rng(seed), owed, Counted(owed))


def _long(random: Random) -> int:
    """Return the length of a long prompt: one block or more, often just one token more."""
    few = random.random() < 0.6
    blocks = int(random.integers(1, 5) if few else random.integers(5, BLOCKS + 1))
    rest = 1 if random.random() < 0.5 else int(random.integers(BLOCK))
    return BLOCK * blocks + rest


def pooled(states: Sequence[Asked], part: Part, rows: KnownRows, *, dtype: str | None) -> Asked:
    """Return the tokens of several parts as those of one part, with a look at each part."""
    whole = asked(part, rows, dtype=dtype, seed=0)
    for state in states:
        whole.pending = dict(state.counted.counts)
        for place, cells in state.cells.items():
            whole.cells.setdefault(place, []).extend(cells)
        for name in ("outside", "framed", "written", "steps", "stepped", "said"):
            setattr(whole, name, getattr(whole, name) + getattr(state, name))
        whole.look()
    return whole


def _words(rows: KnownRows, random: Random, number: int) -> Tokens:
    return tuple(int(each) for each in random.choice(rows.words, size=number))
