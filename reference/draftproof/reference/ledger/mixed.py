"""Mixed multi-path block verification, Draftproof's own: mechanised, argued and refuted claims.

The algorithm goes to the highest-ranked sibling with some probability, else to any, and verifies
the selected path as a block; the *local rule* chooses the probability that keeps most of the next
token.

Mechanised: the algorithm is lossless, whatever the probability is at each node; for one token the
local rule accepts at least as much as block verification and greedy multi-path block verification,
the two algorithms that it mixes; with a vocabulary of two it accepts the optimum.
Observed on the instances below: for two tokens of a vocabulary of two it is still above both.
Refuted: that it is above either in general, that its value does not fall with K, that it is
optimal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain, product, starmap

from draftproof.reference.ledger.claim import Claim, Derivation, Figure, Refutation, Scope
from draftproof.reference.ledger.instances import (
    context_free,
    every_context,
    example,
    row,
    seeded,
    up_to,
)
from draftproof.reference.ledger.quantities import (
    Quantity,
    accepted,
    any_of,
    ascending,
    best_stateless,
    equal,
    lossless,
    optimum,
    same_law,
)
from draftproof.reference.mixture import (
    Alive,
    Mix,
    alive_after,
    law_of_highest,
    most_kept_next,
    ranked_below,
)
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.verifiers.mixed_multipath_block import mixed_multipath_block
from draftproof.reference.verifiers.multipath_block import by_ratio, multipath_block

PATHS = Scope(
    """all context-free i.i.d. instances with denominators up to 6 (V = 2, L = 1, K = 2, 3), up to 2
    (V = 3, L = 1, K = 2) and up to 3 (V = 2, L = 2, K = 2); 40 seeded ones with rows by context for
    V = 2, L = 2, K = 2 and 12 for V = 2, L = 2, K = 3""",
    lambda: chain(
        context_free(2, 6, drafts=2),
        context_free(2, 6, drafts=3),
        context_free(3, 2, drafts=2),
        context_free(2, 3, length=2, drafts=2),
        seeded(40, 2, length=2, drafts=2),
        seeded(12, 2, length=2, drafts=3),
    ),
)
ONE_POSITION = Scope(
    """all i.i.d. instances with denominators up to 8 (V = 2, K = 2), up to 6 (V = 2, K = 3) and up
    to 3 (V = 3, K = 2); 30 seeded ones for V = 4, K = 2""",
    lambda: chain(
        context_free(2, 8, drafts=2),
        context_free(2, 6, drafts=3),
        context_free(3, 3, drafts=2),
        seeded(30, 4, drafts=2),
    ),
)
TWO_BY_TWO = Scope(
    """V = 2, L = 2, K = 2 and 3, by the formula of mixed.value: all context-free i.i.d. instances
    with denominators up to 8, all with rows by context and denominators up to 2, and 400 seeded
    ones""",
    lambda: chain.from_iterable(
        chain(
            context_free(2, 8, length=2, drafts=drafts),
            every_context(2, 2, length=2, drafts=drafts),
            seeded(200, 2, length=2, drafts=drafts),
        )
        for drafts in (2, 3)
    ),
)


LONGER = ((2, 2, 2, 8), (2, 2, 3, 8), (2, 3, 2, 8))


def searched(said: str, *shapes: tuple[int, int, int, int]) -> Scope:
    """Return context-free instances of shapes (V, L, K, largest denominator)."""
    return Scope(
        f"""{said}by the formula of mixed.value: context-free i.i.d. instances by V, L and K
        (K <= 3), common denominator, then lexicographically; denominators up to 8 (V = 2, L = 2 and
        3) and 5 (V = 3)""",
        lambda: chain.from_iterable(
            context_free(vocabulary, denominators, length=length, drafts=drafts)
            for vocabulary, length, drafts, denominators in shapes
        ),
    )


DEAD_ENDS = Scope(
    """by the formula of the value: instances of V = 2, L = 6, K = 2 in which target and draft never
    agree after a first 0, and always after 10, by common denominator, then lexicographically""",
    lambda: starmap(dead_end, up_to(2, 3, 4)),
)


def dead_end(p: Row, q: Row, after_one: Row) -> Instance:
    """Return an instance of V = 2, K = 2: one first token is a dead end, the other leads on.

    After the first token 0 target and draft never agree, after 10 they always do. The free rows are
    both models' rows at the root, and the draft's row after 1.
    """
    length = 6
    zero, one = row("1 0"), row("0 1")
    contexts = [c for size in range(length + 1) for c in product(range(2), repeat=size)]
    target = {c: zero if c else p for c in contexts}
    draft = {c: zero if c[:2] == (1, 0) else one for c in contexts if len(c) < length}
    draft |= {(): q, (1,): after_one}
    return Instance(Model("target", 2, target), Model("draft", 2, draft), length, drafts=2)


def formula(mix: Mix = most_kept_next) -> Callable[[Instance], Rational]:
    """Return the closed form of E[accepted length].

    A prefix is accepted with probability A(zy) = min(A(z) p(y|z), Q'(zy)), where Q' is the law of
    the selected path (see `mixture`).
    """

    def value(instance: Instance) -> Rational:
        def below(node: Path, kept: Rational, alive: Alive) -> Rational:
            if len(node) == instance.length or kept == 0:
                return ZERO
            p, q = instance.target(node), instance.draft(node)
            lower = ranked_below(by_ratio(p, q), q)
            highest, uniform = law_of_highest(alive, lower, q), tuple(total(alive) * x for x in q)
            s = mix([kept * x for x in p], highest, uniform)
            accepted = ZERO
            for token, (h, u) in enumerate(zip(highest, uniform, strict=True)):
                here = min(kept * p[token], s * h + (1 - s) * u)
                if here != 0:
                    sharing = alive_after(alive, s, q[token], lower[token])
                    accepted += here + below((*node, token), here, sharing)
            return accepted

        return below((), ONE, [ZERO] * instance.drafts + [ONE])

    return value


def share(value: Rational) -> Mix:
    """Return the rule that goes to the highest-ranked sibling with a fixed probability."""
    return lambda *_: value


always, never, sometimes = (
    partial(mixed_multipath_block, mix=share(value)) for value in (ONE, ZERO, rational("1/3"))
)

MIXED = Quantity("mixed", formula())
BLOCK = Quantity("block, K = 1", formula(share(ZERO)))
MULTIPATH = Quantity("multipath_block", formula(share(ONE)))


def run_where(quick: Refutation, *quantities: Quantity) -> Refutation:
    """Refute where a formula refutes, with figures from running the verifiers on the instance.

    If the verifiers do not refute the claim there, the formula's figures are returned alone: then
    the formula is wrong there.
    """

    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        found = quick(instance)
        return found and (ascending(*quantities)(instance) or found)

    return refuted


BY_RUNNING = Quantity("mixed", accepted("mixed_multipath_block"))

ours = partial(Claim, source="draftproof")

CLAIMS = (
    ours(
        id="mixed.ends",
        statement="""Mixed multi-path block verification that always takes the highest-ranked path
        is greedy multi-path block verification; taking any, it is block verification of one.""",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS,
        proof="""Always taking the highest, both select the same path and verify it as a block
        against the law by which it is selected (mixed.value, multipath.lossless). Taking any, the
        selected path is one of K i.i.d. ones, chosen without a look at what they are, so its law is
        the draft's, and block verification of such a path is what there is with one.""",
        rests_on=("mixed.value", "multipath.lossless"),
        refuted=any_of(same_law(always, multipath_block), same_law(never, "block", drafts=1)),
        recorded=Derivation(303),
    ),
    ours(
        id="mixed.lossless",
        statement="""Mixed multi-path block verification is lossless, with the local rule, and with
        any share in 0..1 that depends on the node, on what is owed there and on the laws of the
        next token alone.""",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS.also("; the local rule, and one third"),
        theorems=("mixed.mixed_multipath_block_lossless", "mixed.mixed_by_ratio"),
        refuted=any_of(lossless(mixed_multipath_block), lossless(sometimes)),
        recorded=Derivation(303),
    ),
    ours(
        id="mixed.value",
        statement="""Mixed multi-path block verification accepts the prefix zy with the probability
        A(zy) = min(A(z) p(y|z), Q'(zy)), Q' being the law of the selected path.""",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS.also("; the sum over prefixes, for the local rule and the shares 0 and 1"),
        theorems=(
            "mixed.mixed_multipath_block_accepts",
            "mixed.selected_mixed",
            "mixed.selected_mixed_starts",
        ),
        proof="""Coq has A as block.value does, with Q' for q; by multiplication it is this.""",
        refuted=any_of(
            equal(accepted("mixed_multipath_block"), MIXED),
            equal(accepted(always), MULTIPATH),
            equal(accepted(never), BLOCK),
        ),
        recorded=Derivation(303),
    ),
    ours(
        id="mixed.over_ends.one",
        statement="""For one token the local rule accepts at least as much as block verification of
        one path and as greedy multi-path block verification.""",
        shape="any V, K; L = 1; i.i.d.",
        examined=ONE_POSITION,
        theorems=(
            "mixed.mixed_accepts_some",
            "mixed.most_kept_over_multipath",
            "mixed.most_kept_over_block",
        ),
        proof="""For one token, what is accepted is the sum of min(p, law of the selected path); the
        local rule maximises it over shares in 0..1, and the two are the shares 0 and 1.""",
        refuted=any_of(
            ascending(accepted(never), accepted("mixed_multipath_block")),
            ascending(accepted("multipath_block"), accepted("mixed_multipath_block")),
        ),
        recorded=Derivation(467),
    ),
    ours(
        id="mixed.optimal.two_tokens",
        statement="For one token of a vocabulary of two the local rule accepts the optimum.",
        shape="V = 2, L = 1, any K; i.i.d.",
        examined=Scope(
            "all instances with denominators up to 10 (K = 2) and up to 6 (K = 3)",
            lambda: chain(context_free(2, 10, drafts=2), context_free(2, 6, drafts=3)),
        ),
        theorems=("one_position.mixed_optimal_two_tokens",),
        proof="""Let t be the token of the larger p/q, so p(t) >= q(t). Any selection picks t with a
        probability in q(t)^K..1-(1-q(t))^K, and accepts the sum of min(p, selection), which grows
        until it picks t with p(t). The shares reach all of q(t)..1-(1-q(t))^K, and the local rule
        takes the best.""",
        refuted=equal(accepted("mixed_multipath_block"), optimum),
        recorded=Derivation(474),
    ),
    ours(
        id="mixed.optimal",
        statement="""No lossless verifier accepts more than mixed multi-path block verification with
        the local rule.""",
        shape="V = 3, L = 1, K = 2; i.i.d. paths",
        examined=Scope(
            """instances of V = 2 with denominators up to 8, then of V = 3, by common denominator,
            then lexicographically""",
            lambda: chain(context_free(2, 8, drafts=2), context_free(3, 5, drafts=2)),
        ),
        refuted=equal(accepted("mixed_multipath_block"), optimum),
        recorded=Derivation(
            555,
            {"mixed_multipath_block": "14/15", "optimum": "24/25"},
            example("0 1/5 4/5", "1/5 1/5 3/5", drafts=2),
        ),
    ),
    ours(
        id="mixed.optimal.two_by_two",
        statement="""For two tokens of a vocabulary of two no verifier that leaves the target as it
        is accepts more than the local rule.""",
        shape="V = 2, L = 2, K = 2; i.i.d. paths",
        examined=Scope(
            """by the formula of mixed.value: context-free instances with denominators up to 6, then
            with rows by context, by common denominator, then lexicographically""",
            lambda: chain(
                context_free(2, 6, length=2, drafts=2), every_context(2, 3, length=2, drafts=2)
            ),
        ),
        refuted=run_where(ascending(best_stateless, MIXED), best_stateless, BY_RUNNING),
        recorded=Derivation(
            44,
            {"stateless optimum": "1219/625", "mixed": "1203/625"},
            example("1/5 4/5", "2/5 3/5", length=2, drafts=2),
        ),
    ),
    ours(
        id="mixed.over_ends.two",
        statement="""For two tokens of a vocabulary of two the local rule accepts at least as much
        as block verification of one path and as greedy multi-path block verification.""",
        shape="V = 2, L = 2, K = 2 and 3; i.i.d. paths",
        examined=TWO_BY_TWO,
        refuted=any_of(ascending(BLOCK, MIXED), ascending(MULTIPATH, MIXED)),
        recorded=Derivation(2284),
    ),
    ours(
        id="mixed.over_multipath",
        statement="""For any length the local rule accepts at least as much as greedy multi-path
        block verification.""",
        shape="V = 2, L = 3, K = 2; i.i.d. paths",
        examined=searched("", *LONGER),
        refuted=run_where(ascending(MULTIPATH, MIXED), accepted("multipath_block"), BY_RUNNING),
        recorded=Derivation(
            440,
            {"multipath_block": "1621/729", "mixed": "1615/729"},
            example("1/3 2/3", "2/3 1/3", length=3, drafts=2),
        ),
    ),
    ours(
        id="mixed.over_block",
        statement="""For any length the local rule accepts at least as much as block verification of
        one path.""",
        shape="V = 2, L = 6, K = 2; i.i.d. paths",
        examined=DEAD_ENDS,
        refuted=run_where(
            ascending(BLOCK, MIXED), Quantity("block, K = 1", accepted(never)), BY_RUNNING
        ),
        recorded=Derivation(
            153,
            {"block, K = 1": "2", "mixed": "31/16"},
            dead_end(row("3/4 1/4"), row("1/2 1/2"), row("1/2 1/2")),
        ),
    ),
    ours(
        id="mixed.monotone",
        statement="The local rule accepts no less with one more path.",
        shape="V = 3, L = 1, K = 3; i.i.d. paths",
        examined=searched("K against K - 1, ", *LONGER, (3, 1, 2, 5), (3, 1, 3, 5)),
        refuted=run_where(ascending(MIXED.fewer, MIXED), BY_RUNNING.fewer, BY_RUNNING),
        recorded=Derivation(
            1530,
            {"mixed, K - 1": "15/16", "mixed": "29/32"},
            example("0 1/4 3/4", "1/4 1/4 1/2", drafts=3),
        ),
    ),
)
