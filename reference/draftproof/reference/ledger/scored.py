"""Scored multi-path block verification, Draftproof's own.

Every path has a score that its own rows decide, and the algorithm verifies the path with the
smallest score as a block. The law of the selected path is known along it, whatever the rule that
deals the scores.

Mechanised: the algorithm is lossless, with the stated law. Argued: for one token it is optimal, for
one path it is block verification; for two tokens it is never below block verification. Proofs by
cells show for some shapes, too, that it is lossless, and optimal for one token (`theorems`).
Observed: over a stated sample of small models its mean accepted length is more than 99 % of the
mean stateless optimum, and on single models it is less. Refuted: that it is never below block
verification of one path for long drafts, nor below greedy multi-path block verification, that one
more path never lowers it, and that it is optimal. A rule that sees only the drafted paths cannot
know whether the mass that it gives up would have been worth more later: `limits` says what that
costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain, product, starmap

from draftproof.reference.ledger.claim import Claim, Derivation, Figure, Scope, by_figures
from draftproof.reference.ledger.instances import context_free, example, row, seeded
from draftproof.reference.ledger.mixed import (
    BLOCK,
    DEAD_ENDS,
    MULTIPATH,
    ONE_POSITION,
    PATHS,
    TWO_BY_TWO,
    dead_end,
    run_where,
)
from draftproof.reference.ledger.quantities import (
    Quantity,
    accepted,
    ascending,
    best_stateless,
    equal,
    in_parts,
    lossless,
    one_path,
    optimum,
    same_law,
)
from draftproof.reference.model import Instance, Model, Path
from draftproof.reference.rational import ONE, ZERO, Rational, ratio_or_one, total
from draftproof.reference.scores import UNIFORM, Scores, split

SHARES = ((2, 2), (2, 3), (3, 2))
"""Vocabulary sizes and draft lengths for which the mean share of the optimum is derived."""


def formula(
    passed_on: Callable[[Rational, Rational], Rational] = min,
) -> Callable[[Instance], Rational]:
    """Return the closed form of E[accepted length].

    A prefix zy is accepted with the probability min(owed to z * p(y|z), Q'(zy)), and is owed
    `passed_on` of these two: by default their minimum, which passes on what is accepted.
    """

    def value(instance: Instance) -> Rational:
        def below(node: Path, scores: Scores, owed: Rational) -> Rational:
            if len(node) == instance.length or owed == 0:
                return ZERO
            p, q = instance.target(node), instance.draft(node)
            here = split(scores, p, q, owed=owed, drafts=instance.drafts)
            return total(
                min(owed * p[y], here.law[y])
                + below((*node, y), here.after(y), passed_on(owed * p[y], here.law[y]))
                for y in range(instance.vocabulary)
                if q[y] != 0
            )

        return below((), UNIFORM, ONE)

    return value


def sure_after_one() -> Instance:
    """Return an instance with a tie of two tokens, where only the higher-ranked is sure later."""
    drafted: list[Path] = [(), *product(range(3))]
    draft = dict.fromkeys(drafted, row("1 0 0"))
    target = dict.fromkeys([*drafted, *product(range(3), repeat=2)], row("1 0 0"))
    draft |= {(): row("1/2 1/4 1/4")}
    target |= {(): row("0 1/2 1/2"), (1,): row("1/2 0 1/2")}
    return Instance(Model("target", 3, target), Model("draft", 3, draft), length=2, drafts=2)


SCORED = Quantity("scored", formula())
BY_RUNNING = Quantity("scored", accepted("scored_multipath_block"))


def shape(vocabulary: int, length: int) -> list[Instance]:
    """Return the instances of one shape whose mean share of the optimum is derived."""
    return list(seeded(100, vocabulary, length=length, drafts=2))


def mean_shares() -> Mapping[str, Figure]:
    """Return shares of the optimum, in ten thousandths: of the means, and the least of all."""
    figures: dict[str, Figure] = {}
    for vocabulary, length in SHARES:
        pairs = [(SCORED(here), best_stateless(here)) for here in shape(vocabulary, length)]
        mean = total(found for found, _ in pairs) / total(most for _, most in pairs)
        least = min(ratio_or_one(found, most) for found, most in pairs)
        figures[f"V = {vocabulary}, L = {length}"] = in_parts(mean, 10_000)
        figures[f"V = {vocabulary}, L = {length}, worst"] = in_parts(least, 10_000)
    return figures


ours = partial(Claim, source="draftproof")

CLAIMS = (
    ours(
        id="scored.lossless",
        statement="""Scored multi-path block verification is lossless; so is block verification of a
        path that is selected by any scores which are shared out fairly.""",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS,
        theorems=(
            "scored.scored_multipath_block_lossless",
            "scored.selected_fairly",
            "block.selected_block_lossless",
        ),
        proof="""The scores of the next tokens add up to those of the prefix and have the draft's
        masses, so K paths with their scores are independent draws of one law whose paths are the
        draft's and whose scores are uniform. The path with the smallest score u then has the
        density K (1 - u)^(K-1) times that law. The law that the program verifies against is the one
        that `split` aims at, and the scores that it deals have that worth: the aim per mass falls
        with the rank and gives no prefix of ranks more than it can reach, and all of them as much;
        each step takes the finest classes that are still needed with the largest share that leaves
        the rest falling, so that what is left stays in reach and one class fewer is needed. Block
        verification of a selected path is lossless against its law (block.lossless).""",
        refuted=lossless("scored_multipath_block"),
        recorded=Derivation(303),
    ),
    ours(
        id="scored.value",
        statement="""Scored multi-path block verification accepts the prefix zy with the probability
        A(zy) = min(A(z) p(y|z), Q'(zy)), Q' being the law of the selected path.""",
        shape="any V, L, K; i.i.d. paths",
        examined=PATHS.also("; the sum over prefixes"),
        theorems=(
            "scored.selected_scored",
            "scored.selected_scored_starts",
            "scored.scored_multipath_block_next",
        ),
        proof="""The selected path has the law Q'. So what is accepted is what block verification
        accepts of a draft with that law (block.value).""",
        refuted=equal(BY_RUNNING, SCORED),
        recorded=Derivation(303),
    ),
    ours(
        id="scored.one_path",
        statement="With one path scored multi-path block verification is block verification.",
        shape="any V, L; K = 1",
        examined=Scope(
            "the same models as in scored.lossless, with one path",
            lambda: map(one_path, PATHS.instances()),
        ),
        proof="Among one path every score is the smallest, so Q' = q whatever the scores.",
        refuted=same_law("scored_multipath_block", "block"),
        recorded=Derivation(303),
    ),
    ours(
        id="scored.optimal.one",
        statement="""For one token no lossless verifier accepts more than scored multi-path block
        verification.""",
        shape="any V, K; L = 1; i.i.d.",
        examined=ONE_POSITION,
        proof="""What is accepted is the sum of min(p, Q') (scored.value). Rank the tokens by p/q
        and let C be the prefix that minimises 1 - (1 - q(C))^K - p(C). Then Q'(C) is
        1 - (1 - q(C))^K, with Q' <= p in C and Q' >= p on the rest of q's support. So with H the
        support without C the sum of min(p, Q') is 1 + p(H) - q(H)^K, and no lossless verifier
        accepts more (optimum.subsets).""",
        rests_on=("scored.value", "optimum.subsets"),
        refuted=equal(BY_RUNNING, optimum),
        recorded=Derivation(467),
    ),
    ours(
        id="scored.over_block.two",
        statement="""For two tokens scored multi-path block verification accepts at least as much as
        block verification of one path.""",
        shape="any V, K; L = 2; i.i.d. paths",
        examined=Scope(
            """200 seeded instances of V = 2 and of V = 3, K = 2 and 3, and the context-free ones of
            V = 2 with denominators up to 8""",
            lambda: chain(
                TWO_BY_TWO.instances(),
                seeded(200, 3, length=2, drafts=2),
                seeded(200, 3, length=2, drafts=3),
            ),
        ),
        rests_on=("scored.value", "block.value"),
        proof="""Both accept prefixes by A(zy) = min(A(z) p(y|z), Q'(zy)), block verification with q
        for Q' (scored.value, block.value). At the first position no token gets more than q that it
        is not owed, and none gets less than q unless it keeps what it is owed: inside the cut the
        level of Q'/q is at least 1, beyond it at most 1, and where Q' is not at the level it is
        what is owed. So if D is the mass
        that Q' has above q, and elsewhere below it, D more is accepted there, and of no token less.
        At the second position no row within reach keeps more than the worth of the smallest
        scores of C and what the rest is owed, which the aim keeps; and going on with q is within
        reach: at least the sum of min(A p, Q' q) is kept after each token, which
        falls by at most what Q' does: by D in all.""",
        refuted=ascending(BLOCK, SCORED),
        recorded=Derivation(2684),
    ),
    ours(
        id="scored.over_block",
        statement="""For any length scored multi-path block verification accepts at least as much as
        block verification of one path.""",
        shape="V = 2, L = 6, K = 2; i.i.d. paths",
        examined=DEAD_ENDS,
        refuted=run_where(ascending(BLOCK, SCORED), BLOCK, BY_RUNNING),
        recorded=Derivation(
            153,
            {"block, K = 1": "2", "scored": "31/16"},
            dead_end(row("3/4 1/4"), row("1/2 1/2"), row("1/2 1/2")),
        ),
    ),
    ours(
        id="scored.over_multipath",
        statement="""Scored multi-path block verification accepts at least as much as greedy
        multi-path block verification.""",
        shape="V = 3, L = 2, K = 2; i.i.d. paths",
        examined=Scope(
            "one instance, in which the ranking breaks a tie by luck",
            lambda: [sure_after_one()],
        ),
        refuted=run_where(ascending(MULTIPATH, SCORED), accepted("multipath_block"), BY_RUNNING),
        recorded=Derivation(1, {"multipath_block": "43/32", "scored": "21/16"}, sure_after_one()),
    ),
    ours(
        id="scored.monotone",
        statement="Scored multi-path block verification accepts no less with one more path.",
        shape="V = 2, L = 6, K = 2; i.i.d. paths",
        examined=DEAD_ENDS,
        refuted=run_where(ascending(SCORED.fewer, SCORED), BY_RUNNING.fewer, BY_RUNNING),
        recorded=Derivation(
            153,
            {"scored, K - 1": "2", "scored": "31/16"},
            dead_end(row("3/4 1/4"), row("1/2 1/2"), row("1/2 1/2")),
        ),
    ),
    ours(
        id="scored.optimal",
        statement="""For two tokens of a vocabulary of two no lossless verifier that leaves the
        target as it is accepts more than scored multi-path block verification.""",
        shape="V = 2, L = 2, K = 2; i.i.d. paths",
        examined=Scope(
            "context-free instances by common denominator, then lexicographically",
            lambda: context_free(2, 6, length=2, drafts=2),
        ),
        refuted=run_where(ascending(best_stateless, SCORED), best_stateless, BY_RUNNING),
        recorded=Derivation(
            44,
            {"stateless optimum": "1219/625", "scored": "3397/1750"},
            example("1/5 4/5", "2/5 3/5", length=2, drafts=2),
        ),
    ),
    ours(
        id="scored.share",
        statement="""Over 100 instances of each shape, drawn by `seeded(100, V, length=L,
        drafts=2)`, the mean accepted length of scored multi-path block verification is more than 99
        % of the mean stateless optimum. `seeded` draws from random.Random(100), at every context, a
        target's row of V counts from (0, 0, 1, 1, 2, 3), one of them raised by 1, over their sum;
        the draft's row is the same with probability 1/4, else drawn alike. The figures name the
        worst of the 100 instances, too. Nothing is said of other priors.""",
        shape="V = 2, L = 2; V = 2, L = 3; V = 3, L = 2; K = 2; i.i.d. paths",
        examined=Scope(
            """100 seeded instances of each shape; the share of the means, and the least share of
            one instance; rounded down""",
            lambda: chain.from_iterable(starmap(shape, SHARES)),
        ),
        refuted=by_figures,
        known=mean_shares,
        recorded=Derivation(
            300,
            {
                "V = 2, L = 2": "9967/10000",
                "V = 2, L = 2, worst": "9718/10000",
                "V = 2, L = 3": "9953/10000",
                "V = 2, L = 3, worst": "9390/10000",
                "V = 3, L = 2": "9958/10000",
                "V = 3, L = 2, worst": "9730/10000",
            },
        ),
    ),
)
