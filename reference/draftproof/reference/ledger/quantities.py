"""The subjects of claims: numbers of an instance, and comparisons of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise, starmap
from operator import eq, le
from typing import Any

from draftproof.reference.drafting import all_inside, subsets
from draftproof.reference.emission import Emission
from draftproof.reference.joining import law_by_promise
from draftproof.reference.law import Law
from draftproof.reference.ledger.claim import Figure, Refutation
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.optimum.acceptance_rate import acceptance_rate, sorted_prefix_rate
from draftproof.reference.optimum.stateful import stateful
from draftproof.reference.optimum.stateless import stateless
from draftproof.reference.process import after, continued, decoded, expected_accepted
from draftproof.reference.rational import ONE, ZERO, Rational, total
from draftproof.reference.rows import mass
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, Verifier

Named = str | Verifier
"""A verifier, or the name of its algorithm."""


@dataclass(frozen=True)
class Quantity:
    """Number that every instance has, with the name that figures use."""

    name: str
    value: Callable[[Instance], Rational]

    def __call__(self, instance: Instance) -> Rational:
        """Return the instance's number."""
        return self.value(instance)

    def where(self, said: str, change: Callable[[Instance], Instance]) -> Quantity:
        """Return the number of the same models drafted differently, with `said` in its name."""
        return Quantity(self.name + said, lambda instance: self.value(change(instance)))

    def drawn(self, scheme: str) -> Quantity:
        """Return this number for drafts of a different scheme."""
        return self.where(f" ({scheme})", lambda instance: replace(instance, scheme=scheme))

    @property
    def fewer(self) -> Quantity:
        """Return this number for one path fewer."""
        return self.where(", K - 1", lambda instance: replace(instance, drafts=instance.drafts - 1))


def certain_share(drafts: int) -> Rational:
    """Return 1 - (1 - 1/K)^K."""
    return 1 - (1 - ONE / drafts) ** drafts


def in_parts(value: Rational, parts: int) -> str:
    """Return a number in parts of 1, such as thousandths, rounded down."""
    return f"{int(value * parts)}/{parts}"


def over_prefixes(name: str, share: Callable[[Rational, Rational, int], Rational]) -> Quantity:
    """Return the sum over all draftable prefixes of a function of p, q and K."""

    def value(instance: Instance) -> Rational:
        p, q = instance.target, instance.draft
        prefixes = (x for x in q.reachable(instance.length) if x)
        return total(share(p.joint(x), q.joint(x), instance.drafts) for x in prefixes)

    return Quantity(name, value)


def one_path(instance: Instance) -> Instance:
    """Return the same models with one drafted path."""
    return replace(instance, drafts=1)


def accepted(verify: Named) -> Quantity:
    """Return E[accepted length] of a verifier."""
    return Quantity(name_of(verify), lambda instance: expected_accepted(law(verify, instance)))


@lru_cache(maxsize=40_000)
def law(verify: Named, instance: Instance) -> Law[Emission]:
    """Return the exact law of one iteration's emission."""
    algorithm = ALGORITHMS[verify] if isinstance(verify, str) else of_one_path(verify)
    return law_by_promise(algorithm.verify, instance, algorithm.promise)


def expected_tokens(verify: Named, instance: Instance, iterations: int) -> Rational:
    """Return the expected number of emitted tokens in `iterations` iterations.

    Each iteration drafts L tokens; the modified target of a stateful verifier is the target of the
    next iteration. Raises `MissingContext` where the models do not reach that far.
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


def name_of(verify: Named) -> str:
    """Return the name of a verifier."""
    return verify if isinstance(verify, str) else str(getattr(verify, "__name__", "verifier"))


def of_one_path(verify: Verifier) -> Algorithm:
    """Return a verifier of one path as an algorithm, which need not be in the table."""
    return Algorithm(
        name=name_of(verify), title="", source="draftproof", verify=verify, most_drafts=1
    )


def tokens(verify: Named, instance: Instance) -> Law[tuple[Path, int]]:
    """Return the law of the accepted tokens and the next token, whatever their path."""
    return law(verify, instance).map(lambda emission: (emission.accepted, emission.next_token))


def kept_tokens(verify: Named, instance: Instance) -> Row:
    """Return P(token i is accepted) for every token i, at draft length 1."""
    kept = law(verify, instance).map(lambda emission: emission.accepted)
    return tuple(kept[(token,)] for token in range(instance.vocabulary))


optimum = Quantity("optimum", lambda instance: acceptance_rate(instance).value)

best_stateless = Quantity("stateless optimum", lambda instance: stateless(instance).value)
best_stateful = Quantity("stateful optimum", lambda instance: stateful(instance).value)

sorted_prefix = Quantity(
    "sorted_prefix",
    lambda instance: sorted_prefix_rate(
        instance.scheme, instance.target(()), instance.draft(()), instance.drafts
    ),
)


def subset_formula(instance: Instance) -> Rational:
    """Return 1 + min over all sets H of tokens of p(H) - Q(H), with Q in closed form."""
    p, q = instance.target(()), instance.draft(())
    return 1 + min(
        mass(p, H) - all_inside(instance.scheme, q, instance.drafts, H)
        for H in subsets(range(instance.vocabulary))
    )


def lossless(verify: Named) -> Refutation:
    """Refute that one iteration, continued by the target it leaves, has the target's law."""
    return lambda here: differ(
        continued(law(verify, here), here, here.length + 1), here.target.text(here.length + 1)
    )


def biased(verify: Named) -> Refutation:
    """Refute the claim of `lossless`, and add the law of the first token to the figures."""

    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        found = lossless(verify)(instance)
        return found and {**found, "output": output(verify, instance)}

    return refuted


def lossless_text(
    algorithm: Algorithm, horizon: int, *, among: Callable[[Instance], bool] = lambda _: True
) -> Refutation:
    """Refute that the first tokens of the text, iteration by iteration, have the target's law."""

    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        if not among(instance):
            return None
        return differ(decoded(algorithm, instance, horizon), instance.target.text(horizon))

    return refuted


def differ(one: Law[Any], other: Law[Any]) -> Mapping[str, Figure] | None:
    """Return the distance of two laws, or None if the laws are equal."""
    return None if one == other else {"total variation": one.total_variation(other)}


def ascending(*quantities: Quantity) -> Refutation:
    """Refute that each quantity is at most the next one."""
    return _in_order(le, quantities)


def equal(*quantities: Quantity) -> Refutation:
    """Refute that all quantities are equal."""
    return _in_order(eq, quantities)


def _in_order(
    order: Callable[[Rational, Rational], bool], quantities: Sequence[Quantity]
) -> Refutation:
    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        values = {quantity.name: quantity(instance) for quantity in quantities}
        return None if all(starmap(order, pairwise(values.values()))) else values

    return refuted


def any_of(*refutations: Refutation) -> Refutation:
    """Refute with the first of several refutations that refutes the instance."""
    return lambda here: next((found for one in refutations if (found := one(here))), None)


def same_law(one: Named, other: Named, *, drafts: int | None = None) -> Refutation:
    """Refute that two verifiers emit tokens of the same law, the second from `drafts` drafts."""
    return lambda here: differ(
        tokens(one, here), tokens(other, replace(here, drafts=drafts or here.drafts))
    )


def output(verify: Named, instance: Instance) -> str:
    """Return the law of the first token of the text, in printed form."""
    text = continued(law(verify, instance), instance, 1)
    return ", ".join(str(text[(token,)]) for token in range(instance.vocabulary))
