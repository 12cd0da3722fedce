"""Python, as a Triton kernel reads it, frozen: a recording of a launch holds while it is the same.

A kernel, and each function that it calls, reads globals, its closure, its defaults and attributes.
What is known to be the same as long as its parts are is frozen with their types: constants, tuples,
functions and the modules that they are in, of which all attributes count that any of the code
names. What is Triton's own is told by identity. Everything else is refused, and so is code that
finds values in other ways, or leaves some behind: such kernels are interpreted.
"""

from __future__ import annotations

import collections
import dis
import math
import sys
from collections.abc import Container, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from struct import pack
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any

_BUILTINS = attrgetter("__builtins__")
"""What a function finds where it has no global; not every typeshed knows of it."""


class NotFrozen(Exception):
    """A value may be changed unseen; the message says what it is."""


def frozen(value: Any) -> Hashable:
    """Return a constant with the types of all its parts: 1, 1.0 and True are not the same.

    Raises `NotFrozen`.
    """
    kind = type(value)
    if kind is float:
        return float, pack("<d", value)
    if kind in (bool, bytes, int, str, NoneType):
        return kind, value
    if kind is tuple or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return kind, tuple(map(frozen, value))
    if _is_constexpr(value):
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


@dataclass(frozen=True, eq=False)
class _Same:
    """A value that is held, and equal to nothing but itself."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class _Reading:
    def __init__(self, named: frozenset[str]) -> None:
        self.named = set(named)
        """The names in all code that is read."""
        self._attributes = sorted(named)
        self._met: list[Any] = []
        """Functions and modules that are read already, or are being read."""

    def value(self, value: Any) -> Hashable:
        """Return a value with all that is read of it."""
        if isinstance(value, ModuleType | FunctionType):
            if any(value is each for each in self._met):
                return _Same(value)
            self._met.append(value)
            return self._module(value) if isinstance(value, ModuleType) else self._function(value)
        if _is_kernel(value):
            # It is called as the interpreter has rewritten it.
            return self.value(value.rewrite()), self._each(vars(value), _OF_A_KERNEL)
        if type(value) is tuple:
            return tuple, tuple(map(self.value, value))
        if isinstance(value, tuple):
            return self._named_tuples(type(value)), tuple(map(self.value, value))
        if _is_constexpr(value):
            return _Same(type(value)), self.value(value.value)
        if any(value is each for each in _PLAIN):
            return _Same(value)
        return self._named_tuples(value) if isinstance(value, type) else frozen(value)

    def _module(self, module: ModuleType) -> Hashable:
        own = vars(module)
        names = [name for name in self._attributes if name in own]
        if _is_tritons(module):
            return _Same(module), tuple((name, self._of_triton(own[name])) for name in names)
        if type(module) is not ModuleType or "__getattr__" in own:
            raise NotFrozen(f"the module {module.__name__}, whose attributes are made")
        return _Same(module), tuple((name, self.value(own[name])) for name in names)

    def _of_triton(self, value: Any) -> Hashable:
        """Return what Triton has, of which a program may have replaced some by its own."""
        is_code = isinstance(value, FunctionType | ModuleType) or _is_kernel(value)
        return self.value(value) if is_code else _Same(value)

    def _function(self, function: FunctionType) -> Hashable:
        cells = [each for cell in function.__closure__ or () for each in _contents(cell)]
        if _is_tritons(sys.modules.get(function.__globals__.get("__name__", "")), function):
            # It may have been given what is not Triton's.
            own = tuple((name, _Same(each)) for name, each in vars(function).items())
            return _Same(function), tuple(map(self._of_triton, cells)), own
        loaded, attributes = _names(function.__code__)
        self.named.update(loaded, attributes)
        return (
            _Same(function),
            function.__code__,
            tuple((name, self._loaded(function, name)) for name in loaded),
            tuple(map(self.value, cells)),
            tuple(map(self.value, function.__defaults__ or ())),
            self._each(function.__kwdefaults__ or {}),
            self._each(vars(function), {"__wrapped__"}),
        )

    def _loaded(self, function: FunctionType, name: str) -> Hashable:
        """Return what a name stands for in a function's code, its globals first."""
        if name not in function.__globals__:
            known = _BUILTINS(function)
            return self.value(known.get(name))
        value = function.__globals__[name]
        # The interpreter's rewriting puts what it calls into a kernel's globals.
        is_semantic = name == "interpreter_semantic" and _is_of_triton(type(value))
        return None if is_semantic else self.value(value)

    def _each(self, values: Mapping[str, Any], but: Container[str] = ()) -> Hashable:
        return tuple((name, self.value(each)) for name, each in values.items() if name not in but)

    def _named_tuples(self, kind: type) -> Hashable:
        """Return a type of named tuples with its attributes."""
        if type(kind) is not type or kind.__bases__ != (tuple,) or not hasattr(kind, "_fields"):
            raise NotFrozen(f"the type {kind.__name__}")
        known = {name: each for name, each in vars(kind).items() if name not in _NOT_READ}
        return _Same(kind), tuple((name, self._attribute(each)) for name, each in known.items())

    def _attribute(self, value: Any) -> Hashable:
        if type(value) in (classmethod, staticmethod):
            return type(value), self._of_python(value.__func__)
        if type(value) is property:
            return property, self.value(value.fget)
        # The place of a field cannot be changed.
        return _Same(value) if type(value) is _FIELD else self._of_python(value)

    def _of_python(self, value: Any) -> Hashable:
        """Return an attribute of a type of named tuples; those that Python makes read nothing."""
        known = value.__globals__ if isinstance(value, FunctionType) else {}
        # Its `__new__` is evaluated where there is nothing else.
        is_made = known is vars(collections) or known.keys() == _OF_NEW
        return _Same(value) if is_made else self.value(value)


