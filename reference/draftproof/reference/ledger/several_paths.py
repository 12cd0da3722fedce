"""Verifiers of several paths that keep the target: greedy multi-path block, and traversal.

Papers: arXiv 2602.16961 (greedy multi-path block verification), arXiv 2505.12398 (traversal),
arXiv 2602.16994 (a comparison).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, pairwise, permutations

from draftproof.reference.ledger import exhibits
from draftproof.reference.ledger.claim import Claim, Derivation, Figure, Scope
from draftproof.reference.ledger.instances import context_free, example, seeded
from draftproof.reference.ledger.quantities import (
    Quantity,
    accepted,
    any_of,
    ascending,
    best_stateful,
    best_stateless,
    biased,
    equal,
    lossless,
    one_path,
    optimum,
    output,
    same_law,
)
from draftproof.reference.model import Instance, Row
from draftproof.reference.rational import ZERO, Rational, total
from draftproof.reference.verifiers import Verifier
from draftproof.reference.verifiers.multipath_block import by_ratio, multipath_block


def iid_paths(said: str, two_tokens: int, three_tokens: int) -> Scope:
    """Return all instances of small denominators, and the given numbers of seeded ones."""
    return Scope(
        f"""all context-free i.i.d. instances with denominators up to 6 (V = 2, L = 1, K = 2, 3), up
        to 3 (V = 3, L = 1, K = 2) and up to 4 (V = 2, L = 2, K = 2); {said} for V = 2, L = 2, K = 2
        and {three_tokens} for V = 3, L = 2, K = 2""",
        lambda: chain(
            context_free(2, 6, drafts=2),
            context_free(2, 6, drafts=3),
            context_free(3, 3, drafts=2),
            context_free(2, 4, length=2, drafts=2),
            seeded(two_tokens, 2, length=2, drafts=2),
            seeded(three_tokens, 3, length=2, drafts=2),
        ),
    )


def by_size(*, drafts: int = 2, largest: int = 5) -> Scope:
    """Return instances by size; for V = 3, up to the denominator `largest`."""
    return Scope(
        """instances of V = 2 with denominators up to 10, then of V = 3, by common denominator, then
        lexicographically""",
        lambda: chain(context_free(2, 10, drafts=drafts), context_free(3, largest, drafts=drafts)),
    )


def distinct(words: str, scope: Scope) -> Scope:
    """Return the scope's instances in which no two tokens have the same p/q."""

    def are_distinct(instance: Instance) -> bool:
        p, q = instance.target(()), instance.draft(())
        ratios = [a / b for a, b in zip(p, q, strict=True) if b != 0]
        return len(set(ratios)) == len(ratios)

    return Scope(words + scope.words, lambda: filter(are_distinct, scope.instances()))


PATHS = iid_paths("seeded ones with rows by context, 60", 60, 15)
SEARCH = by_size()
WOR = "without_replacement"
WITHOUT = Scope(
    """seeded instances without replacement and with rows by context: 40 for V = 3, L = 2, K = 2 and
    12 trees of branching (2, 2) for V = 3""",
    lambda: chain(
        seeded(40, 3, length=2, drafts=2, scheme=WOR),
        seeded(12, 3, length=2, drafts=4, scheme=WOR, branching=(2, 2)),
    ),
)


def ordered(rank: Sequence[int]) -> Verifier:
    """Return the verifier that ranks tokens in a fixed order, lowest first."""
    return partial(
        multipath_block,
        order=lambda _, q: [token for token in rank if token < len(q) and q[token] != 0],
    )


def reversed_ratio(p: Row, q: Row) -> Sequence[int]:
    """Return the tokens that can be drafted, highest p/q first."""
    return sorted((t for t, x in enumerate(q) if x != 0), key=lambda t: (-p[t] / q[t], t))


