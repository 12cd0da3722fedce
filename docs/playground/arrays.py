"""As much of numpy as the exact linear program asks for: arrays of one or two axes, as lists.

There is no numpy for the browser to load, and the program's numbers are Python objects anyway. It
is `draftproof.reference.optimum.pivoting` that decides what is here; whatever it computes is
checked by `length.check`, which knows no arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from math import isfinite
from typing import Any

NDArray, intp = list, int


class Array:
    """Cells that are scalars, or arrays of one axis: the rows of a matrix."""

    def __init__(self, cells: Iterable[Any]) -> None:
        self.cells = list(cells)

    @property
    def dtype(self) -> type:
        """Return float for an array of floats, object for any other."""
        first = self.cells[0].cells[0] if _axes(self) == 2 else self.cells[0]
        return float if isinstance(first, float) else object

    @property
    def T(self) -> Array:  # noqa: N802  # numpy's name
        """Return the array with its axes exchanged."""
        return Array(map(Array, zip(*self.cells, strict=True))) if _axes(self) == 2 else self

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.cells)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            rows, columns = key
            picked = self[rows]
            return picked[columns] if isinstance(rows, int) else Array(x[columns] for x in picked)
        if isinstance(key, int):
            return self.cells[key]
        return Array(self.cells[i] for i in self._places(key))

    def __setitem__(self, key: Any, values: Any) -> None:
        if isinstance(key, int):
            self.cells[key] = values
            return
        rows, columns = key if isinstance(key, tuple) else (key, None)
        places = self._places(rows)
        if not isinstance(values, Array):
            values = [values] * len(places)
        for i, value in zip(places, values, strict=True):
            if columns is None:
                self.cells[i] = value
            else:
                self.cells[i][columns] = value

    def _places(self, key: Any) -> Sequence[int]:
        if isinstance(key, slice):
            return range(*key.indices(len(self.cells)))
        if key and all(isinstance(entry, bool) for entry in key):
            return flatnonzero(key).cells
        return list(key)

    def __add__(self, other: Any) -> Array:
        return _each(operator.add, self, other)

    def __sub__(self, other: Any) -> Array:
        return _each(operator.sub, self, other)

    def __mul__(self, other: Any) -> Array:
        return _each(operator.mul, self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Array:
        return _each(operator.truediv, self, other)

    def __and__(self, other: Any) -> Array:
        return _each(operator.and_, self, other)

    def __lt__(self, other: Any) -> Array:
        return _each(operator.lt, self, other)

    def __le__(self, other: Any) -> Array:
        return _each(operator.le, self, other)

    def __eq__(self, other: Any) -> Array:  # type: ignore[override]  # numpy compares cell by cell
        return _each(operator.eq, self, other)

    __hash__ = None  # type: ignore[assignment]  # nor has numpy's array a hash

    def __neg__(self) -> Array:
        return Array(-cell for cell in self.cells)

    def __abs__(self) -> Array:
        return Array(map(abs, self.cells))

    def __matmul__(self, other: Array) -> Any:
        if _axes(self) == 2:
            return Array(row @ other for row in self.cells)
        return sum(map(operator.mul, self.cells, other.cells))

    def copy(self) -> Array:
        """Return an array whose cells can be replaced alone."""
        return Array(cell.copy() if isinstance(cell, Array) else cell for cell in self.cells)

    def astype(self, dtype: type) -> Array:
        """Return the array with every cell converted."""
        return array(self.cells, dtype=dtype)

    def sum(self, axis: int | None = None) -> Any:
        """Return the sum of the cells, of a matrix along axis 0."""
        return sum(self.cells) if axis is None else Array(map(sum, zip(*self.cells, strict=True)))


class errstate:  # noqa: N801  # numpy's name
    """Raise `FloatingPointError` where numpy does; what is not finite is never stored."""

    def __init__(self, **kinds: str) -> None:
        del kinds

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *what: object) -> None:
        if kind is not None and issubclass(kind, ArithmeticError):
            raise FloatingPointError


def array(cells: Iterable[Any], dtype: type = object) -> Array:
    """Return the array of these scalars, as floats if asked for."""
    return Array(map(float, cells) if dtype is float else cells)


def arange(stop: int) -> Array:
    """Return 0, 1, ... up to `stop`, which is left out."""
    return Array(range(stop))


def stack(columns: Sequence[Array], axis: int) -> Array:
    """Return the matrix of these columns, or rows if `axis` is 0."""
    return Array(columns).T if axis else Array(columns)


def concatenate(parts: Iterable[Array]) -> Array:
    """Return the arrays one after another."""
    return Array(chain.from_iterable(parts))


def flatnonzero(cells: Iterable[Any]) -> Array:
    """Return the places of what is not zero."""
    return Array(i for i, cell in enumerate(cells) if cell)


def argmax(cells: Sequence[Any]) -> int:
    """Return the place of the first largest cell."""
    return max(range(len(cells)), key=cells.__getitem__)


def argmin(cells: Sequence[Any]) -> int:
    """Return the place of the first smallest cell."""
    return min(range(len(cells)), key=cells.__getitem__)


def maximum(cells: Array, floor: Any) -> Array:
    """Return the cells, or the floor where that is more."""
    return _each(max, cells, floor)


def where(condition: Array, yes: Array, no: Array) -> Array:
    """Return the cells of `yes` where the condition holds, of `no` elsewhere."""
    return Array(a if c else b for c, a, b in zip(condition, yes, no, strict=True))


def outer(left: Array, right: Array) -> Array:
    """Return the matrix of the products of two cells."""
    return Array(right * cell for cell in left)


def _each(do: Callable[[Any, Any], Any], left: Any, right: Any) -> Array:
    """Apply `do` cell by cell; what has fewer axes serves every row."""
    axes = max(_axes(left), _axes(right))
    rows, others = (x if _axes(x) == axes else repeat(x) for x in (left, right))
    if axes == 2:
        return Array(_each(do, *pair) for pair in zip(rows, others, strict=False))
    cells = list(map(do, rows, others))
    # Adding them up shows what is not finite; numpy would have raised the same.
    if cells and isinstance(cells[0], float) and not isfinite(sum(cells)):
        raise FloatingPointError
    return Array(cells)


def _axes(value: Any) -> int:
    if not isinstance(value, Array):
        return 0
    return 1 + _axes(value.cells[0]) if value.cells else 1
