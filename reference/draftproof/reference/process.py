"""The law of the text: one iteration continued by the target, or repeated iterations."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import prod

from draftproof.reference.emission import Emission
from draftproof.reference.errors import MissingContext
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path
from draftproof.reference.rational import Rational
from draftproof.reference.verifiers import Algorithm, emission_law


def continued(emitted: Law[Emission], instance: Instance, horizon: int) -> Law[Path]:
    """Return the law of the first `horizon` tokens: the emitted tokens, then the target's own.

    A stateless verifier is lossless for an instance if and only if this law is
    `instance.target.text(horizon)` at horizon L+1: one iteration emits at most L+1 tokens, and the
    law at every shorter horizon is a marginal of this one (arXiv 2403.10444, Definition 1). After a
    stateful verifier the target continues with the verifier's modified rows.
    """
    return emitted.then(
        lambda emission: _completed(emission.tokens, after(instance.target, emission), horizon)
    )


def decoded(algorithm: Algorithm, instance: Instance, horizon: int) -> Law[Path]:
    """Return the law of the first `horizon` tokens of speculative decoding, iteration by iteration.

    Every iteration drafts L tokens, or as many as the draft and the target have rows for; if they
    have none, the target writes alone. The modified target of a stateful verifier is the target of
    the next iteration. Raises `MissingContext` if the target has no rows up to the horizon.
    """

    @cache
    def following(text: Path, target: Model) -> Law[Path]:
        if len(text) >= horizon:
            return Law.certain(text[:horizon])
        here = _drafted(instance, target, instance.draft.after(text))
        if here is None:
            return target.text(1).then(lambda one: following(text + one, target.after(one)))
        return emission_law(algorithm, here).then(
            lambda emission: following(text + emission.tokens, after(target, emission))
        )

    return following((), instance.target)


def after(target: Model, emission: Emission) -> Model:
    """Return the target after an emission, with the modified rows of the verifier."""
    return target.after(emission.tokens).overridden(dict(emission.modified))


def is_lossless(emitted: Law[Emission], instance: Instance) -> bool:
    """Return True if one iteration, continued by the target it leaves, has the target's law."""
    horizon = instance.length + 1
    return continued(emitted, instance, horizon) == instance.target.text(horizon)


def is_lossless_over_iterations(algorithm: Algorithm, instance: Instance) -> tuple[int, bool]:
    """Return (N, True if the first N tokens of speculative decoding have the target's law).

    N is L + 2, which takes at least two iterations, or L + 1 if the target has rows for no more.
    """
    for horizon in (instance.length + 2, instance.length + 1):
        try:
            text = instance.target.text(horizon)
            return horizon, decoded(algorithm, instance, horizon) == text
        except MissingContext:
            continue
    raise MissingContext(f"the target has no rows for texts of {instance.length + 1} tokens")


def expected_accepted(emitted: Law[Emission]) -> Rational:
    """Return E[accepted length]; block efficiency is one more."""
    return emitted.expectation(lambda emission: len(emission.accepted))


def _completed(tokens: Path, target: Model, horizon: int) -> Law[Path]:
    """Return the law of `tokens` and the following text of the target."""
    return target.text(max(horizon - len(tokens), 0)).map(lambda text: (tokens + text)[:horizon])


def _drafted(instance: Instance, target: Model, draft: Model) -> Instance | None:
    """Return the instance with the longest drafts of at most L tokens that the models allow."""
    for length in range(instance.length, 0, -1):
        branching = instance.branching[:length]
        drafts = prod(branching) if branching else instance.drafts
        try:
            return replace(
                instance,
                target=target,
                draft=draft,
                length=length,
                drafts=drafts,
                branching=branching,
            )
        except MissingContext:
            continue
    return None
