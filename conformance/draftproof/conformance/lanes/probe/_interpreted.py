"""Triton's interpreter, which patches its whole language again whenever a kernel calls a function.

A module that the launch around it, or a call before, has patched is patched to the same: that takes
a third of the time, and does nothing. What calls patch is never restored, here as in Triton.
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
    """Let the interpreter patch its language once in a launch, where it is there and does so.

    Within such a context another does nothing.
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
"""The interpreter, while it patches its language once."""


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
    """The patches of a launch, which are restored behind it."""

    scope: Any
    launch: list[set[str]]

    def restore(self) -> None:
        self.launch.clear()
        self.scope.restore()
