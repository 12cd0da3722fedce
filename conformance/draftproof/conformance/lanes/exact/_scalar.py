"""Undecided number that `item()` returned, which passes for a Python float.

A program may ask for the type of a number. If the answer differed from that in an unwatched run,
the program could take a branch that it never takes otherwise, and be judged by that branch. So
`isinstance`, `__class__` and, in programs with such a number, the builtin `type` answer float.
Comparisons, and the arithmetic that the lane knows, are done on the tensor that it wraps; every
other operation of a float makes the lane blind. Code in C that needs a float's memory calls
`__float__`, or raises an error; either makes the lane blind, even if the program catches the error.

A program can still tell such a number from a float: the attributes that numpy and torch look up
(`__array__`, `__torch_function__`) exist; a `type` that was bound before the run returns `Scalar`;
a `sys.gettrace` that was bound before shows the trace function; and `gc` shows the references. So
these laws are compared with real runs (`unwatched`).
"""

from __future__ import annotations

import builtins
import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dis import opmap
from functools import reduce
from math import nan
from pathlib import Path
from types import FrameType, GenericAlias
from typing import Any

import numpy
import torch
from torch import Tensor

from draftproof.conformance.lanes.exact._arithmetic import ARITHMETIC, Operation
from draftproof.conformance.lanes.exact._dtypes import held
from draftproof.conformance.lanes.exact._noise import Noise
from draftproof.conformance.lanes.exact._races import is_ahead
from draftproof.conformance.lanes.exact._steps import AT_LEAST, AT_MOST, LESS, MORE
from draftproof.conformance.lanes.opaque import CHECKS, OpaqueRandomness, program_line
from draftproof.conformance.lanes.precise import Extended, extended
from draftproof.conformance.protocol.raising import told_of


class Scalar:
    """Stand-in for a random element that `item()` returned: a number that can be compared."""

    # A float takes no attributes.
    __slots__ = ("_noise", "_run", "_tensor")

    def __init__(self, tensor: Tensor | None, noise: Noise | None = None, run: Any = None) -> None:
        # Python's numbers are of double precision.
        self._tensor = None if tensor is None else tensor.double()
        self._noise, self._run = noise, run
        # A float is nothing that the collector of garbage keeps track of.
        ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(self))

    def __getattribute__(self, name: str) -> Any:
        if name in _HIDDEN:
            raise AttributeError(f"'float' object has no attribute {name!r}")
        return object.__getattribute__(self, name)

    @property  # type: ignore[misc]  # an object's is no property
    def __class__(self) -> type[float]:  # type: ignore[override]  # it is the point
        return float

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        dtype = _dtype_beside((args, kwargs or {}))
        return func(*opened(args, dtype), **opened(kwargs or {}, dtype))

    def __float__(self) -> float:
        # Raises: no float stands for a random number. So do all that come down to it.
        return float(tensor_of(self))

    def __bool__(self) -> bool:
        return bool(float(self))

    def __array__(self, *_: Any, **__: Any) -> Any:
        return float(self)

    @property
    def real(self) -> Scalar:
        return self

    @property
    def imag(self) -> float:
        return 0.0

    def conjugate(self) -> Scalar:
        return self

    def __pos__(self) -> Scalar:
        return self

    def __floor__(self) -> int:
        return int(tensor_of(self).floor().item())

    def __ceil__(self) -> int:
        return -int(tensor_of(self).neg().floor().item())

    def __trunc__(self) -> int:
        return int(tensor_of(self).trunc().item())

    __int__ = __trunc__


_HIDDEN = (
    "_noise",
    "_run",
    "_tensor",
    "__array_function__",
    "__array_ufunc__",
    "__module__",
    "__slots__",
)
"""Attributes that a float does not have; numpy and torch must find theirs by the same lookup."""

_TENSOR, _NOISE, _RUN = (Scalar.__dict__[name] for name in ("_tensor", "_noise", "_run"))


def tensor_of(number: Scalar) -> Tensor:
    """Return the tensor that a number wraps; it is made at the first request."""
    found: Tensor | None = _TENSOR.__get__(number)
    if found is None:
        found = _RUN.__get__(number).tensor(_NOISE.__get__(number))
        _TENSOR.__set__(number, found)
    return found


