"""Numbers that represent every p and q at once, and models made of such numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from operator import add, mul, sub, truediv
from typing import Any

from draftproof.reference.errors import NotRational, Unsupported
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.proof.cells import NEGATIVE, NOT_NEGATIVE, POSITIVE, ZERO, Cell, Signs
from draftproof.reference.proof.polynomials import Quotient, Ring, field_of, power_of, ring_of
from draftproof.reference.rational import Rational, rational, total

Operation = Callable[[Any, Any], Any]

# Proofs of a tenth of this take minutes.
_MOST_WEIGHTS = 1000


@dataclass(frozen=True)
class Shape:
    """Sizes for which a theorem holds, whatever p and q are.

    Every context has its own rows: the target's contexts have at most `depth` tokens, the draft's
    fewer.
    """

    vocabulary: int
    length: int
    drafts: int = 1
    scheme: str = "iid"
    depth: int = 0
    has_rho: bool = False

    def __post_init__(self) -> None:
        contexts, level = 0, 1
        for _ in range(max(self.depth, self.length) + 1):
            contexts, level = contexts + level, level * self.vocabulary
            if contexts * self.vocabulary > _MOST_WEIGHTS:
                raise Unsupported(
                    f"V={self.vocabulary}, L={self.length} has more than {_MOST_WEIGHTS} weights "
                    f"in the target's rows alone: no proof of that size would end"
                )

    def contexts(self, size: int) -> list[Path]:
        """Return the contexts of at most `size` tokens."""
        tokens = range(self.vocabulary)
        return [c for length in range(size + 1) for c in product(tokens, repeat=length)]

    def rows(self) -> list[tuple[str, Path]]:
        """Return the model and the context of every row, in the order of their symbols.

        Target and draft alternate, so that compared rows are neighbours.
        """
        return [
            (name, context)
            for context in self.contexts(self.depth)
            for name in "pq"
            if name == "p" or len(context) < self.depth
        ]


def everywhere(shape: Shape) -> Cell:
    """Return the cell of all p and q, in which no weight of any row is negative.

    The last weight of a row is one minus the others, each of which has a symbol. The factor of
    K-SEQ is one more symbol, known to be at least one.
    """
    names = [
        f"{name}({token}|{','.join(map(str, context))})" if context else f"{name}({token})"
        for name, context in shape.rows()
        for token in range(shape.vocabulary - 1)
    ]
    ring = ring_of([*names, "rho"] if shape.has_rho else names)
    cell = Cell(ring, {}, {})
    step = shape.vocabulary - 1
    for start in range(0, len(names), step or 1):
        weights = ring.gens[start : start + step]
        for weight in (*weights, 1 - sum(weights)):
            cell = cell.where(ring(weight), NOT_NEGATIVE)
    return cell.where(ring.gens[-1] - 1, NOT_NEGATIVE) if shape.has_rho else cell


def _computes(operation: Operation) -> Callable[[Unknown, object], Unknown]:
    return lambda left, right: left.computed(operation, left, right)


def _computes_from_right(operation: Operation) -> Callable[[Unknown, object], Unknown]:
    return lambda right, left: right.computed(operation, left, right)


def _compares(wanted: Signs) -> Callable[[Unknown, object], bool]:
    return lambda left, right: left.cell.ask((left - right).value, wanted)


# The cell in which a program runs; nothing outside of runs.
_within: list[Cell] = []


@contextmanager
def within(cell: Cell) -> Iterator[None]:
    """Allow programs that run in this context to compute with numbers of `cell` alone."""
    _within.append(cell)
    try:
        yield
    finally:
        _within.pop()


class KeptBetweenRuns(RuntimeError):
    """A program uses a number of one cell in another, whose facts are different."""


class Unknown:
    """Number about which a cell has facts; comparisons ask the cell.

    A number belongs to its cell. Numbers of different cells are never equal, so that no cache of a
    program returns in one cell what it computed from the facts of another. Computing with numbers
    of two cells, or with a number of a cell other than that in which the program runs, raises
    `KeptBetweenRuns`.
    """

    __slots__ = ("cell", "value")

    def __init__(self, value: Quotient, cell: Cell) -> None:
        self.value, self.cell = value, cell

    __add__, __radd__ = _computes(add), _computes_from_right(add)
    __sub__, __rsub__ = _computes(sub), _computes_from_right(sub)
    __mul__, __rmul__ = _computes(mul), _computes_from_right(mul)
    __lt__, __le__ = _compares(NEGATIVE), _compares(NEGATIVE | ZERO)
    __gt__, __ge__ = _compares(POSITIVE), _compares(POSITIVE | ZERO)

    def __truediv__(self, other: object) -> Unknown:
        self._require_one_cell(other)
        if other == 0:
            raise ZeroDivisionError("division by a number that is zero")
        return self.computed(truediv, self, other)

    def __rtruediv__(self, other: object) -> Unknown:
        return self.computed(mul, other, self**0) / self

    def __pow__(self, power: int) -> Unknown:
        self._require_one_cell()
        return Unknown(power_of(self.value, power), self.cell)

    def __neg__(self) -> Unknown:
        self._require_one_cell()
        return Unknown(-self.value, self.cell)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Unknown) and other.cell is not self.cell:
            return False
        return _compares(ZERO)(self, other)

    def __bool__(self) -> bool:
        return self != 0

    def __float__(self) -> float:
        raise NotRational(
            "a symbol has no float: a proof needs fractions, + - * / and comparisons, so neither "
            "float(), math.sqrt() nor numpy"
        )

    def __hash__(self) -> int:
        # Numbers of different cells differ: with one hash, caches would compare all of them.
        return hash((self.value, self.cell))

    def computed(self, operation: Operation, left: object, right: object) -> Unknown:
        """Return the result of an operation on two numbers, each of them unknown or rational."""
        self._require_one_cell(left, right)
        ring = self.cell.ring
        return Unknown(_computed(operation, quotient(left, ring), quotient(right, ring)), self.cell)

    def _require_one_cell(self, *others: object) -> None:
        cell = _within[-1] if _within else self.cell
        for number in (self, *others):
            if isinstance(number, Unknown) and number.cell is not cell:
                raise KeptBetweenRuns("a number of one cell is used in another")


def quotient(number: object, ring: Ring) -> Quotient:
    """Return a number, unknown or rational, as an element of the field."""
    return number.value if isinstance(number, Unknown) else _constant(rational(number), ring)


@lru_cache(maxsize=10_000)
def _constant(number: Rational, ring: Ring) -> Quotient:
    return field_of(ring)(number)


class SymbolicModel(Model):
    """A model with a row of symbols for every context, without exception."""

    def __post_init__(self) -> None:
        """Check nothing: the cell's facts make the rows laws."""

    def _row(self, context: Path, row: Sequence[object]) -> Row:
        del context
        return tuple(row)  # type: ignore[arg-type]  # symbols stand for rationals

    def reachable(self, depth: int) -> Iterator[Path]:
        """Yield nothing: the program finds out which contexts can be reached."""
        del depth
        yield from ()

    def joint(self, path: Path) -> Rational:
        """Return the whole product: there is no early stop, since any factor may be zero."""
        product = rational(1)
        for i, token in enumerate(path):
            product = product * self(path[:i])[token]
        return product


