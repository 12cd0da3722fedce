"""Triton's language and interpreter, compared with a snapshot, since a program may change them.

Most of a launch runs Triton's own code, which reads Triton's own modules, classes and objects. To
read all of these at each launch would take longer than the launch, so the namespaces are compared
with a snapshot, object by object. If anything differs, launches are interpreted. Triton's own
changes are known: a kernel's launch leaves modules patched that only functions it calls can see,
and the first call of one of Triton's own kernels gives its module the interpreter's names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterator, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter, is_
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

_MODULES = (
    *("triton.language", "triton.language.core", "triton.language.math", "triton.language.random"),
    *("triton.language.semantic", "triton.language.standard", "triton.runtime.interpreter"),
    "triton.knobs",
)

_PASSING = {"__annotations__", "__warningregistry__", "grid_dim", "grid_idx"}
"""Attributes that are made on demand or by warnings, and those that each launch sets on the
builder."""

_PATCHED = {"_patch_lang_tensor", "_get_np_dtype", "_patch_lang"}
"""Names in the interpreter that the lane patches."""

CODE = attrgetter("__code__", "__defaults__", "__kwdefaults__")
"""Code and defaults of a function, without the values that it reads elsewhere."""


class Language:
    """Snapshot of Triton's modules, classes and objects."""

    def __init__(self, interpreter: Any) -> None:
        self._interpreter = interpreter
        self.kernel, self.constexpr = interpreter.InterpretedFunction, interpreter.tl.constexpr
        self.dtype, self.constexpr_type = interpreter.tl.dtype, interpreter.tl.core.constexpr_type
        self.modules = [sys.modules[name] for name in _MODULES if name in sys.modules]
        of_language = [each for each in self.modules if each.__name__.startswith("triton.language")]
        self._of_language = {id(vars(each)) for each in of_language}
        self._spaces: list[Mapping[str, Any]] = [vars(each) for each in self.modules]
        self._patches = {*_codes(interpreter)}
        own = [*chain.from_iterable(space.values() for space in self._spaces)]
        self._is_tritons = all(map(self._is_from_import, own))
        parts = {id(each): each for each in own if _is_part(each)}
        self._parts = [*parts.values()]
        self._spaces += [vars(each) for each in self._parts]
        self._originals = [dict(space) for space in self._spaces]
        self._values = [*self._all_values()]
        self._settings = _settings()
        self._held = {id(each): each for each in self._values}
        functions = [_unwrapped(each) for each in self._values]
        self._functions = [each for each in functions if type(each) is FunctionType]
        self._code = [*map(CODE, self._functions)]

    def has(self, value: Any) -> bool:
        """Return whether a value belongs to the modules, classes or objects."""
        return self._held.get(id(value), self) is value

    def is_semantic(self, value: Any) -> bool:
        """Return whether a value is the object through which rewritten kernels make tensors."""
        return self.has(value) and value is self._interpreter.interpreter_semantic

    def has_function(self, function: FunctionType) -> bool:
        """Return whether a function belongs to Triton's language, as its import made it."""
        return self.has(function) and self.is_language(function.__globals__)

    def is_language(self, space: Mapping[str, Any]) -> bool:
        """Return whether a namespace belongs to a module of Triton's language."""
        return id(space) in self._of_language

    def has_code(self) -> bool:
        """Return whether the functions still have their code and defaults."""
        return [*map(CODE, self._functions)] == self._code

    def is_unchanged(self, own: Container[int]) -> bool:
        """Return whether everything is unchanged, except by Triton itself and the lane's patches.

        `own` has the ids of the lane's functions.
        """
        if not self._is_tritons or _settings() != self._settings:
            return False
        return self._is_same() or self._is_alike(own)

    def _all_values(self) -> Iterator[Any]:
        return chain.from_iterable([space.values() for space in self._spaces])

    def _is_same(self) -> bool:
        # A name that a kernel reads is in the kind of its launch: here the values are enough.
        known = self._values
        return sum(map(len, self._spaces)) == len(known) and all(
            map(is_, self._all_values(), known)
        )

    def _is_alike(self, own: Container[int]) -> bool:
        """Return whether all differences are changes that Triton makes, and if so record them."""
        owners = [*self.modules, *self._parts]
        for owner, originals, space in zip(owners, self._originals, self._spaces, strict=True):
            if not originals.keys() <= space.keys():
                return False
            for name, value in space.items():
                known = originals.get(name, self)
                if known is value or (known is self and _is_inherited(owner, name, value)):
                    continue
                if not self._is_known(name, known, value, own):
                    return False
        self._values = [*self._all_values()]
        return True

    def _is_known(self, name: str, known: Any, value: Any, own: Container[int]) -> bool:
        if name in _PASSING:
            return True
        if known is self:
            # Rewriting a kernel gives its module the interpreter's names.
            # Those that the lane patched then stay: nothing there reads them.
            return name in _PATCHED or vars(self._interpreter).get(name, self) is value
        return id(value) in own or self._is_patch(name, known, value)

    def _is_patch(self, name: str, known: Any, value: Any) -> bool:
        """Return whether a value is a patch that Triton makes to its language."""
        if name == "static_print":
            return value is print
        if type(value) is partial:
            return not value.args and type(value.func) is FunctionType and self._is_made(value.func)
        if type(value) is not FunctionType or not self._is_made(value):
            return False
        named = value.__kwdefaults__ or {}
        return all(each is known for each in named.values())

    def _is_made(self, function: FunctionType) -> bool:
        if function.__code__ not in self._patches or vars(function):
            return False
        return function.__globals__ is vars(self._interpreter)

    def _is_from_import(self, value: Any) -> bool:
        """Return whether Triton's import made a module's value, as far as can be determined."""
        if isinstance(value, ModuleType):
            return sys.modules.get(value.__name__) is value
        function = _unwrapped(value)
        if type(function) is not FunctionType:
            return True
        if not any(function.__globals__ is vars(each) for each in self.modules):
            return True
        return Path(function.__code__.co_filename).is_relative_to(_folder())


def _is_part(value: Any) -> bool:
    """Return whether a value is a class or object of Triton whose attributes are compared."""
    if isinstance(value, type):
        return value.__module__ in _MODULES and value.__module__ != "triton.knobs"
    return type(value).__module__ in _MODULES and hasattr(value, "__dict__")


def _is_inherited(owner: Any, name: str, value: Any) -> bool:
    """Return whether a class's own attribute equals its base's, as after a patch is undone."""
    bases = owner.__mro__[1:] if isinstance(owner, type) else ()
    return next((vars(each)[name] for each in bases if name in vars(each)), bases) is value


def _unwrapped(value: Any) -> Any:
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    if isinstance(value, property):
        return value.fget
    return vars(value).get("fn", value) if type(value).__name__ == "InterpretedFunction" else value


def _folder() -> Path:
    return Path(sys.modules["triton"].__file__ or "").parent


def _settings() -> list[Any]:
    """Return the environment variables that Triton reads."""
    # To decode all of it takes longer than all else here.
    values: Any = getattr(os.environ, "_data", os.environ)
    return [each for each in values.items() if each[0][:6] in (b"TRITON", "TRITON")]


def _codes(interpreter: Any) -> Iterator[CodeType]:
    """Yield the code of the functions that patching creates."""
    for name, value in vars(interpreter).items():
        if name.startswith("_patch") and type(value) is FunctionType:
            yield from _inner(value.__code__)


def _inner(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _inner(each)
