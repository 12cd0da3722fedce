"""A certified largest E[accepted length], and its check by plain arithmetic.

`stateless` and `stateful` differ only in the target's bound on a prefix. This module has the parts
that they share. The *budget* A(x) is the probability that the accepted tokens start with x, a
prefix of 1..L tokens; A of the empty prefix is 1. Then E[accepted length] is the sum of A, and
there are two bounds on A.

**The target's bound.** A(x) <= share(x) A(base(x)), where each program has its own base and share.

**The draft's bound.** The accepted tokens are a prefix of a drafted path. Continue them, in any
way, to the end of a drafted path that passes them: this *selects* one of the drafted paths, knowing
all of them, and A(x) <= Q'(x) = P(the selected path passes x). The laws Q' of selected paths are
the mixtures of the laws of orders: rank all paths, and select the highest-ranked drafted path. (For
any weights w of the paths, E[w of the selected path] is at most E[the largest w drafted], and the
order by w reaches that. So no linear function separates a selection law from the mixtures.) With
H_i the i lowest paths of an order, its law is P(all drafts are in H_i) - P(all drafts are in
H_(i-1)).

**Prices** prove that nothing is better. Let s(x) >= 0 be a price of the first bound, t(x) >= 0 one
of the second, and s(x) + t(x) >= 1 + sum of s(y) share(y) over the y of base x. Then

    sum of A(x) <= sum of A(x) (s(x) + t(x) - sum of s(y) share(y) over the y of base x)
                 = sum of t(x) A(x) + sum of s(x) (A(x) - share(x) A(base(x)))
                   + sum of s(y) share(y) over the y of empty base
                <= E[max of w(l) over drafted paths l] + sum of s(y) share(y) over those y,

w(l) being the sum of t over the prefixes of l: the accepted tokens are on one drafted path.

A budget below both bounds, whose sum equals the charge of such prices, is therefore the optimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from draftproof.reference.drafting import sibling_law
from draftproof.reference.model import Instance, Path, Row, context_key
from draftproof.reference.optimum.certified import NotOptimal
from draftproof.reference.rational import ONE, ZERO, Rational, readable, total

Order = tuple[Path, ...]
Drawn = Mapping[Path, Sequence[tuple[Rational, tuple[Path, ...]]]]


@dataclass(frozen=True)
class LengthOptimum:
    """Optimum with its proof: a budget that reaches the value, and prices that bound all budgets.

    `selection` is the mixture of orders, lowest path first, whose law of the selected path is at
    least the budget. `target_price` and `draft_price` are s and t.
    """

    __repr__ = readable

    value: Rational
    budget: Mapping[Path, Rational]
    target_price: Mapping[Path, Rational]
    draft_price: Mapping[Path, Rational]
    selection: tuple[tuple[Rational, Order], ...]

    @staticmethod
    def allowed(instance: Instance, prefix: Path) -> tuple[Path, Rational]:
        """Return base(x) and share(x): the target limits the budget of x to share(x) A(base(x))."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the value, and the certificate in tables by prefix."""

        def table(entries: Mapping[Path, Rational]) -> dict[str, str]:
            return {context_key(prefix): str(entry) for prefix, entry in entries.items()}

        return {
            "value": str(self.value),
            "certificate": {
                "budget": table(self.budget),
                "target_price": table(self.target_price),
                "draft_price": table(self.draft_price),
                "selection": [
                    {"weight": str(weight), "order": [context_key(path) for path in order]}
                    for weight, order in self.selection
                ],
            },
        }


