"""One path: token, block and greedy block verification, and what is said of them.

Papers: arXiv 2403.10444 (block verification), arXiv 2601.05724 (hierarchical speculative decoding);
code: vLLM, vLLM-ascend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from math import gcd

from draftproof.reference.ledger.claim import Claim, Derivation, Figure, examined
from draftproof.reference.ledger.exhibits import (
    block_that_waits,
    block_then_token_residual,
    block_with_break,
    block_without_last,
    capped_hierarchical,
    greedy_block_without_memory,
    released_hierarchical,
)
from draftproof.reference.ledger.instances import (
    context_free,
    every_context,
    example,
    from_rows,
    seeded,
)
from draftproof.reference.ledger.iterations import expected_tokens
from draftproof.reference.ledger.quantities import (
    Quantity,
    accepted,
    any_of,
    ascending,
    best_stateful,
    best_stateless,
    equal,
    lossless,
    of_one_path,
    same_law,
)
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.process import decoded
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Verifier, verification_law
from draftproof.reference.verifiers.block import block
from draftproof.reference.verifiers.greedy_block import greedy_block
from draftproof.reference.verifiers.token import token

MOTIVATING = example("1/3 2/3", "2/3 1/3", length=2)

SMALL = (
    "all context-free instances with denominators up to 8 (V = 2, L = 2) and up to 3 (V = 3, "
    "L = 2); all with rows by context and denominators up to 2 (V = 2, L = 2); 150 seeded "
    "ones with rows by context for V = 2, L = 3 and 100 for V = 3, L = 2"
)
SEARCH = "context-free instances of V = 2, L = 2 by common denominator, then lexicographically"


def small() -> Iterator[Instance]:
    """Yield the instances of `SMALL`."""
    return chain(
        context_free(2, 8, length=2),
        context_free(3, 3, length=2),
        every_context(2, 2),
        seeded(150, 2, length=3),
        seeded(100, 3, length=2),
    )


def shared(instance: Instance) -> Rational:
    """Return the sum of min(p, q) over prefixes of 1..L tokens."""
    drafted = (x for x in instance.draft.reachable(instance.length) if x)
    return total(min(instance.target.joint(x), instance.draft.joint(x)) for x in drafted)


def after_iterations(verify: str | Verifier, iterations: int) -> Quantity:
    """Return the expected number of tokens after some iterations."""
    one = accepted(verify)
    run = ALGORITHMS[verify].verify if isinstance(verify, str) else verify
    return Quantity(
        f"{one.name} after {iterations}",
        lambda instance: expected_tokens(run, instance, iterations),
    )


def banked(length: int, mass: Rational) -> Instance:
    """Return an instance on which block verification banks what the next iteration could use.

    Target and draft are sure of L tokens. Then the draft is sure of one that the target takes
    with probability `mass`; then it gives `mass` to one that the target is sure of; then
    both are sure of L - 2 tokens; then the draft is wrong. All of these tokens are 0.
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


def best_over_two_iterations() -> Derivation:
    """Compare block verification with lossless verifiers that leave a token to the next iteration.

    These are lossless on every instance that is looked at, which is checked over two iterations.
    """
    ahead: dict[str, Figure] = {}
    for verify, length, mass in ((block_that_waits, 3, "3/4"), (block_without_last, 6, "1/2")):
        instance = banked(length, rational(mass))
        at = f"(L = {length}, mass {mass})"
        for name, run in (("block", block), (verify.__name__, verify)):
            ahead[f"{name} {at}"] = expected_tokens(run, instance, 2)
    waits, blocks = after_iterations(block_that_waits, 2), after_iterations(block, 2)

    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        if not ascending(waits, blocks)(instance):
            return None
        horizon = 2 * instance.length + 1
        text = decoded(of_one_path(block_that_waits), instance, horizon)
        if text != instance.target.text(horizon):
            return None
        return {waits.name: waits(instance), blocks.name: blocks(instance)}

    family = (
        banked(length, rational(n) / d)
        for length in (2, 3)
        for d in range(1, 5)
        for n in range(1, d + 1)
        if gcd(n, d) == 1
    )
    return examined(family, refuted, ahead)


def greedy_over_iterations() -> Derivation:
    """Compare greedy with block verification, on the example for up to five iterations."""
    known: dict[str, Figure] = {
        name: ", ".join(
            str(expected_tokens(ALGORITHMS[name].verify, MOTIVATING, n)) for n in range(1, 6)
        )
        for name in ("block", "greedy_block")
    }
    behind = any_of(
        *(
            ascending(after_iterations("block", n), after_iterations("greedy_block", n))
            for n in (1, 2, 3)
        )
    )
    return examined(context_free(2, 3, length=2), behind, known)


