"""Several drafts of one token: rejection sampling, K-SEQ, SpecHub, and the optimum of them all.

Papers: arXiv 2502.18779 (the optimum as a minimum over sets), arXiv 2411.05289 (SpecHub),
arXiv 2410.18234 (canonical decomposition), arXiv 2310.15141 (K-SEQ), arXiv 2305.09781
(recursive rejection sampling), arXiv 2402.14160 (the same without replacement).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise, permutations

from draftproof.reference.drafting import SCHEMES, most_probable, subsets
from draftproof.reference.ledger.claim import Claim, Derivation, Figure, Refutation, Scope
from draftproof.reference.ledger.exhibits import rejection_skipping_duplicates
from draftproof.reference.ledger.instances import context_free, drafts_alone, example, seeded
from draftproof.reference.ledger.quantities import (
    Quantity,
    accepted,
    any_of,
    ascending,
    best_stateful,
    best_stateless,
    biased,
    equal,
    kept_tokens,
    lossless,
    optimum,
    output,
    over_prefixes,
    sorted_prefix,
    subset_formula,
)
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.acceptance_rate import convexity_gap
from draftproof.reference.optimum.k_seq_factor import least_factor
from draftproof.reference.rational import ONE, ZERO, Rational, positive_part, ratio_or_one, total
from draftproof.reference.rows import mass, overlap
from draftproof.reference.verifiers.k_seq import k_seq

WOR = "without_replacement"
FEW = Scope(
    """all i.i.d. instances with denominators up to 5 (V = 2, K = 2), up to 4 (V = 2, K = 3) and up
    to 2 (V = 3, K = 2)""",
    # K-SEQ's least factor is slow.
    lambda: chain(
        context_free(2, 5, drafts=2), context_free(2, 4, drafts=3), context_free(3, 2, drafts=2)
    ),
)


def drafted(scheme: str, said: str = "all i.i.d. instances") -> Scope:
    """Return instances of up to three drafts, drawn by the scheme."""
    return Scope(
        f"""{said} with denominators up to 6 (V = 2, K = 2 and 3) and up to 3 (V = 3, K = 2); 60
        seeded ones for V = 4, K = 2 and 40 for V = 3, K = 3""",
        lambda: chain(
            context_free(2, 6, drafts=2, scheme=scheme),
            context_free(2, 6, drafts=3, scheme=scheme),
            context_free(3, 3, drafts=2, scheme=scheme),
            seeded(60, 4, drafts=2, scheme=scheme),
            seeded(40, 3, drafts=3, scheme=scheme),
        ),
    )


def pairs(scheme: str) -> Scope:
    """Return instances of two drafts, drawn by the scheme."""
    return Scope(
        """all instances of SpecHub's pairs with denominators up to 6 (V = 2) and 3 (V = 3); 100
        seeded ones for V = 4""",
        lambda: chain(
            context_free(2, 6, drafts=2, scheme=scheme),
            context_free(3, 3, drafts=2, scheme=scheme),
            seeded(100, 4, drafts=2, scheme=scheme),
        ),
    )


def by_size(scheme: str) -> Scope:
    """Return instances of two drafts by size, drawn by the scheme."""
    return Scope(
        """instances of V = 2, K = 2 with denominators up to 8, then of V = 3, K = 2, by common
        denominator, then lexicographically""",
        lambda: chain(
            context_free(2, 8, drafts=2, scheme=scheme), context_free(3, 5, drafts=2, scheme=scheme)
        ),
    )


IID, HUB, SEARCH, OF_PAIRS = drafted("iid"), pairs("hub"), by_size("iid"), by_size("hub")
REPLACED = IID.then(f"{IID.words}; the same without replacement", drafted(WOR))
SURE_OF_ONE = example("0 0 1", "1/3 1/3 1/3", drafts=2, scheme="hub")
CONDITIONAL = HUB.also("; those that satisfy the condition are compared")


def covers(instance: Instance) -> bool:
    """Return True if the target can write every token that the draft can."""
    return all(
        a > 0 or b == 0 for a, b in zip(instance.target(()), instance.draft(()), strict=True)
    )


def rates(instance: Instance) -> list[Rational]:
    """Return the g of P(accept i) = min(p(i), g q(i)) after 0..K tries of rejection sampling."""
    p, q = instance.target(()), instance.draft(())
    g = [ZERO]
    for _ in range(instance.drafts):
        g.append(g[-1] + 1 - overlap(p, q, g[-1]))
    return g


def keeps(verify: str, formula: Callable[[Instance], Row]) -> Refutation:
    """Refute that every token is accepted with the probability that a formula gives."""

    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        kept, given = kept_tokens(verify, instance), formula(instance)
        return None if kept == given else {verify: str(kept), "formula": str(given)}

    return refuted


def rejection_row(instance: Instance) -> Row:
    """Return min(p, g q)."""
    p, q, g = instance.target(()), instance.draft(()), rates(instance)[-1]
    return tuple(min(a, g * b) for a, b in zip(p, q, strict=True))


def k_seq_accepts(instance: Instance, factor: Rational) -> tuple[Rational, Rational]:
    """Return K-SEQ's acceptance with a factor, and the largest that the residual allows."""
    each = overlap(instance.draft(()), instance.target(()), 1 / factor)
    return 1 - (1 - each) ** instance.drafts, factor * each