def _dtype_beside(values: Any) -> torch.dtype:
    """Return the dtype of the tensor that replaces a number beside the tensors in some values.

    With a number of Python's, the result has the dtype of the tensors, or torch's default if they
    are integers. Raises `OpaqueRandomness` beside tensors of half precision, for which torch rounds
    the number before it computes.
    """
    found = [*_members(values)]
    dtypes = [each.dtype for each in found if isinstance(each, Tensor)]
    if not _NARROW.isdisjoint(dtypes):
        next(each for each in found if isinstance(each, Scalar)).__float__()
    if not dtypes:
        return torch.double
    floats = [dtype for dtype in dtypes if dtype.is_floating_point or dtype.is_complex]
    return reduce(torch.promote_types, floats) if floats else torch.get_default_dtype()


def _members(values: Any) -> Iterator[Any]:
    """Yield the members of a nest of tuples, lists and dictionaries."""
    if isinstance(values, (list, tuple)):
        for each in values:
            yield from _members(each)
    elif isinstance(values, dict):
        yield from _members([*values.values()])
    else:
        yield values


_NARROW = {torch.float16, torch.bfloat16}


def opened(value: Any, dtype: torch.dtype = torch.double) -> Any:
    """Return the value with every `Scalar` replaced by its tensor, of a dtype."""
    if isinstance(value, Scalar):
        return tensor_of(value).to(dtype)
    if isinstance(value, (list, tuple)):
        return _like(value, (opened(each, dtype) for each in value))
    if isinstance(value, dict):
        return {key: opened(each, dtype) for key, each in value.items()}
    return value


def _like(value: Any, members: Iterator[Any]) -> Any:
    """Return a list or tuple of the same kind, named tuples included, with other members."""
    kind = value.__class__
    return kind(*members) if hasattr(kind, "_fields") else kind(members)


def scalars(tensor: Tensor) -> Any:
    """Return the elements of a tensor in nested lists, as `tolist()` does."""
    return [scalars(row) for row in tensor] if tensor.dim() else Scalar(tensor)


@contextmanager
def floats_by_type() -> Iterator[None]:
    """Make the builtin `type` return float for a `Scalar`, until the end of a run."""
    builtins.type = _Type  # type: ignore[misc]  # there is no other hook
    try:
        yield
    finally:
        builtins.type = _REAL  # type: ignore[misc]  # as above


@contextmanager
def refusals(seen: list[OpaqueRandomness]) -> Iterator[None]:
    """Note the errors of a run that a float might not have raised, even if they are caught.

    Code in C that needs a float's memory refuses a `Scalar`, and the program may then take another
    branch. An error that the program itself raises counts if it is a `TypeError`.
    """

    def traced(frame: FrameType, event: str, told: Any) -> Any:
        if event == "call":
            frame.f_trace_lines = False
            is_others = frame.f_code.co_filename.startswith(_NOT_THE_PROGRAMS)
            return None if is_others or frame.f_code is _ASKS_WHETHER_A_CLASS else traced
        # Python 3.12 tells of some errors before they have a traceback.
        is_met_here = event == "exception" and (told[2] is None or told[2].tb_next is None)
        if is_met_here and issubclass(told[0], (TypeError, ValueError, OverflowError)):
            is_raised = frame.f_code.co_code[frame.f_lasti] == _RAISE
            if not is_raised or issubclass(told[0], TypeError):
                reason = f"may be refused where a float is not: {told_of(told[1])}"
                seen.append(OpaqueRandomness("a number from item()", reason, program_line()))
        return traced

    told_by = sys.gettrace
    before = told_by()
    sys.gettrace = lambda: before  # a program may ask who traces it
    _NOTING.append(traced)
    sys.settrace(traced)
    try:
        yield
    finally:
        sys.settrace(before)
        _NOTING.pop()
        sys.gettrace = told_by


_NOTING: list[Any] = []
"""Trace functions of the runs whose errors are noted."""