def greedy_is_lossless() -> Derivation:
    """Check one iteration on all instances, and several where texts of five tokens are short."""

    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        if (found := lossless(greedy_block)(instance)) is not None:
            return found
        if not instance.target.context_free or instance.vocabulary > 2:
            return None
        text = decoded(ALGORITHMS["greedy_block"], instance, 5)
        right = instance.target.text(5)
        return None if text == right else {"total variation": text.total_variation(right)}

    return examined(small(), refuted)


def motivating() -> Derivation:
    """Compute the motivating example; `check` compares its figures."""
    names = ("token", "block", "greedy_block")
    figures: dict[str, Figure] = {name: accepted(name)(MOTIVATING) for name in names}
    figures["sum of min(p, q)"] = shared(MOTIVATING)
    return examined([MOTIVATING], lambda _: None, figures)


def one_hot() -> Iterator[Instance]:
    """Yield instances whose draft is sure of every token."""
    return (
        replace(instance, draft=replace(instance.draft, rows=sure_rows(instance)))
        for instance in chain(seeded(80, 2, length=3), seeded(40, 3, length=2))
    )


def sure_rows(instance: Instance) -> dict[Path, Row]:
    """Return the draft's rows, each replaced by certainty of its most probable token."""
    return {
        context: tuple(ONE if token == row.index(max(row)) else ZERO for token in range(len(row)))
        for context, row in instance.draft.rows.items()
    }


def capped_is_block() -> Derivation:
    """Compare the laws given every path that can be drafted."""
    algorithms = ALGORITHMS["block"], of_one_path(capped_hierarchical)
    paths = 0

    def refuted(instance: Instance) -> Mapping[str, Figure] | None:
        nonlocal paths
        for path in instance.draft.text(instance.length):
            paths += 1
            one, other = (verification_law(each, instance, (path,)) for each in algorithms)
            if one != other:
                return {"total variation": one.total_variation(other)}
        return None

    found = examined(small(), refuted)
    return Derivation(found.instances, {**found.figures, "paths": str(paths)}, found.counterexample)