def _contents(cell: Any) -> Iterator[Any]:
    """Yield what a cell holds, if it holds anything."""
    try:
        yield cell.cell_contents
    except ValueError:
        return


@cache
def _names(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that code loads, and those of attributes, with those of code inside it.

    Raises `NotFrozen` for code that finds values in other ways, or leaves some behind.
    """
    loaded: dict[str, None] = {}
    attributes: dict[str, None] = {}
    for each in dis.get_instructions(code):
        if each.opname in _REFUSED or (each.opname in _STORES and each.argval in code.co_freevars):
            raise NotFrozen(f"code that does {each.opname}")
        if each.opname in _LOADS:
            loaded[each.argval] = None
        elif each.opname in _ATTRIBUTES:
            if each.argval in _UNSEEN or (each.argval[0] == "_" and each.argval not in _OF_TUPLES):
                raise NotFrozen(f"what is found by {each.argval}")
            attributes[each.argval] = None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names, others = _names(inner)
            loaded.update(dict.fromkeys(names))
            attributes.update(dict.fromkeys(others))
    return tuple(loaded), tuple(attributes)


def _is_of_triton(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "triton"


def _is_kernel(value: Any) -> bool:
    return _is_of_triton(type(value)) and hasattr(value, "rewrite")


def _is_constexpr(value: Any) -> bool:
    kind = type(value)
    return (
        _is_of_triton(kind)
        and kind.__name__ == "constexpr"
        and vars(value).keys() <= {"value", "type"}
    )


def _is_tritons(module: ModuleType | None, function: FunctionType | None = None) -> bool:
    """Return whether a module, and a function in it, are Triton's, whatever they are called."""
    if module is None or module.__name__.partition(".")[0] != "triton":
        return False
    is_there = sys.modules.get(module.__name__) is module
    return is_there and (function is None or function.__globals__ is vars(module))


_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
_STORES = {"STORE_DEREF", "DELETE_DEREF"}
_REFUSED = {
    *("DELETE_ATTR", "DELETE_GLOBAL", "IMPORT_FROM", "IMPORT_NAME", "IMPORT_STAR"),
    *("LOAD_BUILD_CLASS", "MATCH_CLASS", "STORE_ATTR", "STORE_GLOBAL"),
}

_UNSEEN = {"f_builtins", "f_globals", "f_locals", "fn", "format", "format_map", "handle"}
"""The attributes by which other values are found; so are those that begin with an underscore."""

_OF_TUPLES = {"_fields", "_make", "_replace"}

_OF_A_KERNEL = {"arg_names", "fn", "kwargs", "pre_run_hooks", "rewriter"}
"""The attributes that Triton gives a kernel's function: of them all is read by its rewriting."""

_NOT_READ = {"__annotations__", "__doc__", "__orig_bases__", "_field_defaults"}
"""The attributes of a type of named tuples of which only who asks for them learns anything."""

_FIELD = type(vars(collections.namedtuple("_Field", "place"))["place"])

_OF_NEW = {"_tuple_new", "__builtins__", "__name__"}

_PLAIN = (
    *(abs, all, any, bool, divmod, enumerate, float, int, isinstance, len, max, min, pow, print),
    *(range, reversed, round, sorted, str, sum, tuple, zip),
    *(each for each in vars(math).values() if isinstance(each, BuiltinFunctionType)),
    *(AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError),
)
"""What tells of nothing but what it is given."""