def begin_own_code() -> Any:
    """Stop noting errors while the lane's own code runs; return the argument of `end_own_code`.

    The lane calls itself hundreds of times for one operator, and each call would be traced.
    """
    if not _NOTING or _GETTRACE() is not _NOTING[-1]:
        return None
    _SETTRACE(None)
    return _NOTING[-1]


def end_own_code(noting: Any) -> None:
    """Note errors again, if `begin_own_code` stopped it."""
    if noting is not None:
        _SETTRACE(noting)


_GETTRACE, _SETTRACE = sys.gettrace, sys.settrace


_RAISE = opmap["RAISE_VARARGS"]

# It tells by a `TypeError` that an object is no class, whatever number stands beside it.
_ASKS_WHETHER_A_CLASS = numpy.issubdtype.__globals__["issubclass_"].__code__

_NOT_THE_PROGRAMS = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


def require_own(error: BaseException) -> None:
    """Raise `OpaqueRandomness` for an error of a program that a float might not have raised.

    This applies only in runs with such numbers: an argument of a refused type may be one of them,
    and torch is given a tensor in place of a number.
    """
    is_of_torch = _REAL(error) is RuntimeError
    if builtins.type is _Type and (is_of_torch or isinstance(error, TypeError)):
        reason = f"may be refused where a float is not: {told_of(error)}"
        raise OpaqueRandomness("a number from item()", reason, program_line()) from error


CHECKS.append(require_own)


# --- what a float can do ---------------------------------------------------------------------


def _compared(relation: str) -> Any:
    def compared(self: Scalar, other: Any) -> Any:
        if _is_apart(self, other):
            return _RUN.__get__(self).understood(
                relation, lambda: _decided(self, relation, extended(float(other)))
            )
        if isinstance(other, Scalar) and relation in _RELATIONS and _are_apart(self, other):
            run, noises = _RUN.__get__(self), (_NOISE.__get__(self), _NOISE.__get__(other))
            return run.understood(
                relation, lambda: is_ahead(*noises, _RELATIONS[relation], run.world)
            )
        try:
            other = _as_torch_takes_it(self, other)
        except OverflowError:
            # Python compares it all the same.
            float(self)
        dtype = _dtype_beside((self, other))
        answer = getattr(opened(self, dtype), relation)(opened(other, dtype))
        known = isinstance(other, Tensor) or answer is NotImplemented
        return answer if known else bool(answer)

    return compared


def _is_apart(number: Scalar, *others: Any) -> bool:
    """Return whether a number is in no tensor, and all others are known and finite."""
    is_known = all(_REAL(each) in _KNOWN and -_MOST <= each <= _MOST for each in others)
    return is_known and _NOISE.__get__(number) is not None


def _are_apart(number: Scalar, other: Scalar) -> bool:
    return _is_apart(number) and _is_apart(other)


_KNOWN, _MOST = (float, int, numpy.float64), sys.float_info.max


def _decided(number: Scalar, relation: str, edge: Extended) -> bool:
    """Decide a comparison of a number with a known one."""
    noise, world = _NOISE.__get__(number), _RUN.__get__(number).world
    if relation in _RELATIONS:
        return noise.compare(_RELATIONS[relation], edge, world)  # type: ignore[no-any-return]  # a slot is untyped
    is_equal = noise.compare(AT_MOST, edge, world) and noise.compare(AT_LEAST, edge, world)
    return bool(is_equal == (relation == "__eq__"))


_RELATIONS = {"__lt__": LESS, "__le__": AT_MOST, "__gt__": MORE, "__ge__": AT_LEAST}


def of_operator(number: Scalar, name: str, other: float = nan, *, first: bool = True) -> Any:
    """Return the result of an operator of torch on a number that is in no tensor."""
    run = _RUN.__get__(number)

    def computed() -> Any:
        operation = Operation(_NOISE.__get__(number), float(other), {}, first=first)
        found = ARITHMETIC[name](operation)
        return run.scalar(held(found, torch.float64)) if isinstance(found, Noise) else found

    return run.understood(name, computed)


