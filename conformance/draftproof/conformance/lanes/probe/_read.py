"""Frozen form of what a Triton kernel reads in Python; a recording is valid while it is the same.

A kernel, and each function that it calls, reads globals, its closure, its defaults and attributes.
Values that stay the same while their parts do are frozen, with their types: constants, tuples,
types of named tuples, functions and their modules. Of a module all attributes count that any of the
code names. Values made by Triton's import are compared by identity (`_language` checks whether they
have changed). Everything else is refused, and so is code that finds values in other ways, stores
values elsewhere, catches errors, or makes text of objects, which contains their addresses: such
kernels are interpreted.

Reading a kernel takes as long as launching it. So if it was read before, everything that was looked
at is looked at again: if the objects are the same, the frozen form is the same.
"""

from __future__ import annotations

import collections
import dis
import math
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter, is_
from struct import pack
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any, NamedTuple

from draftproof.conformance.lanes.probe._language import Language

_BUILTINS = attrgetter("__builtins__")
"""Names that a function finds without a global of that name; not every typeshed knows it."""


class NotFrozen(Exception):
    """Error of a value that may change unnoticed; the message names it."""


def frozen(value: Any, language: Language) -> Hashable:
    """Return a constant with the types of all its parts: 1, 1.0 and True are not the same.

    Raises `NotFrozen`.
    """
    kind = type(value)
    if kind is float:
        return float, pack("<d", value)
    if _has_format(value):
        raise NotFrozen("text that may make text of objects")
    if kind in (bool, bytes, int, str, NoneType):
        return kind, value
    if kind is tuple or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return kind, tuple(frozen(each, language) for each in value)
    if kind is language.constexpr:
        return kind, frozen(_of_constexpr(value, language), language)
    if kind is language.dtype and language.has(value):
        return _Same(value)
    raise NotFrozen(f"a {kind.__name__}")


def read(value: Any, language: Language) -> Hashable:
    """Return the frozen form of a function, type or constant.

    It covers everything that a function, and the functions that it calls, read in Python. Raises
    `NotFrozen`.
    """
    if isinstance(value, ModuleType):
        raise NotFrozen(f"the module {value.__name__}")
    known = _KNOWN.get((id(value), id(language)))
    if known is not None and known.is_same():
        return known.found
    named: frozenset[str] = frozenset()
    while True:
        reading = _Reading(named, language)
        found = reading.value(value)
        if reading.named == named:
            break
        # What one function names may be an attribute of a module that another one gives to it.
        named = frozenset(reading.named)
    if len(_FOUND) >= _MOST_KNOWN:
        _FOUND.clear()
        _KNOWN.clear()
    told = _FOUND.setdefault(found, _Same(found))
    _KNOWN[id(value), id(language)] = _Known(value, language, told, reading.looks, reading.seen)
    return told


@dataclass(frozen=True)
class _Known:
    """Frozen form of a value, with all looks at objects and their results."""

    value: Any
    language: Language
    found: Hashable
    looks: list[Callable[[], Any]]
    seen: list[Any]

    def is_same(self) -> bool:
        return all(map(is_, [look() for look in self.looks], self.seen))


_KNOWN: dict[tuple[int, int], _Known] = {}
_FOUND: dict[Hashable, Hashable] = {}
_MOST_KNOWN = 1024


