"""Array of random numbers drawn by numpy, which passes for a `numpy.ndarray`.

It wraps a tensor, on which it does arithmetic, comparisons, races and indexing. Everything else
that numpy does with an array reads its numbers: that decides choices, and the lane is blind if a
number is continuous. Code in C that needs an array's memory calls `__array__`, which also reads
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from draftproof.conformance.lanes.exact import _scalar


def as_array(tensor: Tensor) -> Any:
    """Return a tensor as numpy's: an `Array` if a lane watches and the tensor is random."""
    if has_torch_function((tensor,)):
        return handle_torch_function(as_array, (tensor,), tensor)
    return tensor.detach().clone().numpy()


def number_of(tensor: Tensor) -> Any:
    """Return the only element of a tensor as a number of numpy's, with its choice decided."""
    found = tensor.item()
    if isinstance(found, _scalar.Scalar):
        return found
    kinds: dict[type, Any] = {bool: numpy.bool_, int: numpy.int64, float: numpy.float64}
    return kinds[found.__class__](found)


def answered(tensor: Tensor) -> Any:
    """Return a result as numpy's: a number if it has no dimension, else an array."""
    return as_array(tensor) if tensor.dim() else number_of(tensor)


class Array(NDArrayOperatorsMixin):
    """Stand-in for an array that contains random numbers."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property  # type: ignore[misc]  # an object's is no property
    def __class__(self) -> type[numpy.ndarray[Any, Any]]:  # type: ignore[override]  # the point
        return numpy.ndarray

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*_tensors(args), **_tensors(kwargs or {}))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return of_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return of_function(func, args, kwargs)

    def __array__(self, dtype: Any = None, **_: Any) -> Any:
        # Decides choices, and refuses what is continuous.
        return numpy.array(self._tensor.numpy(), dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        return getattr(self.__array__(), name)

    # --- form, which is nothing random -------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._tensor.shape)

    @property
    def ndim(self) -> int:
        return self._tensor.dim()

    @property
    def size(self) -> int:
        return self._tensor.numel()

    @property
    def dtype(self) -> Any:
        return next(kind for kind, dtype in _DTYPES.items() if dtype is self._tensor.dtype)

    def __len__(self) -> int:
        return len(self._tensor)

    # --- movement ----------------------------------------------------------------------------

    @property
    def _transposed(self) -> Any:
        return answered(self._tensor.permute(*reversed(range(self.ndim))))

    T = _transposed

    def __iter__(self) -> Iterator[Any]:
        return (answered(row) for row in self._tensor)

    def __getitem__(self, index: Any) -> Any:
        return answered(self._tensor[_index(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._tensor[_index(index)] = opened(value)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        return answered(self._tensor.to(_dtype(dtype), copy=True))

    def reshape(self, *shape: Any, **_: Any) -> Any:
        own = shape[0] if len(shape) == 1 else shape
        return answered(self._tensor.reshape(own if isinstance(own, (list, tuple)) else (own,)))

    def ravel(self, *_: Any) -> Any:
        return answered(self._tensor.reshape(-1))

    flatten = ravel

    def squeeze(self, axis: int | None = None) -> Any:
        return answered(self._tensor.squeeze() if axis is None else self._tensor.squeeze(axis))

    def copy(self, *_: Any) -> Any:
        return answered(self._tensor.clone())

    def item(self, *index: int) -> Any:
        return (self._tensor[index] if index else self._tensor).item()

    def tolist(self) -> Any:
        return self._tensor.tolist()

    # --- looks -------------------------------------------------------------------------------

    def argmax(self, axis: int | None = None) -> Any:
        return self._raced("argmax", axis)

    def argmin(self, axis: int | None = None) -> Any:
        return self._raced("argmin", axis)

    def _raced(self, name: str, axis: int | None) -> Any:
        if self._tensor.dtype is torch.bool:
            return getattr(self.__array__(), name)(axis)
        return answered(getattr(self._tensor, name)(axis))

    def clip(self, low: Any = None, high: Any = None) -> Any:
        return answered(self._tensor.clamp(low, high))

    def __bool__(self) -> bool:
        return bool(self._tensor)

    def __float__(self) -> float:
        return float(self._tensor)

    def __int__(self) -> int:
        return int(self._tensor)

    def __contains__(self, value: Any) -> bool:
        return value in self.__array__()

    def __repr__(self) -> str:
        return repr(self.__array__())


def opened(value: Any, dtype: torch.dtype | None = None) -> Any:
    """Return an operand in a form that torch takes: arrays as tensors, of a dtype if given."""
    if isinstance(value, Array):
        found = value._tensor
    elif isinstance(value, _scalar.Scalar):
        found = _scalar.tensor_of(value)
    elif isinstance(value, numpy.generic):
        return value.item()
    elif isinstance(value, (numpy.ndarray, list, tuple)):
        found = torch.tensor(numpy.asarray(value))
    else:
        return value
    return found if dtype is None else found.to(dtype)


def has_stand_ins(value: Any) -> bool:
    """Return whether a value is a stand-in for random numbers, or a list that contains one."""
    if isinstance(value, (list, tuple)):
        return any(map(has_stand_ins, value))
    return isinstance(value, (Array, _scalar.Scalar))


def as_tensor(value: Any) -> Tensor:
    """Return a new tensor that equals the tensor torch would make of a value with stand-ins."""
    if isinstance(value, (list, tuple)):
        parts = [as_tensor(each) for each in value]
        return torch.stack([part.to(parts[0].dtype) for part in parts])
    if isinstance(value, _scalar.Scalar):
        return _scalar.tensor_of(value).to(torch.get_default_dtype(), copy=True)
    made: Tensor = value._tensor.clone() if isinstance(value, Array) else torch.as_tensor(value)
    return made


def settled(value: Any) -> Any:
    """Return a value whose arrays are ordinary, with choices decided.

    The lane is blind if an array contains a continuous number.
    """
    if isinstance(value, Array):
        return value.__array__()
    if isinstance(value, _scalar.Scalar):
        return float(value)
    if value.__class__ in (list, tuple):
        return value.__class__(settled(each) for each in value)
    if value.__class__ is dict:
        return {name: settled(each) for name, each in value.items()}
    return value


def of_ufunc(ufunc: Any, method: str, inputs: Any, kwargs: Any) -> Any:
    """Return the result of a universal function of numpy on random and other numbers."""
    function = _UFUNCS.get(ufunc.__name__)
    if function is None or method != "__call__" or kwargs:
        return getattr(ufunc, method)(*map(settled, inputs), **settled(kwargs))
    kind = numpy.result_type(*(_kind(each) for each in inputs), numpy.float32)
    operands = [opened(each, _dtype(kind)) for each in inputs]
    if not any(isinstance(each, Tensor) for each in operands[:1]):
        operands[0] = torch.tensor(operands[0], dtype=_dtype(kind))
    return answered(function(*operands))


def of_function(func: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a function of numpy on random and other numbers."""
    known = _FUNCTIONS.get(func.__name__)
    found = NotImplemented if known is None else known(*args, **kwargs)
    return func(*settled(args), **settled(kwargs)) if found is NotImplemented else found


