"""Limits of verifiers that do not know the rows off the drafted paths.

The optimum is for verifiers that know all rows. The rows *along* x are the rows at the contexts in
which the tokens of x are drawn, the prefixes of x without x itself. A rule *along the path* is a
lossless verifier whose probability A(x) of accepting x is, in all models, a function of the rows
along x; or a lossless verifier that selects a path by a law Q' that is such a function at every
whole path, as greedy multi-path block verification, mixed and scored do.

Mechanised: no such selection is optimal in all models, and some such selection keeps
1 - (1 - 1/K)^K of the optimum in all models. Argued: none keeps more in all models, not even a
verifier that draws its emission by all drafted rows. A verifier that draws only the accepted prefix
by these rows can keep more on some models, and is not optimal in all models either. Also argued: a
variant of scored is never below block verification, and accepts less than scored on seeded models.
Refuted: that scored keeps that share. Observed: how the gap between scored and the optimum divides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product

from draftproof.reference.ledger.claim import Claim, Derivation, Figure, Scope, by_figures
from draftproof.reference.ledger.instances import row, seeded
from draftproof.reference.ledger.mixed import BLOCK, DEAD_ENDS, PATHS, run_where
from draftproof.reference.ledger.quantities import (
    Quantity,
    any_of,
    ascending,
    best_stateful,
    best_stateless,
    certain_share,
    equal,
    in_parts,
)
from draftproof.reference.ledger.scored import BY_RUNNING, SCORED, shape
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.optimum.knowledge import (
    Family,
    along_the_path,
    emitted_from_the_drafts,
    from_the_drafts,
)
from draftproof.reference.rational import ONE, ZERO, Rational, ratio_or_one, rational, total
from draftproof.reference.scores import UNIFORM, ScoreCell, Scores, split


def good_after(
    good: Collection[int], p: Row, q: Row, *, length: int = 2, drafts: int = 2
) -> Instance:
    """Return an instance whose draft is sure after the first token.

    Draft and target agree after the tokens that are good, and never after the others.
    """

    def sure(token: int) -> Row:
        return tuple(ONE if each == token else ZERO for each in range(len(p)))

    contexts = [
        (first, *(then,) * size)
        for first, then, size in product(range(len(p)), (0, 1), range(length))
    ]
    target = {(): p, **{c: sure(0 if c[0] in good else 1) for c in contexts}}
    draft = {(): q, **{c: sure(0) for c in contexts if len(c) < length}}
    models = Model("target", len(p), target), Model("draft", len(p), draft)
    return Instance(*models, length=length, drafts=drafts)


# --- Selections along the path ----------------------------------------------------------------


def one_good(tokens: int, *, length: int, drafts: int, mass: Rational) -> list[Instance]:
    """Return the models that differ in which of n tokens is good; the rest of the draft is wasted.

    The target gives 1/n to each of the n tokens, the draft gives each of them `mass`.
    """
    p = (ONE / tokens,) * tokens + (ZERO,)
    q = (mass,) * tokens + (1 - tokens * mass,)
    return [good_after([good], p, q, length=length, drafts=drafts) for good in range(tokens)]


def one_or_none(worlds: Sequence[Instance]) -> Family:
    """Return these models, equally weighted, and the model without a good token at weight 0."""
    one, *_ = worlds
    none = good_after([], one.target(()), one.draft(()), length=one.length, drafts=one.drafts)
    return [*((ONE / len(worlds), world) for world in worlds), (ZERO, none)]


PAIR = one_good(2, length=2, drafts=2, mass=ONE / 4)


def of_the_pair() -> Mapping[str, Figure]:
    """Return the optima of both models, scored's values, and the largest mean along the path."""
    family = one_or_none(PAIR)
    return {
        f"{quantity.name}, {good} is good": quantity(instance)
        for quantity in (best_stateless, best_stateful, SCORED)
        for good, instance in enumerate(PAIR)
    } | {
        "largest mean along the path": along_the_path(family).value,
        "largest mean, emitted by the drafted rows": emitted_from_the_drafts(family).value,
    }