def factor_of(instance: Instance) -> Rational:
    """Return K-SEQ's least factor, rounded up."""
    return least_factor(instance.target(()), instance.draft(()), instance.drafts)


def below_k_seq(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that rejection sampling accepts at most as much as K-SEQ, and K-SEQ as the optimum.

    Over all tries both accept min(p, g q): rejection sampling with g from its recursion, K-SEQ with
    its least factor as g. A g at which K-SEQ accepts at least as much as it can afford is at most
    the least factor. So the comparison needs no root.
    """
    g = rates(instance)[-1]
    accepts, affords = k_seq_accepts(instance, g)
    reached = k_seq_accepts(instance, factor_of(instance))[0]
    if accepts >= affords and reached <= optimum(instance):
        return None
    return {"recursive_rejection": affords, "k_seq": reached, "optimum": optimum(instance)}


def k_seq_guarantee(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that K-SEQ accepts 1 - (1 - 1/K)^K of the optimum, with its factor rounded up."""
    reached = k_seq_accepts(instance, factor_of(instance))[0]
    share = 1 - (1 - ONE / instance.drafts) ** instance.drafts
    best = optimum(instance)
    return None if reached >= share * best else {"k_seq": reached, "optimum": best}


def k_seq_residual(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that a factor below the least one makes the residual negative somewhere."""
    p, q = instance.target(()), instance.draft(())
    least = factor_of(instance)
    factor = (1 + least) / 2
    if factor >= least:
        return None
    accepts, affords = k_seq_accepts(instance, factor)
    scale = ratio_or_one(accepts, affords / factor)
    residual = [a - scale * min(a / factor, b) for a, b in zip(p, q, strict=True)]
    if min(residual) < 0:
        return None
    return {"least factor": least, "factor": factor, "least residual": min(residual)}


def falling(instance: Instance) -> bool:
    """Return True if the draft's row does not increase: other instances only rename the tokens."""
    return all(a >= b for a, b in pairwise(instance.draft(())))


def top_row(instance: Instance) -> Row:
    """Return p on the top K - 1 tokens A (the hub of a pair), min(p, q / (1 - q(A))) elsewhere."""
    p, q = instance.target(()), instance.draft(())
    top = most_probable(q, instance.drafts - 1)
    left = 1 - mass(q, top)
    return tuple(
        a if token in top else min(a, b / left) if b != 0 else ZERO
        for token, (a, b) in enumerate(zip(p, q, strict=True))
    )


GREEDY = Quantity("formula", lambda instance: total(top_row(instance)))
NAIVE = over_prefixes("formula", lambda p, q, drafts: p * (1 - (1 - q) ** drafts))


def naive_tree_row(instance: Instance) -> Row:
    """Return min(p, q) + (p - q)+ (1 - (1 - q)^(K - 1))."""
    return tuple(
        min(a, b) + positive_part(a - b) * (1 - (1 - b) ** (instance.drafts - 1))
        for a, b in zip(instance.target(()), instance.draft(()), strict=True)
    )


def khisti(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute the condition for a rate of one, and the formula for it, of two i.i.d. drafts."""
    if (instance.scheme, instance.drafts) != ("iid", 2):
        return None
    p, q = instance.target(()), instance.draft(())
    rate, masses = optimum(instance), [(mass(p, S), mass(q, S)) for S in subsets(range(len(p)))]
    formula = min(a + (1 - b) ** 2 + 2 * b * (1 - b) for a, b in masses)
    covered = all(a >= b**2 for a, b in masses)
    if covered == (rate == 1) and formula == rate:
        return None
    return {"optimum": rate, "formula": formula}


def hub_over(scheme: str, *, conditional: bool) -> Refutation:
    """Refute that SpecHub accepts at least as much as rejection sampling of two drafts."""
    over_rejection = ascending(accepted("recursive_rejection").drawn(scheme), accepted("spechub"))

    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        share = max(instance.draft(()))
        distance = 1 - overlap(instance.target(()), instance.draft(()))
        needed = distance * (1 - share) if scheme == "iid" else distance
        if conditional and share < needed:
            return None
        return over_rejection(instance)

    return refuted


def convex(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute q-convexity at every set and every two tokens outside it."""
    q = instance.draft(())
    support = [token for token, x in enumerate(q) if x != 0]
    for inside in subsets(range(len(q))):
        for x, y in permutations([token for token in support if token not in inside], 2):
            gap = convexity_gap(instance.scheme, q, instance.drafts, inside, x, y)
            if gap < 0:
                return {"gap": gap}
    return None


def larger_k(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that one more draft does not lower the optimum, in every scheme."""
    more = instance.drafts + 1
    schemes = (optimum.drawn(scheme) for scheme in SCHEMES if scheme != "hub" or more <= 2)
    comparisons = (
        ascending(best, best.where(f", K = {more}", lambda here: replace(here, drafts=more)))
        for best in schemes
    )
    return any_of(*comparisons)(instance)


def k_seq_law(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that K-SEQ is lossless and accepts the mass of its formula."""
    factor = factor_of(instance)
    verify = partial(k_seq, rho=factor)
    formula = Quantity("formula", lambda here: k_seq_accepts(here, factor)[0])
    return any_of(lossless(verify), equal(accepted(verify), formula))(instance)


in_optimum_paper = partial(Claim, source="arXiv 2502.18779")
in_spechub_paper = partial(Claim, source="arXiv 2411.05289")
in_k_seq_paper = partial(Claim, source="arXiv 2310.15141")
in_specinfer_paper = partial(Claim, source="arXiv 2305.09781")

CLAIMS = (
    in_optimum_paper(
        id="optimum.subsets",
        statement="The optimum is 1 + min over sets H of tokens of p(H) - P(all drafts lie in H).",
        shape="any V, K; L = 1; any joint law of the drafts",
        examined=REPLACED.then(
            f"{REPLACED.words}; {HUB.words}; and their greedy drafts", HUB, pairs("greedy")
        ),
        theorems=(
            "acceptance.acceptance_rate_verifiers",
            "acceptance.accepts_any_at_most",
        ),
        proof="""The optimum is a largest flow from tokens (capacity p) to drafts (capacity Q),
        each token to the drafts that have it. A finite cut cuts a set H of tokens and then all
        drafts with a token outside H, so it costs p(H) + 1 - Q(H). The smallest cut is the
        largest flow. Corollary: for two i.i.d. drafts Q(S) = q(S)^2, so the optimum is min over S
        of p(S) + q(S^c)^2 + 2 q(S) q(S^c), and 1 if and only if p(S) >= q(S)^2 for all S, as arXiv
        2410.18234 has it.""",
        refuted=any_of(equal(optimum, Quantity("formula", subset_formula)), khisti),
        recorded=Derivation(1490),
    ),
    in_optimum_paper(
        id="optimum.prefixes.iid",
        statement="""For i.i.d. drafts some best set is a prefix of the tokens sorted by decreasing
        q/p.""",
        shape="any V, K; L = 1; i.i.d.",
        examined=IID,
        rests_on=("optimum.subsets",),
        proof="""By optimum.subsets a best H minimises p(H) - Q(H).
        Q(H) = q(H)^K is convex in q(H), so Q gains more per unit of q from a later token.
        Let H be a largest best set of tokens that can be drafted. If it had x and not y with
        q(y)/p(y) >= q(x)/p(x), then x pays, so Q gains at least p(x)/q(x) per unit from x, hence as
        much from y, which costs p(y)/q(y) <= p(x)/q(x): adding y would be no worse, and the set
        larger.""",
        refuted=equal(optimum, sorted_prefix),
        recorded=Derivation(421),
    ),
    in_optimum_paper(
        id="optimum.prefixes.without_replacement",
        statement="""For drafts without replacement some best set is a prefix of the tokens sorted
        by decreasing q/p.""",
        shape="any V, K; L = 1; without replacement",
        examined=drafted(WOR, "all instances without replacement"),
        proof="""As for i.i.d. drafts (optimum.prefixes.iid), since Q gains more per unit of q from
        a later token without replacement, too (optimum.convex.without_replacement); and by
        optimum.subsets.""",
        rests_on=(
            "optimum.prefixes.iid",
            "optimum.convex.without_replacement",
            "optimum.subsets",
        ),
        refuted=equal(optimum, sorted_prefix),
        recorded=Derivation(421),
    ),
    Claim(
        id="optimum.prefixes.any",
        statement="""Whatever the joint law of the drafts, some best set is a prefix of the tokens
        sorted by decreasing q/p.""",
        source="arXiv 2502.18779, its formula without its condition",
        shape="V = 4, K = 2, L = 1; SpecHub's pairs",
        examined=Scope(
            """SpecHub's pairs with q not increasing: V = 2 with denominators up to 8, V = 3 up to
            5, then V = 4, by common denominator, then lexicographically""",
            lambda: filter(
                falling, chain(OF_PAIRS.instances(), context_free(4, 7, drafts=2, scheme="hub"))
            ),
        ),
        refuted=equal(Quantity("optimum", subset_formula), sorted_prefix),
        recorded=Derivation(
            2676,
            {"optimum": "34/35", "sorted_prefix": "1"},
            example("4/7 0 3/7 0", "2/7 2/7 2/7 1/7", drafts=2, scheme="hub"),
        ),
    ),
    in_optimum_paper(
        id="optimum.convex.without_replacement",
        statement="""Drafts without replacement are q-convex: (Q(H+x) - Q(H)) / q(x) is at most
        (Q(H+x+y) - Q(H+x)) / q(y).""",
        shape="any V, K; L = 1; without replacement",
        examined=Scope(
            """all draft rows with denominators up to 6 (V = 3, K = 2, 3) and up to 5 (V = 4, K = 2,
            3 and V = 5, K = 4), every set and every two tokens outside it""",
            lambda: chain(
                drafts_alone(3, 6, drafts=2, scheme=WOR),
                drafts_alone(3, 6, drafts=3, scheme=WOR),
                drafts_alone(4, 5, drafts=2, scheme=WOR),
                drafts_alone(4, 5, drafts=3, scheme=WOR),
                drafts_alone(5, 5, drafts=4, scheme=WOR),
            ),
        ),
        proof="""Let token i arrive at an exponential time of rate q(i): the order of arrival is the
        order of drawing. Let a <= b be the times of arrivals K-1 and K in H, X that of x, m the
        rate outside H+x, and a', b' the times of H+x. The left side is E of the integral of exp(-m
        max(t, a)) over t < min(b, X), the right side at least that of exp(-m max(t, a')) over t <
        b'. Where X > a, a' = a and b' = min(b, X). Where X < a, b' = a >= a', so X exp(-m a) stands
        against at least a exp(-m a). Where K exceeds q's support, its size stands for K.""",
        refuted=convex,
        recorded=Derivation(537),
    ),
    in_optimum_paper(
        id="optimum.without_replacement",
        statement="The optimum without replacement is at least the optimum with replacement.",
        shape="any V, K; L = 1",
        examined=IID,
        proof="""Given that the drafts so far lie in H, the next one lies in H with probability
        (q(H) - q(used)) / (1 - q(used)) <= q(H) where q(H) < 1. So P(all in H) is at most q(H)^K
        for such H; where q(H) = 1 both are 1, also where q's support is used up and drafting stops.
        By optimum.subsets a smaller Q has a larger optimum.""",
        rests_on=("optimum.subsets",),
        refuted=ascending(optimum.drawn("iid"), optimum.drawn(WOR)),
        recorded=Derivation(421),
    ),
    in_optimum_paper(
        id="optimum.monotone",
        statement="One more draft never lowers the optimum.",
        shape="any V, K; L = 1; every scheme",
        examined=Scope(
            """K = 1 and 2, against one more: all instances with denominators up to 5 (V = 2) and up
            to 3 (V = 3)""",
            lambda: chain.from_iterable(
                context_free(vocabulary, denominators, drafts=count)
                for count in (1, 2)
                for vocabulary, denominators in ((2, 5), (3, 3))
            ),
        ),
        proof="""I.i.d. and without replacement the first K of K + 1 drafts have the law of K
        drafts, and a verifier may ignore the last. For greedy drafts the formula of
        greedy_draft.optimal grows token by token as A grows. SpecHub's pairs exist for K = 2 alone,
        and for K = 1 every scheme draws one token from q: the formula of the greedy drafts is that
        of the pairs (spechub.value, spechub.optimal).""",
        rests_on=("greedy_draft.optimal", "spechub.value", "spechub.optimal"),
        refuted=larger_k,
        recorded=Derivation(392),
    ),
    Claim(
        id="optimum.agree",
        statement="""For one token a modified target is of no use: the optima with and without one
        are the largest acceptance rate.""",
        source="draftproof",
        shape="any V, K; L = 1; every scheme",
        examined=Scope(
            """all instances with denominators up to 5 (V = 2, K = 2) and up to 2 (V = 3, K = 2), in
            every scheme""",
            lambda: chain.from_iterable(
                context_free(vocabulary, denominators, drafts=2, scheme=scheme)
                for scheme in SCHEMES
                for vocabulary, denominators in ((2, 5), (3, 2))
            ),
        ),
        theorems=("acceptance.acceptance_rate_verifiers", "acceptance.accepts_any_at_most"),
        proof="""What is accepted is one token, drafted and the first of the text, so A(x) is
        bounded by p(x) and by the law of a selected draft, whatever happens to later rows.""",
        refuted=equal(optimum, best_stateless, best_stateful),
        recorded=Derivation(420),
    ),
    Claim(
        id="canonical.optimal",
        statement="""Selecting one draft by the weights of an optimal coupling and verifying it as a
        single one reaches the optimum, losslessly.""",
        source="arXiv 2410.18234",
        shape="any V, K; L = 1; any joint law of the drafts",
        examined=IID.then(f"{IID.words}; {HUB.words}", HUB),
        proof="""An optimal coupling S(i, x) with what it leaves of Q(x) given to any draft of x
        selects token i with a probability P(i) >= s(i), the sum over x of S(i, x), and s <= p.
        Verifying it as a single draft of the law P is lossless (token.lossless) and accepts the sum
        of min(p, P) (token.value), at least that of s, which is the value of S. No lossless
        verifier accepts more (optimum.subsets).""",
        rests_on=("token.lossless", "token.value", "optimum.subsets"),
        refuted=any_of(lossless("canonical"), equal(accepted("canonical"), optimum)),
        recorded=Derivation(745),
    ),
    in_specinfer_paper(
        id="rejection.lossless",
        statement="Recursive rejection sampling is lossless, with replacement and without.",
        shape="any V, L, K; trees",
        examined=REPLACED.then(
            f"{REPLACED.words}; 20 seeded ones for V = 2, L = 2, K = 2 of either scheme",
            *(
                Scope("", partial(seeded, 20, 2, length=2, drafts=2, scheme=scheme))
                for scheme in ("iid", WOR)
            ),
        ),
        theorems=("rejection.recursive_rejection_lossless",),
        refuted=lossless("recursive_rejection"),
        recorded=Derivation(882),
    ),
    in_specinfer_paper(
        id="rejection.recursion",
        statement="""With replacement rejection sampling accepts token i with probability min(p, g
        q), where g(0) = 0 and g(j+1) = g(j) + 1 - sum of min(p, g(j) q).""",
        shape="any V, K; L = 1; i.i.d.",
        examined=IID,
        theorems=("rejection.accepted_with_replacement",),
        refuted=keeps("recursive_rejection", rejection_row),
        recorded=Derivation(421),
    ),
    Claim(
        id="rejection.duplicates",
        statement="Rejection sampling with replacement may skip a draft that was tried before.",
        source="github.com/MasterGodzilla/Speculative_decoding_OT",
        shape="V = 3, K = 2, L = 1; i.i.d.",
        examined=SEARCH,
        refuted=biased(rejection_skipping_duplicates),
        known=lambda: {
            "p = (4/11, 7/22, 7/22), q = (15/22, 3/22, 2/11) gives": output(
                rejection_skipping_duplicates,
                example("4/11 7/22 7/22", "15/22 3/22 2/11", drafts=2),
            )
        },
        recorded=Derivation(
            264,
            {
                "p = (4/11, 7/22, 7/22), q = (15/22, 3/22, 2/11) gives": "4/11, 147/484, 161/484",
                "total variation": "1/9",
                "output": "0, 2/9, 7/9",
            },
            example("0 1/3 2/3", "2/3 0 1/3", drafts=2),
        ),
    ),
    in_k_seq_paper(
        id="rejection.below_k_seq",
        statement="Rejection sampling accepts at most what K-SEQ does, and K-SEQ the optimum.",
        shape="any V, K; L = 1; i.i.d.",
        examined=FEW,
        rests_on=("rejection.recursion", "k_seq.lossless"),
        proof="""Both accept S(g), the sum of min(p, g q), rejection sampling at g(K)
        (rejection.recursion), K-SEQ at its least factor r, where 1 - (1-b)^K = r b with b = S(r)/r
        (k_seq.lossless). S is concave and S(0) = 0, so S(g)
        >= g b for g <= r, g(j+1) <= 1 + (1-b) g(j), and g(K) <= (1 - (1-b)^K) / b = r. K-SEQ is
        lossless, so it is at most the optimum.""",
        refuted=below_k_seq,
        recorded=Derivation(142),
    ),
    in_specinfer_paper(
        id="rejection.over_target_first",
        statement="""Rejection sampling accepts at least as much as sampling the target first and
        looking whether it was drafted.""",
        shape="any V, K; L = 1; i.i.d.",
        examined=IID,
        proof="""Let t(K) = 1 - (1 - q)^K, so that sampling the target first accepts the sum of
        p t(K) (target_first.value). Rejection sampling accepts the sum of min(p, q) with the first
        draft; the others are tried against (p - q)+, and accept at least the sum of
        (p - q)+ t(K - 1), by induction. At a token with p <= q that is p >= p t(K); at one with
        p > q it is more than p t(K) by q (1 - q)^(K - 1) (1 - p) >= 0.""",
        rests_on=("target_first.value",),
        refuted=ascending(accepted("target_first"), accepted("recursive_rejection")),
        recorded=Derivation(421),
    ),
    Claim(
        id="rejection.without_replacement",
        statement="Rejection sampling accepts at least as much without replacement as with it.",
        source="arXiv 2402.14160",
        shape="any V, K; L = 1",
        examined=IID,
        refuted=ascending(
            accepted("recursive_rejection").drawn("iid"),
            accepted("recursive_rejection").drawn(WOR),
        ),
        recorded=Derivation(421),
    ),
    Claim(
        id="rejection.without_replacement.optimal",
        statement="Rejection sampling without replacement is optimal for its drafts.",
        source="arXiv 2402.14160",
        shape="V = 3, K = 2, L = 1; without replacement",
        examined=by_size(WOR),
        refuted=equal(accepted("recursive_rejection"), optimum),
        recorded=Derivation(
            262,
            {"recursive_rejection": "5/6", "optimum": "1"},
            example("0 1/3 2/3", "1/3 1/3 1/3", drafts=2, scheme="without_replacement"),
        ),
    ),
    in_k_seq_paper(
        id="k_seq.lossless",
        statement="""K-SEQ with a factor >= 1 for which 1 - (1 - b)^K <= factor b, b being the sum
        of min(p/factor, q), and so with its least one, is lossless and accepts 1 - (1 - b)^K.""",
        shape="any V, K; L = 1; i.i.d.",
        examined=FEW.also("; with the least factor, rounded up to a multiple of 2^-64"),
        theorems=("k_seq.k_seq_lossless", "k_seq.follows_k_seq", "k_seq.value_k_seq"),
        refuted=k_seq_law,
        recorded=Derivation(142),
    ),
    in_k_seq_paper(
        id="k_seq.factor",
        statement="""K-SEQ is lossless only with factors from the root of 1 - (1 - b)^K = factor b
        on: below, the residual is negative.""",
        shape="V = 2, K = 2, L = 1; i.i.d.",
        examined=SEARCH.also("; the factor halfway between 1 and the least one"),
        refuted=k_seq_residual,
        recorded=Derivation(
            5,
            {"least factor": "3/2", "factor": "5/4", "least residual": "0"},
            example("0 1", "1/2 1/2", drafts=2),
        ),
    ),
    in_k_seq_paper(
        id="k_seq.factor.support",
        statement="""With a factor of at least 1 below the root of 1 - (1 - b)^K = factor b, K-SEQ's
        residual is negative, if the target can write all that the draft can.""",
        shape="any V, K; L = 1; i.i.d.; p > 0 where q > 0",
        examined=Scope(
            FEW.words + "; only those with p > 0 where q > 0",
            lambda: filter(covers, FEW.instances()),
        ),
        proof="""With such a factor r, 1 - (1-b)^K > r b. Not all tokens of q can have p > r q:
        then p would sum to more than r >= 1. One with 0 < p <= r q is left p - (p/r) (1 - (1-b)^K)
        / b < 0.""",
        refuted=k_seq_residual,
        recorded=Derivation(86),
    ),
    in_k_seq_paper(
        id="k_seq.guarantee",
        statement="K-SEQ with its least factor accepts at least 1 - (1 - 1/K)^K of the optimum.",
        shape="any V, K; L = 1; i.i.d.",
        examined=FEW.also("; with the factor rounded up to 2^-64"),
        rests_on=("k_seq.lossless", "optimum.subsets"),
        proof="""With factor K, b is the sum of min(p/K, q). The optimum is at most p(H) and, for
        all tokens outside H, the probability that one of them is drafted (optimum.subsets): at most
        the sum of min(p, 1 - (1-q)^K), if H has those where p is less. That is at most the sum of
        min(p, K q) = K b. So 1 - (1-b)^K >= 1 - (1 - optimum/K)^K
        >= optimum (1 - (1 - 1/K)^K), by concavity. A smaller factor has a larger b, and the least
        factor is at most K, where K-SEQ accepts 1 - (1-b)^K (k_seq.lossless).""",
        refuted=k_seq_guarantee,
        recorded=Derivation(142),
    ),
    in_optimum_paper(
        id="greedy_draft.optimal",
        statement="""The greedy draft's verifier is lossless, and accepts every token as often as
        any rule for its drafts can, and in all as much as any lossless verifier: p(i) in A, the top
        K - 1 tokens, and min(p(i), q(i)/(1 - q(A))) outside A. Where A is all of q's support
        nothing more is drafted, and 0/0 is 0.""",
        shape="any V, K; L = 1; greedy drafts",
        examined=drafted("greedy", "greedy drafts: all i.i.d. instances"),
        theorems=(
            "greedy_draft.follows_greedy_draft",
            "greedy_draft.accepted_greedy_draft",
            "greedy_draft.accepted_greedy_draft_best",
            "descent.accepted_at_most",
            "one_position.greedy_draft_optimal",
            "one_position.greedy_draft_verifies",
        ),
        proof="""A token i outside A is drafted with probability q(i)/(1 - q(A)), so no lossless
        verifier accepts it more than min(p(i), that), nor A more than p(A). Verifying the last
        draft against all of p accepts the first sum, and since it never proposes A, its correction
        has all of p on A.""",
        refuted=any_of(
            lossless("greedy_draft"),
            equal(accepted("greedy_draft"), optimum, GREEDY),
        ),
        recorded=Derivation(421),
    ),
    in_spechub_paper(
        id="spechub.value",
        statement="""SpecHub is lossless and accepts its hub a with p(a), any other token with
        min(p, q/(1 - q(a))). Where q(a) = 1 the hub is alone, and 0/0 is 0.""",
        shape="any V; K = 2, L = 1; SpecHub's pairs",
        examined=HUB,
        theorems=("spechub.follows_spechub", "spechub.accepted_spechub"),
        proof="""Corollary: it accepts as much as the greedy draft's verifier of two tokens, whose
        formula is the same.""",
        refuted=any_of(
            lossless("spechub"),
            keeps("spechub", top_row),
            equal(accepted("spechub"), accepted("greedy_draft").drawn("greedy")),
        ),
        recorded=Derivation(324),
    ),
    in_spechub_paper(
        id="spechub.optimal",
        statement="SpecHub is lossless and optimal for the joint law of its pairs.",
        shape="any V; K = 2, L = 1; SpecHub's pairs",
        examined=HUB,
        theorems=(
            "spechub.follows_spechub",
            "one_position.spechub_optimal",
            "one_position.spechub_verifies",
        ),
        proof="""With hub a, token i is in the pair with probability q(i) + q(a) q(i)/(1 - q(a)) =
        q(i)/(1 - q(a)), so nobody accepts more than min(p(i), that), nor more than p(a) of a.
        SpecHub accepts as much of every token.""",
        refuted=equal(accepted("spechub"), optimum),
        recorded=Derivation(324),
    ),
    in_spechub_paper(
        id="spechub.over_rejection",
        statement="SpecHub accepts at least as much as rejection sampling of two i.i.d. drafts.",
        shape="V = 3, K = 2, L = 1",
        examined=OF_PAIRS,
        refuted=hub_over("iid", conditional=False),
        recorded=Derivation(
            253, {"recursive_rejection (iid)": "5/9", "spechub": "1/2"}, SURE_OF_ONE
        ),
    ),
    in_spechub_paper(
        id="spechub.over_rejection.condition",
        statement="""SpecHub accepts at least as much as rejection sampling of two i.i.d. drafts if
        q(a) / (1 - q(a)) is at least the total variation of p and q, a being the hub.""",
        shape="any V; K = 2, L = 1",
        examined=CONDITIONAL,
        theorems=("one_position.spechub_over_rejection",),
        proof="""Rejection sampling accepts min(p, (1 + TV) q) of a token, SpecHub p(a) of the hub
        and min(p, q/(1 - q(a))) of another; 1/(1 - q(a)) >= 1 + TV is the condition. Where q(a) = 1
        there is no other token.""",
        refuted=hub_over("iid", conditional=True),
        recorded=Derivation(324),
    ),
    in_spechub_paper(
        id="spechub.over_rejection_without_replacement",
        statement="SpecHub accepts at least as much as rejection sampling without replacement.",
        shape="V = 3, K = 2, L = 1",
        examined=OF_PAIRS,
        refuted=hub_over(WOR, conditional=False),
        recorded=Derivation(
            253,
            {"recursive_rejection (without_replacement)": "2/3", "spechub": "1/2"},
            SURE_OF_ONE,
        ),
    ),
    in_spechub_paper(
        id="spechub.over_rejection_without_replacement.condition",
        statement="""SpecHub accepts at least as much as rejection sampling without replacement if
        q(a) is at least the total variation of p and q, a being the hub.""",
        shape="any V; K = 2, L = 1",
        examined=CONDITIONAL,
        proof="""Without replacement, token i is accepted with at most min(p, q) + q(i) times the
        sum over other j of (q(j) - p(j))+ / (1 - q(j)), at most q(i) (1 + TV / (1 - q(a))), which
        is at most q(i) / (1 - q(a)) where TV <= q(a); and the hub with at most p(a). SpecHub
        accepts as much of each (spechub.value). Where q(a) = 1 there is no other token.""",
        rests_on=("spechub.value",),
        refuted=hub_over(WOR, conditional=True),
        recorded=Derivation(324),
    ),
    in_spechub_paper(
        id="spechub.over_optimum",
        statement="SpecHub accepts at least the optimum of two i.i.d. drafts.",
        shape="V = 3, K = 2, L = 1",
        examined=OF_PAIRS,
        refuted=ascending(optimum.drawn("iid"), accepted("spechub")),
        recorded=Derivation(253, {"optimum (iid)": "5/9", "spechub": "1/2"}, SURE_OF_ONE),
    ),
    in_specinfer_paper(
        id="target_first.lossless",
        statement="Sampling the target first is lossless, whatever the scheme of the drafts.",
        shape="any V, L, K; trees",
        examined=IID,
        theorems=("target_first.target_first_lossless",),
        refuted=lossless("target_first"),
        recorded=Derivation(421),
    ),
    in_specinfer_paper(
        id="target_first.value",
        statement="""Sampling the target first accepts the sum of p(x) (1 - (1 - q(x))^K) over
        prefixes x.""",
        shape="any V, L, K; i.i.d. paths",
        examined=Scope(
            IID.words + "; 30 seeded ones for V = 2, L = 2, K = 2",
            lambda: chain(IID.instances(), seeded(30, 2, length=2, drafts=2)),
        ),
        proof="""The text is the target's whatever was drafted, and independent of it: x is accepted
        if it is the text and some path starts with it.""",
        refuted=equal(accepted("target_first"), NAIVE),
        recorded=Derivation(451),
    ),
    Claim(
        id="naive_tree.lossless",
        statement="""Naive tree verification is lossless, whatever the scheme of the drafts, if its
        first sibling alone has the law q.""",
        source="arXiv 2602.16994",
        shape="any V, L, K; trees",
        examined=REPLACED,
        theorems=("target_first.naive_tree_lossless",),
        refuted=lossless("naive_tree"),
        recorded=Derivation(842),
    ),
    Claim(
        id="naive_tree.value",
        statement="""The naive tree rule accepts a token with min(p, q) + (p - q)+ (1 - (1 -
        q)^(K-1)).""",
        source="arXiv 2602.16994",
        shape="any V, K; L = 1; i.i.d.",
        examined=IID,
        theorems=("target_first.accepted_naive_tree_iid",),
        proof="""A token is emitted by acceptance with min(p, q), by correction with (p - q)+, and
        the correction is independent of the other drafts.""",
        refuted=keeps("naive_tree", naive_tree_row),
        recorded=Derivation(421),
    ),
)