def _kind(value: Any) -> Any:
    if isinstance(value, _scalar.Scalar):
        return numpy.float64(0)
    if isinstance(value, (list, tuple)):
        value = numpy.asarray(value)
    return value.dtype if isinstance(value, (Array, numpy.ndarray, numpy.generic)) else value


def _dtype(kind: Any) -> torch.dtype:
    return _DTYPES[numpy.dtype(kind)]


_DTYPES = {
    torch.zeros(0, dtype=dtype).numpy().dtype: dtype
    for dtype in (torch.bool, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64)
}


def _tensors(value: Any) -> Any:
    if isinstance(value, Array):
        return value._tensor
    if isinstance(value, (list, tuple)):
        return [*map(_tensors, value)] if isinstance(value, list) else tuple(map(_tensors, value))
    if isinstance(value, dict):
        return {name: _tensors(each) for name, each in value.items()}
    return value


def _index(index: Any) -> Any:
    """Return an index in a form that torch takes, with choices decided."""
    if index.__class__ is tuple:
        return tuple(map(_index, index))
    if isinstance(index, (numpy.ndarray, list)):
        return torch.tensor(numpy.asarray(settled(index)))
    return int(index) if isinstance(index, numpy.integer) else index


_UFUNCS: dict[str, Callable[..., Tensor]] = {
    "absolute": torch.abs,
    "add": torch.add,
    "divide": torch.div,
    "equal": torch.eq,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "floor": torch.floor,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "less": torch.lt,
    "less_equal": torch.le,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "maximum": lambda one, other: torch.maximum(one, torch.as_tensor(other, dtype=one.dtype)),
    "minimum": lambda one, other: torch.minimum(one, torch.as_tensor(other, dtype=one.dtype)),
    "multiply": torch.mul,
    "negative": torch.neg,
    "not_equal": torch.ne,
    "power": torch.pow,
    "reciprocal": torch.reciprocal,
    "sqrt": torch.sqrt,
    "subtract": torch.sub,
}


def _first(method: str) -> Callable[..., Any]:
    """Return a function of numpy that is a method of its first argument."""

    def called(array: Any, *args: Any, **kwargs: Any) -> Any:
        return (
            getattr(array, method)(*args, **kwargs) if isinstance(array, Array) else NotImplemented
        )

    return called


def searchsorted(edges: Any, values: Any, side: str = "left", sorter: Any = None) -> Any:
    """Return the places of random numbers among known edges."""
    if isinstance(edges, Array) or sorter is not None:
        return NotImplemented
    found = torch.searchsorted(
        torch.tensor(numpy.asarray(edges, numpy.float64)), opened(values).double(), side=side
    )
    return answered(found)


def _where(chosen: Any, *both: Any) -> Any:
    if len(both) != 2:
        return NotImplemented
    kind = _dtype(numpy.result_type(*map(_kind, both)))
    one, other = (torch.as_tensor(opened(each), dtype=kind) for each in both)
    return answered(torch.where(torch.as_tensor(opened(chosen), dtype=torch.bool), one, other))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _first(name) for name in ("argmax", "argmin", "clip", "copy", "ravel", "reshape")},
    "searchsorted": searchsorted,
    "squeeze": _first("squeeze"),
    "where": _where,
}


def _ufunc_of_a_number(_: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    return of_ufunc(ufunc, method, inputs, kwargs)


def _function_of_a_number(_: Any, func: Any, __: Any, args: Any, kwargs: Any) -> Any:
    return of_function(func, args, kwargs)


# Numpy asks a number for these too, before it reads the float that none stands for.
for _name, _asked in (
    ("__array_ufunc__", _ufunc_of_a_number),
    ("__array_function__", _function_of_a_number),
):
    setattr(_scalar.Scalar, _name, _asked)
_scalar.PASSES_FOR[Array] = numpy.ndarray

Array.__name__ = Array.__qualname__ = "ndarray"
Array.__module__ = "numpy"
