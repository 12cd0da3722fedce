"""The linear program behind a largest E[accepted length], solved exactly.

In the words of `length`: maximise the sum of A(x) over budgets A and mixtures of orders, Q' being
the law of the path that a mixture selects, under

    A(x) + e(x) = share(x) A(base(x)),     A(x) + d(x) = Q'(x),     d, e >= 0.

This is the simplex method, with orders generated when they are asked for (the best one is the order
by w: a sort). A *basis* names some orders, and says of every prefix whether the target's bound
holds with equality (e = 0), the draft's (d = 0), or both; with one order more than there are
prefixes of the third kind. It determines everything:

 - A is linear in the weights of the orders, from the root down: Q'(x) where the draft's bound holds
   with equality, else share(x) A(base(x)). That e(x) = 0 at the prefixes of the third kind, and
   that the weights sum to 1, is a square system.
 - One of s(x) and t(x) is 0 where one bound holds; elsewhere s(x) is the multiplier of e(x) = 0.

Where both bounds hold and one of them has a negative price, releasing that bound improves the
value. If none of these prices is negative, no other price is, and only an order can improve it. The
first weight, d or e to shrink to 0 leaves the basis.

**It ends.** Add eps i + eps^2 i^2 + ... units to the target's bound of the i-th prefix. For small
eps > 0 nothing that a basis leaves positive is 0 (powers of distinct numbers are independent), so
every pivot improves, and no basis returns. The first basis, one order with the draft's bound
wherever the bounds agree, is feasible for these bounds too. In exact numbers eps is a symbol:
where several shrink to 0 at once, the first coefficients that differ decide.

**Two runs.** The program runs on floats first, with a numeric eps. The last basis of this run is
only a proposal: the exact run starts at the last exactly feasible basis, of a few on the way, and
stops only when nothing improves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.certified import NotOptimal
from draftproof.reference.optimum.length import (
    Drawn,
    LengthOptimum,
    Order,
    check,
    drafted_prefixes,
    drawn_below,
    paths,
    selection_law,
)
from draftproof.reference.rational import ONE

Kind = TypeVar("Kind", bound=LengthOptimum)
Numbers = NDArray[Any]

TARGET, DRAFT, BOTH = "target", "draft", "both"

# For the floats only: eps, and what is taken for zero.
_EPS, _NOTHING = 1e-9, 1e-12


def optimum(kind: type[Kind], instance: Instance) -> Kind:
    """Return the certified optimum of one kind. Raises `NotOptimal` if the proof does not hold."""
    program = _program(kind, instance)
    basis = _first_basis(program)
    if instance.drafts > 1:
        basis = _proposal(program, basis)
    *_, last = _vertices(program, basis)
    s, t, _ = last.prices
    named = program.nodes[1:]
    best = kind(
        last.value,
        dict(zip(named, last.budget[1:], strict=True)),
        dict(zip(named, s[1:], strict=True)),
        dict(zip(named, t[1:], strict=True)),
        tuple(zip(last.values[: len(last.basis.orders)], last.basis.orders, strict=True)),
    )
    check(best, instance)
    return best


@dataclass(frozen=True, eq=False)
class _LinearProgram:
    """Data that no pivot changes: the prefixes, the empty prefix first, and their bounds.

    `unit` has the unit of d and e for each prefix, without which floats would miss the improbable
    prefixes. `ladder` has the paths by the ratio of target's to draft's probability, for free
    choices.
    """

    nodes: list[Path]
    base: NDArray[np.intp]
    share: Numbers
    unit: Numbers
    ladder: tuple[Path, ...]
    drawn: Drawn
    is_exact: bool = True
    laws: dict[Order, Numbers] = field(default_factory=dict)

    def law(self, order: Order) -> Numbers:
        """Return the law of the path that an order selects."""
        if order not in self.laws:
            law = selection_law(self.drawn, order, one=ONE if self.is_exact else 1.0)
            self.laws[order] = np.array([law[node] for node in self.nodes], dtype=self.share.dtype)
        return self.laws[order]

    def in_floats(self) -> _LinearProgram:
        """Return the same program in floats."""
        drawn: Any = {
            context: [(float(weight), contexts) for weight, contexts in below]
            for context, below in self.drawn.items()
        }
        share, unit = self.share.astype(float), self.unit.astype(float)
        return replace(self, share=share, unit=unit, drawn=drawn, is_exact=False, laws={})


def _program(kind: type[LengthOptimum], instance: Instance) -> _LinearProgram:
    nodes = [(), *drafted_prefixes(instance)]
    index = {node: i for i, node in enumerate(nodes)}
    bounds = [((), ONE), *(kind.allowed(instance, node) for node in nodes[1:])]
    q = {node: instance.draft.joint(node) for node in nodes}
    unit = [min(instance.target.joint(node) or ONE, q[node]) for node in nodes]
    odds = {path: instance.target.joint(path) / q[path] for path in paths(instance)}
    return _LinearProgram(
        nodes,
        np.array([index[base] for base, _ in bounds]),
        np.array([share for _, share in bounds], dtype=object),
        np.array(unit, dtype=object),
        tuple(sorted(odds, key=odds.__getitem__)),
        drawn_below(instance),
    )


@dataclass(frozen=True)
class _Basis:
    """Some orders, and for every prefix the bounds that hold with equality."""

    orders: tuple[Order, ...]
    binding: tuple[str, ...]


def _first_basis(program: _LinearProgram) -> _Basis:
    """Return the basis of one order, the ladder: the paths with the smallest p/q are lowest."""
    law, budget, binding = program.law(program.ladder), [ONE], [DRAFT]
    for i in range(1, len(program.nodes)):
        allowed = program.share[i] * budget[program.base[i]]
        budget.append(min(law[i], allowed))
        binding.append(DRAFT if law[i] <= allowed else TARGET)
    return _Basis((program.ladder,), tuple(binding))


def _proposal(program: _LinearProgram, basis: _Basis) -> _Basis:
    """Return the last exactly feasible basis, of a few along the way of the run on floats."""
    way, seen = [basis], set()
    # Rounding can lead round in circles, or to the end of the way before its time.
    with suppress(_Singular, FloatingPointError), np.errstate(all="raise", under="ignore"):
        for vertex in islice(_vertices(program.in_floats(), basis), 100 * len(program.nodes)):
            way.append(vertex.basis)
            met = frozenset(vertex.basis.orders), vertex.basis.binding
            if met in seen:
                break
            seen.add(met)
    few = reversed(way[:: -(-len(way) // 8)] + way[-1:])
    return next(basis for basis in few if _is_feasible(program, basis))


def _is_feasible(program: _LinearProgram, basis: _Basis) -> bool:
    try:
        return _Vertex(program, basis).is_feasible()
    except _Singular:
        return False


def _vertices(program: _LinearProgram, basis: _Basis) -> Iterator[_Vertex]:
    """Yield the vertex of the basis, then better and better vertices, the last one optimal."""
    while True:
        vertex = _Vertex(program, basis)
        yield vertex
        following = vertex.following()
        if following is None:
            return
        basis = following


class _Vertex:
    """The values that a basis determines. Matrices have rows for prefixes, columns for cases."""

    def __init__(self, program: _LinearProgram, basis: _Basis) -> None:
        self.program, self.basis = program, basis
        binding = np.array(basis.binding)
        self._kinks = np.flatnonzero(binding == BOTH)
        self._by_target = binding == TARGET
        sizes = np.array([len(node) for node in program.nodes])
        self._levels = [
            np.flatnonzero(self._by_target & (sizes == size)) for size in range(1, max(sizes) + 1)
        ]
        self._laws = np.stack([program.law(order) for order in basis.orders], axis=1)
        self._single = np.flatnonzero(
            [*(True for _ in basis.orders), False, *(b != BOTH for b in basis.binding[1:])]
        )
        self._nothing = 0 if program.is_exact else _NOTHING
        none = 0 * self._laws
        self._budgets = self._affordable(self._laws, none, none)
        short = self._short(self._budgets, none)[self._kinks]
        self._factors = _Factors(np.concatenate([self._laws[:1], short]))

    @cached_property
    def values(self) -> Numbers:
        """Weights of the orders, then d or e of each prefix, 0 where both bounds are equalities."""
        values = self._of_order(0)
        return values if self.program.is_exact else values + _EPS * self._of_order(1)

    @cached_property
    def value(self) -> Any:
        """The sum of A, at eps = 0."""
        return self.budget[1:].sum()

    @cached_property
    def budget(self) -> Numbers:
        """A of each prefix."""
        return self._budgets @ self._of_order(0)[: len(self.basis.orders)]

    @cached_property
    def prices(self) -> tuple[list[Any], list[Any], Any]:
        """The prices s and t of each prefix, and the charge of s at the empty prefix."""
        program, binding = self.program, self.basis.binding
        multipliers = self._factors.solve_transposed(self._budgets[1:].sum(axis=0))
        multiplier = dict(
            zip(self._kinks, -multipliers[1:] / program.unit[self._kinks], strict=True)
        )
        s, t, charge = ([0 * program.share[0]] * len(binding) for _ in range(3))
        for i in range(len(binding) - 1, 0, -1):
            price = 1 + charge[i]
            s[i] = multiplier.get(i, price if binding[i] == TARGET else 0 * price)
            t[i] = price - s[i]
            charge[program.base[i]] += s[i] * program.share[i]
        return s, t, charge[0]

    def is_feasible(self) -> bool:
        """Return True if for small eps > 0 all values that may be positive are positive."""
        undecided = self._single
        for power in range(3):
            values = self._of_order(power)[undecided]
            if any(values < 0):
                return False
            undecided = undecided[values == 0]
        return not len(undecided)

    def following(self) -> _Basis | None:
        """Return a better basis, None if there is none."""
        orders, binding = list(self.basis.orders), list(self.basis.binding)
        none = 0 * self.program.share
        gain_of_order, order = self._best_order()
        gain_of_release, prefix, kept = self._best_release()
        if max(gain_of_order, gain_of_release) <= self._nothing:
            return None
        by_order = gain_of_order > gain_of_release
        if by_order:
            change = self._response(self.program.law(order), none, none, -1)
        else:
            unit = none.copy()
            unit[prefix] = self.program.unit[prefix]
            d, e = (none, unit) if kept == DRAFT else (unit, none)
            change = self._response(none, d, e, 0)
        leaving = self._first_at_zero(change)
        if leaving < len(orders):
            del orders[leaving]
        else:
            binding[leaving - len(orders)] = BOTH
        if by_order:
            orders.append(order)
        else:
            binding[prefix] = kept
        return _Basis(tuple(orders), tuple(binding))

    def _best_order(self) -> tuple[Any, Order]:
        """Return the gain of the order by w over the basis, and that order."""
        _, t, charge = self.prices
        program = self.program
        worth: dict[Path, Any] = {(): 0 * charge}
        for node, price in zip(program.nodes[1:], t[1:], strict=True):
            worth[node] = worth[node[:-1]] + price
        if not program.is_exact:
            worth = {node: round(w, 9) for node, w in worth.items()}
        order = tuple(sorted(program.ladder, key=worth.__getitem__))
        return program.law(order) @ np.array(t) + charge - self.value, order

    def _best_release(self) -> tuple[Any, int, str]:
        """Return the gain, the prefix where one of two bounds is released, and the bound to keep.

        The prefix is that of the largest negative price times the unit, which is about the gain.
        """
        s, t, charge = self.prices
        gains = [
            (-price[i] * self.program.unit[i], int(i), kept)
            for i in self._kinks
            for price, kept in ((s, DRAFT), (t, TARGET))
        ]
        return max(gains, default=(0 * charge, 0, DRAFT))

    def _first_at_zero(self, change: Numbers) -> int:
        """Return the index of the value that shrinks to 0 first."""
        rows = self._single[change[self._single] < -self._nothing]
        if not len(rows):
            raise _Singular
        if not self.program.is_exact:
            ratios = np.maximum(self.values[rows], 0) / -change[rows]
            rows = rows[ratios <= min(ratios) + self._nothing * _EPS]
            return int(rows[np.argmin(change[rows])])
        for power in count():
            ratios = self._of_order(power)[rows] / -change[rows]
            rows = rows[ratios == min(ratios)]
            if len(rows) == 1:
                return int(rows[0])
        raise _Singular

    def _of_order(self, power: int) -> Numbers:
        """Return the coefficients of eps^power in the values."""
        zero = 0 * self.program.share
        if power == 0:
            return self._response(zero, zero, zero, 1)
        more = np.array([i**power for i in range(len(zero))], dtype=zero.dtype)
        return self._response(zero, zero, -more * self.program.unit, 0)

    def _response(self, law: Numbers, d: Numbers, e: Numbers, mass: int) -> Numbers:
        """Return the basis's own values for a given law, d and e.

        The weights sum to `mass`, and no bound that holds with equality is violated.
        """
        outside = self._short(self._affordable(law, d, e), e)[self._kinks]
        weights = self._factors.solve(np.array([mass, *-outside], dtype=law.dtype))
        law = law + self._laws @ weights
        budget = self._affordable(law, d, e)
        slack = (law - budget) / self.program.unit
        left = np.where(self._by_target, slack, self._short(budget, e))
        left[self._kinks] = 0 * mass
        return np.concatenate([weights, left])

    def _affordable(self, law: Numbers, d: Numbers, e: Numbers) -> Numbers:
        """Return A for a law of the selected path."""
        budget, base, share = law - d, self.program.base, self.program.share
        for rows in self._levels:
            budget[rows] = (share[rows] * budget[base[rows]].T).T - e[rows]
        return budget

    def _short(self, budget: Numbers, e: Numbers) -> Numbers:
        """Return the gap in units between A(x) + e(x) and the target's bound."""
        bound = (self.program.share * budget[self.program.base].T).T
        return ((bound - budget - e).T / self.program.unit).T