@lru_cache(maxsize=256)
def symbolic_instance(shape: Shape, cell: Cell) -> tuple[Instance, Any]:
    """Return the instance whose rows are the cell's symbols, and rho if there is one."""
    weights = [Unknown(cell.symbol(i), cell) for i in range(len(cell.ring.gens))]
    return _instance(shape, weights, SymbolicModel)


def instance_at(shape: Shape, point: Sequence[Rational]) -> tuple[Instance, Any]:
    """Return the instance of one point, and rho if there is one."""
    return _instance(shape, point, Model)


def _instance(shape: Shape, weights: Sequence[Any], kind: type[Model]) -> tuple[Instance, Any]:
    """Return the instance with these weights in order, each row's last weight left out."""
    models: dict[str, dict[Path, Row]] = {"p": {}, "q": {}}
    left = iter(weights)
    for name, context in shape.rows():
        row = tuple(islice(left, shape.vocabulary - 1))
        models[name][context] = (*row, 1 - total(row))
    target, draft = (
        kind(model, shape.vocabulary, models[name])
        for model, name in (("target", "p"), ("draft", "q"))
    )
    return Instance(target, draft, shape.length, shape.drafts, shape.scheme), next(left, None)


@lru_cache(maxsize=500_000)
def _computed(operation: Operation, left: Any, right: Any) -> Any:
    # The runs of a program share most of what they compute.
    return operation(left, right)