def share_along(tokens: int, *, length: int, drafts: int, mass: Rational) -> Rational:
    """Return the closed form of the largest share of `one_good`'s optimum along the path."""
    drafted, any_drafted = (1 - (1 - x) ** drafts for x in (mass, tokens * mass))
    mean = (1 + rational(length - 1) / tokens) * any_drafted
    return mean / ((length - 1) * drafted + any_drafted)


SMALLEST = ((2, 2, 2), (2, 3, 2), (3, 2, 2), (2, 2, 3))
"""Numbers of tokens, lengths and numbers of drafts for which linear programs are solved."""


def masses(tokens: int, drafts: int) -> Rational:
    """Return the mass at which a token is drafted nearly as often as the target requires."""
    return ONE / (tokens * drafts)


def shares_along() -> Mapping[str, Figure]:
    """Return the shares of small families, by linear program, and of large ones, in closed form."""
    figures: dict[str, Figure] = {}
    for tokens, length, drafts, mass in [
        (2, 2, 2, rational("2/7")),
        *((n, L, K, masses(n, K)) for n, L, K in SMALLEST),
    ]:
        family = one_or_none(one_good(tokens, length=length, drafts=drafts, mass=mass))
        share = along_the_path(family).value / mean_optimum(family)
        figures[f"n = {tokens}, L = {length}, K = {drafts}, q = {mass}"] = share
    for tokens, length, drafts in ((100, 10_000, 2), (100, 10_000, 3), (1000, 1_000_000, 1000)):
        mass = masses(tokens, drafts)
        share = share_along(tokens, length=length, drafts=drafts, mass=mass)
        figures[f"n = {tokens}, L = {length}, K = {drafts}"] = in_parts(share, 10_000)
    return figures


def mean_optimum(family: Family) -> Rational:
    """Return the mean stateless optimum of a family."""
    return total(weight * best_stateless(world) for weight, world in family)


def closed_optimum(instance: Instance) -> Rational:
    """Return the optimum of one of `one_good`'s models: the good token first, then any."""
    q, drafts = instance.draft(()), instance.drafts
    drafted, any_drafted = (1 - (1 - x) ** drafts for x in (q[0], 1 - q[-1]))
    return (instance.length - 1) * drafted + any_drafted


# --- What a rule along the path can always keep -------------------------------------------------


def kept_evenly(instance: Instance) -> Iterator[tuple[Rational, Rational]]:
    """Yield, for the rule of `gap.guarantee`, A(x) and the bound on the optimum's A(x)."""

    def below(
        node: Path, scores: Scores, kept: Rational, bound: Rational
    ) -> Iterator[tuple[Rational, Rational]]:
        if len(node) == instance.length or bound == 0:
            return
        p, q = instance.target(node), instance.draft(node)
        mass = total(cell.mass for cell in scores)
        bounds = [min(bound * a, instance.drafts * mass * x) for a, x in zip(p, q, strict=True)]
        best = total(bounds) / instance.drafts
        first, rest = _cut(scores, best)
        for token, most in enumerate(bounds):
            wanted = most / instance.drafts
            after = (
                *_scaled(first, ratio_or_one(wanted, best)),
                *_scaled(rest, ratio_or_one(mass * q[token] - wanted, mass - best)),
            )
            selected = total(cell.worth(instance.drafts) for cell in after)
            here = min(kept * p[token], selected)
            yield here, most
            yield from below((*node, token), after, here, most)

    yield from below((), UNIFORM, ONE, ONE)


def _cut(scores: Scores, mass: Rational) -> tuple[Scores, Scores]:
    """Return the smallest scores with the given mass, and the other scores."""
    first, rest = [], []
    for cell in sorted(scores, key=lambda cell: cell.low):
        taken = min(cell.mass, mass)
        edge = cell.low + (cell.high - cell.low) * taken / cell.mass
        first.append(ScoreCell(cell.low, edge, taken))
        rest.append(ScoreCell(edge, cell.high, cell.mass - taken))
        mass -= taken
    return tuple(first), tuple(rest)


