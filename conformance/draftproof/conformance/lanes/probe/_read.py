"""Python, as a Triton kernel reads it, frozen: a recording of a launch holds while it is the same.

A kernel, and each function that it calls, reads globals, its closure and its defaults. Values whose
parts cannot be changed unseen are frozen with their types. Of a module it is the attributes that
any of the code names, of functions and of types of named tuples all. What belongs to Triton, torch,
numpy or Python itself stays as it is.
"""

from __future__ import annotations

import dis
import sys
from collections import namedtuple
from collections.abc import Container, Hashable, Iterator, Mapping
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
    named: frozenset[str] = frozenset()
    while True:
        reading = _Reading(named)
        found = reading.value(value)
        if reading.named == named:
            return found
        # What one function names may be an attribute of a module that another one gives to it.
        named = frozenset(reading.named)


class _Reading:
    def __init__(self, named: frozenset[str]) -> None:
        self.named = set(named)
        """The names in all code that is read."""
        self._attributes = sorted(named)
        self._met: list[Any] = []
        """Functions that are read already, or are being read."""

    def value(self, value: Any) -> Hashable:
        """Return a value with all that is read of it."""
        if isinstance(value, ModuleType):
            return value.__name__ if _is_settled(value.__name__) else self._module(value)
        if _is_of_triton(type(value)) and hasattr(value, "rewrite"):
            # A kernel's function, which is called as the interpreter has rewritten it.
            return self.value(value.rewrite()), self._each(vars(value), _OF_A_KERNEL)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | type):
            return value
        if isinstance(value, type):
            return value if _is_settled_type(value) else self._named_tuples(value)
        return frozen(value)

    def _module(self, value: ModuleType) -> Hashable:
        own = vars(value)
        if type(value) is not ModuleType or "__getattr__" in own:
            raise NotFrozen(f"the module {value.__name__}, whose attributes are made")
        return tuple((name, self.value(own[name])) for name in self._attributes if name in own)

    def _function(self, function: FunctionType) -> Hashable:
        if any(function is each for each in self._met):
            return function
        self._met.append(function)
        cells = [each for cell in function.__closure__ or () for each in _contents(cell)]
        if _is_defined_in_settled(function):
            # It may have been given one that is not.
            return function, tuple(self.value(each) for each in cells if _is_called(each))
        names, known = _names(function.__code__), function.__globals__
        self.named.update(names)
        if not _UNSEEN.isdisjoint(names):
            raise NotFrozen("what is looked up by a name that code makes")
        return (
            function,
            function.__code__,
            tuple((name, self.value(known[name])) for name in names if name in known),
            tuple(map(self.value, cells)),
            tuple(map(self.value, function.__defaults__ or ())),
            self._each(function.__kwdefaults__ or {}),
            self._each(vars(function), {"__wrapped__"}),
        )

    def _each(self, values: Mapping[str, Any], but: Container[str] = ()) -> Hashable:
        return tuple((name, self.value(each)) for name, each in values.items() if name not in but)

    def _named_tuples(self, kind: type) -> Hashable:
        """Return a type of named tuples with its attributes."""
        if type(kind) is not type or kind.__bases__ != (tuple,) or not hasattr(kind, "_fields"):
            raise NotFrozen(f"the type {kind.__name__}")
        known = {name: each for name, each in vars(kind).items() if name not in _NOT_READ}
        return kind, tuple((name, self._attribute(each)) for name, each in known.items())

    def _attribute(self, value: Any) -> Hashable:
        if isinstance(value, classmethod | staticmethod):
            return type(value), self.value(value.__func__)
        if isinstance(value, property):
            return property, self.value(value.fget)
        # The place of a field cannot be changed.
        return value if type(value) is _FIELD else self.value(value)


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
    imports = any(each.opname == "IMPORT_NAME" for each in dis.get_instructions(code))
    names = dict.fromkeys((*code.co_names, *inner, *["__import__"] * imports))
    return tuple(name for name in names if name != _TRITONS)


_TRITONS = "interpreter_semantic"
"""The name under which the interpreter's rewriting puts what it calls into a kernel's globals."""


def _is_of_triton(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "triton"


def _is_settled(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _SETTLED


def _is_defined_in_settled(function: FunctionType) -> bool:
    """Return whether a function's code is of a package that is settled, whatever it says it is."""
    known = function.__globals__
    module = sys.modules.get(str(known.get("__name__")))
    return module is not None and _is_settled(module.__name__) and vars(module) is known


def _is_settled_type(kind: type) -> bool:
    known = sys.modules.get(kind.__module__)
    return _is_settled(kind.__module__) and getattr(known, kind.__qualname__, None) is kind


def _is_called(value: Any) -> bool:
    return isinstance(value, FunctionType) or hasattr(value, "rewrite")


_UNSEEN = {
    *("__dict__", "__import__", "attrgetter", "eval", "exec", "getattr", "globals"),
    *("handle", "import_module", "locals", "methodcaller", "modules", "vars"),
}
"""The names of what finds a value of which nothing here says what it is; data's own is `handle`."""

_OF_A_KERNEL = {"arg_names", "fn", "kwargs", "pre_run_hooks", "rewriter"}
"""The attributes that Triton gives a kernel's function: of them all is read by its rewriting."""

_NOT_READ = {"__annotations__", "__doc__", "__orig_bases__", "_field_defaults"}
"""The attributes of a type of named tuples of which only who asks for them learns anything."""

_FIELD = type(vars(namedtuple("_Field", "place"))["place"])

_SETTLED = {"builtins", "collections", "math", "numpy", "operator", "torch", "triton"}
"""The packages of which no program changes what a kernel reads."""