@dataclass(frozen=True, eq=False)
class _Same:
    """Value that is kept alive, and equals only itself."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class _Reading:
    def __init__(self, named: frozenset[str], language: Language) -> None:
        self._language = language
        self.named = set(named)
        """The names in all code that is read."""
        self._attributes = sorted(named)
        self._met: dict[int, Any] = {}
        """Functions and modules that have been read, or are being read."""
        self.looks: list[Callable[[], Any]] = []
        self.seen: list[Any] = []

    def _look(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a call: a different object if anything has changed."""
        look = partial(call, *arguments)
        found = look()
        self.looks.append(look)
        self.seen.append(found)
        return found

    def _items(self, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the names and values of a mapping."""
        names = [*values]
        if len(names) > _FEW:
            raise NotFrozen("more attributes than are looked at")
        self._look(len, values)
        return [(name, self._look(values.get, name, _NOTHING)) for name in names]

    def value(self, value: Any) -> Hashable:
        """Return the frozen form of a value."""
        if isinstance(value, ModuleType | FunctionType):
            if id(value) in self._met:
                return _Same(value)
            self._met[id(value)] = value
            return self._module(value) if isinstance(value, ModuleType) else self._function(value)
        if type(value) is self._language.kernel:
            return self._kernel(value)
        if type(value) is tuple:
            return tuple, tuple(map(self.value, value))
        if isinstance(value, tuple):
            return self._named_tuples(type(value)), tuple(map(self.value, value))
        if type(value) is self._language.constexpr:
            return _Same(type(value)), self.value(self._constant(value))
        if id(value) in _PLAIN_IDS:
            return _Same(value)
        if not isinstance(value, type):
            return frozen(value, self._language)
        is_tritons = value.__module__.startswith("triton.language") and self._language.has(value)
        return _Same(value) if is_tritons else self._named_tuples(value)

    def _constant(self, value: Any) -> Any:
        known = dict(self._items(vars(value)))
        if known.get("type") is not None:
            self._items(vars(known["type"]))
        return _of_constexpr(value, self._language)

    def _module(self, module: ModuleType) -> Hashable:
        own = vars(module)
        kind, maker = self._look(type, module), self._look(own.get, "__getattr__", _NOTHING)
        if kind is not ModuleType or maker is not _NOTHING:
            raise NotFrozen(f"the module {module.__name__}, whose attributes are made")
        values = [(name, self._look(own.get, name, _NOTHING)) for name in self._attributes]
        found = [(name, self.value(each)) for name, each in values if each is not _NOTHING]
        return _Same(module), tuple(found)

    def _kernel(self, kernel: Any) -> Hashable:
        """Return the frozen form of a kernel, with its function as the interpreter rewrote it."""
        own = dict(self._items(vars(kernel)))
        if any(hasattr(type(kernel), name) for name in own.keys() - {"__doc__"}):
            raise NotFrozen("a kernel with methods of its own")
        rewritten = self._look(kernel.rewrite)
        # To rewrite it gives it attributes.
        own = dict(self._items(vars(kernel)))
        if self._language.has(kernel) and self._language.is_language(kernel.fn.__globals__):
            return _Same(kernel), self._of_language(kernel.fn), self._of_language(rewritten)
        attributes = {name: each for name, each in own.items() if name not in _OF_A_KERNEL}
        return self.value(rewritten), self._each([*attributes.items()])

    def _function(self, function: FunctionType) -> Hashable:
        if self._language.has_function(function):
            return self._of_language(function)
        if self._language.is_language(function.__globals__):
            raise NotFrozen("a function that is put into a module of Triton's")
        return self._code(function)

    def _parts(self, function: FunctionType) -> _Parts:
        """Return the parts of a function."""
        named = self._look(attrgetter("__kwdefaults__"), function)
        own = self._look(vars, function)
        cells = [self._look(_content, cell) for cell in function.__closure__ or ()]
        return _Parts(
            code=self._look(attrgetter("__code__"), function),
            defaults=self._look(attrgetter("__defaults__"), function) or (),
            named=self._items(named or {}),
            cells=[each for each in cells if each is not _NOTHING],
            own=self._items(own),
        )

    def _code(self, function: FunctionType) -> Hashable:
        parts = self._parts(function)
        loaded, attributes = _names(parts.code)
        self.named.update(loaded, attributes)
        own = [(name, each) for name, each in parts.own if name != "__wrapped__"]
        return (
            _Same(function),
            parts.code,
            tuple((name, self._loaded(function, name)) for name in loaded),
            tuple(map(self.value, parts.cells)),
            tuple(map(self.value, parts.defaults)),
            self._each(parts.named),
            self._each(own),
        )

    def _loaded(self, function: FunctionType, name: str) -> Hashable:
        """Return the frozen form of the value of a name in a function's code, its globals first."""
        value = self._look(function.__globals__.get, name, _NOTHING)
        if value is _NOTHING:
            return self.value(self._look(_BUILTINS(function).get, name))
        # The interpreter's rewriting puts what it calls into a kernel's globals, and calls only
        # one method of it: see `_names`.
        is_semantic = name == _SEMANTIC and self._language.is_semantic(value)
        return _Same(value) if is_semantic else self.value(value)

    def _each(self, values: Sequence[tuple[str, Any]]) -> Hashable:
        return tuple((name, self.value(each)) for name, each in values)

    def _named_tuples(self, kind: type) -> Hashable:
        """Return the frozen form of a type of named tuples, with its attributes."""
        bases = self._look(attrgetter("__bases__"), kind)
        if type(kind) is not type or bases != (tuple,) or not hasattr(kind, "_fields"):
            raise NotFrozen(f"the type {kind.__name__}")
        known = [(name, each) for name, each in self._items(vars(kind)) if name not in _NOT_READ]
        return _Same(kind), tuple((name, self._attribute(each)) for name, each in known)

    def _attribute(self, value: Any) -> Hashable:
        if type(value) in (classmethod, staticmethod):
            return type(value), self._of_python(value.__func__)
        if type(value) is property:
            return property, self.value(value.fget)
        # The place of a field cannot be changed.
        return _Same(value) if type(value) is _FIELD else self._of_python(value)

    def _of_python(self, value: Any) -> Hashable:
        """Return the frozen form of an attribute of a type of named tuples.

        Functions that Python generates for such types read nothing else.
        """
        if not isinstance(value, FunctionType) or value.__globals__ is not vars(collections):
            return self.value(value)
        found = self._parts(value)
        parts = *found.cells, *found.defaults, *(each for _, each in found.named)
        if id(found.code) not in _OF_TUPLE_TYPES or not all(map(_is_pythons, parts)):
            raise NotFrozen("a function of Python's that has parts of others")
        return _Same(value), tuple(map(_Same, parts))

    def _of_language(self, function: FunctionType) -> Hashable:
        """Return the frozen form of a function of Triton; `_language` compares what it reads."""
        parts = self._parts(function)
        cells = [
            self._of_language(each) if type(each) is FunctionType else _Same(each)
            for each in parts.cells
        ]
        return (
            *(_Same(function), _Same(parts.code), tuple(map(_Same, parts.defaults)), tuple(cells)),
            *(tuple((name, _Same(each)) for name, each in of) for of in (parts.named, parts.own)),
        )


class _Parts(NamedTuple):
    code: CodeType
    defaults: tuple[Any, ...]
    named: list[tuple[str, Any]]
    cells: list[Any]
    own: list[tuple[str, Any]]


def _is_pythons(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_pythons, value))
    return type(value) in (int, str, NoneType) or id(value) in _PYTHONS_IDS