def _scaled(scores: Scores, share: Rational) -> Iterator[ScoreCell]:
    return (
        ScoreCell(cell.low, cell.high, cell.mass * share)
        for cell in scores
        if cell.mass * share != 0
    )


def scarce(length: int) -> Instance:
    """Return an instance whose good token is scarce, and shares its scores with one that is not."""
    return good_after([0], row("1/6 5/6 0"), row("1/12 2/3 1/4"), length=length)


CERTAIN = Quantity(
    "1 - (1 - 1/K)^K of the optimum",
    lambda instance: certain_share(instance.drafts) * best_stateless(instance),
)


def below_the_share(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that the rule keeps the share of every bound, and that these bound the optimum."""
    pairs = list(kept_evenly(instance))
    share = certain_share(instance.drafts)
    short = next(((a, m) for a, m in pairs if a < share * m), None)
    if short is not None:
        return {"kept": short[0], "bound": short[1]}
    return ascending(best_stateless, Quantity("bounds", lambda _: total(m for _, m in pairs)))(
        instance
    )


# --- All drafted rows ---------------------------------------------------------------------------


def three(length: int) -> list[Instance]:
    """Return three models: token 1 is good in all of them, token 0 or 2 in one each."""
    p, q = row("1/4 1/2 1/4 0"), row("1/8 3/8 1/8 3/8")
    return [good_after(good, p, q, length=length) for good in ((1,), (0, 1), (1, 2))]


def of_the_three() -> Mapping[str, Figure]:
    """Return the mean optimum of the three models, and the largest mean from the drafted rows."""
    family, longer = ([(ONE / 3, world) for world in three(length)] for length in (2, 4))
    return {
        "mean optimum": mean_optimum(family),
        "largest mean from the drafted rows": from_the_drafts(family).value,
        "largest mean, emitted by the drafted rows": emitted_from_the_drafts(family).value,
        "scored, mean": total(map(SCORED, three(2))) / 3,
        "largest share, L = 4": from_the_drafts(longer).value / mean_optimum(longer),
    }


# --- How the gap divides ------------------------------------------------------------------------

ROOTS, CONTINUATIONS = 40, 5
_PARTS = 100_000


def worlds_of(root: Instance) -> list[Instance]:
    """Return the models of one root and any two of the continuations, one after each token."""
    uniform = (ONE / 2, ONE / 2)
    after = [(each.target((0,)), each.draft((0,))) for each in shape(2, 2)[:CONTINUATIONS]]
    last = dict.fromkeys(product(range(2), repeat=2), uniform)
    return [
        Instance(
            Model("target", 2, {(): root.target(()), (0,): zero[0], (1,): one[0], **last}),
            Model("draft", 2, {(): root.draft(()), (0,): zero[1], (1,): one[1]}),
            length=2,
            drafts=2,
        )
        for zero, one in product(after, repeat=2)
    ]


def division() -> Mapping[str, Figure]:
    """Return the gain over scored from knowing the prior, and the further gain from all rows."""
    families = [worlds_of(root) for root in shape(2, 2)[:ROOTS]]
    weight = ONE / (ROOTS * CONTINUATIONS**2)
    scored = weight * total(SCORED(world) for worlds in families for world in worlds)
    along = total(
        along_the_path([(weight, world) for world in worlds]).value for worlds in families
    )
    best = weight * total(best_stateless(world) for worlds in families for world in worlds)
    return {
        "scored": in_parts(scored, _PARTS),
        "best along the path": in_parts(along, _PARTS),
        "stateless optimum": in_parts(best, _PARTS),
        "gained by the best along the path": in_parts(along / scored - 1, _PARTS),
        "gained by knowing all rows": in_parts(best / along - 1, _PARTS),
    }


# --- Never below block verification -------------------------------------------------------------


def guarded(instance: Instance) -> Rational:
    """Return E[accepted length] of the variant of scored that `guarded.over_block` describes."""

    def below(node: Path, scores: Scores, kept: Rational) -> Rational:
        if len(node) == instance.length or kept == 0:
            return ZERO
        p, q = instance.target(node), instance.draft(node)
        worth, left = total(c.worth(instance.drafts) for c in scores), instance.length - len(node)
        owed, flat = [kept * x for x in p], [worth * x for x in q]
        wanted = tuple(
            a if a >= x else min(x, max(left - 1, 1) * a) for a, x in zip(owed, flat, strict=True)
        )
        here = split(scores, wanted, q, owed=ONE, drafts=instance.drafts)
        accepted = [min(a, x) for a, x in zip(owed, here.law, strict=True)]
        return total(accepted) + total(
            below((*node, token), here.after(token), a)
            for token, a in enumerate(accepted)
            if a != 0
        )

    return below((), UNIFORM, ONE)


GUARDED = Quantity("guarded", guarded)


def price_of_guarding() -> Mapping[str, Figure]:
    """Return the shares of scored's mean that guarded and block accept, by length, rounded down."""
    figures: dict[str, Figure] = {}
    for length, count in ((2, 100), (3, 100), (5, 40), (8, 10)):
        found = list(seeded(count, 2, length=length, drafts=2))
        block, with_guard, without = (
            total(map(value, found)) for value in (BLOCK, GUARDED, SCORED)
        )
        figures[f"L = {length}, guarded / scored"] = in_parts(with_guard / without, _PARTS)
        figures[f"L = {length}, block / scored"] = in_parts(block / without, _PARTS)
    return figures


GUARDS = Scope(
    """the instances of mixed.lossless, those of scored.over_block, and seeded ones with rows by
    context: 60 for V = 2, L = 3, K = 2, 30 for V = 3, L = 3, K = 2 and 30 for V = 2, L = 4, K =
    3""",
    lambda: chain(
        PATHS.instances(),
        DEAD_ENDS.instances(),
        seeded(60, 2, length=3, drafts=2),
        seeded(30, 3, length=3, drafts=2),
        seeded(30, 2, length=4, drafts=3),
    ),
)
EVEN = Scope(
    """the instances of mixed.lossless, and 30 seeded ones with rows by context for V = 2, L = 3, K
    = 2, for V = 3, L = 2, K = 2 and for V = 2, L = 2, K = 4""",
    lambda: chain(
        PATHS.instances(),
        seeded(30, 2, length=3, drafts=2),
        seeded(30, 3, length=2, drafts=2),
        seeded(30, 2, length=2, drafts=4),
    ),
)

ours = partial(Claim, source="draftproof")

CLAIMS = (
    ours(
        id="gap.along_the_path",
        statement="""In both of two models the optimum is 19/16, whatever is left behind; but a
        lossless verifier that selects a path, by a law Q' that is in all models and at every path a
        function of the rows along it, accepts at most 9/8 on average over the two. Both models have
        p = (1/2, 1/2, 0) and q = (1/4, 1/4, 1/2) at the root; then the draft is sure, and agrees
        with the target after token 0 alone, or after token 1 alone.""",
        shape="V = 3, L = 2, K = 2; i.i.d. paths",
        examined=Scope(
            """both models; the mean by a linear program over the laws of selection, which have to
            serve a third model, too, where draft and target agree after neither token""",
            lambda: PAIR,
        ),
        theorems=(
            "off_the_path.three_tokens_along",
            "off_the_path.three_tokens_optimum",
            "off_the_path.three_tokens_reached",
            "off_the_path.along_at_most",
            "off_the_path.picked_starts",
        ),
        proof="""Q'(y), the sum of Q' over the paths below y, is a function of the root's rows and
        those below y. Change these: the Q' of all other tokens stay, they add up to 1 with Q'(y),
        and so Q'(y) is a function of the root's rows alone, the same in both models. Let B(y) be
        the smaller of p(y) and Q'(y), which A(y) does not exceed. At most 2 B(good) + B(bad) is
        accepted, on average 3/2 (B(0) + B(1)), and B(0) + B(1) is at most P(0 or 1 is drafted) =
        3/4. A verifier that knows all rows accepts the good token whenever it is drafted, with
        probability 7/16 < p, and the other where it alone is drafted, with 5/16: 2 * 7/16 + 5/16 =
        19/16, and no more, since A(good) <= 7/16 and A(0) + A(1) <= 3/4.""",
        refuted=any_of(equal(best_stateless, best_stateful), ascending(SCORED, best_stateless)),
        known=of_the_pair,
        recorded=Derivation(
            2,
            {
                "stateless optimum, 0 is good": "19/16",
                "stateless optimum, 1 is good": "19/16",
                "stateful optimum, 0 is good": "19/16",
                "stateful optimum, 1 is good": "19/16",
                "scored, 0 is good": "9/8",
                "scored, 1 is good": "9/8",
                "largest mean along the path": "9/8",
                "largest mean, emitted by the drafted rows": "9/8",
            },
        ),
    ),
    ours(
        id="gap.share",
        statement="""For no c above 1 - (1 - 1/K)^K does a lossless verifier accept at least c of
        the optimum in all models, be it the stateless or the stateful one, if any of these holds in
        all models: its A(x) is a function of the rows along x; it selects a path by a law Q' that
        is such a function at every whole path; or what it emits, the next token included, is drawn
        by the drafted paths and the rows along them.""",
        shape="K = 2, 3, ..; V and L without bound; i.i.d. paths",
        examined=Scope(
            """the models of four families, against the closed form of their optima; the share of
            the mean optimum by linear programs, and of large families in closed form, rounded
            down""",
            lambda: chain.from_iterable(
                one_good(n, length=L, drafts=K, mass=masses(n, K)) for n, L, K in SMALLEST
            ),
        ),
        proof="""Let n tokens have p = 1/n and q = 1/(nK) each, the draft's other token being of no
        use, and let one of the n be good: after it draft and target agree to the end, after all
        others never. A verifier that knows it accepts it whenever it is drafted, with probability
        1 - (1 - q)^K, which is at most p and at least (1 - 1/(2n))/n: so the optimum is at least
        (1 - 1/(2n)) L/n in each of the n models. Let T be P(one of the n is drafted) = 1 - (1 -
        1/K)^K. If A(y) is a function of the root's rows, it is the same in all models; if Q'(y) is,
        so is the bound B(y) on A(y) (gap.along_the_path); and they add up to at most T. If what is
        emitted is drawn by the drafted rows, all models look alike where none of the n is drafted.
        There nothing is accepted, and the next token has one law r: so the good token g has A(g) +
        (1 - T) r(g) <= p(g), and the A(g) of all models add up to at most T. In each case the mean
        is at most (1 + (L - 1)/n) T, and the share of the optimum in one of the models at most (L +
        n - 1)/(L (1 - 1/(2n))) T: as near to T as one likes, if n is large and L/n, too.""",
        rests_on=("gap.along_the_path",),
        refuted=equal(best_stateful, best_stateless, Quantity("closed form", closed_optimum)),
        known=shares_along,
        recorded=Derivation(
            9,
            {
                "n = 2, L = 2, K = 2, q = 2/7": "15/16",
                "n = 2, L = 2, K = 2, q = 1/4": "18/19",
                "n = 2, L = 3, K = 2, q = 1/4": "12/13",
                "n = 3, L = 2, K = 2, q = 1/6": "18/19",
                "n = 2, L = 2, K = 3, q = 1/6": "76/81",
                "n = 100, L = 10000, K = 2": "7537/10000",
                "n = 100, L = 10000, K = 3": "7081/10000",
                "n = 1000, L = 1000000, K = 1000": "6328/10000",
            },
        ),
    ),
    ours(
        id="gap.guarantee",
        statement="""Some rule that deals scores by the rows along each path accepts, verified as a
        block, at least 1 - (1 - 1/K)^K of the stateless optimum; kept greedily, one accepts at
        least that share of the stateful optimum.""",
        shape="any V, L, K; i.i.d. paths",
        examined=EVEN.also("; prefix by prefix"),
        theorems=(
            "guarantee.even_multipath_block_share",
            "guarantee.even_multipath_block_lossless",
            "guarantee.even_block_is_one",
            "guarantee.by_evenly_along",
            "guarantee.even_greedy_block_share",
        ),
        proof="""Let M be 1 at the root, M(xy) = min(M(x) p(y|x), K q(xy)), and c = 1 - (1 - 1/K)^K.
        No lossless verifier that keeps the target has A(x) > M(x), since a drafted x has
        probability K q(x) at most. The rule: of the paths through x, those with the smallest
        scores, as many as have the mass B = the sum of M(xy)/K over y, go on with y in the
        proportions of M(xy), and the others with what is left of q(xy). Claim: the smallest scores
        of x, of any mass s <= M(x)/K, are those of the selected path with a probability of at least
        c K s. At the root it is 1 - (1 - s)^K, concave in s. Of xy and s <= M(xy)/K, they are the
        share M(xy)/(K B) of the smallest of x of mass s K B/M(xy) <= B <= M(x)/K. So Q'(xy) >= c
        M(xy). The selection is lossless (scored.lossless) and accepts A(xy) = min(A(x) p(y|x),
        Q'(xy)) as block verification of Q' (block.value): at least c M(xy), by induction. With
        p(xy) for M(x) p(y|x), and greedy block verification, the same is true of the stateful
        optimum.""",
        refuted=below_the_share,
        recorded=Derivation(393),
    ),
    ours(
        id="scored.guarantee",
        statement="""Scored multi-path block verification accepts at least 1 - (1 - 1/K)^K of the
        stateless optimum.""",
        shape="V = 3, L = 17, K = 2; i.i.d. paths",
        examined=Scope(
            """by L: p = (1/6, 5/6, 0) and q = (1/12, 2/3, 1/4) at the root; then the draft is sure,
            and agrees with the target after token 0 alone; by the formula of scored.value""",
            lambda: map(scarce, range(1, 30)),
        ),
        refuted=run_where(ascending(CERTAIN, SCORED), CERTAIN, BY_RUNNING),
        recorded=Derivation(
            17,
            {"1 - (1 - 1/K)^K of the optimum": "503/192", "scored": "125/48"},
            scarce(17),
        ),
    ),
    ours(
        id="gap.drafted_rows",
        statement="""No lossless verifier whose accepted prefix is drawn by the drafted paths and
        all rows along them, whatever its next token is drawn by, is optimal in all models: over
        three models whose mean optimum is 97/64 none accepts more than 143/96 on average. They have
        p = (1/4, 1/2, 1/4, 0) and q = (1/8, 3/8, 1/8, 3/8) at the root; then the draft is sure, and
        agrees with the target after token 1 in all three, after token 0 in the second alone and
        after token 2 in the third alone.""",
        shape="V = 4, L = 2, K = 2; i.i.d. paths",
        examined=Scope(
            """the three models; the mean by a linear program over the kernels from drafts and their
            rows to accepted prefixes""",
            lambda: three(2),
        ),
        proof="""In 64ths. What is accepted is the probability T that a first token is, and the
        probability that a good one is. Of the drafts with 1 but neither 0 nor 2, which have the
        mass 27, let 1 be accepted in z: the same in all models, since they look alike. Let 1 be
        accepted in u of the drafts 0 and 1 where 0 is not good, the first and the third model, and
        in v of the drafts 1 and 2 in the first and the second. T <= 28 + z, since drafts of 3 alone
        have the mass 9. In the first model 1 is accepted in z + u + v <= 32, so the value is at
        most 28 + 2 z + u + v. In the second 0 and 1 are accepted in at most z + v and the drafts
        with 0, which have the mass 15: the value is at most 43 + 2 z + v; and in the third 43 + 2 z
        + u. The sum is 114 + 4 z + 2 (z + u + v) <= 114 + 108 + 64 = 286, a third of it 143/96.
        With r = L - 1 for what is accepted after a good token the same sums are 165 + 121 r at
        most, where the optima add up to 165 + 126 r. It holds with modified targets, too.""",
        refuted=equal(best_stateful, best_stateless),
        known=of_the_three,
        recorded=Derivation(
            3,
            {
                "mean optimum": "97/64",
                "largest mean from the drafted rows": "143/96",
                "largest mean, emitted by the drafted rows": "71/48",
                "scored, mean": "71/48",
                "largest share, L = 4": "176/181",
            },
        ),
    ),
    ours(
        id="gap.division",
        statement="""Most of what scored multi-path block verification misses of the stateless
        optimum would take rows off the paths: the best rule along the path that knows the prior of
        all rows gains less on it than knowing all rows gains on that rule. The prior: the root of
        one of 40 instances, and after each of its tokens one of five continuations, all the first
        of `seeded(100, 2, length=2, drafts=2)`.""",
        shape="V = 2, L = 2, K = 2; i.i.d. paths",
        examined=Scope(
            "all 1000 models; counted are the roots; means and gains, rounded down",
            lambda: shape(2, 2)[:ROOTS],
        ),
        refuted=by_figures,
        known=division,
        recorded=Derivation(
            40,
            {
                "scored": "139035/100000",
                "best along the path": "139162/100000",
                "stateless optimum": "139395/100000",
                "gained by the best along the path": "91/100000",
                "gained by knowing all rows": "167/100000",
            },
        ),
    ),
    ours(
        id="guarded.over_block",
        statement="""For any length a variant of scored multi-path block verification accepts at
        least as much as block verification of one path: let b be Q'(z), and where A(z) p(y|z) is
        below b q(y|z), let the smaller of b q(y|z) and r A(z) p(y|z) stand for it when scores are
        dealt, r being the number of positions after y, or 1 if there are none.""",
        shape="any V, L, K; i.i.d. paths",
        examined=GUARDS,
        proof="""Let F(z, a, b) be what block verification accepts below z if a of z is accepted and
        Q'(z) = b goes on by q; it is the largest sum of budgets under linear bounds, hence concave,
        rising, and F(z, s a, s b) = s F(z, a, b). The claim by induction from the last position:
        below z the variant accepts at least F(z, A(z), Q'(z)). Of what is asked for, w, the law of
        the next token has the form of scored.over_block.two: where it is above b q it is at most w,
        which is what is owed; where it is below b q it is at least w = r A(z) p(y|z). Let D be the
        mass that it has above b q, and as much below. Then D more is accepted at the next token,
        and no token of the others less, since r >= 1. After a token with more mass F is no less.
        After one with Q'(zy) = b' where b'' = b q(y|z) would have been flat, a = A(zy) being the
        same, F is less by at most (b'' - b') F(zy, a, b')/b', as it is concave in b and 0 at 0;
        F(zy, a, b') <= r a <= b', so by at most b'' - b', and by D in all.""",
        rests_on=("scored.over_block.two",),
        refuted=ascending(BLOCK, GUARDED),
        known=price_of_guarding,
        recorded=Derivation(
            604,
            {
                "L = 2, guarded / scored": "100000/100000",
                "L = 2, block / scored": "86657/100000",
                "L = 3, guarded / scored": "96389/100000",
                "L = 3, block / scored": "85022/100000",
                "L = 5, guarded / scored": "91379/100000",
                "L = 5, block / scored": "81959/100000",
                "L = 8, guarded / scored": "90940/100000",
                "L = 8, block / scored": "82257/100000",
            },
        ),
    ),
)
