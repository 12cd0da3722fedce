"""Patches of Triton's interpreter, which patches its whole language at each call of a function.

If the enclosing launch, or an earlier call, has already patched a module, patching it again takes a
third of the time and changes nothing. Patches made by calls are never restored, here as in Triton.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from draftproof.conformance.lanes.probe._launches import recorded


@contextmanager
def patched_once() -> Iterator[None]:
    """Make the interpreter, if it is loaded, patch its language once in a launch.

    A nested context has no effect.
    """
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None or not hasattr(interpreter, "_LangPatchScope") or _PATCHING:
        yield
        return
    patch = interpreter._patch_lang
    once = _once(patch, interpreter.tl)
    with recorded(interpreter) as own:
        own.add(id(once))
        vars(interpreter)["_patch_lang"] = once
        _PATCHING.append(interpreter)
        try:
            yield
        finally:
            _PATCHING.clear()
            vars(interpreter)["_patch_lang"] = patch


_PATCHING: list[ModuleType] = []
"""The interpreter, while it patches its language only once."""


def _once(patch: Callable[[Any], Any], language: ModuleType) -> Callable[[Any], Any]:
    launch: list[set[str]] = []

    def patched(function: Any) -> Any:
        seen = function.__globals__.values()
        modules = {m.__name__ for m in (language, language.core) if any(m is v for v in seen)}
        # A function that sees no such module raises an error, as everywhere.
        if launch and modules and modules <= launch[0]:
            return _Nothing()
        scope = patch(function)
        if launch:
            launch[0] |= modules
            return scope
        launch.append(modules)
        return _Launch(scope, launch)

    return patched


class _Nothing:
    def restore(self) -> None:
        pass


@dataclass(frozen=True)
class _Launch:
    """Patches of a launch, which are restored at its end."""

    scope: Any
    launch: list[set[str]]

    def restore(self) -> None:
        self.launch.clear()
        self.scope.restore()