def check(optimum: LengthOptimum, instance: Instance) -> None:
    """Raise `NotOptimal` unless the certificate proves the value, by sums and comparisons only."""
    s, t, nodes = optimum.target_price, optimum.draft_price, drafted_prefixes(instance)
    if not set(nodes) == set(optimum.budget) == set(s) == set(t):
        raise NotOptimal("the certificate must name every prefix that can be drafted, and no other")
    selected = _selected(optimum, instance)
    budget = {(): ONE, **optimum.budget}
    passed_on = dict.fromkeys(budget, ZERO)
    for node in nodes:
        base, share = optimum.allowed(instance, node)
        passed_on[base] += s[node] * share
        if not 0 <= budget[node] <= min(selected[node], share * budget[base]):
            raise NotOptimal(f"the budget {budget[node]} at {node} exceeds its bounds")
    for node in nodes:
        if s[node] < 0 or t[node] < 0:
            raise NotOptimal(f"a price at {node} is negative")
        if s[node] + t[node] < 1 + passed_on[node]:
            raise NotOptimal(f"the prices at {node} undercut the objective")
    worth = {
        path: total(t[path[:size]] for size in range(1, len(path) + 1)) for path in paths(instance)
    }
    highest = selection_law(drawn_below(instance), sorted(worth, key=worth.__getitem__))
    earned = total(optimum.budget.values())
    charged = passed_on[()] + total(highest[path] * w for path, w in worth.items())
    if not earned == charged == optimum.value:
        raise NotOptimal(f"budget {earned}, prices {charged} and value {optimum.value} differ")


def _selected(optimum: LengthOptimum, instance: Instance) -> dict[Path, Rational]:
    """Return the law of the selected path, prefix by prefix."""
    drawn, every = drawn_below(instance), sorted(paths(instance))
    if any(sorted(order) != every for _, order in optimum.selection):
        raise NotOptimal("an order must rank every path that can be drafted once, and no other")
    weights = [weight for weight, _ in optimum.selection]
    if total(weights) != 1 or min(weights) < 0:
        raise NotOptimal("the weights of the orders must not be negative, and sum to 1")
    selected = dict.fromkeys([(), *drafted_prefixes(instance)], ZERO)
    for weight, order in optimum.selection:
        for node, mass in selection_law(drawn, order).items():
            selected[node] += weight * mass
    return selected


def drafted_prefixes(instance: Instance) -> list[Path]:
    """Return the prefixes that can be drafted, shorter ones first."""
    return [prefix for prefix in instance.draft.reachable(instance.length) if prefix]


def paths(instance: Instance) -> list[Path]:
    """Return the paths that can be drafted."""
    return [prefix for prefix in drafted_prefixes(instance) if len(prefix) == instance.length]


@lru_cache(maxsize=64)
def drawn_below(instance: Instance) -> Drawn:
    """Return, after every drafted context, the sets of next contexts with their probabilities.

    Siblings with the same tokens in a different order are one set, with each token as often as
    drawn.
    """
    contexts = instance.draft.reachable(instance.length - 1)
    return {
        context: tuple(
            (weight, tuple((*context, token) for token in tokens))
            for tokens, weight in _drawn_together(
                instance.scheme, instance.draft(context), instance.widths[len(context)]
            )
        )
        for context in contexts
    }


@lru_cache(maxsize=4096)
def _drawn_together(
    scheme: str, row: Row, width: int
) -> tuple[tuple[tuple[int, ...], Rational], ...]:
    drawn = sibling_law(scheme, row, width).map(lambda siblings: tuple(sorted(siblings)))
    return tuple(drawn.items())


def selection_law(drawn: Drawn, order: Iterable[Path], *, one: Any = ONE) -> dict[Path, Any]:
    """Return P(the highest-ranked drafted path passes x) for every prefix x, given an order.

    `order` has the lowest path first. The probability that all drafted paths are among the paths
    ranked so far grows path by path; each path changes this probability only at the contexts above
    it. `drawn` is the result of `drawn_below`; if its weights are floats, `one` must be a float.
    """
    zero = 0 * one
    inside: dict[Path, Any] = {}
    law: dict[Path, Any] = {}
    for path in order:
        before = inside.get((), zero)
        inside[path] = one
        for size in range(len(path) - 1, -1, -1):
            inside[path[:size]] = _all_inside(drawn[path[:size]], inside, zero)
        for size in range(len(path) + 1):
            law[path[:size]] = law.get(path[:size], zero) + inside[()] - before
    return law


def _all_inside(
    drawn: Sequence[tuple[Any, tuple[Path, ...]]], inside: Mapping[Path, Any], zero: Any
) -> Any:
    """Return the probability that all paths are inside, from that at the next contexts."""
    mass = zero
    for weight, contexts in drawn:
        for context in contexts:
            if context not in inside:
                break
            weight *= inside[context]
        else:
            mass += weight
    return mass
