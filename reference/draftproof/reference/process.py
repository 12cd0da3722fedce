"""From one iteration to the text: continue by the target, or iterate."""

from __future__ import annotations

from functools import cache

from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.rational import Rational
from draftproof.reference.verifiers import Algorithm, emission_law


def continued(emitted: Law[Emission], instance: Instance, horizon: int) -> Law[Path]:
    """Return the law of the first `horizon` tokens: those emitted, then the target's own.

    A verifier is lossless for an instance if and only if this is `instance.target.text(horizon)`
    at horizon L+1: one iteration emits at most L+1 tokens, and the law at every shorter
    horizon is a marginal of this one (arXiv 2403.10444, Definition 1).
    """
    return emitted.then(lambda emission: _completed(emission.tokens, instance, horizon))


def decoded(algorithm: Algorithm, instance: Instance, horizon: int) -> Law[Path]:
    """Return the law of the first `horizon` tokens of speculative decoding, iteration by iteration.

    The models must have rows for contexts of up to horizon - 1 + L tokens; `MissingContext`
    says which one is missing, and after what text.
    """

    @cache
    def after(text: Path) -> Law[Path]:
        if len(text) >= horizon:
            return Law.certain(text[:horizon])
        here = instance.after(text)
        return emission_law(algorithm, here).then(lambda emission: after(text + emission.tokens))

    return after(())


def expected_accepted(emitted: Law[Emission]) -> Rational:
    """Return E[accepted length]; block efficiency is one more."""
    return emitted.expectation(lambda emission: len(emission.accepted))


def _completed(tokens: Path, instance: Instance, horizon: int) -> Law[Path]:
    if len(tokens) >= horizon:
        return Law.certain(tokens[:horizon])
    row = instance.target(tokens)
    return Law(dict(enumerate(row))).then(
        lambda token: _completed((*tokens, token), instance, horizon)
    )
