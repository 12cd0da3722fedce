"""Python, as a Triton kernel reads it, frozen: a recording of a launch holds while it is the same.

A kernel, and each function that it calls, reads globals, its closure and its defaults. Values whose
parts cannot be changed unseen are frozen with their types. Of a module it is the attributes that
the code names, of a type of named tuples all. What belongs to Triton, torch, numpy or Python itself
stays as it is.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any


class NotFrozen(Exception):
    """A value may be changed unseen; the message says what it is."""


def frozen(value: Any) -> Hashable:
    """Return a constant with the types of all its parts: 1, 1.0 and True are not the same.

    Raises `NotFrozen`.
    """
    kind = type(value)
    if kind is float:
        return float, value.hex()
    if kind in (bool, bytes, int, str, NoneType):
        return kind, value
    if kind is tuple or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return kind, tuple(map(frozen, value))
    if _is_of_triton(kind) and kind.__name__ == "constexpr":
        return kind, frozen(value.value)
    if _is_of_triton(kind) and kind.__name__ == "dtype":
        return kind, str(value)
    raise NotFrozen(f"a {kind.__name__}")


def read(value: Any) -> Hashable:
    """Return a function or type with all that it and what it calls read of Python, or a constant.

    Raises `NotFrozen`.
    """
    if isinstance(value, ModuleType):
        raise NotFrozen(f"the module {value.__name__}")
    return _Reading().value(value, ())


class _Reading:
    def __init__(self) -> None:
        self._met: list[Any] = []
        """Functions that are read already, or are being read."""

    def of(self, function: FunctionType) -> Hashable:
        """Return a function with all that it reads."""
        if any(function is each for each in self._met):
            return function
        self._met.append(function)
        names, known = _names(function.__code__), function.__globals__
        if not _UNSEEN.isdisjoint(names):
            raise NotFrozen("what is looked up by a name that code makes")
        cells = function.__closure__ or ()
        return (
            function,
            function.__code__,
            tuple((name, self.value(known[name], names)) for name in names if name in known),
            tuple(self.value(each, names) for cell in cells for each in _contents(cell)),
            tuple(self.value(each, names) for each in function.__defaults__ or ()),
            tuple(
                (name, self.value(each, names))
                for name, each in (function.__kwdefaults__ or {}).items()
            ),
        )

    def value(self, value: Any, names: Sequence[str]) -> Hashable:
        """Return a value, of a function that names these names."""
        if isinstance(value, ModuleType):
            if _is_settled(value.__name__):
                return value.__name__
            own = vars(value)
            return tuple((name, self.value(own[name], names)) for name in names if name in own)
        if _is_of_triton(type(value)) and hasattr(value, "rewrite"):
            # A kernel's function, which is called as the interpreter has rewritten it.
            return self.value(value.rewrite(), names)
        if isinstance(value, FunctionType):
            return value if _is_settled(value.__module__) else self.of(value)
        if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | type):
            return value
        if isinstance(value, type):
            return value if _is_settled(value.__module__) else self._named_tuples(value)
        return frozen(value)

    def _named_tuples(self, kind: type) -> Hashable:
        """Return a type of named tuples with its attributes."""
        if type(kind) is not type or kind.__bases__ != (tuple,) or not hasattr(kind, "_fields"):
            raise NotFrozen(f"the type {kind.__name__}")
        known = {name: each for name, each in vars(kind).items() if name not in _NOT_READ}
        return kind, tuple((name, self._attribute(each)) for name, each in known.items())

    def _attribute(self, value: Any) -> Hashable:
        if isinstance(value, classmethod | staticmethod):
            return type(value), self.value(value.__func__, ())
        if isinstance(value, property):
            return property, self.value(value.fget, ())
        # The place of a field cannot be changed.
        return value if type(value) is _FIELD else self.value(value, ())


def _contents(cell: Any) -> Iterator[Any]:
    """Yield what a cell holds, if it holds anything."""
    try:
        yield cell.cell_contents
    except ValueError:
        return


@cache
def _names(code: CodeType) -> tuple[str, ...]:
    """Return the names of globals and attributes in code, and in the code of functions in it."""
    inner = (name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each))
    return tuple(dict.fromkeys(name for name in (*code.co_names, *inner) if name != _TRITONS))


_TRITONS = "interpreter_semantic"
"""The name under which the interpreter's rewriting puts what it calls into a kernel's globals."""


def _is_of_triton(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "triton"


def _is_settled(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _SETTLED


_UNSEEN = {"__dict__", "__import__", "eval", "exec", "getattr", "globals", "import_module", "vars"}

_NOT_READ = {"__annotations__", "__doc__", "__orig_bases__", "_field_defaults"}
"""The attributes of a type of named tuples of which only who asks for them learns anything."""

_FIELD = type(vars(namedtuple("_Field", "place"))["place"])

_SETTLED = {"builtins", "collections", "math", "numpy", "operator", "torch", "triton"}
"""The packages of which no program changes what a kernel reads."""
