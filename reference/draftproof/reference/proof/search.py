"""The search for the parts of a proof: splits, certificates of empty cells, points in a cell.

The proof relies on none of these results: the checker verifies a certificate exactly, and evaluates
the claim at a point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement, islice
from math import prod
from random import Random
from typing import Any

import numpy as np
from sympy import QQ
from sympy.polys.matrices import DomainMatrix

from draftproof.reference.errors import Unsupported
from draftproof.reference.extras import installation
from draftproof.reference.proof.cells import Cell, refutes
from draftproof.reference.proof.polynomials import Polynomial, at, compiled, parts, variables
from draftproof.reference.proof.symbols import Shape
from draftproof.reference.proof.tree import Terms
from draftproof.reference.rational import Rational, rational

Point = tuple[Rational, ...]

# Products beyond this many are not tried: a linear program of this size takes about a second.
_MOST_PRODUCTS = 6_000
# Points that are kept of one cell.
_ENOUGH = 6
# The largest weight, in whole numbers, that a row is made of.
_MOST_COUNTED = 12


def refutation(cell: Cell, about: Polynomial | None, degree: int) -> Terms | None:
    """Return a certificate that the cell has no points, from products of at most `degree` facts.

    Only facts that are connected to the polynomial `about` by common symbols are used. A result of
    None means that the search found no certificate, not that there is none.
    """
    if cell.contradicts_itself():
        return ()
    generators = _connected(cell.generators(), about)
    for size in range(1, degree + 1):
        products = [
            chosen
            for count in range(size + 1)
            for chosen in combinations_with_replacement(range(len(generators)), count)
        ]
        if len(products) > _MOST_PRODUCTS:
            return None
        found = _vanishing_sum(cell, generators, products)
        if found is not None:
            return found
    return None


def _vanishing_sum(
    cell: Cell,
    generators: Sequence[tuple[Polynomial, bool]],
    products: Sequence[tuple[int, ...]],
) -> Terms | None:
    """Return positive multiples of products that add up to zero, one product being positive."""
    # Importing them takes a second, and most commands prove nothing.
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    columns = [_product(tuple(generators[i][0] for i in chosen), cell.ring) for chosen in products]
    strict = [all(generators[i][1] for i in chosen) for chosen in products]
    rows: dict[tuple[int, ...], int] = {}
    entries = [
        (rows.setdefault(monom, len(rows)), j, float(coefficient))
        for j, column in enumerate(columns)
        for monom, coefficient in column.iterterms()
    ]
    entries += [(len(rows), j, 1.0) for j, is_strict in enumerate(strict) if is_strict]
    height = len(rows) + 1
    at_row, at_column, value = zip(*entries, strict=True)
    matrix = coo_array((value, (at_row, at_column)), shape=(height, len(columns)))
    right = np.zeros(height)
    right[-1] = 1.0
    solution = linprog(np.ones(len(columns)), A_eq=matrix.tocsr(), b_eq=right, method="highs-ds")
    if solution.x is None:
        return None
    support = [j for j, weight in enumerate(solution.x) if weight > 1e-9]
    weights = _exact_weights([columns[j] for j in support])
    if weights is None:
        return None
    found = tuple(
        (weight, tuple(generators[i][0] for i in products[j]))
        for weight, j in zip(weights, support, strict=True)
        if weight != 0
    )
    return found if refutes(found, cell) else None


def _exact_weights(columns: Sequence[Polynomial]) -> list[Rational] | None:
    """Return the positive weights, unique up to a factor, with which the columns add up to zero."""
    monoms = sorted({monom for column in columns for monom in column.itermonoms()})
    if not columns:
        return None
    entries = [[column.get(monom, QQ(0)) for column in columns] for monom in monoms]
    matrix = DomainMatrix(entries, (len(monoms), len(columns)), QQ)
    kernel = matrix.nullspace().to_Matrix() if monoms else None
    if kernel is None:
        return [rational(1)] * len(columns)
    if kernel.rows != 1:
        return None
    weights = [rational(QQ.from_sympy(entry)) for entry in kernel.row(0)]
    if all(weight <= 0 for weight in weights):
        weights = [-weight for weight in weights]
    return weights


@lru_cache(maxsize=200_000)
def _product(polynomials: tuple[Polynomial, ...], ring: object) -> Polynomial:
    return prod(polynomials, start=ring.one)  # type: ignore[attr-defined]  # sympy is untyped


def _connected(
    generators: Sequence[tuple[Polynomial, bool]], about: Polynomial | None
) -> list[tuple[Polynomial, bool]]:
    if about is None:
        return list(generators)
    reached, grown = frozenset[int](), variables(about)
    while reached != grown:
        reached = grown
        for polynomial, _ in generators:
            if variables(polynomial) & reached:
                grown |= variables(polynomial)
    return [
        (f, is_strict) for f, is_strict in generators if variables(f) & reached or not variables(f)
    ]


class Points:
    """Rational points of cells: some are kept from cell to cell, and more are tried on demand.

    Floats select the points that are worth an exact test.
    """

    def __init__(self, shape: Shape, tries: int = 400) -> None:
        self._shape = shape
        self._random = Random(0)  # noqa: S311  # a search, not a secret
        # Simple points first: a counterexample should be one.
        self._pool = [self._any_point(1 + i * _MOST_COUNTED // tries) for i in range(tries)]
        self._floats = np.array([[float(x) for x in point] for point in self._pool]).T
        self._known: dict[Cell, list[Point]] = {}

    def within(self, cell: Cell, outer: Cell | None = None) -> list[Point]:
        """Return a few points of the cell, those of an outer cell first; there may be none."""
        if cell not in self._known:
            inherited = self._known.get(outer, []) if outer is not None else []
            found = [point for point in inherited if contains(cell, point)]
            if len(found) < _ENOUGH and not cell.contradictory:
                moved = (_moved(cell, self._pool[i]) for i in self._promising(cell))
                found += islice((point for point in moved if contains(cell, point)), _ENOUGH)
            self._known[cell] = found
        return self._known[cell]

    def _promising(self, cell: Cell) -> Iterator[int]:
        """Yield the indices of points that seem to be in the cell, up to rounding."""
        columns = list(self._floats)
        with np.errstate(all="ignore"):
            for index, value in cell.solved.items():
                top, bottom = (_floating(part, self._floats) for part in parts(value))
                columns[index] = top / bottom
            seems = np.ones(len(self._pool), dtype=bool)
            for fact, signs in cell.facts.items():
                values = _floating(fact, columns)
                seems &= (
                    values > -1e-9 if -1 not in signs else values < 1e-9 if 1 not in signs else True
                )
        yield from map(int, np.flatnonzero(seems))

    def _any_point(self, most: int) -> list[Rational]:
        point: list[Rational] = []
        previous: tuple[Rational, ...] = ()
        for _ in self._shape.rows():
            row = self._any_row(most)
            # Rows that agree, or nearly do, are as common as those that do not.
            if previous and self._random.random() < 0.3:
                row = tuple((a + b) / 2 for a, b in zip(row, previous, strict=True))
            point.extend(row[:-1])
            previous = row
        if self._shape.has_rho:
            point.append(rational(1) + rational(self._random.randrange(9)) / 4)
        return point

    def _any_row(self, most: int) -> tuple[Rational, ...]:
        size = self._shape.vocabulary
        counts = [self._random.randrange(most + 1) for _ in range(size)]
        counts[self._random.randrange(size)] += 1
        return tuple(rational(count) / sum(counts) for count in counts)


class SolverMissing(Unsupported):
    """The search needs z3, which is not installed."""


def solved_point(cell: Cell) -> Point | None:
    """Return a rational point of the cell from z3, or None if z3 finds none in 30 seconds.

    Raises `SolverMissing` without z3 (the extra `prove`).
    """
    try:
        import z3
    except ImportError:
        raise SolverMissing(
            "neither a certificate nor a point was found for one of the cells; z3 may find a "
            f"point: {installation('prove')}"
        ) from None
    unknowns = [z3.Real(symbol.name) for symbol in cell.ring.symbols]
    solver = z3.Solver()
    solver.set("timeout", 30_000)
    for fact, signs in cell.facts.items():
        value = z3.Sum([_term(z3, c, powers, unknowns) for c, powers in compiled(fact)])
        is_one_of = {-1: value < 0, 0: value == 0, 1: value > 0}
        solver.add(z3.Or([is_one_of[s] for s in sorted(signs)]))
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    values = [model.eval(unknown, model_completion=True) for unknown in unknowns]
    if not all(z3.is_rational_value(value) for value in values):
        return None
    exact = [rational(value.numerator_as_long()) / value.denominator_as_long() for value in values]
    point = _moved(cell, exact)
    return point if contains(cell, point) else None


def _term(z3: Any, coefficient: Rational, powers: Sequence[tuple[int, int]], of: Any) -> Any:
    number = z3.Q(int(coefficient.numerator), int(coefficient.denominator))
    return z3.Product([number, *(of[i] for i, e in powers for _ in range(e))])


def sign(value: Rational) -> int:
    """Return the sign of a value: -1, 0 or 1."""
    return (value > 0) - (value < 0)


def contains(cell: Cell, point: Sequence[Rational]) -> bool:
    """Return True if a point, which satisfies the cell's solved equations, is in the cell."""
    if cell.contradictory:
        return False
    for index, value in cell.solved.items():
        top, bottom = parts(value)
        below = at(bottom, point)
        if below == 0 or at(top, point) != point[index] * below:
            return False
    return all(sign(at(fact, point)) in signs for fact, signs in cell.facts.items())


def _floating(polynomial: Polynomial, columns: Any) -> Any:
    value = np.zeros_like(columns[0])
    for coefficient, powers in compiled(polynomial):
        term = float(coefficient)
        for index, power in powers:
            term = term * columns[index] ** power
        value = value + term
    return value


def _moved(cell: Cell, point: list[Rational]) -> Point:
    """Return the point with the values that the cell determines for its solved symbols."""
    moved = list(point)
    for index, value in cell.solved.items():
        top, bottom = parts(value)
        below = at(bottom, point)
        if below != 0:
            moved[index] = at(top, point) / below
    return tuple(moved)
