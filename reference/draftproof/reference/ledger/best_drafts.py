"""The best drafts: joint laws of the drafts of one token, and trees of few tokens.

Argued: the value that K drafts of law q can reach if their joint law is the best possible, and the
value of a tree that grows by the tokens drawn. Refuted: that a fixed shape reaches the value of
such a tree. Observed: of five ways to draft four tokens, and of their 14 shapes, different ones
are best at different rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

from draftproof.reference.drafting import subsets
from draftproof.reference.ledger.claim import Claim, Derivation, Figure, Scope, by_figures
from draftproof.reference.ledger.instances import context_free, example
from draftproof.reference.ledger.mixed import ONE_POSITION
from draftproof.reference.ledger.quantities import (
    Quantity,
    any_of,
    ascending,
    best_stateless,
    certain_share,
    equal,
    in_parts,
    optimum,
)
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.drafted_tree import Shape, grown, shaped, shapes
from draftproof.reference.rational import Rational, rational, total
from draftproof.reference.rows import mass


def wanted(instance: Instance) -> Row:
    """Return min(p, K q) of every token."""
    p, q = instance.target(()), instance.draft(())
    return tuple(min(a, instance.drafts * x) for a, x in zip(p, q, strict=True))


def drawn_for(instance: Instance) -> Rational:
    """Return the acceptance rate of K > 1 drafts of law q that are drawn for p.

    The first draft is drawn from a law between min(p, K q) and K q, the others from the rest of
    K q.
    """
    p, q, drafts = instance.target(()), instance.draft(()), instance.drafts
    least = wanted(instance)
    rest = (1 - total(least)) / (drafts - total(least))
    first = tuple(a + rest * (drafts * x - a) for a, x in zip(least, q, strict=True))
    others = tuple((drafts * x - a) / (drafts - 1) for a, x in zip(first, q, strict=True))
    return 1 + min(
        mass(p, H) - mass(first, H) * mass(others, H) ** (drafts - 1)
        for H in subsets(range(instance.vocabulary))
    )


MOST = Quantity("sum of min(p, K q)", lambda instance: total(wanted(instance)))
CERTAIN = Quantity(
    "1 - (1 - 1/K)^K of it",
    lambda here: certain_share(here.drafts) * MOST(here),
)

WAYS = {
    "one path of four": (4, 1, "iid"),
    "two paths of two": (2, 2, "iid"),
    "two without replacement": (2, 2, "without_replacement"),
    "four of one token": (1, 4, "iid"),
    "four without replacement": (1, 4, "without_replacement"),
}


def swapped(e: Rational) -> Instance:
    """Return p = (1 - 4e, e, e, e, e) and q = (e, 1 - 4e, e, e, e), which share the mass 5e."""
    return example(f"{1 - 4 * e} {e} {e} {e} {e}", f"{e} {1 - 4 * e} {e} {e} {e}")


ERRORS = tuple(rational(n) / 20 for n in (1, 2, 3))


def by_shape() -> Mapping[str, Figure]:
    """Return the optimum of every way to draft, rounded down, by the rate of one draft."""
    return {
        f"rate {5 * e}, {way}": in_parts(best_stateless(drawn), 1000)
        for e in ERRORS
        for way, (length, drafts, scheme) in WAYS.items()
        for drawn in [replace(swapped(e), length=length, drafts=drafts, scheme=scheme)]
    }


def best_shape(instance: Instance) -> tuple[Rational, Shape]:
    """Return the largest E[accepted length] with a tree of L tokens of one shape, and the shape."""
    return max((shaped(instance, shape).value, shape) for shape in shapes(instance.length))


GROWN = Quantity("a tree that grows", lambda here: grown(here, here.length).value)
SHAPED = Quantity("the best shape", lambda here: best_shape(here)[0])

TWO = Scope(
    """context-free instances of V = 2, trees of two tokens, then of three, by common denominator,
    then lexicographically""",
    lambda: chain(context_free(2, 5, length=2), context_free(2, 5, length=3)),
)


def three_tokens(e: Rational) -> Instance:
    """Return p = (1 - 2e, e, e) and q = (e, 1 - 2e, e), which share the mass 3e, for 4 tokens."""
    return example(f"{1 - 2 * e} {e} {e}", f"{e} {1 - 2 * e} {e}", length=4)


THIRDS = tuple(rational(n) / 12 for n in (1, 2, 3))


def by_tree() -> Mapping[str, Figure]:
    """Return the best shape of four tokens, its accepted length, and that of a growing tree."""
    found = {3 * e: (best_shape(three_tokens(e)), GROWN(three_tokens(e))) for e in THIRDS}
    return {
        f"rate {rate}": f"{_drawn(shape)}, {in_parts(value, 1000)} of {in_parts(most, 1000)}"
        for rate, ((value, shape), most) in found.items()
    }


def _drawn(shape: Shape) -> str:
    """Return the shape in brackets: each token is a pair around the tokens after it."""
    return "".join(f"({_drawn(below)})" for below in shape)


ours = partial(Claim, source="draftproof")

CLAIMS = (
    ours(
        id="drafts.marginals",
        statement="""Of K drafts of one token that have the law q each, and are drawn together in
        any way, no lossless verifier accepts more than the sum of min(p, K q). Some joint law,
        which depends on p, lets it accept that; independent drafts, which do not, let it accept at
        least 1 - (1 - 1/K)^K of that.""",
        shape="any V; L = 1; any K > 1",
        examined=ONE_POSITION,
        proof="""Token i is among the drafts with probability K q(i) at most, so it is accepted with
        min(p(i), K q(i)) at most. Let a be a law with min(p, K q) <= a <= K q. Draw one draft from
        a, the others from (K q - a)/(K - 1), and put them in random order: then each has the law q.
        Given the drafts, draw which of them is the one from a, and accept it, i, with probability
        min(p(i), K q(i))/a(i). And of independent drafts K-SEQ with the factor K accepts 1 - (1 -
        b)^K (k_seq.lossless), K b being the sum of min(p, K q): by concavity at least 1 - (1 -
        1/K)^K of K b.""",
        rests_on=("k_seq.lossless",),
        refuted=any_of(
            equal(Quantity("drawn for p", drawn_for), MOST),
            ascending(CERTAIN, optimum, MOST),
        ),
        recorded=Derivation(467),
    ),
    ours(
        id="drafts.shape",
        statement="""Which way to draft four tokens lets a verifier accept most depends on the
        acceptance rate of one draft: with p = (1 - 4e, e, e, e, e) and q = (e, 1 - 4e, e, e, e)
        everywhere it is one path at the rate 3/4, two paths without replacement at 1/2, and
        different tokens of one position at 1/4.""",
        shape="V = 5; L = 4, K = 1; L = 2, K = 2; L = 1, K = 4",
        examined=Scope(
            "the three models; stateless optima, rounded down", lambda: map(swapped, ERRORS)
        ),
        refuted=by_figures,
        known=by_shape,
        recorded=Derivation(
            3,
            {
                "rate 1/4, one path of four": "407/1000",
                "rate 1/4, two paths of two": "416/1000",
                "rate 1/4, two without replacement": "634/1000",
                "rate 1/4, four of one token": "385/1000",
                "rate 1/4, four without replacement": "950/1000",
                "rate 1/2, one path of four": "1115/1000",
                "rate 1/2, two paths of two": "959/1000",
                "rate 1/2, two without replacement": "1121/1000",
                "rate 1/2, four of one token": "743/1000",
                "rate 1/2, four without replacement": "1000/1000",
                "rate 3/4, one path of four": "2261/1000",
                "rate 3/4, two paths of two": "1618/1000",
                "rate 3/4, two without replacement": "1717/1000",
                "rate 3/4, four of one token": "1000/1000",
                "rate 3/4, four without replacement": "1000/1000",
            },
        ),
    ),
    ours(
        id="drafts.trees",
        statement="""Let N tokens be drafted as a tree, each without replacement after the root or a
        text of the tree that the drafter chooses by both models and by what it has drawn. The most
        that a verifier accepts which leaves the target of later positions as it is, is that of a
        linear program over sets of texts. No shape that is fixed before lets it accept more.""",
        shape="any V, N",
        examined=TWO,
        proof="""The probabilities of the drawn sets T and of the choices after them, and those that
        T is drawn and its text x is accepted, S(T, x), satisfy the program: what is accepted is in
        T, and where later targets are left as they are, A(xy) <= A(x) p(y|x). Conversely, choose
        after T as often as the program does, stop at x with the probability S(T, x) given T, and
        draw the next token from A(x) p(y|x) - A(xy), which adds up to what stops at x. Then xy is
        accepted, or y is the next token after x, with the probability A(x) p(y|x), as the target
        asks. The token drawn next depends on its siblings as a set only, so no order is lost; and a
        fixed shape, whatever it remembers of the order, chooses after T with some
        probabilities.""",
        refuted=ascending(SHAPED, GROWN),
        recorded=Derivation(138),
    ),
    ours(
        id="drafts.trees.fixed",
        statement="""Some shape that is fixed before N tokens are drafted lets a verifier accept as
        much as a tree that grows by what is drawn.""",
        shape="any V, N",
        examined=TWO,
        refuted=equal(SHAPED, GROWN),
        recorded=Derivation(
            5,
            {"the best shape": "1", "a tree that grows": "5/4"},
            example("0 1", "1/2 1/2", length=2),
        ),
    ),
    ours(
        id="drafts.trees.shape",
        statement="""Of the 14 shapes of a tree of four tokens a different one is best at the
        acceptance rates 1/4, 1/2 and 3/4 of one draft, with p = (1 - 2e, e, e) and q = (e, 1 - 2e,
        e) everywhere: three tokens and one after the second of them (as good: after the third), two
        tokens and two after the second, and a path. They let a verifier accept 70, 65 and 77 % of
        what a growing tree does.""",
        shape="V = 3; N = 4",
        examined=Scope(
            "the three models; the best shape, rounded down", lambda: map(three_tokens, THIRDS)
        ),
        refuted=by_figures,
        known=by_tree,
        recorded=Derivation(
            3,
            {
                "rate 1/4": "()(())(), 1215/1000 of 1725/1000",
                "rate 1/2": "()(()()), 1526/1000 of 2322/1000",
                "rate 3/4": "(((()))), 2367/1000 of 3062/1000",
            },
        ),
    ),
)
