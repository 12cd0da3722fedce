"""Triton's interpreter patches its language once, and leaves it as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from draftproof.conformance.lanes.probe._interpreted import patched_once


class Patched:
    """As what Triton's `_patch_lang` returns."""

    def __init__(self, said: list[str], names: list[str]) -> None:
        self.said = said
        said.append(f"patch {' '.join(names)}")

    def restore(self) -> None:
        self.said.append("restore")


def interpreter(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str], Callable[..., Any]]:
    """Return a stand-in for Triton's module, what it was told, and functions that see modules."""
    said: list[str] = []
    language: Any = ModuleType("tl")
    language.core = ModuleType("core")
    module: Any = ModuleType("triton.runtime.interpreter")
    module.tl, module._LangPatchScope = language, Patched

    def seeing(*names: str) -> Any:
        found = {"tl": language, "core": language.core}
        return SimpleNamespace(__globals__={name: found[name] for name in names})

    def patch(function: Any) -> Patched:
        return Patched(said, sorted(function.__globals__))

    module._patch_lang = patch
    monkeypatch.setitem(sys.modules, "triton.runtime.interpreter", module)
    return module, said, seeing


def test_a_launch_patches_each_module_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module, said, seeing = interpreter(monkeypatch)
    original = module._patch_lang
    with patched_once():
        for _ in range(2):
            launch = module._patch_lang(seeing("tl"))
            for names in (("tl",), ("core",), ("core",), ("core", "tl")):
                module._patch_lang(seeing(*names))
            launch.restore()
    assert said == ["patch tl", "patch core", "restore"] * 2
    assert module._patch_lang is original


def test_what_is_restored_is_patched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module, said, seeing = interpreter(monkeypatch)
    with patched_once():
        module._patch_lang(seeing("tl")).restore()
        module._patch_lang(seeing("tl"))
    module._patch_lang(seeing("tl"))
    assert said == ["patch tl", "restore", "patch tl", "patch tl"]


@pytest.mark.parametrize("there", [None, ModuleType("triton.runtime.interpreter")])
def test_nothing_is_done_where_there_is_no_such_interpreter(
    there: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "triton.runtime.interpreter", there)
    with patched_once():
        assert there is None or not hasattr(there, "_patch_lang")
