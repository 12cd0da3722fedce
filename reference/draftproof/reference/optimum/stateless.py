"""The largest E[accepted length] of any verifier that leaves later targets untouched.

For one draft path (K = 1) it is a linear program over the tree of prefixes. The *node budget*
A(x) is the probability that what is accepted starts with x:

    maximise    sum of A(x) over prefixes x of 1..L tokens
    subject to  A(xy) <= A(x) p(y|x)    what is kept and what corrects it must follow the target
                A(xy) <= q(xy)          only what was drafted can be accepted
                A(x)  >= 0,  A() = 1.

Every lossless verifier gives such budgets, whatever it knows off the path; every such budget
is the law of one (arXiv 2602.16961, section 3; arXiv 2403.10444, Lemmas 3 and 4).
An answer is worth what its certificate is worth: `check` uses sums and comparisons only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.certified import NotOptimal
from draftproof.reference.rational import ONE, ZERO, Rational, total


@dataclass(frozen=True)
class StatelessOptimum:
    """A value with its proof: a budget that reaches it, and prices that no budget can beat.

    `budget` is the primal solution A, `target_price` and `draft_price` the dual one: the price
    of the first and of the second constraint at each prefix.
    """

    value: Rational
    budget: Mapping[Path, Rational]
    target_price: Mapping[Path, Rational]
    draft_price: Mapping[Path, Rational]


def stateless(instance: Instance) -> StatelessOptimum:
    """Return the certified optimum. Raises `Unsupported` for more than one draft."""
    if instance.drafts != 1 or instance.scheme != "iid":
        raise Unsupported(
            f"the stateless optimum is known for one i.i.d. draft, "
            f"the instance has {instance.drafts} ({instance.scheme})"
        )
    optimum = _proposal(instance)
    check(optimum, instance)
    return optimum


def check(optimum: StatelessOptimum, instance: Instance) -> None:
    """Raise `NotOptimal` unless the certificate proves the value, by plain arithmetic.

    Weak duality is all the theory there is: a feasible budget is worth at most what
    feasible prices charge, so two equal totals are both the optimum.
    """
    budget, target_price, draft_price = optimum.budget, optimum.target_price, optimum.draft_price
    nodes = _prefixes(instance)
    if not set(nodes) == set(budget) == set(target_price) == set(draft_price):
        raise NotOptimal("the certificate must name every prefix that can be drafted, and no other")
    earned, charged = ZERO, ZERO
    for node in nodes:
        drafted, affordable = instance.draft.joint(node), _affordable(instance, budget, node)
        if not 0 <= budget[node] <= min(drafted, affordable):
            raise NotOptimal(f"the budget {budget[node]} at {node} exceeds its bounds")
        if target_price[node] < 0 or draft_price[node] < 0:
            raise NotOptimal(f"a price at {node} is negative")
        if target_price[node] + draft_price[node] < 1 + _passed_on(instance, target_price, node):
            raise NotOptimal(f"the prices at {node} undercut the objective")
        earned += budget[node]
        charged += draft_price[node] * drafted
    charged += _passed_on(instance, target_price, ())
    if not earned == charged == optimum.value:
        raise NotOptimal(f"budget {earned}, prices {charged} and value {optimum.value} differ")


def _proposal(instance: Instance) -> StatelessOptimum:
    """Raise every budget to its bound from the root down; price the bound that binds, upwards."""
    nodes = _prefixes(instance)
    budget: dict[Path, Rational] = {}
    target_price: dict[Path, Rational] = {}
    draft_price: dict[Path, Rational] = {}
    for node in nodes:
        budget[node] = min(instance.draft.joint(node), _affordable(instance, budget, node))
    for node in reversed(nodes):
        price = 1 + _passed_on(instance, target_price, node)
        target_binds = budget[node] == _affordable(instance, budget, node)
        target_price[node] = price if target_binds else ZERO
        draft_price[node] = ZERO if target_binds else price
    return StatelessOptimum(total(budget.values()), budget, target_price, draft_price)


def _prefixes(instance: Instance) -> list[Path]:
    """Return the prefixes that can be drafted, shorter ones first; all others have budget 0."""
    return [prefix for prefix in instance.draft.reachable(instance.length) if prefix]


def _affordable(instance: Instance, budget: Mapping[Path, Rational], node: Path) -> Rational:
    """Return what the target lets the node take from its parent's budget."""
    parent = node[:-1]
    return (budget[parent] if parent else ONE) * instance.target(parent)[node[-1]]


def _passed_on(instance: Instance, target_price: Mapping[Path, Rational], node: Path) -> Rational:
    """Return what one unit of budget at the node lets its children be charged."""
    row = instance.target(node)
    children = (((*node, token), p) for token, p in enumerate(row))
    return total(target_price[child] * p for child, p in children if child in target_price)