def other_order(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that no fixed order accepts more than the order by p/q, for drafts of one token.

    A path's selection law is a difference of powers, so the function compares orders without
    running them; the accepted lengths in a refutation come from running them.
    """
    p, q, drafts = instance.target(()), instance.draft(()), instance.drafts

    def accepts(rank: Sequence[int]) -> Rational:
        edges = list(accumulate((q[token] for token in rank), initial=ZERO))
        return total(
            min(p[token], high**drafts - low**drafts)
            for token, (low, high) in zip(rank, pairwise(edges), strict=True)
        )

    best = max(permutations(by_ratio(p, q)), key=accepts)
    if accepts(best) == accepts(by_ratio(p, q)):
        return None
    return {
        "multipath_block": accepted("multipath_block")(instance),
        f"lowest first {list(best)}": accepted(ordered(best))(instance),
    }


def by_k(quantity: Quantity, instance: Instance, most: int) -> str:
    """Return a quantity for K = 1..most, in printed form."""
    return ", ".join(str(quantity(replace(instance, drafts=k))) for k in range(1, most + 1))


CLOSE = example("3/5 2/5", "1/2 1/2")
MOTIVATING = example("1/3 2/3", "2/3 1/3", length=2)
PAIR = replace(MOTIVATING, length=1, drafts=2)
EXAMPLE = "p = (1/3, 2/3), q = (2/3, 1/3)"
ONE_BLOCK = accepted("block").where(", K = 1", one_path)


def gives(verify: Verifier, p: str) -> Mapping[str, Figure]:
    """Return, by the name of the figure, the law of the first token on two drafts of one token."""
    q = "1/5 1/5 3/5"
    return {f"p = ({p}), q = ({q}) gives": output(verify, example(p, q, drafts=2))}


in_multipath_paper = partial(Claim, source="arXiv 2602.16961")
in_traversal_paper = partial(Claim, source="arXiv 2505.12398")

CLAIMS = (
    in_multipath_paper(
        id="paths.monotone",
        statement="""One more path never lowers the optimum, without or with a modified target; and
        a modified target never lowers it.""",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS.also("; K against K - 1"),
        proof="""A verifier may ignore the last path: the others have the law of K - 1 paths. And a
        verifier that may modify the target may leave it as it is.""",
        refuted=any_of(
            ascending(best_stateless, best_stateful),
            *(ascending(best.fewer, best) for best in (best_stateless, best_stateful)),
        ),
        recorded=Derivation(433),
    ),
    in_multipath_paper(
        id="multipath.lossless",
        statement="""Greedy multi-path block verification is lossless, with tokens ranked by p/q,
        equals by id, and with any other strict order, at each context one, of the tokens that can
        be drafted there: it may depend on both models at all contexts, but not on the drafts.""",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS.also("; by p/q, by q/p and by token id"),
        theorems=("selection.multipath_block_lossless", "selection.multipath_block_by_ratio"),
        refuted=any_of(
            lossless(multipath_block),
            lossless(partial(multipath_block, order=reversed_ratio)),
            lossless(ordered(range(3))),
        ),
        recorded=Derivation(433),
    ),
    in_multipath_paper(
        id="multipath.over_block",
        statement="""Greedy multi-path block verification of K paths accepts at least as much as
        block verification of one.""",
        shape="V = 2, L = 1, K = 2; i.i.d. paths",
        examined=SEARCH,
        refuted=ascending(ONE_BLOCK, accepted("multipath_block")),
        known=lambda: {
            "p = (3/5, 2/5), q = (1/2, 1/2), K = 1..5": by_k(accepted("multipath_block"), CLOSE, 5),
            "optimum, K = 2": optimum(replace(CLOSE, drafts=2)),
        },
        recorded=Derivation(
            7,
            {
                "p = (3/5, 2/5), q = (1/2, 1/2), K = 1..5": "9/10, 17/20, 29/40, 53/80, 101/160",
                "optimum, K = 2": "1",
                "block, K = 1": "1",
                "multipath_block": "3/4",
            },
            example("1/2 1/2", "1/2 1/2", drafts=2),
        ),
    ),
    in_multipath_paper(
        id="multipath.over_block.distinct",
        statement="""Where no two tokens have the same p/q, greedy multi-path block verification of
        K paths accepts at least as much as block verification of one.""",
        shape="V = 2, L = 1, K = 2; i.i.d. paths; distinct p/q",
        examined=distinct("", SEARCH),
        refuted=ascending(ONE_BLOCK, accepted("multipath_block")),
        recorded=Derivation(
            219,
            {"block, K = 1": "8/9", "multipath_block": "70/81"},
            example("1/3 2/3", "4/9 5/9", drafts=2),
        ),
    ),
    in_multipath_paper(
        id="multipath.monotone",
        statement="Greedy multi-path block verification accepts no less with one more path.",
        shape="V = 2, L = 1, K = 3; i.i.d. paths; distinct p/q",
        examined=distinct("K = 3 against K = 2, with distinct ratios p/q: ", by_size(drafts=3)),
        refuted=ascending(accepted("multipath_block").fewer, accepted("multipath_block")),
        known=lambda: {
            "p = (3/5, 2/5), q = (1/2, 1/2), K = 1..5": by_k(accepted("multipath_block"), CLOSE, 5)
        },
        recorded=Derivation(
            22,
            {
                "p = (3/5, 2/5), q = (1/2, 1/2), K = 1..5": "9/10, 17/20, 29/40, 53/80, 101/160",
                "multipath_block, K - 1": "1",
                "multipath_block": "7/8",
            },
            example("1/4 3/4", "1/2 1/2", drafts=3),
        ),
    ),
    Claim(
        id="multipath.optimal",
        statement="No lossless verifier accepts more than greedy multi-path block verification.",
        source="arXiv 2602.16961, read without its class of verifiers",
        shape="V = 2, L = 1, K = 2; i.i.d. paths",
        examined=SEARCH,
        refuted=equal(accepted("multipath_block"), optimum),
        known=lambda: {
            f"{EXAMPLE}, L = 2, K = 1..3": by_k(accepted("multipath_block"), MOTIVATING, 3),
            "its optimum": by_k(best_stateless, MOTIVATING, 3),
        },
        recorded=Derivation(
            7,
            {
                "p = (1/3, 2/3), q = (2/3, 1/3), L = 2, K = 1..3": "11/9, 131/81, 1289/729",
                "its optimum": "11/9, 131/81, 1351/729",
                "multipath_block": "3/4",
                "optimum": "1",
            },
            example("1/2 1/2", "1/2 1/2", drafts=2),
        ),
    ),
    in_multipath_paper(
        id="multipath.best_order",
        statement="No other fixed order of tokens accepts more than the order by p/q.",
        shape="V = 3, L = 1, K = 2; i.i.d. paths; distinct p/q",
        examined=distinct("with distinct ratios p/q: ", by_size(largest=7)),
        refuted=other_order,
        recorded=Derivation(
            1917,
            {"multipath_block": "25/49", "lowest first [2, 0]": "4/7"},
            example("1/7 3/7 3/7", "2/7 0 5/7", drafts=2),
        ),
    ),
    Claim(
        id="multipath.ties",
        statement="""Selection may take the first drawn of equally ranked paths while the skewed law
        ranks them by token id.""",
        source="arXiv 2602.16961, released code",
        shape="V = 2, L = 1, K = 2; i.i.d. paths",
        examined=SEARCH,
        refuted=biased(exhibits.multipath_block_first_of_equals),
        known=lambda: gives(exhibits.multipath_block_first_of_equals, "2/5 2/5 1/5"),
        recorded=Derivation(
            7,
            {
                "p = (2/5 2/5 1/5), q = (1/5 1/5 3/5) gives": "11/25, 9/25, 1/5",
                "total variation": "1/6",
                "output": "2/3, 1/3",
            },
            example("1/2 1/2", "1/2 1/2", drafts=2),
        ),
    ),
    Claim(
        id="multipath.ties.clamped",
        statement="""With ratios clamped at one, selection may take the first drawn of equally
        ranked paths while the skewed law ranks them by token id.""",
        source="arXiv 2602.16961, released code",
        shape="V = 2, L = 1, K = 2; i.i.d. paths",
        examined=SEARCH,
        refuted=biased(exhibits.multipath_block_clamped),
        known=lambda: gives(exhibits.multipath_block_clamped, "1/2 3/10 1/5"),
        recorded=Derivation(
            7,
            {
                "p = (1/2 3/10 1/5), q = (1/5 1/5 3/5) gives": "8/15, 4/15, 1/5",
                "total variation": "1/6",
                "output": "2/3, 1/3",
            },
            example("1/2 1/2", "1/2 1/2", drafts=2),
        ),
    ),
    in_multipath_paper(
        id="multipath.over_traversal",
        statement="Greedy multi-path block verification accepts at least as much as traversal.",
        shape="V = 2, L = 1, K = 2; i.i.d. paths; distinct p/q",
        examined=distinct("with distinct ratios p/q: ", SEARCH),
        refuted=ascending(accepted("traversal"), accepted("multipath_block")),
        recorded=Derivation(
            94,
            {"traversal": "47/49", "multipath_block": "46/49"},
            example("1/7 6/7", "2/7 5/7", drafts=2),
        ),
    ),
    Claim(
        id="traversal.over_multipath",
        statement="Traversal accepts at least as much as greedy multi-path block verification.",
        source="arXiv 2602.16994",
        shape="V = 2, L = 1, K = 2; i.i.d. paths",
        examined=SEARCH,
        refuted=ascending(accepted("multipath_block"), accepted("traversal")),
        recorded=Derivation(14, {"multipath_block": "8/9", "traversal": "7/9"}, PAIR),
    ),
    in_traversal_paper(
        id="traversal.lossless",
        statement="Traversal is lossless, on i.i.d. paths and without replacement.",
        shape="any V, L, K; trees",
        examined=PATHS.then(f"{PATHS.words}; {WITHOUT.words}", WITHOUT),
        theorems=("traversal.growing_traversal_lossless",),
        refuted=lossless("traversal"),
        recorded=Derivation(485),
    ),
    in_traversal_paper(
        id="traversal.one_path",
        statement="On one path traversal is block verification: both have the same law.",
        shape="any V, L; K = 1",
        examined=Scope(
            """all context-free instances with denominators up to 6 (V = 2, L = 2); 100 seeded ones
            with rows by context for V = 2, L = 3 and 60 for V = 3, L = 2""",
            lambda: chain(
                context_free(2, 6, length=2), seeded(100, 2, length=3), seeded(60, 3, length=2)
            ),
        ),
        theorems=("traversal.one_path_block",),
        refuted=same_law("traversal", "block"),
        recorded=Derivation(257),
    ),
    in_traversal_paper(
        id="traversal.is_rejection",
        statement="""For one token without replacement traversal is recursive rejection sampling:
        both have the same law.""",
        shape="any V, K; L = 1; without replacement",
        examined=Scope(
            """all instances with denominators up to 6 (V = 2, K = 2) and up to 3 (V = 3, K = 2, 3);
            60 seeded ones for V = 4, K = 2""",
            lambda: chain(
                context_free(2, 6, drafts=2, scheme=WOR),
                context_free(3, 3, drafts=2, scheme=WOR),
                context_free(3, 3, drafts=3, scheme=WOR),
                seeded(60, 4, drafts=2, scheme=WOR),
            ),
        ),
        theorems=("traversal.one_position_rejection",),
        refuted=same_law("traversal", "recursive_rejection"),
        recorded=Derivation(411),
    ),
    Claim(
        id="traversal.below_rejection",
        statement="""For one token of i.i.d. drafts traversal, which merges duplicates, accepts at
        most what rejection sampling does.""",
        source="draftproof",
        shape="any V, K; L = 1; i.i.d.",
        examined=Scope(
            """all instances with denominators up to 6 (V = 2, K = 2, 3) and up to 4 (V = 3, K = 2);
            40 seeded ones for V = 4, K = 2 and for V = 3, K = 3""",
            lambda: chain(
                context_free(2, 6, drafts=2),
                context_free(2, 6, drafts=3),
                context_free(3, 4, drafts=2),
                seeded(40, 4, drafts=2),
                seeded(40, 3, drafts=3),
            ),
        ),
        refuted=ascending(accepted("traversal"), accepted("recursive_rejection")),
        recorded=Derivation(590),
    ),
    in_traversal_paper(
        id="traversal.equals_rejection",
        statement="For one token of i.i.d. drafts traversal accepts as much as rejection sampling.",
        shape="V = 3, K = 2, L = 1; i.i.d.",
        examined=SEARCH,
        refuted=equal(accepted("traversal"), accepted("recursive_rejection")),
        recorded=Derivation(
            428,
            {"traversal": "4/9", "recursive_rejection": "5/9"},
            example("0 1/3 2/3", "2/3 0 1/3", drafts=2),
        ),
    ),
    in_traversal_paper(
        id="traversal.over_rejection",
        statement="""On drafts without replacement traversal accepts at least as much as recursive
        rejection sampling.""",
        shape="any V, L, K; trees; without replacement",
        examined=WITHOUT,
        refuted=ascending(accepted("recursive_rejection"), accepted("traversal")),
        recorded=Derivation(52),
    ),
    Claim(
        id="traversal.optimal",
        statement="No lossless verifier accepts more than traversal.",
        source="arXiv 2505.12398, read without its class of verifiers",
        shape="V = 2, L = 1, K = 2; i.i.d.",
        examined=SEARCH,
        refuted=equal(accepted("traversal"), optimum),
        recorded=Derivation(14, {"traversal": "7/9", "optimum": "8/9"}, PAIR),
    ),
)
