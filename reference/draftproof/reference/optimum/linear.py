"""Linear programs in rationals, each maximum with its certificate.

    maximise    sum of objective(j) x(j)
    subject to  sum of row(j) x(j) <= right    for each limit
                sum of row(j) x(j)  = right    for each equation
                x >= 0.

**Prices** prove that nothing is larger. Let each limit have a price >= 0 and each equation any
price, such that the sum of price times row(j) is at least objective(j) for every j. Then no
solution is worth more than the sum of price times right side.

HiGHS solves the program in floats, and only proposes which unknowns and which prices are not 0. At
a vertex these are determined by the rows that hold with equality, which are solved exactly. `check`
decides, by sums and comparisons.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import QQ
from sympy.polys.matrices import DomainMatrix

from draftproof.reference.optimum.certified import NotOptimal
from draftproof.reference.rational import ZERO, Rational, total

Terms = Mapping[Any, Rational]
Bound = tuple[Terms, Rational]

# For the floats only: what is taken for zero.
_NOTHING = 1e-9


@dataclass(frozen=True)
class LinearProgram:
    """An objective, limits and equations on unknowns of any names, none of them negative."""

    objective: Terms
    limits: Sequence[Bound]
    equations: Sequence[Bound] = ()


@dataclass(frozen=True)
class Maximum:
    """Maximum with its proof: a solution of that value, and prices of limits and equations."""

    value: Rational
    solution: Terms
    prices: Sequence[Rational]


def maximum(program: LinearProgram) -> Maximum:
    """Return the certified maximum. Raises `NotOptimal` if the proof does not hold."""
    # Importing them takes a second, and most commands solve no such program.
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    bounds, first = [*program.limits, *program.equations], len(program.limits)
    names = list(dict.fromkeys(name for row, _ in bounds for name in row))
    index = {name: j for j, name in enumerate(names)}
    entries = [
        (i, index[name], float(x)) for i, (row, _) in enumerate(bounds) for name, x in row.items()
    ]
    at_row, at_column, values = zip(*entries, strict=True)
    matrix = coo_array((values, (at_row, at_column)), shape=(len(bounds), len(names))).tocsr()
    right = np.array([float(most) for _, most in bounds])
    worth = np.array([float(program.objective.get(name, ZERO)) for name in names])
    found = linprog(
        -worth, matrix[:first], right[:first], matrix[first:], right[first:], method="highs-ds"
    )
    if found.x is None:
        raise NotOptimal(f"HiGHS proposes nothing: {found.message}")
    charges = -np.concatenate([found.ineqlin.marginals, found.eqlin.marginals])

    used = [names[j] for j in np.flatnonzero(found.x > _NOTHING)]
    binding = np.flatnonzero(abs(matrix @ found.x - right) < _NOTHING)
    solution = _solved(used, [bounds[i] for i in binding])
    priced = [int(i) for i in np.flatnonzero(abs(charges) > _NOTHING)]
    earning = [names[j] for j in np.flatnonzero(abs(matrix.T @ charges - worth) < _NOTHING)]
    prices = _solved(
        priced,
        [
            ({i: bounds[i][0].get(name, ZERO) for i in priced}, program.objective.get(name, ZERO))
            for name in earning
        ],
    )
    best = Maximum(
        _sum(program.objective, solution),
        solution,
        [prices.get(i, ZERO) for i in range(len(bounds))],
    )
    check(best, program)
    return best


def check(found: Maximum, program: LinearProgram) -> None:
    """Raise `NotOptimal` unless the certificate proves the value, by sums and comparisons only."""
    bounds, first = [*program.limits, *program.equations], len(program.limits)
    if min(found.solution.values(), default=ZERO) < 0:
        raise NotOptimal("an unknown is negative")
    if min(found.prices[:first], default=ZERO) < 0:
        raise NotOptimal("the price of a limit is negative")
    charged: dict[Hashable, Rational] = dict.fromkeys(program.objective, ZERO)
    for i, (price, (row, right)) in enumerate(zip(found.prices, bounds, strict=True)):
        reached = _sum(row, found.solution)
        if reached > right or (i >= first and reached < right):
            raise NotOptimal(f"the solution has {reached} where the program says {right}")
        for name, x in row.items():
            charged[name] = charged.get(name, ZERO) + price * x
    if any(charge < program.objective.get(name, ZERO) for name, charge in charged.items()):
        raise NotOptimal("the prices undercut the objective")
    earned = _sum(program.objective, found.solution)
    asked = total(price * right for price, (_, right) in zip(found.prices, bounds, strict=True))
    if not earned == asked == found.value:
        raise NotOptimal(f"solution {earned}, prices {asked} and value {found.value} differ")


def _sum(row: Terms, solution: Terms) -> Rational:
    return total(x * solution[name] for name, x in row.items() if name in solution)


def _solved(names: Sequence[Hashable], equations: Sequence[Bound]) -> dict[Hashable, Rational]:
    """Return a solution of the equations in these unknowns, with 0 for every free unknown."""
    solved = dict.fromkeys(names, ZERO)
    entries = [[*(row.get(name, ZERO) for name in names), right] for row, right in equations]
    if names and entries:
        matrix = DomainMatrix(entries, (len(entries), len(names) + 1), QQ).to_sparse()
        reduced, pivots = matrix.rref()
        if len(names) in pivots:
            raise NotOptimal("what HiGHS proposes to hold with equality is contradictory")
        for i, j in enumerate(pivots):
            solved[names[j]] = reduced[i, len(names)].element
    return solved
