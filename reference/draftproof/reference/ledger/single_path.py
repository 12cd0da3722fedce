"""Claims on one path: token, block and greedy block verification.

Papers: arXiv 2403.10444 (block verification), arXiv 2601.05724 (hierarchical speculative decoding);
code: vLLM, vLLM-ascend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from math import gcd, prod

from draftproof.reference.ledger import exhibits
from draftproof.reference.ledger.claim import (
    Claim,
    Derivation,
    Figure,
    Refutation,
    Scope,
    by_figures,
)
from draftproof.reference.ledger.instances import (
    context_free,
    every_context,
    example,
    from_rows,
    seeded,
)
from draftproof.reference.ledger.quantities import (
    Named,
    Quantity,
    accepted,
    any_of,
    ascending,
    best_stateful,
    best_stateless,
    differ,
    equal,
    expected_tokens,
    law,
    lossless,
    lossless_text,
    name_of,
    of_one_path,
    over_prefixes,
    same_law,
)
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, verification_law

MOTIVATING = example("1/3 2/3", "2/3 1/3", length=2)

SMALL = Scope(
    """all context-free instances with denominators up to 8 (V = 2, L = 2) and up to 3 (V = 3,
    L = 2); all with rows by context and denominators up to 2 (V = 2, L = 2); 150 seeded ones with
    rows by context for V = 2, L = 3 and 100 for V = 3, L = 2""",
    lambda: chain(
        context_free(2, 8, length=2),
        context_free(3, 3, length=2),
        every_context(2, 2),
        seeded(150, 2, length=3),
        seeded(100, 3, length=2),
    ),
)
SEARCH = Scope(
    "context-free instances of V = 2, L = 2 by common denominator, then lexicographically",
    lambda: context_free(2, 3, length=2),
)
CERTIFIED = SMALL.also("; the optimum of every instance is certified by a dual solution")


SHARED = over_prefixes("sum of min(p, q)", lambda p, q, _: min(p, q))


def shared_token_by_token(instance: Instance, prefix: Path) -> Rational:
    """Return the product of min(p, q) over the tokens of a prefix."""
    at = ((prefix[:i], token) for i, token in enumerate(prefix))
    factors = (min(instance.target(z)[y], instance.draft(z)[y]) for z, y in at)
    return prod(factors, start=ONE)


def afforded(instance: Instance, prefix: Path) -> Rational:
    """Return A at a prefix, A(xy) = min(A(x) p(y|x), q(xy))."""
    kept = ONE
    for i, token in enumerate(prefix):
        drafted = instance.draft.joint(prefix[: i + 1])
        kept = min(kept * instance.target(prefix[:i])[token], drafted)
    return kept


def accepts(verify: Named, formula: Callable[[Instance, Path], Rational]) -> Refutation:
    """Refute that every drafted prefix is accepted with the probability that a formula gives."""

    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        kept = law(verify, instance).map(lambda emission: emission.accepted)
        for prefix in filter(None, instance.draft.reachable(instance.length)):
            found = total(w for x, w in kept.items() if x[: len(prefix)] == prefix)
            if found != (given := formula(instance, prefix)):
                return {"prefix": str(prefix), name_of(verify): found, "formula": given}
        return None

    return refuted


def after_iterations(verify: Named, iterations: int) -> Quantity:
    """Return the expected number of tokens after some iterations."""
    return Quantity(
        f"{name_of(verify)} after {iterations}",
        lambda instance: expected_tokens(verify, instance, iterations),
    )


def banked(length: int, mass: Rational) -> Instance:
    """Return an instance where block verification keeps tokens that the next iteration could use.

    Target and draft are sure of L tokens. Then the draft is sure of a token that the target takes
    with probability `mass`; then the draft gives `mass` to a token of which the target is sure;
    then both are sure of L - 2 tokens; then the draft is wrong. All of these tokens are 0.
    """

    def row(zero: Rational) -> Row:
        return (zero, ONE - zero)

    def both(context: Path) -> tuple[Row, Row]:
        if any(context) or len(context) >= 2 * length:
            return row(ONE), row(ZERO)
        if len(context) == length:
            return row(mass), row(ONE)
        if len(context) == length + 1:
            return row(ONE), row(mass)
        return row(ONE), row(ONE)

    return from_rows(both, vocabulary=2, length=length, depth=length + 1)


def ahead_after_two() -> Mapping[str, Figure]:
    """Return the expected tokens after two iterations of block verification and its variants."""
    ahead: dict[str, Figure] = {}
    slower = (exhibits.block_that_waits, 3, "3/4"), (exhibits.block_without_last, 6, "1/2")
    for verify, length, mass in slower:
        instance = banked(length, rational(mass))
        for one in ("block", verify):
            ahead[f"{name_of(one)} (L = {length}, mass {mass})"] = expected_tokens(one, instance, 2)
    return ahead


def behind_a_lossless_one(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that block verification is ahead of `block_that_waits`, where that is lossless."""
    waits = after_iterations(exhibits.block_that_waits, 2)
    found = ascending(waits, after_iterations("block", 2))(instance)
    biased = lossless_text(of_one_path(exhibits.block_that_waits), 2 * instance.length + 1)
    return None if found is None or biased(instance) else found


