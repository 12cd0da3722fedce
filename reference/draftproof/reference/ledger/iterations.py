"""Several iterations: how many tokens a verifier has written after n of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from draftproof.reference.ledger.quantities import Named, law
from draftproof.reference.model import Instance, Model
from draftproof.reference.process import after
from draftproof.reference.rational import ZERO, Rational


def expected_tokens(verify: Named, instance: Instance, iterations: int) -> Rational:
    """Return the expected number of tokens that `iterations` iterations emit.

    Each of them drafts L tokens; what a stateful verifier leaves behind is the target of the next.
    Raises `MissingContext` where the models do not reach that far.
    """

    @cache
    def written(target: Model, draft: Model, left: int) -> Rational:
        if left == 0:
            return ZERO
        here = replace(instance, target=target, draft=draft)
        return law(verify, here).expectation(
            lambda emission: (
                len(emission.tokens)
                + (
                    written(after(target, emission), draft.after(emission.tokens), left - 1)
                    if left > 1
                    else ZERO
                )
            )
        )

    return written(instance.target, instance.draft, iterations)