def _of_constexpr(value: Any, language: Language) -> Any:
    """Return the value of a constant of Triton without other attributes. Raises `NotFrozen`."""
    own = dict(vars(value))
    found, kind = own.pop("value", None), own.pop("type", None)
    is_plain = kind is None or (
        type(kind) is language.constexpr_type
        and vars(kind).keys() == {"value"}
        and kind.value is found
    )
    if own or not is_plain:
        raise NotFrozen("a constant with other attributes")
    return found


def _content(cell: Any) -> Any:
    """Return the content of a cell, `_NOTHING` if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return _NOTHING


@cache
def _names(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that code loads and the names of attributes, including those of inner code.

    Raises `NotFrozen` for code that finds values in other ways, or stores values elsewhere.
    """
    loaded: dict[str, None] = {}
    attributes: dict[str, None] = {}
    after = ""
    for each in dis.get_instructions(code):
        if after and each.opname != "CACHE" and each.argval != "to_tensor":
            raise NotFrozen(f"code that reads {after}")
        after = _SEMANTIC if each.opname in _LOADS and each.argval == _SEMANTIC else ""
        if each.opname == "LOAD_CONST":
            _check_text(each.argval)
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


def _check_text(value: Any) -> None:
    """Raise `NotFrozen` for text with which text can be made of objects."""
    if isinstance(value, tuple | frozenset):
        for each in value:
            _check_text(each)
    elif _has_format(value):
        raise NotFrozen("code that makes text of values")