CLAIMS = (
    Claim(
        id="block.example",
        statement=(
            "For p = (1/3, 2/3), q = (2/3, 1/3) and L = 2, token verification accepts 10/9 tokens, "
            "block verification 11/9; 12/9 is the ideal, which greedy block verification accepts."
        ),
        source="arXiv 2403.10444",
        shape="V = 2, L = 2, one instance",
        scope="the motivating example",
        proof="The claim is about one instance, whose law is computed.",
        derive=motivating,
        recorded=Derivation(
            1, {"token": "10/9", "block": "11/9", "greedy_block": "4/3", "sum of min(p, q)": "4/3"}
        ),
    ),
    Claim(
        id="block.lossless",
        statement="Block verification is lossless.",
        source="arXiv 2403.10444",
        shape="any V, L; K = 1",
        scope=SMALL,
        derive=lambda: examined(small(), lossless(block)),
        recorded=Derivation(1319),
    ),
    Claim(
        id="block.optimal",
        statement=(
            "In one iteration no lossless verifier accepts more tokens than block verification, "
            "even one that knows target and draft off the path."
        ),
        source="arXiv 2403.10444",
        shape="any V, L; K = 1",
        scope=SMALL + "; the optimum of every instance is certified by a dual solution",
        proof=(
            "Let A(x) be the probability that what is accepted starts with x. What is emitted "
            "without accepting x goes on from x by p(.|x), so losslessness leaves "
            "A(x) p(y|x) - A(xy) >= 0 for the correction; and A(xy) <= q(xy) as xy must be "
            "drafted. Block verification has A(xy) = min(A(x) p(y|x), q(xy)): by induction "
            "from the longest prefixes, P(accepted length >= i | x) = weight(x). So by "
            "induction from the root its A is the largest at every prefix."
        ),
        derive=lambda: examined(small(), equal(accepted("block"), best_stateless)),
        recorded=Derivation(1319),
    ),
    Claim(
        id="block.optimal.iterations",
        statement=(
            "After any number of iterations no lossless verifier has written more tokens "
            "than block verification."
        ),
        source="arXiv 2403.10444",
        shape="V = 2, L = 3, 2 iterations",
        scope=(
            "the family of instances on which the draft overstates one token, by L = 2, 3, "
            "then by that token's mass, denominators up to 4; against the verifier that leaves "
            "the last token to the next iteration where the target is sure of the others"
        ),
        derive=best_over_two_iterations,
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
    Claim(
        id="block.over_token",
        statement="Token verification accepts at most as much as block, block as greedy block.",
        source="arXiv 2403.10444",
        shape="any V, L; K = 1",
        scope=SMALL,
        proof=(
            "Token verification is lossless, so block verification accepts each prefix at "
            "least as often (block.optimal). By A(xy) <= A(x) p(y|x) and A <= q, block "
            "verification accepts x with at most min(p(x), q(x)), which greedy reaches."
        ),
        derive=lambda: examined(
            small(), ascending(accepted("token"), accepted("block"), accepted("greedy_block"))
        ),
        recorded=Derivation(1319),
    ),
    Claim(
        id="block.over_token.iterations",
        statement=(
            "After any number of iterations block verification has written at least as many "
            "tokens as token verification."
        ),
        source="arXiv 2403.10444",
        shape="V = 2, L = 2; 2 and 3 iterations",
        scope=(
            "2 iterations: 20 seeded instances with rows by context; 2 and 3: all context-free "
            "ones with denominators up to 4"
        ),
        derive=lambda: examined(
            chain(context_free(2, 4, length=2), seeded(20, 2, length=2, depth=5)),
            lambda instance: any_of(
                *(
                    ascending(after_iterations("token", n), after_iterations("block", n))
                    for n in ((2, 3) if instance.target.context_free else (2,))
                )
            )(instance),
        ),
        recorded=Derivation(57),
    ),
    Claim(
        id="block.is_token.one",
        statement="At L = 1 block, greedy block and token verification have the same law.",
        source="arXiv 2403.10444",
        shape="any V; L = 1, K = 1",
        scope="all instances with denominators up to 6 (V = 2) and up to 3 (V = 3)",
        proof="All three accept x with min(1, p/q) and correct by (p - q)+.",
        derive=lambda: examined(
            chain(context_free(2, 6), context_free(3, 3)),
            any_of(same_law(token, block), same_law(token, greedy_block)),
        ),
        recorded=Derivation(224),
    ),
    Claim(
        id="block.is_token.two",
        statement="For L <= 2 block verification and token verification coincide.",
        source="github.com/vllm-project/vllm, pull request 40819",
        shape="V = 2, L = 2",
        scope=SEARCH,
        derive=lambda: examined(
            context_free(2, 3, length=2), equal(accepted("token"), accepted("block"))
        ),
        recorded=Derivation(
            14, {"token": "10/9", "block": "11/9"}, example("1/3 2/3", "2/3 1/3", length=2)
        ),
    ),
    Claim(
        id="block.is_token.one_hot",
        statement="With a draft that is sure of every token, block verification accepts as token.",
        source="arXiv 2403.10444",
        shape="any V, L; K = 1; one-hot draft rows",
        scope="120 seeded instances with rows by context, V = 2, L = 3 and V = 3, L = 2",
        proof="On the one drafted path q = 1, so min(A(x) p(y|x), q(xy)) = A(x) p(y|x) = p(xy).",
        derive=lambda: examined(one_hot(), equal(accepted("token"), accepted("block"))),
        recorded=Derivation(120),
    ),
    Claim(
        id="block.break",
        statement="Block verification may stop at the first prefix that fails its test.",
        source="github.com/vllm-project/vllm-ascend, pull request 11985",
        shape="V = 2, L = 2",
        scope=SEARCH,
        derive=lambda: examined(context_free(2, 3, length=2), lossless(block_with_break)),
        recorded=Derivation(6, {"total variation": "1/6"}, example("1/2 1/2", "0 1", length=2)),
    ),
    Claim(
        id="block.token_residual",
        statement="Block verification may take its correction from token verification's residual.",
        source="github.com/vllm-project/vllm-ascend, pull request 9772",
        shape="V = 3, L = 2",
        scope=(
            "all instances of V = 2, L = 2 with rows by context and denominators up to 2, then "
            "context-free ones of V = 3, L = 2 by common denominator, then lexicographically"
        ),
        derive=lambda: examined(
            chain(every_context(2, 2), context_free(3, 4, length=2)),
            lossless(block_then_token_residual),
        ),
        recorded=Derivation(
            932, {"total variation": "1/32"}, example("1/4 1/4 1/2", "0 3/4 1/4", length=2)
        ),
    ),
    Claim(
        id="hierarchical.is_block",
        statement=(
            "Hierarchical speculative decoding with capped ratios is block verification: given "
            "any path both have the same law. So it cannot accept more for L > 1."
        ),
        source="arXiv 2601.05724",
        shape="any V, L; K = 1",
        scope=SMALL + "; every path that can be drafted",
        proof=(
            "With r(i) the joint ratio and m(i) the largest of r(0), ..., r(i), the capped ratio "
            "is min(1, r(i) / m(i-1)) = r(i) / m(i). So is block verification's weight: "
            "min(1, r(i-1)/m(i-1) * r(i)/r(i-1)) = min(1, r(i)/m(i-1)). Both residuals and both "
            "tests are the same functions of it."
        ),
        derive=capped_is_block,
        recorded=Derivation(1319, {"paths": "3658"}),
    ),
    Claim(
        id="hierarchical.released",
        statement="The released program of hierarchical speculative decoding is lossless.",
        source="github.com/ZhouYuxuanYX/Hierarchical-Speculative-Decoding, algorithm_clean.py",
        shape="V = 2, L = 2",
        scope=SEARCH,
        derive=lambda: examined(context_free(2, 3, length=2), lossless(released_hierarchical)),
        recorded=Derivation(
            14, {"total variation": "1/9"}, example("1/3 2/3", "2/3 1/3", length=2)
        ),
    ),
    Claim(
        id="greedy_block.value",
        statement=(
            "Greedy block verification accepts the sum of min(p(x), q(x)) over prefixes x of 1..L "
            "tokens."
        ),
        source="arXiv 2403.10444",
        shape="any V, L; K = 1",
        scope=SMALL,
        derive=lambda: examined(
            small(), equal(accepted("greedy_block"), Quantity("sum of min(p, q)", shared))
        ),
        recorded=Derivation(1319),
    ),
    Claim(
        id="greedy_block.bound",
        statement=(
            "No lossless verifier of one path, whatever it does to the target, accepts more than "
            "the sum of min(p(x), q(x)) over prefixes x of 1..L tokens."
        ),
        source="arXiv 2403.10444",
        shape="any V, L; K = 1",
        scope=SMALL + "; token, block and greedy block verification",
        proof="An accepted prefix x is drafted, and it is the text: that is at most q(x) and p(x).",
        derive=lambda: examined(
            small(),
            any_of(
                *(
                    ascending(accepted(name), Quantity("sum of min(p, q)", shared))
                    for name in ("token", "block", "greedy_block")
                )
            ),
        ),
        recorded=Derivation(1319),
    ),
    Claim(
        id="greedy_block.optimal",
        statement=(
            "Greedy block verification accepts the optimum of one path, modified target or not."
        ),
        source="arXiv 2403.10444",
        shape="any V, L; K = 1",
        scope=SMALL + "; the optimum of every instance is certified by a dual solution",
        derive=lambda: examined(small(), equal(accepted("greedy_block"), best_stateful)),
        recorded=Derivation(1319),
    ),
    Claim(
        id="greedy_block.lossless",
        statement="Greedy block verification with its modified target is lossless.",
        source="arXiv 2403.10444",
        shape="any V, L; K = 1; 3 tokens of text and more",
        scope=SMALL + "; and over iterations, 5 tokens of 20 context-free instances, V = 2, L = 2",
        derive=lambda: greedy_is_lossless(),
        recorded=Derivation(1319),
    ),
    Claim(
        id="greedy_block.unmodified",
        statement="Greedy block verification is lossless without modifying the target.",
        source="arXiv 2604.25925, released code at K = 1",
        shape="V = 2, L = 2",
        scope=SEARCH,
        derive=lambda: examined(
            context_free(2, 3, length=2), lossless(greedy_block_without_memory)
        ),
        recorded=Derivation(
            14, {"total variation": "1/9"}, example("1/3 2/3", "2/3 1/3", length=2)
        ),
    ),
    Claim(
        id="greedy_block.iterations",
        statement=(
            "After any number of iterations greedy block verification has written at least as "
            "many tokens as block verification."
        ),
        source="arXiv 2403.10444, whose experiments say otherwise",
        shape="V = 2, L = 2; up to 3 iterations",
        scope=SEARCH,
        derive=greedy_over_iterations,
        recorded=Derivation(
            14,
            {
                "block": "20/9, 40/9, 20/3, 80/9, 100/9",
                "greedy_block": "7/3, 40/9, 59/9, 26/3, 97/9",
                "block after 3": "20/3",
                "greedy_block after 3": "59/9",
            },
            example("1/3 2/3", "2/3 1/3", length=2),
        ),
    ),
)