class _Singular(NotOptimal):
    """A basis does not determine its vertex, or no value shrinks: only floats can lead there."""

    def __init__(self) -> None:
        super().__init__("the linear program has led to a basis without a vertex")


class _Factors:
    """A square matrix as a product of triangular ones, to solve systems with it."""

    def __init__(self, matrix: Numbers) -> None:
        self._lu, size = matrix.copy(), len(matrix)
        self._rows = np.arange(size)
        for i in range(size):
            pivot = i + int(np.argmax(abs(self._lu[i:, i])))
            if abs(self._lu[pivot, i]) <= (0 if matrix.dtype == object else 1e-14):
                raise _Singular
            self._lu[[i, pivot]] = self._lu[[pivot, i]]
            self._rows[[i, pivot]] = self._rows[[pivot, i]]
            self._lu[i + 1 :, i] /= self._lu[i, i]
            self._lu[i + 1 :, i + 1 :] -= np.outer(self._lu[i + 1 :, i], self._lu[i, i + 1 :])

    def solve(self, right: Numbers) -> Numbers:
        """Return the x with matrix x = right."""
        lu, x = self._lu, right[self._rows]
        for i in range(len(x)):
            x[i] -= lu[i, :i] @ x[:i]
        for i in reversed(range(len(x))):
            x[i] = (x[i] - lu[i, i + 1 :] @ x[i + 1 :]) / lu[i, i]
        return x

    def solve_transposed(self, right: Numbers) -> Numbers:
        """Return the y with y matrix = right."""
        lu, y = self._lu, right.copy()
        for i in range(len(y)):
            y[i] = (y[i] - lu[:i, i] @ y[:i]) / lu[i, i]
        for i in reversed(range(len(y))):
            y[i] -= lu[i + 1 :, i] @ y[i + 1 :]
        unpermuted = y.copy()
        unpermuted[self._rows] = y
        return unpermuted
