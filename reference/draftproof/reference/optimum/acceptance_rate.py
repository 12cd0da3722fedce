"""The largest acceptance rate of any verifier at one position, for any draft law.

A verifier that follows p and is given tokens x drawn together from Q accepts with probability
at most

    max over S >= 0 of sum of S(i, x), i in x, with S(i, .) <= p(i) and S(., x) <= Q(x)
        = 1 + min over sets H of tokens of p(H) - Q(H),   Q(H) = P(all drafts are in H):

a flow from tokens to drafts, and the cut that stops it. A flow and a set that agree prove
each other. Source: arXiv 2502.18779; the set function is derived there from the linear program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from draftproof.reference.drafting import Siblings, all_inside, sibling_law
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Row
from draftproof.reference.optimum.certified import NotOptimal
from draftproof.reference.optimum.flow import largest_flow
from draftproof.reference.rational import ONE, Rational, readable, total
from draftproof.reference.rows import mass

Coupling = Mapping[tuple[int, Siblings], Rational]


@dataclass(frozen=True)
class AcceptanceRate:
    """Acceptance rate with its proof: a coupling that reaches it, and a set of tokens that caps it.

    `coupling[i, x]` is the mass that goes from the drafts x to the token i in x; `capped` is the H
    of the bound 1 + p(H) - Q(H).
    """

    __repr__ = readable

    value: Rational
    coupling: Coupling
    capped: frozenset[int]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the value, and the certificate."""
        coupling = [
            {"token": token, "drafts": list(siblings), "mass": str(mass)}
            for (token, siblings), mass in self.coupling.items()
        ]
        certificate = {"coupling": coupling, "capped": sorted(self.capped)}
        return {"value": str(self.value), "certificate": certificate}


def acceptance_rate(instance: Instance) -> AcceptanceRate:
    """Return the certified optimum at draft length 1. Raises `Unsupported` for a longer draft."""
    if instance.length != 1:
        raise Unsupported(
            f"the acceptance rate is defined for a draft of 1 token, the instance has "
            f"{instance.length}"
        )
    p, q = instance.target(()), instance.draft(())
    best = best_rate(p, sibling_law(instance.scheme, q, instance.drafts))
    check(best, p, sibling_law(instance.scheme, q, instance.drafts))
    return best


def best_rate(p: Row, drafted: Law[Siblings]) -> AcceptanceRate:
    """Return an optimal coupling of p with any joint law of drafts, and the set that caps it."""
    return _best_rate(p, tuple(drafted.items()))


@lru_cache(maxsize=4096)
def _best_rate(p: Row, drafted: tuple[tuple[Siblings, Rational], ...]) -> AcceptanceRate:
    flow = largest_flow(dict(enumerate(p)), dict(drafted), lambda token, x: token in x)
    return AcceptanceRate(flow.value, flow.plan, flow.cut)


def check(rate: AcceptanceRate, p: Row, drafted: Law[Siblings]) -> None:
    """Raise `NotOptimal` unless the coupling reaches the value and the set caps it."""
    for (token, siblings), weight in rate.coupling.items():
        if token not in siblings or weight < 0:
            raise NotOptimal(f"the coupling gives {weight} to token {token} from {siblings}")
    for token, weight in enumerate(p):
        if total(w for (i, _), w in rate.coupling.items() if i == token) > weight:
            raise NotOptimal(f"the coupling gives token {token} more than the target does")
    for siblings in {x for _, x in rate.coupling}:
        taken = total(w for (_, x), w in rate.coupling.items() if x == siblings)
        if taken > drafted[siblings]:
            raise NotOptimal(f"the coupling takes more from {siblings} than is drafted")
    reached = total(rate.coupling.values())
    inside = drafted.probability(lambda siblings: set(siblings) <= rate.capped)
    cap = ONE + mass(p, rate.capped) - inside
    if not reached == cap == rate.value:
        raise NotOptimal(f"coupling {reached}, cap {cap} and value {rate.value} differ")


def sorted_prefix_rate(scheme: str, p: Row, q: Row, drafts: int) -> Rational:
    """Return 1 + min of p(H) - Q(H) over prefixes H of the tokens by decreasing q/p.

    This is the optimum if Q is q-convex (see `convexity_gap`): one sort instead of 2^V sets.
    Source: arXiv 2502.18779.
    """
    # What is never drafted has an infinite p/q, or none.
    drafted = [token for token, x in enumerate(q) if x != 0]
    order = sorted(drafted, key=lambda token: p[token] / q[token])
    gaps = []
    for size in range(len(order) + 1):
        prefix = order[:size]
        gaps.append(mass(p, prefix) - all_inside(scheme, q, drafts, prefix))
    return ONE + min(gaps)


def convexity_gap(
    scheme: str, q: Row, drafts: int, base: Collection[int], x: int, y: int
) -> Rational:
    """Return the slack of q-convexity: Q's slope along y after x, less its slope along x.

    Q is q-convex if the slack is never negative, for every set H without x and y:
    [Q(H+x) - Q(H)] / q(x) <= [Q(H+x+y) - Q(H+x)] / q(y). Then, if H is optimal with x inside and y
    outside, q(y)/p(y) <= q(x)/p(x): some optimal set is a prefix. Source: arXiv 2502.18779.
    """
    sets = (frozenset(base), frozenset({*base, x}), frozenset({*base, x, y}))
    none, one, both = (all_inside(scheme, q, drafts, tokens) for tokens in sets)
    return (both - one) / q[y] - (one - none) / q[x]