def is_in_no_tensor(number: Scalar) -> bool:
    """Return whether a number was never an element of a tensor."""
    return _is_apart(number)


_OPERATORS = {
    "__neg__": ("neg", True),
    "__add__": ("add", True),
    "__radd__": ("add", False),
    "__sub__": ("sub", True),
    "__rsub__": ("sub", False),
    "__mul__": ("mul", True),
    "__rmul__": ("mul", False),
    "__truediv__": ("div", True),
    "__rtruediv__": ("div", False),
}


def _computed(operation: str) -> Any:
    def computed(self: Scalar, *others: Any) -> Any:
        is_division = operation == "__truediv__" and others[0] == 0
        if operation in _OPERATORS and not is_division and _is_apart(self, *others):
            name, first = _OPERATORS[operation]
            return of_operator(self, name, *others, first=first)
        others = tuple(_as_torch_takes_it(self, each) for each in others)
        if operation in _DIVIDES and any(_REAL(each) is float and each == 0 for each in others):
            raise ZeroDivisionError("float division by zero")
        dtype = _dtype_beside((self, others))
        answer = getattr(opened(self, dtype), operation)(*opened(others, dtype))
        known = any(isinstance(each, Tensor) for each in others) or answer is NotImplemented
        return answer if known else answer.item()

    return computed


_DIVIDES = ("__truediv__", "__floordiv__", "__mod__")


def _as_torch_takes_it(number: Scalar, other: Any) -> Any:
    """Return the other operand of a number, a whole number as Python converts it to a float.

    A complex operand makes the lane blind.
    """
    if isinstance(other, int) and not isinstance(other, bool):
        return float(other)
    return complex(float(number)) if isinstance(other, complex) else other


def _unknown(_: str) -> Any:
    def unknown(self: Scalar, *_: Any, **__: Any) -> Any:
        return float(self)

    return unknown


_COMPARED = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__")
_COMPUTED = (
    *("__abs__", "__neg__", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"),
    *("__truediv__", "__rtruediv__"),
    # Of these torch knows what they are, and the lane does not follow them.
    *("__floordiv__", "__rfloordiv__", "__mod__", "__rmod__"),
)
_OF_THE_CLASS = ("__getformat__", "fromhex")
_OF_ALL = (
    *("__class__", "__delattr__", "__dir__", "__doc__", "__getattribute__", "__init__"),
    *("__init_subclass__", "__new__", "__setattr__", "__subclasshook__"),
    *_OF_THE_CLASS,
)

_WAYS = {**dict.fromkeys(_COMPARED, _compared), **dict.fromkeys(_COMPUTED, _computed)}

for _name in sorted({*dir(float)} - {*_OF_ALL} - {*vars(Scalar)} | {*_WAYS}):
    setattr(Scalar, _name, _WAYS.get(_name, _unknown)(_name))
for _name in _OF_THE_CLASS:
    setattr(Scalar, _name, staticmethod(getattr(float, _name)))

# So it is called where Python tells of it.
Scalar.__name__ = Scalar.__qualname__ = "float"
Scalar.__module__ = "builtins"


# --- what `type` says ------------------------------------------------------------------------

_REAL = type

PASSES_FOR: dict[type, type] = {Scalar: float}
"""Type that `type` returns for each kind of stand-in."""


class _AsType(type):
    """Metaclass of the stand-in for `type`, called like `type`; all types are instances."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not _Type:
            return super().__call__(*args, **kwargs)
        if len(args) != 1 or kwargs:
            return _REAL(*args, **kwargs)
        found = _REAL(args[0])
        if found in PASSES_FOR:
            return PASSES_FOR[found]
        return _Type if found is _REAL else found

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _REAL) if cls is _Type else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return issubclass(subclass, _REAL) if cls is _Type else super().__subclasscheck__(subclass)

    def __getitem__(cls, parameters: Any) -> GenericAlias:
        return GenericAlias(_REAL, parameters)


class _Type(type, metaclass=_AsType):
    """Stand-in for the builtin `type` in programs that have a `Scalar`."""


_Type.__name__ = _Type.__qualname__ = "type"
_Type.__module__ = "builtins"
