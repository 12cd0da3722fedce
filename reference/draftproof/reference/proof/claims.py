"""Claims that can be proved: random programs, and the required properties of their laws.

A program is run on symbols and on numbers alike. It returns a law of outcomes given its run: a
certain outcome has weight one, and a part whose law is known in closed form, such as the target's
own text, need not be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import GrowingTree, all_inside, subsets
from draftproof.reference.errors import Unsupported, WrongShape
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.k_seq_factor import is_valid_factor
from draftproof.reference.process import after
from draftproof.reference.proof.symbols import Shape, everywhere, symbolic_instance
from draftproof.reference.rational import ONE, ZERO, Rational
from draftproof.reference.rows import mass, overlap
from draftproof.reference.verifiers import (
    ALGORITHMS,
    Algorithm,
    Verifier,
    algorithm_named,
    require_fit,
)
from draftproof.reference.verifiers.k_seq import k_seq

Outcome = Any
Masses = Mapping[Outcome, Rational]
Decoding = Callable[[Instance, Any, Chance], Masses]
"""Program of one decoding, drafts included, which returns the mass of each outcome."""


@dataclass(frozen=True)
class Judgement:
    """One number of a claim: it must vanish, or must not be negative.

    `observed` and `required` are the compared values, `outcome` is the outcome that has them.
    """

    outcome: Outcome
    observed: Rational
    required: Rational
    exactly: bool = True

    @property
    def difference(self) -> Rational:
        """The number that must vanish, or must not be negative."""
        return self.observed - self.required


Judge = Callable[[Instance, Any, tuple[Masses, ...]], Iterator[Judgement]]


@dataclass(frozen=True)
class Statement:
    """A statement about the laws of programs, for every p and q of a shape.

    `judge` returns the judgements on the laws of the programs, and may compare numbers. `each`
    describes a cell of the proof.
    """

    name: str
    algorithm: str
    shape: Shape
    statement: str
    programs: tuple[Decoding, ...]
    judge: Judge
    each: str = "an identity"


def lossless(algorithm: Algorithm, shape: Shape, *, iterations: int = 1) -> Statement:
    """State that one iteration, continued by the target that it leaves, has the target's law.

    The law is that of L+1 tokens, the most that one iteration emits. With two `iterations`, the
    second continues with the target that the first left, then the target alone: L+2 tokens. The
    second iteration drafts L tokens, or fewer if L+2 tokens leave no room for L.
    """
    horizon = shape.length + iterations
    return Statement(
        "lossless" if iterations == 1 else "lossless_twice",
        algorithm.name,
        replace(shape, depth=horizon - 1),
        f"{algorithm.name} is lossless" + (" over two iterations" if iterations > 1 else ""),
        (_decoding(algorithm.verify, iterations, horizon),),
        _is_the_target(horizon),
    )


def at_least_token(algorithm: Algorithm, shape: Shape) -> Statement:
    """State that E[accepted length] is at least that of token verification."""
    if shape.drafts != 1:
        raise Unsupported(f"token verification takes 1 draft, got {shape.drafts}")

    def judge(instance: Instance, rho: Any, laws: tuple[Masses, ...]) -> Iterator[Judgement]:
        del instance, rho
        mine, theirs = (law.get("accepted", ZERO) for law in laws)
        yield Judgement("E[accepted length]", mine, theirs, exactly=False)

    return Statement(
        "at_least_token",
        algorithm.name,
        replace(shape, depth=shape.length),
        f"{algorithm.name} accepts at least as many tokens as token verification",
        (_accepting(algorithm.verify), _accepting(ALGORITHMS["token"].verify)),
        judge,
        each="an inequality",
    )


def optimal(algorithm: Algorithm, shape: Shape) -> Statement:
    """State that at one position P(a draft is accepted) = 1 + min over sets H of p(H) - Q(H).

    The proof enumerates every H: no H has a smaller value, and one has an equal value.
    """
    _require_one_position("optimal", shape)

    def judge(instance: Instance, rho: Any, laws: tuple[Masses, ...]) -> Iterator[Judgement]:
        del rho
        p, q = instance.target(()), instance.draft(())
        accepted, product_of_gaps = laws[0].get("accepted", ZERO), ONE
        for chosen in subsets(range(instance.vocabulary)):
            cap = 1 + mass(p, chosen) - all_inside(instance.scheme, q, instance.drafts, chosen)
            yield Judgement(f"cap by {set(chosen) or '{}'}", cap, accepted, exactly=False)
            product_of_gaps = product_of_gaps * (cap - accepted)
        yield Judgement("the product of what all caps leave", product_of_gaps, ZERO)

    return Statement(
        "optimal",
        algorithm.name,
        replace(shape, depth=1),
        f"{algorithm.name} accepts as often as its draft law allows",
        (_accepting(algorithm.verify),),
        judge,
        each="an inequality for every H and an identity",
    )


def lossless_at_every_rho(algorithm: Algorithm, shape: Shape) -> Statement:
    """State that K-SEQ is lossless at every rho >= 1 with 1 - (1 - b)^K <= rho b."""
    _require_one_position("lossless_at_every_rho", shape)
    if algorithm.name != "k_seq":
        raise Unsupported(f"only k_seq has a rho, got {algorithm.name}")

    def program(instance: Instance, rho: Any, chance: Chance) -> Masses:
        if not _is_valid(instance, rho):
            return {}
        return _decoding(partial(k_seq, rho=rho), 1, 2)(instance, rho, chance)

    def judge(instance: Instance, rho: Any, laws: tuple[Masses, ...]) -> Iterator[Judgement]:
        if _is_valid(instance, rho):
            yield from _is_the_target(2)(instance, rho, laws)

    return Statement(
        "lossless_at_every_rho",
        algorithm.name,
        replace(shape, depth=1, has_rho=True),
        "k_seq is lossless at every valid rho",
        (program,),
        judge,
    )


def at_most_k_seq(algorithm: Algorithm, shape: Shape) -> Statement:
    """State that at one position P(accept) <= the sum of min(p, rho q) for every valid rho.

    At the least valid rho the bound is K-SEQ's acceptance, since there 1 - (1 - b)^K = rho b.
    """
    _require_one_position("at_most_k_seq", shape)

    def judge(instance: Instance, rho: Any, laws: tuple[Masses, ...]) -> Iterator[Judgement]:
        if _is_valid(instance, rho):
            most = overlap(instance.target(()), instance.draft(()), rho)
            yield Judgement("P(accept)", most, laws[0].get("accepted", ZERO), exactly=False)

    return Statement(
        "at_most_k_seq",
        algorithm.name,
        replace(shape, depth=1, has_rho=True),
        f"{algorithm.name} accepts at most as often as K-SEQ",
        (_accepting(algorithm.verify),),
        judge,
        each="an inequality",
    )


CLAIMS: Mapping[str, Callable[[Algorithm, Shape], Statement]] = {
    "lossless": lossless,
    "lossless_twice": partial(lossless, iterations=2),
    "at_least_token": at_least_token,
    "optimal": optimal,
    "lossless_at_every_rho": lossless_at_every_rho,
    "at_most_k_seq": at_most_k_seq,
}


def claim_named(name: str, algorithm: Algorithm | str, shape: Shape) -> Statement:
    """Return the claim called `name`. Raises `Unsupported` if it is unknown or inapplicable."""
    if name not in CLAIMS:
        raise Unsupported(f"unknown claim {name!r}; known: {', '.join(CLAIMS)}")
    if isinstance(algorithm, str):
        algorithm = algorithm_named(algorithm)
    if shape.vocabulary < 1:
        raise WrongShape(f"the vocabulary size must be at least 1, got {shape.vocabulary}")
    claim = CLAIMS[name](algorithm, shape)
    instance, _ = symbolic_instance(claim.shape, everywhere(claim.shape))
    require_fit(algorithm, instance)
    return claim


def _decoding(verify: Verifier, iterations: int, horizon: int) -> Decoding:
    def program(instance: Instance, rho: Any, chance: Chance) -> Masses:
        del rho
        text: Path = ()
        target = instance.target
        for _ in range(iterations):
            length = min(instance.length, horizon - len(text) - 1)
            if length < 1:
                break
            draft = instance.draft.after(text)
            here = replace(instance, target=target, draft=draft, length=length)
            emission = verify(GrowingTree(here, chance), here, chance)
            text, target = text + emission.tokens, after(target, emission)
        rest = product(range(instance.vocabulary), repeat=horizon - len(text))
        return {text + tokens: target.joint(tokens) for tokens in rest}

    return program


def _accepting(verify: Verifier) -> Decoding:
    """Return the program whose only mass is E[accepted length]."""

    def program(instance: Instance, rho: Any, chance: Chance) -> Masses:
        del rho
        emission = verify(GrowingTree(instance, chance), instance, chance)
        return {"accepted": ONE * len(emission.accepted)}

    return program


def _is_the_target(horizon: int) -> Judge:
    def judge(instance: Instance, rho: Any, laws: tuple[Masses, ...]) -> Iterator[Judgement]:
        del rho
        for text in product(range(instance.vocabulary), repeat=horizon):
            yield Judgement(text, laws[0].get(text, ZERO), instance.target.joint(text))

    return judge


def _is_valid(instance: Instance, rho: Any) -> bool:
    return is_valid_factor(rho, instance.target(()), instance.draft(()), instance.drafts)


def _require_one_position(claim: str, shape: Shape) -> None:
    if shape.length != 1:
        raise Unsupported(f"the claim {claim!r} is about a draft of 1 token, got {shape.length}")
