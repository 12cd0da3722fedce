"""Requests to an engine, and its answers.

An engine is any object with a `name`, a `version` and a `generate`. These names are public and
stable; an engine needs no import from Draftproof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol, runtime_checkable

Tokens = tuple[int, ...]

SETTINGS = ("temperature", "top_k", "top_p", "min_p", "logit_bias", "allowed")
"""Settings of `SamplingParams`."""

FILTERS = ("top_k", "top_p", "min_p")
"""Settings that exclude tokens of small probability."""


@dataclass(frozen=True)
class SamplingParams:
    """Sampling of the next token. The defaults draw from the model's own distribution.

    An engine applies the logit bias and the allowed tokens first, then the temperature, then one of
    the filters; no request has two of them.
    """

    temperature: float = 1.0
    top_k: int | None = None
    """Keep the k most probable tokens."""
    top_p: float | None = None
    """Keep the fewest most probable tokens whose probability is at least this."""
    min_p: float | None = None
    """Keep tokens with at least this share of the largest probability."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Numbers to add to the logits of some tokens."""
    allowed: frozenset[int] | None = None
    """The only tokens that may be written: a choice, or a grammar. None for all tokens."""

    def __hash__(self) -> int:
        plain = (self.temperature, self.top_k, self.top_p, self.min_p, self.allowed)
        return hash((*plain, *sorted(self.logit_bias.items())))

    @property
    def filters(self) -> tuple[str, ...]:
        """The names of the filters that are on."""
        return tuple(name for name in FILTERS if getattr(self, name) is not None)

    def apart(self, plain: SamplingParams) -> tuple[str, ...]:
        """Return the names of the settings in which the two differ."""
        names = (each.name for each in fields(self))
        return tuple(name for name in names if getattr(self, name) != getattr(plain, name))


@dataclass(frozen=True)
class Generation:
    """Request to an engine: continue the prompt by exactly this many tokens."""

    prompt: Tokens
    max_tokens: int
    sampling: SamplingParams = field(default_factory=SamplingParams)
    seed: int | None = None
    """The seed of this request, None to let the engine choose."""
    speculation: bool = True
    """True to draft; an engine without such a switch ignores this."""
    stream: bool = False
    """True to answer token by token; an engine that cannot stream ignores this."""


@dataclass(frozen=True)
class Answer:
    """The tokens that an engine wrote."""

    tokens: Tokens
    steps: int | None = None
    """The number of passes of the target, None if the engine does not report it."""


@runtime_checkable
class Engine(Protocol):
    """Whole engine, with the target and the draft of a checkpoint loaded."""

    name: str
    version: str

    def generate(self, requests: Sequence[Generation], /) -> Sequence[Answer | Sequence[int]]:
        """Return the answer to each request; all of them run at the same time.

        An engine may have more attributes: `settings`, the names of the settings of
        `SamplingParams` that it takes, all of them by default; `switchable`, True if it obeys
        `speculation`, the default; `streams`, True if it obeys `stream`, by default False; and
        `draft_length`, the number of tokens that it drafts per step, if it drafts with the draft of
        the checkpoint.
        """
        ...
