"""Cells: the points at which certain polynomials have certain signs.

A cell holds the known facts about the symbols, and answers questions from these facts. If the facts
leave an answer undecided, the prover splits the cell by the signs of one polynomial. Every real
number is negative, zero or positive, so the parts cover the cell, whatever the polynomial is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from draftproof.reference.proof.polynomials import (
    Polynomial,
    Quotient,
    Ring,
    compiled,
    factors,
    field_of,
    is_quotient,
    oriented,
    parts,
    replaced,
    variables,
    written,
)
from draftproof.reference.rational import Rational

Signs = frozenset[int]

NEGATIVE, ZERO, POSITIVE = (frozenset({sign}) for sign in (-1, 0, 1))
ANY = NEGATIVE | ZERO | POSITIVE
NOT_NEGATIVE, NOT_ZERO = ZERO | POSITIVE, NEGATIVE | POSITIVE

SIGN_NAMES: Mapping[str, Signs] = {
    "<0": NEGATIVE,
    "=0": ZERO,
    ">0": POSITIVE,
    "<=0": NEGATIVE | ZERO,
    ">=0": NOT_NEGATIVE,
    "!=0": NOT_ZERO,
}


class Undecided(Exception):
    """A sign is unknown in a cell: split the cell by whether `polynomial` has it in `signs`."""

    def __init__(self, polynomial: Polynomial, signs: Signs) -> None:
        super().__init__(polynomial, signs)
        self.polynomial, self.signs = polynomial, signs


@dataclass(frozen=True, eq=False)
class Cell:
    """Cell by its known facts: the signs that polynomials may have, and the determined symbols.

    `facts` maps polynomials with leading coefficient one to sets of signs, never naming a symbol of
    `solved`; `solved` maps the index of a symbol to its value in the others. A cell that is
    `contradictory` has no points. (The facts may also imply less directly that a cell has no
    points: see `refutes`.)
    """

    ring: Ring
    facts: Mapping[Polynomial, Signs]
    solved: Mapping[int, Quotient]
    contradictory: bool = False

    def __str__(self) -> str:
        names = {signs: name for name, signs in SIGN_NAMES.items()}
        symbols = self.ring.symbols
        known = [
            f"{written(f)} {names[signs]}" for f, signs in self.facts.items() if signs in names
        ]
        solved = [f"{symbols[i].name} = {value}" for i, value in self.solved.items()]
        return ", ".join(known + solved)

    def symbol(self, index: int) -> Quotient:
        """Return a symbol, or its value where the cell determines it."""
        return self.solved.get(index, field_of(self.ring)(self.ring.gens[index]))

    def signs(self, value: Polynomial | Quotient) -> Signs:
        """Return the signs that a value may have, as far as the facts say directly.

        The denominator of a quotient is assumed not to vanish.
        """
        top, bottom = parts(value)
        return _times(self._signs(top), self._signs(bottom) - ZERO)

    def ask(self, value: Quotient, wanted: Signs) -> bool:
        """Return True if the value's sign is in `wanted`. Raises `Undecided` if it is unknown."""
        signs = self.signs(value)
        if signs <= wanted:
            return True
        if not signs & wanted:
            return False
        raise self.question(value, wanted)

    def question(self, value: Quotient, wanted: Signs) -> Undecided:
        """Return the split that helps to decide if the value's sign is in `wanted`."""
        top, bottom = parts(value)
        orientation = 1
        undecided = []
        for part in (top, bottom):
            leading, found = factors(part)
            orientation *= leading
            for factor, power in found:
                signs = self._signs(factor)
                if len(signs) > 1 and (power % 2 or 0 in signs):
                    undecided.append((factor, power, signs))
                elif power % 2 and signs == NEGATIVE:
                    orientation = -orientation
        if not undecided:  # the whole is known better than its factors are
            return Undecided(top, wanted)
        # What can change sign first: whether the rest vanishes may then be of no account.
        factor, _, signs = max(undecided, key=lambda u: (u[1] % 2 and -1 in u[2], len(u[2])))
        asked = frozenset(orientation * sign for sign in wanted)
        if not signs & asked or signs <= asked:
            asked = ZERO if 0 in signs else POSITIVE
        return Undecided(factor, asked)

    def where(self, polynomial: Polynomial, signs: Signs) -> Cell:
        """Return the part of the cell in which the polynomial has one of the signs."""
        value = self.restricted(polynomial)
        if value is None:
            return replace(self, contradictory=True)
        learnt = _Learning(self.facts)
        top, bottom = parts(value)
        # The product has the quotient's sign: denominators do not vanish.
        learnt.add(top * bottom, signs)
        contradictory = self.contradictory or learnt.contradictory
        cell = Cell(self.ring, learnt.facts, self.solved, contradictory)
        return cell._eliminated()

    def restricted(self, value: Quotient) -> Quotient | None:
        """Return the value in the symbols that are not determined, or None if it is undefined.

        The value is undefined if its denominator vanishes on the whole cell.
        """
        field = field_of(self.ring)
        if not any(variables(part) & self.solved.keys() for part in parts(value)):
            return value if is_quotient(value) else field(value)
        top, bottom = (self._restricted(part) for part in parts(value))
        return field(top[0]) / field(bottom[0]) * bottom[1] / top[1] if bottom[0] != 0 else None

    def is_within(self, other: Cell) -> bool:
        """Return True if the facts of this cell directly imply all facts of the other cell."""
        if not other.solved.keys() <= self.solved.keys():
            return False
        for fact, signs in reversed(list(other.facts.items())):
            if not self.facts.get(fact, ANY) <= signs:
                value = self.restricted(fact)
                if value is None or not self.signs(value) <= signs:
                    return False
        return all(self.restricted(value) == self.solved[i] for i, value in other.solved.items())

    def vanishes(self, value: Quotient) -> bool:
        """Return True if the value is identically zero, given the equations of the cell."""
        top, _ = parts(value)
        equations = [f for f in self.facts if self._signs(f) == ZERO]
        return bool(top == 0 or (equations and top.rem(equations) == 0))

    def is_regular(self, value: Quotient) -> bool:
        """Return True if the denominator is known not to vanish anywhere in the cell."""
        return 0 not in self._signs(parts(value)[1])

    def contradicts_itself(self) -> bool:
        """Return True if some fact is left with no possible sign."""
        return self.contradictory or not all(map(self._signs, self.facts))

    def generators(self) -> list[tuple[Polynomial, bool]]:
        """Return polynomials that are not negative in the cell, with True for positive ones."""
        found = []
        for fact, signs in self.facts.items():
            if signs <= NOT_NEGATIVE:
                found.append((fact, signs == POSITIVE))
            if signs <= NEGATIVE | ZERO:
                found.append((-fact, signs == NEGATIVE))
            if signs == NOT_ZERO:
                found.append((fact**2, True))
        return found

    def _restricted(self, polynomial: Polynomial) -> tuple[Polynomial, Quotient]:
        scale = field_of(self.ring).one
        for index in variables(polynomial) & self.solved.keys():
            polynomial, power = replaced(polynomial, index, self.solved[index])
            scale *= parts(self.solved[index])[1] ** power
        return polynomial, scale

    def _signs(self, polynomial: Polynomial) -> Signs:
        if polynomial not in self._asked:
            self._asked[polynomial] = self._computed_signs(polynomial)
        return self._asked[polynomial]

    @cached_property
    def _asked(self) -> dict[Polynomial, Signs]:
        """The signs of the polynomials that were asked for."""
        return {}

    def _computed_signs(self, polynomial: Polynomial) -> Signs:
        if not polynomial:
            return ZERO
        if polynomial.is_ground:
            return _sign(polynomial.LC)
        sign, monic = oriented(polynomial)
        whole = _times(self.facts.get(monic, ANY), _sign(sign))
        if len(whole) == 1:
            return whole
        leading, found = factors(polynomial)
        product = _sign(leading)
        for factor, power in found:
            signs = self._signs(factor) if factor != monic else self.facts.get(factor, ANY)
            product = _times(product, _power(signs, power))
        known = whole & product
        return known if len(known) == 1 else known & self._signs_by_terms(polynomial)

    def _signs_by_terms(self, polynomial: Polynomial) -> Signs:
        """Return the possible signs of a sum, given the signs of its terms."""
        possible = ZERO
        for coefficient, powers in compiled(polynomial):
            term = _sign(coefficient)
            for index, power in powers:
                term = _times(term, _power(self.facts.get(self.ring.gens[index], ANY), power))
            possible = _plus(possible, term)
            if possible == ANY:
                break
        return possible

    def _eliminated(self) -> Cell:
        """Return the same cell, with every equation linear in a symbol solved for the symbol."""
        for fact, signs in self.facts.items():
            if signs != ZERO or self.contradictory:
                continue
            for index in sorted(variables(fact), reverse=True):
                slope, rest = _linear(fact, index)
                if slope is not None and 0 not in self._signs(slope):
                    return self._solved_for(index, slope, rest)._eliminated()
        return self

    def _solved_for(self, index: int, slope: Polynomial, rest: Polynomial) -> Cell:
        field = field_of(self.ring)
        value = -field(rest) / field(slope)
        bottom = parts(value)[1]
        alone = replace(self, solved={index: value})
        solved = {i: alone.restricted(known) for i, known in self.solved.items()}
        if None in solved.values():  # a denominator vanishes, and it does not
            return replace(self, contradictory=True)
        learnt = _Learning({})
        for fact, signs in self.facts.items():
            there, power = replaced(fact, index, value)
            # there = fact * bottom^power, and bottom does not vanish.
            learnt.add(there * bottom if power % 2 else there, signs)
        return Cell(
            self.ring,
            {fact: signs for fact, signs in learnt.facts.items() if signs != ANY},
            {**solved, index: value},
            self.contradictory or learnt.contradictory,
        )