def over_token(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that block verification is ahead of token verification after 2 and 3 iterations."""
    counts = (2, 3) if instance.target.context_free else (2,)
    return any_of(*(never_behind("token", "block", n) for n in counts))(instance)


def never_behind(one: str, other: str, iterations: int) -> Refutation:
    """Refute that `other` has written at least as many tokens as `one` after some iterations."""
    return ascending(after_iterations(one, iterations), after_iterations(other, iterations))


def sure(instance: Instance) -> Instance:
    """Return the instance with a draft that is certain of its most probable token everywhere."""
    rows = {
        context: tuple(ONE if token == row.index(max(row)) else ZERO for token in range(len(row)))
        for context, row in instance.draft.rows.items()
    }
    return replace(instance, draft=replace(instance.draft, rows=rows))


def capped_is_block(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that block and capped hierarchical verification have the same law given every path."""
    algorithms = ALGORITHMS["block"], of_one_path(exhibits.capped_hierarchical)
    laws = (
        [verification_law(each, instance, (path,)) for each in algorithms]
        for path in instance.draft.text(instance.length)
    )
    return next((found for one, other in laws if (found := differ(one, other))), None)


in_block_paper = partial(Claim, source="arXiv 2403.10444")

CLAIMS = (
    in_block_paper(
        id="block.example",
        statement="""For p = (1/3, 2/3), q = (2/3, 1/3) and L = 2, token verification accepts
        10/9 tokens, block verification 11/9; 12/9 is the ideal, which greedy block verification
        accepts.""",
        shape="V = 2, L = 2, K = 1; this instance alone",
        examined=Scope("the motivating example, of which alone the claim is", lambda: [MOTIVATING]),
        refuted=by_figures,
        known=lambda: {
            **{name: accepted(name)(MOTIVATING) for name in ("token", "block", "greedy_block")},
            SHARED.name: SHARED(MOTIVATING),
        },
        recorded=Derivation(
            1, {"token": "10/9", "block": "11/9", "greedy_block": "4/3", "sum of min(p, q)": "4/3"}
        ),
    ),
    Claim(
        id="token.lossless",
        statement="Token verification is lossless.",
        source="arXiv 2211.17192",
        shape="any V, L; K = 1",
        examined=SMALL,
        theorems=("token.token_lossless",),
        refuted=lossless("token"),
        recorded=Derivation(1319),
    ),
    Claim(
        id="token.value",
        statement="""Token verification accepts a prefix of 1..L tokens with the product of min(p,
        q) over its tokens.""",
        source="arXiv 2211.17192",
        shape="any V, L; K = 1",
        examined=SMALL,
        theorems=("token.token_accepts",),
        refuted=accepts("token", shared_token_by_token),
        recorded=Derivation(1319),
    ),
    in_block_paper(
        id="block.value",
        statement="""Block verification accepts a prefix x of 1..L tokens with probability A(x) =
        q(x) w(x), where w is 1 at the root and w(xy) = min(1, w(x) p(y|x) / q(y|x)).""",
        shape="any V, L; K = 1",
        examined=SMALL,
        theorems=("block.block_accepts", "block.block_length"),
        proof="Corollary, by multiplication: A(xy) = min(A(x) p(y|x), q(xy)).",
        refuted=accepts("block", afforded),
        recorded=Derivation(1319),
    ),
    in_block_paper(
        id="block.lossless",
        statement="""Block verification is lossless; so it is of a path selected by any means,
        against the law of the selected path.""",
        shape="any V, L; K = 1",
        examined=SMALL,
        theorems=("block.block_lossless", "block.selected_block_lossless"),
        refuted=lossless("block"),
        recorded=Derivation(1319),
    ),
    in_block_paper(
        id="block.optimal",
        statement="""In one iteration no lossless verifier of one path that leaves the target as it
        is accepts any prefix more often, or more tokens, than block verification; even if it knows
        target and draft off the path.""",
        shape="any V, L; K = 1",
        examined=CERTIFIED,
        theorems=("block.block_optimal", "block.block_longest", "block.block_is_one"),
        proof="""Let A(x) be the probability that what is accepted starts with x. What is emitted
        without accepting x goes on from x by p(.|x), so losslessness leaves A(x) p(y|x) - A(xy) >=
        0 for the correction; and A(xy) <= q(xy) as xy must be drafted. Block verification has A(xy)
        = min(A(x) p(y|x), q(xy)): by induction from the longest prefixes, P(accepted length >= i |
        x) = weight(x). So by induction from the root its A is the largest at every prefix.""",
        refuted=equal(accepted("block"), best_stateless),
        recorded=Derivation(1319),
    ),
    in_block_paper(
        id="block.optimal.iterations",
        statement="""After any number of iterations no lossless verifier of one path that leaves the
        target as it is has written more tokens than block verification.""",
        shape="V = 2, L = 3, K = 1; 2 iterations",
        examined=Scope(
            """the family of instances on which the draft overstates one token, by L = 2, 3, then by
            that token's mass, denominators up to 4; against the verifier that leaves the last token
            to the next iteration where the target is sure of the others""",
            lambda: (
                banked(length, rational(n) / d)
                for length in (2, 3)
                for d in range(1, 5)
                for n in range(1, d + 1)
                if gcd(n, d) == 1
            ),
        ),
        refuted=behind_a_lossless_one,
        known=ahead_after_two,
        recorded=Derivation(
            10,
            {
                "block (L = 3, mass 3/4)": "49/8",
                "block_that_waits (L = 3, mass 3/4)": "25/4",
                "block (L = 6, mass 1/2)": "37/4",
                "block_without_last (L = 6, mass 1/2)": "19/2",
                "block_that_waits after 2": "6",
                "block after 2": "53/9",
            },
            banked(3, rational("2/3")),
        ),
    ),
    in_block_paper(
        id="block.over_token",
        statement="""In one iteration token verification accepts at most as much as block
        verification, and block verification as greedy block verification.""",
        shape="any V, L; K = 1",
        examined=SMALL,
        proof="""Token verification is lossless (token.lossless) and leaves the target as it is, so
        block verification accepts each prefix at least as often (block.optimal). Block verification
        is lossless (block.lossless), so it accepts at most the sum of min(p, q)
        (greedy_block.bound), and greedy block verification accepts that (greedy_block.value).""",
        rests_on=(
            "token.lossless",
            "block.optimal",
            "block.lossless",
            "greedy_block.bound",
            "greedy_block.value",
        ),
        refuted=ascending(accepted("token"), accepted("block"), accepted("greedy_block")),
        recorded=Derivation(1319),
    ),
    in_block_paper(
        id="block.over_token.iterations",
        statement="""After any number of iterations block verification has written at least as many
        tokens as token verification.""",
        shape="V = 2, L = 2, K = 1; 2 and 3 iterations",
        examined=Scope(
            """2 iterations: 20 seeded instances with rows by context; 2 and 3: all context-free
            ones with denominators up to 4""",
            lambda: chain(context_free(2, 4, length=2), seeded(20, 2, length=2, depth=5)),
        ),
        refuted=over_token,
        recorded=Derivation(57),
    ),
    in_block_paper(
        id="block.is_token.one",
        statement="At L = 1 block, greedy block and token verification have the same law.",
        shape="any V; L = 1, K = 1",
        examined=Scope(
            "all instances with denominators up to 6 (V = 2) and up to 3 (V = 3)",
            lambda: chain(context_free(2, 6), context_free(3, 3)),
        ),
        proof="All three accept x with min(1, p/q) and correct by (p - q)+.",
        refuted=any_of(same_law("token", "block"), same_law("token", "greedy_block")),
        recorded=Derivation(224),
    ),
    Claim(
        id="block.is_token.two",
        statement="For L <= 2 block verification and token verification coincide.",
        source="github.com/vllm-project/vllm, pull request 40819",
        shape="V = 2, L = 2, K = 1",
        examined=SEARCH,
        refuted=equal(accepted("token"), accepted("block")),
        recorded=Derivation(14, {"token": "10/9", "block": "11/9"}, MOTIVATING),
    ),
    in_block_paper(
        id="block.is_token.one_hot",
        statement="""With a draft that is sure of every token, block verification accepts as much as
        token verification.""",
        shape="any V, L; K = 1; one-hot draft rows",
        examined=Scope(
            "120 seeded instances with rows by context, V = 2, L = 3 and V = 3, L = 2",
            lambda: map(sure, chain(seeded(80, 2, length=3), seeded(40, 3, length=2))),
        ),
        proof="""On the one drafted path q = 1, so block verification accepts its prefix x with p(x)
        (block.value), and so does token verification (token.value).""",
        rests_on=("block.value", "token.value"),
        refuted=equal(accepted("token"), accepted("block")),
        recorded=Derivation(120),
    ),
    Claim(
        id="block.break",
        statement="Block verification may stop at the first prefix that fails its test.",
        source="github.com/vllm-project/vllm-ascend, pull request 11985",
        shape="V = 2, L = 2, K = 1",
        examined=SEARCH,
        refuted=lossless(exhibits.block_with_break),
        recorded=Derivation(6, {"total variation": "1/6"}, example("1/2 1/2", "0 1", length=2)),
    ),
    Claim(
        id="block.token_residual",
        statement="Block verification may take its correction from token verification's residual.",
        source="github.com/vllm-project/vllm-ascend, pull request 9772",
        shape="V = 3, L = 2, K = 1",
        examined=Scope(
            """all instances of V = 2, L = 2 with rows by context and denominators up to 2, then
            context-free ones of V = 3, L = 2 by common denominator, then lexicographically""",
            lambda: chain(every_context(2, 2), context_free(3, 4, length=2)),
        ),
        refuted=lossless(exhibits.block_then_token_residual),
        recorded=Derivation(
            932, {"total variation": "1/32"}, example("1/4 1/4 1/2", "0 3/4 1/4", length=2)
        ),
    ),
    Claim(
        id="hierarchical.is_block",
        statement="""Hierarchical speculative decoding with capped ratios is block verification:
        given any path both have the same law.""",
        source="arXiv 2601.05724",
        shape="any V, L; K = 1",
        examined=SMALL.also("; every path that can be drafted"),
        proof="""With r(i) the joint ratio and m(i) the largest of r(0), ..., r(i), the capped ratio
        is min(1, r(i) / m(i-1)) = r(i) / m(i). So is block verification's weight: min(1,
        r(i-1)/m(i-1) * r(i)/r(i-1)) = min(1, r(i)/m(i-1)). Both residuals and both tests are the
        same functions of it.""",
        refuted=capped_is_block,
        known=lambda: {
            "paths": sum(len(here.draft.text(here.length)) for here in SMALL.instances())
        },
        recorded=Derivation(1319, {"paths": "3658"}),
    ),
    Claim(
        id="hierarchical.released",
        statement="The released program of hierarchical speculative decoding is lossless.",
        source="github.com/ZhouYuxuanYX/Hierarchical-Speculative-Decoding, algorithm_clean.py",
        shape="V = 2, L = 2, K = 1",
        examined=SEARCH,
        refuted=lossless(exhibits.released_hierarchical),
        recorded=Derivation(14, {"total variation": "1/9"}, MOTIVATING),
    ),
    in_block_paper(
        id="greedy_block.value",
        statement="""Greedy block verification accepts the sum of min(p(x), q(x)) over prefixes x of
        1..L tokens.""",
        shape="any V, L; K = 1",
        examined=CERTIFIED,
        theorems=("greedy_block.expected_length",),
        refuted=equal(accepted("greedy_block"), SHARED, best_stateful),
        recorded=Derivation(1319),
    ),
    in_block_paper(
        id="greedy_block.bound",
        statement="""No lossless verifier of one path, whatever it does to the target, accepts more
        than the sum of min(p(x), q(x)) over prefixes x of 1..L tokens: that is the stateful
        optimum, which greedy block verification reaches (greedy_block.value).""",
        shape="any V, L; K = 1",
        examined=SMALL.also("; token, block and greedy block verification"),
        theorems=(
            "greedy_block.nothing_accepts_more",
            "greedy_block.nothing_accepts_longer",
            "greedy_block.greedy_outcome_length",
            "greedy_block.greedy_outcome_is_one",
        ),
        proof="An accepted prefix x is drafted, and it is the text: that is at most q(x) and p(x).",
        refuted=any_of(
            *(ascending(accepted(name), SHARED) for name in ("token", "block", "greedy_block"))
        ),
        recorded=Derivation(1319),
    ),
    in_block_paper(
        id="greedy_block.lossless",
        statement="""Greedy block verification with its modified target is lossless, in one
        iteration and over any number of them.""",
        shape="any V, L; K = 1",
        examined=SMALL.also(
            "; and over iterations, 5 tokens of the context-free instances of V = 2, L = 2"
        ),
        theorems=(
            "greedy_block.greedy_block_lossless",
            "greedy_block.greedy_block_decoded_lossless",
        ),
        refuted=any_of(
            lossless("greedy_block"),
            lossless_text(
                ALGORITHMS["greedy_block"],
                5,
                among=lambda here: here.target.context_free and here.vocabulary == 2,
            ),
        ),
        recorded=Derivation(1319),
    ),
    Claim(
        id="greedy_block.unmodified",
        statement="Greedy block verification is lossless without modifying the target.",
        source="arXiv 2604.25925, released code at K = 1",
        shape="V = 2, L = 2, K = 1",
        examined=SEARCH,
        refuted=lossless(exhibits.greedy_block_without_memory),
        recorded=Derivation(14, {"total variation": "1/9"}, MOTIVATING),
    ),
    Claim(
        id="greedy_block.iterations",
        statement="""After any number of iterations greedy block verification has written at least
        as many tokens as block verification.""",
        source="draftproof, arXiv 2403.10444 warns of it",
        shape="V = 2, L = 2, K = 1; 3 iterations",
        examined=SEARCH,
        refuted=any_of(*(never_behind("block", "greedy_block", n) for n in (1, 2, 3))),
        known=lambda: {
            name: ", ".join(str(after_iterations(name, n)(MOTIVATING)) for n in range(1, 6))
            for name in ("block", "greedy_block")
        },
        recorded=Derivation(
            14,
            {
                "block": "20/9, 40/9, 20/3, 80/9, 100/9",
                "greedy_block": "7/3, 40/9, 59/9, 26/3, 97/9",
                "block after 3": "20/3",
                "greedy_block after 3": "59/9",
            },
            MOTIVATING,
        ),
    ),
)
