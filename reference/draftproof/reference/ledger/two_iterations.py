"""Two iterations of one path: the most tokens that they can write, and which verifier writes most.

Argued: a linear program gives the largest number. Refuted: that block verification or greedy block
verification, the optima of one iteration, reach it. Observed: either of the two may be ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain

from draftproof.reference.ledger.claim import Claim, Derivation, Figure, Scope, by_figures
from draftproof.reference.ledger.instances import context_free, example, seeded
from draftproof.reference.ledger.quantities import Quantity, any_of, ascending, in_parts
from draftproof.reference.ledger.single_path import after_iterations
from draftproof.reference.model import Instance
from draftproof.reference.optimum.two_iterations import two_iterations
from draftproof.reference.rational import total

MOST = Quantity("optimum after 2", lambda instance: two_iterations(instance).value)
BLOCK, GREEDY = (after_iterations(name, 2) for name in ("block", "greedy_block"))

SMALL = Scope(
    """context-free instances of V = 2, L = 1, then L = 2, by common denominator, then
    lexicographically""",
    lambda: chain(context_free(2, 4, length=1), context_free(2, 4, length=2)),
)


def with_context() -> list[Instance]:
    """Return the seeded instances on which the verifiers are compared."""
    return list(seeded(60, 2, length=2, depth=5))


def neither_reaches(instance: Instance) -> Mapping[str, Figure] | None:
    """Refute that one of the two verifiers writes as many tokens as any verifier can."""
    values = {each.name: each(instance) for each in (BLOCK, GREEDY, MOST)}
    *both, most = values.values()
    return None if most == max(both) else values


def motivating() -> Mapping[str, Figure]:
    """Return block's, greedy block's and the largest number on the literature's example."""
    return {
        f"L = {length}": ", ".join(
            str(each(example("1/3 2/3", "2/3 1/3", length=length)))
            for each in (BLOCK, GREEDY, MOST)
        )
        for length in (1, 2, 3)
    }


def who_is_ahead() -> Mapping[str, Figure]:
    """Return how often each verifier is ahead, and the means, rounded down."""
    found = [(BLOCK(each), GREEDY(each), MOST(each)) for each in with_context()]
    means = [total(column) / len(found) for column in zip(*found, strict=True)]
    return {
        "block ahead of greedy block": sum(block > greedy for block, greedy, _ in found),
        "greedy block ahead of block": sum(block < greedy for block, greedy, _ in found),
        "optimum ahead of both": sum(most > max(both) for *both, most in found),
        "means": ", ".join(in_parts(mean, 1000) for mean in means),
    }


ours = partial(Claim, source="draftproof")

CLAIMS = (
    ours(
        id="iterations.two",
        statement="""The largest expected number of tokens after two iterations of one path, of any
        lossless verifier and whatever it leaves, is that of a linear program over what the first
        iteration emits, the text that it leaves, and the share of it that the second accepts.""",
        shape="any V, L; K = 1; 2 iterations",
        examined=SMALL.then(
            SMALL.words
            + """; and 60 seeded ones of V = 2, L = 2 with rows by context; against block and greedy
            block verification""",
            Scope("", with_context),
        ),
        proof="""Let B(e, z) be the probability that e is emitted and the text goes on with z. The
        bounds are necessary: over all e with ez = t, and those that go on from t, B adds up to
        p(t); what is accepted first is drafted, so the B of all e whose tokens but the last start
        with x add up to at most q(x); and the second iteration, whose draft depends on the past
        through e alone, accepts z with at most the smaller of B(e, z) and B(e) q(z|e), whatever of
        the past it knows (greedy_block.bound, the minimum being concave). They are sufficient: sets
        of paths below prefixes are nested or disjoint, so that q(x) is enough to stop on a drafted
        path as often as B asks for (Hall); beyond the L tokens after e of which B is the law, the
        text may be whatever is missing of the target's; and greedy block verification against the
        law that is left accepts as much as that (greedy_block.value).""",
        rests_on=("greedy_block.bound", "greedy_block.value"),
        refuted=any_of(ascending(BLOCK, MOST), ascending(GREEDY, MOST)),
        known=motivating,
        recorded=Derivation(
            134,
            {
                "L = 1": "10/3, 10/3, 94/27",
                "L = 2": "40/9, 40/9, 2303/486",
                "L = 3": "16/3, 437/81, 76087/13122",
            },
        ),
    ),
    ours(
        id="iterations.two.one_of_both",
        statement="""After two iterations block verification or greedy block verification has
        written as many tokens as any lossless verifier of one path.""",
        shape="V = 2, L = 1, K = 1; 2 iterations",
        examined=SMALL,
        refuted=neither_reaches,
        recorded=Derivation(
            14,
            {
                "block after 2": "10/3",
                "greedy_block after 2": "10/3",
                "optimum after 2": "94/27",
            },
            example("1/3 2/3", "2/3 1/3"),
        ),
    ),
    ours(
        id="iterations.two.ahead",
        statement="""After two iterations neither block verification nor greedy block verification
        is always ahead, and some verifier is ahead of both on most instances of `seeded(60, 2,
        length=2, depth=5)`.""",
        shape="V = 2, L = 2, K = 1; 2 iterations",
        examined=Scope(
            "those 60 instances; counts, and the means of block, greedy block and the optimum",
            with_context,
        ),
        refuted=by_figures,
        known=who_is_ahead,
        recorded=Derivation(
            60,
            {
                "block ahead of greedy block": "9",
                "greedy block ahead of block": "24",
                "optimum ahead of both": "35",
                "means": "4591/1000, 4596/1000, 4670/1000",
            },
        ),
    ),
)
