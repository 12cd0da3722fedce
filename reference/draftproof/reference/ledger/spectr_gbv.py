"""SpecTr-GBV: several paths, a modified target, and a released program that differs from the proof.

Paper: arXiv 2604.25925 and its released code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, product

from draftproof.reference.law import Law
from draftproof.reference.ledger.claim import Claim, Derivation, Figure, Refutation, Scope
from draftproof.reference.ledger.exhibits import spectr_gbv_loop, spectr_gbv_pass
from draftproof.reference.ledger.instances import context_free, every_context, example
from draftproof.reference.ledger.quantities import (
    Quantity,
    accepted,
    any_of,
    ascending,
    best_stateful,
    best_stateless,
    biased,
    differ,
    equal,
    law,
    lossless,
    lossless_text,
    one_path,
    optimum,
    over_prefixes,
    same_law,
)
from draftproof.reference.ledger.several_paths import PAIR, SEARCH, iid_paths
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.acceptance_rate import sorted_prefix_rate
from draftproof.reference.rational import ONE, ZERO, Rational, total
from draftproof.reference.verifiers import ALGORITHMS

PATHS = iid_paths("40 seeded ones with rows by context", 40, 10)
LONGER = Scope(
    """instances of V = 2, L = 2, K = 2: context-free ones with denominators up to 6, then with rows
    by context, by common denominator, then lexicographically""",
    lambda: chain(context_free(2, 6, length=2, drafts=2), every_context(2, 3, length=2, drafts=2)),
)
ITERATED = Scope(
    PATHS.words + "; and five tokens of text, V = 2, L = 2, K = 2, denominators up to 3",
    lambda: chain(PATHS.instances(), context_free(2, 3, length=2, drafts=2)),
)
ON_ONE_PATH = PATHS.all_with("the models of: ", one_path)


def hit(p: Rational, q: Rational, drafts: int) -> Rational:
    """Return the mass of a text that is accepted as if each of K drafts could hit it."""
    return p * (1 - (1 - min(q / p, ONE)) ** drafts) if p != 0 else ZERO


CLAIMED = over_prefixes("spectr_gbv", hit)
REJECTION = accepted("recursive_rejection")

UNEVEN = example("9/10 1/10", "1/2 1/2", drafts=2)
LONG = replace(PAIR, length=2)
RARE = example("1/2 1/2 0", "1/5 1/20 3/4", drafts=2)
SURE = example("1/2 1/2", "9/10 1/10", drafts=2)


def over_iterations(name: str) -> Refutation:
    """Refute losslessness of one iteration, and of five tokens of text on the last instances."""
    few = frozenset(context_free(2, 3, length=2, drafts=2))
    return any_of(
        lossless(ALGORITHMS[name].verify),
        lossless_text(ALGORITHMS[name], 5, among=few.__contains__),
    )


def levels(instance: Instance) -> Rational:
    """Return the sum over t of the largest rate at which t drafted tokens can be the text's.

    The drafted prefixes of t tokens are i.i.d., so the best set is a prefix of the order by q/p.
    """
    p, q, drafts = instance.target, instance.draft, instance.drafts
    rates = []
    for size in range(1, instance.length + 1):
        strings = list(product(range(instance.vocabulary), repeat=size))
        written, drawn = (tuple(map(model.joint, strings)) for model in (p, q))
        rates.append(sorted_prefix_rate("iid", written, drawn, drafts))
    return total(rates)


def stops_elsewhere(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that a text, and no more, is accepted with what its next tokens leave of its hits."""

    def accepts(text: Path) -> Rational:
        return hit(instance.target.joint(text), instance.draft.joint(text), instance.drafts)

    def stops(text: Path) -> Rational:
        tokens = range(instance.vocabulary if len(text) < instance.length else 0)
        return accepts(text) - total(accepts((*text, token)) for token in tokens)

    found = law("spectr_gbv", instance).map(lambda emission: emission.accepted)
    return differ(
        found, Law({text: stops(text) for text in instance.draft.reachable(instance.length)})
    )