def _has_format(value: Any) -> bool:
    return "%" in value if type(value) is str else type(value) is bytes and b"%" in value


_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
_STORES = {"STORE_DEREF", "DELETE_DEREF"}
_REFUSED = {
    *("DELETE_ATTR", "DELETE_GLOBAL", "IMPORT_FROM", "IMPORT_NAME", "IMPORT_STAR"),
    *("LOAD_BUILD_CLASS", "MATCH_CLASS", "STORE_ATTR", "STORE_GLOBAL"),
    # What catches errors, of which Triton has none: a recording does not raise them.
    *("PUSH_EXC_INFO", "SETUP_FINALLY", "SETUP_WITH", "BEFORE_WITH", "BEFORE_ASYNC_WITH"),
    # What makes text of objects or orders them by their addresses.
    *("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"),
    *("BUILD_SET", "SET_ADD", "SET_UPDATE"),
}

_SEMANTIC = "interpreter_semantic"

_NOTHING = object()
"""Stand-in for a missing value."""

_FEW = 256
"""Maximum number of attributes to look at; integers up to it are the same object every time."""

_OF_A_KERNEL = {"arg_names", "fn", "kwargs", "pre_run_hooks", "rewriter", "__doc__"}
"""Attributes that Triton gives a kernel's function; the rewritten function covers them all."""

_FOUND_BY = (
    *(types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    *(types.CodeType, types.TracebackType, types.FunctionType, types.MethodType, types.CellType),
    *(types.BuiltinMethodType, types.ModuleType, property, type, BaseException, StopIteration),
)
"""Types whose attributes lead to other values, or to values that a launch leaves behind."""

_UNSEEN = {
    *{name for kind in _FOUND_BY for name in dir(kind)} - {"value"},
    *_OF_A_KERNEL,
    *("rewrite", "rewritten_fn", "add_pre_run_hook", "run", "warmup"),
    *("handle", "obj", "data", "static_print", "device_print"),
    *("format", "format_map", "translate", "to_bytes", "fromhex", "decode", "encode", "hex"),
}
"""Attributes that lead to other values; so do those that begin with an underscore."""

_OF_TUPLES = {"_fields", "_make", "_replace"}

_NOT_READ = {"__annotations__", "__doc__", "__orig_bases__", "_field_defaults"}
"""Attributes of a type of named tuples that matter only to code that asks for them."""

_FIELD = type(vars(collections.namedtuple("_Field", "place"))["place"])

_NEW = tuple.__new__

_OF_TUPLE_TYPES = {
    id(getattr(each, "__func__", each).__code__): each
    for each in vars(collections.namedtuple("_Tuple", "place")).values()
    if getattr(getattr(each, "__func__", each), "__globals__", None) is vars(collections)
}
"""Code of the functions that Python generates for every type of named tuples, except `__new__`."""

_PLAIN = (
    *(abs, all, any, bool, divmod, enumerate, float, int, isinstance, len, max, min, pow),
    *(range, reversed, round, sorted, sum, tuple, zip, _NEW),
    *(each for each in vars(math).values() if isinstance(each, BuiltinFunctionType)),
    *(AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError),
)
"""Functions and types whose results depend only on their arguments."""

_PLAIN_IDS = {id(each): each for each in _PLAIN}

_PYTHONS_IDS = {id(each): each for each in (*_PLAIN, dict, map)}
"""Globals from which Python makes the functions of types of named tuples."""