def refutes(terms: Iterable[tuple[Rational, Sequence[Polynomial]]], cell: Cell) -> bool:
    """Return True if the certificate shows that the cell has no points.

    A certificate is a sum of positive multiples of products of polynomials that are not negative
    in the cell, one of the products being positive: if the sum is identically zero, there is no
    point. No terms are needed where the facts contradict each other outright.
    """
    if cell.contradicts_itself():
        return True
    one: Quotient = field_of(cell.ring).one
    whole, strict = one - one, False
    for coefficient, written_product in terms:
        product: list[Quotient] = [cell.restricted(factor) for factor in written_product]
        if None in product:
            return False
        signs = [cell.signs(factor) for factor in product]
        if coefficient <= 0 or not all(sign <= NOT_NEGATIVE for sign in signs):
            return False
        strict = strict or all(sign == POSITIVE for sign in signs)
        whole += prod(product, start=one) * coefficient
    return strict and bool(whole == 0)


class _Learning:
    """Facts added one by one, each with its consequences for its factors."""

    def __init__(self, facts: Mapping[Polynomial, Signs]) -> None:
        self.facts, self.contradictory = dict(facts), False

    def add(self, polynomial: Polynomial, signs: Signs) -> None:
        if polynomial.is_ground:
            self.contradictory |= not (_sign(polynomial.coeff(1)) <= signs)
            return
        sign, monic = oriented(polynomial)
        known = self.facts.get(monic, ANY) & _times(signs, _sign(sign))
        self.facts[monic] = known
        self.contradictory |= not known
        _, found = factors(monic)
        if len(found) == 1 and found[0][1] == 1:
            return
        for factor, power in found:
            others = frozenset({1})
            for other, exponent in found:
                if other != factor:
                    others = _times(others, _power(self.facts.get(other, ANY), exponent))
            possible = frozenset(
                s for s in self.facts.get(factor, ANY) if known & _times(_sign(s**power), others)
            )
            if possible != self.facts.get(factor, ANY):
                self.facts[factor] = possible
                self.contradictory |= not possible


def _sign(value: Rational | int) -> Signs:
    return POSITIVE if value > 0 else NEGATIVE if value < 0 else ZERO


def _times(some: Signs, others: Signs) -> Signs:
    return frozenset(s * o for s in some for o in others)


def _power(some: Signs, power: int) -> Signs:
    return frozenset(s**power for s in some)


def _plus(some: Signs, others: Signs) -> Signs:
    """Return the signs of the sums of two numbers with these signs."""
    return frozenset().union(*(ANY if s * o < 0 else {s or o} for s in some for o in others))


def _linear(polynomial: Polynomial, index: int) -> tuple[Polynomial | None, Polynomial]:
    """Return slope and rest of a polynomial that is linear in a symbol."""
    ring = polynomial.ring
    slope: dict[tuple[int, ...], Rational] = {}
    rest: dict[tuple[int, ...], Rational] = {}
    for monom, coefficient in polynomial.iterterms():
        if monom[index] > 1:
            return None, ring.zero
        where = slope if monom[index] else rest
        where[(*monom[:index], 0, *monom[index + 1 :])] = coefficient
    return ring.from_dict(slope), ring.from_dict(rest)
