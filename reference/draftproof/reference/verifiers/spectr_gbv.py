"""SpecTr-GBV: greedy block verification of K paths, every prefix accepted as if K drafts hit it."""

from __future__ import annotations

from functools import lru_cache

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission, emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.flow import largest_flow
from draftproof.reference.rational import ONE, ZERO, Rational, total
from draftproof.reference.verifiers.greedy_block import modified_rows

Leaves = frozenset[Path]


def spectr_gbv(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Draw the stop by an exact flow from stops to drafts, and modify the target by the owed mass.

    Law: P(accepted starts with x) = p(x) (1 - (1 - min(q(x)/p(x), 1))^K) for prefixes x, so
    E[accepted length] is the sum of that over prefixes. The released loop does not reach this law
    for K > 1; the flow does. The algorithm is stateful, and not optimal for K > 1. Source:
    arXiv 2604.25925, its accept family; Draftproof's flow replaces the loop.
    """
    drawn = frozenset(drafts.paths())
    stops, weights = zip(*_stops(instance)[drawn], strict=True)
    accepted = stops[chance.draw(weights)]
    if len(accepted) == instance.length:
        return emission(drafts, accepted, chance.draw(instance.target(accepted)))
    rows = modified_rows(
        lambda text: _owed(instance, text), accepted, instance.length, instance.vocabulary
    )
    return emission(drafts, accepted, chance.draw(rows[accepted]), rows)


def _owed(instance: Instance, text: Path) -> Rational:
    """Return the mass of the texts that start with `text` without accepting all of it."""
    p, q = instance.target.joint(text), instance.draft.joint(text)
    return p * (1 - min(q / p, ONE)) ** instance.drafts if p != 0 else ZERO


@lru_cache(maxsize=256)
def _stops(instance: Instance) -> dict[Leaves, list[tuple[Path, Rational]]]:
    """Return, for each set of drafted paths, the weights of the places to stop.

    The flow serves every stop in full: 1 - (1 - min(u, 1))^K is concave in u, so no set of prefixes
    needs more than the probability that some draft passes through it.
    """

    def accepted(prefix: Path) -> Rational:
        return instance.target.joint(prefix) - _owed(instance, prefix)

    def stopped(node: Path) -> Rational:
        tokens = range(instance.vocabulary if len(node) < instance.length else 0)
        return accepted(node) - total(accepted((*node, token)) for token in tokens)

    demand = {node: stopped(node) for node in instance.draft.reachable(instance.length)}
    path = instance.draft.text(instance.length)
    drawn: Law[Leaves] = Law.certain(frozenset())
    for _ in range(instance.drafts):
        drawn = drawn.then(lambda leaves: path.map(lambda leaf: leaves | {leaf}))
    flow = largest_flow(demand, dict(drawn.items()), _passes)
    table: dict[Leaves, list[tuple[Path, Rational]]] = {leaves: [] for leaves in drawn}
    for (node, leaves), mass in flow.plan.items():
        table[leaves].append((node, mass))
    return table


def _passes(node: Path, leaves: Leaves) -> bool:
    return any(leaf[: len(node)] == node for leaf in leaves)