def probability_exceeds_one(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that the loop's probability is at most 1 at every prefix that can be drafted."""
    prefixes = (x for x in instance.draft.reachable(instance.length) if x)
    most = max(spectr_gbv_pass(prefix, instance) for prefix in prefixes)
    return {"largest probability": most} if most > 1 else None


in_paper = partial(Claim, source="arXiv 2604.25925")

CLAIMS = (
    Claim(
        id="spectr_gbv.coupling",
        statement="""The exact flow of SpecTr-GBV serves every place to stop in full: given the
        drafted paths it is a law of their prefixes, and over all paths it stops at z, and no later,
        with what A(z) is more than the sum of A(zy), A being p (1 - (1 - min(q/p, 1))^K).""",
        source="draftproof",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS,
        proof="""With f(u) = 1 - (1 - min(u, 1))^K, which rises and is concave, A is p
        f(q/p), 0 where p = 0. The sum of A(zy) is at most A(z): by concavity it is at most p(z) f
        of the mean of q(zy)/p(zy) where p(zy) > 0, which is q(z)/p(z) or less. So no stop is
        negative, and they add up to A at the root, 1. A largest flow from stops to sets of paths
        serves all of them unless some stops want more than all sets with a path through one of them
        have. With a stop all later ones may be among them. Then what they want is the sum of A over
        the first of them, Z, no two on one path. Let P and Q be the sums of p and q over the z of Z
        with p(z) > 0: by concavity that sum is at most P f(Q/P), which is at most f(Q) as P <= 1
        and f(0) = 0, and f(Q) = 1 - (1 - Q)^K is the probability that one of K paths passes through
        Z.""",
        refuted=stops_elsewhere,
        recorded=Derivation(408),
    ),
    in_paper(
        id="spectr_gbv.value",
        statement="""SpecTr-GBV with an exact flow in place of its loop accepts the sum of
        p (1 - (1 - min(q/p, 1))^K) over prefixes of 1..L tokens, which does not fall with one more
        path.""",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS.also("; K against K - 1"),
        theorems=("spectr_gbv.spectr_gbv_accepts", "spectr_gbv.spectr_gbv_length"),
        proof="""What the theorems suppose of a coupling is so of the flow
        (spectr_gbv.coupling); and (1 - u)^K falls with K for u from 0 to 1.""",
        rests_on=("spectr_gbv.coupling",),
        refuted=any_of(equal(accepted("spectr_gbv"), CLAIMED), ascending(CLAIMED.fewer, CLAIMED)),
        recorded=Derivation(408),
    ),
    in_paper(
        id="spectr_gbv.lossless",
        statement="SpecTr-GBV with an exact flow in place of its loop is lossless.",
        shape="any V, L, K; i.i.d. paths",
        examined=ITERATED,
        theorems=("spectr_gbv.spectr_gbv_lossless", "spectr_gbv.spectr_gbv_decoded_lossless"),
        proof="What the theorems suppose of a coupling is so of the flow (spectr_gbv.coupling).",
        rests_on=("spectr_gbv.coupling",),
        refuted=over_iterations("spectr_gbv"),
        recorded=Derivation(429),
    ),
    in_paper(
        id="spectr_gbv.one_path",
        statement="""On one path SpecTr-GBV has greedy block verification's law of (accepted, next),
        the path being drawn, and leaves the same target. Given the path it may stop elsewhere.""",
        shape="any V, L; K = 1",
        examined=ON_ONE_PATH,
        proof="""Both accept each prefix with p min(q/p, 1) = min(p, q) (spectr_gbv.value,
        greedy_block.value), and correct and modify the target by what is left of p.""",
        rests_on=("spectr_gbv.value", "greedy_block.value"),
        refuted=same_law("spectr_gbv", "greedy_block"),
        recorded=Derivation(408),
    ),
    in_paper(
        id="spectr_gbv.optimal",
        statement="No lossless verifier of i.i.d. paths accepts more than SpecTr-GBV.",
        shape="V = 2, L = 1, K = 2; i.i.d. paths",
        examined=SEARCH,
        refuted=equal(CLAIMED, optimum),
        known=lambda: {
            "p = (9/10, 1/10), q = (1/2, 1/2), K = 2": CLAIMED(UNEVEN),
            "its optimum": optimum(UNEVEN),
            "p = (1/3, 2/3), q = (2/3, 1/3), L = 2, K = 2": CLAIMED(LONG),
            "its optimum without modified target": best_stateless(LONG),
            "its optimum with one": best_stateful(LONG),
        },
        recorded=Derivation(
            14,
            {
                "p = (9/10, 1/10), q = (1/2, 1/2), K = 2": "37/45",
                "its optimum": "17/20",
                "p = (1/3, 2/3), q = (2/3, 1/3), L = 2, K = 2": "19/12",
                "its optimum without modified target": "131/81",
                "its optimum with one": "134/81",
                "spectr_gbv": "5/6",
                "optimum": "8/9",
            },
            PAIR,
        ),
    ),
    in_paper(
        id="spectr_gbv.below_stateless",
        statement="SpecTr-GBV accepts at least what any verifier without a modified target does.",
        shape="V = 2, L = 2, K = 2; i.i.d. paths",
        examined=LONGER,
        refuted=ascending(best_stateless, CLAIMED),
        recorded=Derivation(14, {"stateless optimum": "131/81", "spectr_gbv": "19/12"}, LONG),
    ),
    Claim(
        id="paths.levels",
        statement="""With a modified target the optimum is the sum over t of the largest rates at
        which t drafted tokens are the text's: all lengths can be served at once.""",
        source="draftproof",
        shape="V = 2, L = 2, K = 2; i.i.d. paths",
        examined=LONGER,
        refuted=equal(Quantity("sum of rates", levels), best_stateful),
        recorded=Derivation(
            29,
            {"sum of rates": "463/256", "stateful optimum": "231/128"},
            example("1/2 1/2", "1/4 3/4", length=2, drafts=2),
        ),
    ),
    in_paper(
        id="spectr_gbv.over_rejection",
        statement="SpecTr-GBV accepts at least as much as recursive rejection sampling.",
        shape="V = 3, L = 1, K = 2; i.i.d.",
        examined=SEARCH,
        refuted=ascending(REJECTION, CLAIMED),
        known=lambda: {
            "p = (1/2, 1/2, 0), q = (1/5, 1/20, 3/4), K = 2": CLAIMED(RARE),
            "its recursive_rejection": REJECTION(RARE),
            "its optimum": optimum(RARE),
        },
        recorded=Derivation(
            428,
            {
                "p = (1/2, 1/2, 0), q = (1/5, 1/20, 3/4), K = 2": "83/200",
                "its recursive_rejection": "7/16",
                "its optimum": "7/16",
                "recursive_rejection": "5/9",
                "spectr_gbv": "1/2",
            },
            example("0 1/3 2/3", "2/3 0 1/3", drafts=2),
        ),
    ),
    Claim(
        id="spectr_gbv.released",
        statement="The released loop of SpecTr-GBV is lossless.",
        source="arXiv 2604.25925, released code",
        shape="V = 2, L = 1, K = 2; i.i.d.",
        examined=SEARCH,
        refuted=biased(spectr_gbv_loop),
        known=lambda: {
            "p = (1/2, 1/2), q = (9/10, 1/10), K = 2 accepts": accepted(spectr_gbv_loop)(SURE),
            "its optimum": optimum(SURE),
            "its total variation": (lossless(spectr_gbv_loop)(SURE) or {})["total variation"],
        },
        recorded=Derivation(
            6,
            {
                "p = (1/2, 1/2), q = (9/10, 1/10), K = 2 accepts": "870184/1092025",
                "its optimum": "69/100",
                "its total variation": "733/4598",
                "total variation": "1/4",
                "output": "1/4, 3/4",
            },
            example("1/2 1/2", "0 1", drafts=2),
        ),
    ),
    Claim(
        id="spectr_gbv.released.probability.one",
        statement="""At K = 1 the acceptance probability of the released loop is at most 1, where a
        review says that the manuscript's exceeds it.""",
        source="arXiv 2604.25925, released code",
        shape="any V, L; K = 1",
        examined=ON_ONE_PATH,
        proof="""With N the sum of (p(vx) - q(vx))+ over x and D = p(v) - q(v), it is (N - max(D,
        0)) / (N - D).""",
        refuted=probability_exceeds_one,
        recorded=Derivation(408),
    ),
    Claim(
        id="spectr_gbv.released.probability",
        statement="The acceptance probability of the released loop is at most 1 for every K.",
        source="arXiv 2604.25925, released code",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS,
        refuted=probability_exceeds_one,
        recorded=Derivation(408),
    ),
    Claim(
        id="recursive_greedy_block.lossless",
        statement="Recursive greedy block verification is lossless.",
        source="draftproof",
        shape="any V, L, K; i.i.d. paths",
        examined=ITERATED,
        refuted=over_iterations("recursive_greedy_block"),
        recorded=Derivation(429),
    ),
    Claim(
        id="recursive_greedy_block.one_path",
        statement="On one path recursive greedy block verification is greedy block verification.",
        source="draftproof",
        shape="any V, L; K = 1",
        examined=ON_ONE_PATH,
        proof="With one path its loop is run once, and that run is greedy block verification.",
        refuted=same_law("recursive_greedy_block", "greedy_block"),
        recorded=Derivation(408),
    ),
)
