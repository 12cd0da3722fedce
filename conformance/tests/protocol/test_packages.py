"""Engines by name: what a name stands for, and how a name that is none is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import pytest

from draftproof.conformance.protocol import packages as engines
from draftproof.conformance.protocol.adapter import AdapterFailed, UnknownAdapter
from draftproof.conformance.protocol.packages import Past, adapters_of, packages


@dataclass(frozen=True)
class Way:
    """A method of an engine that is made up."""

    algorithm: str = "token"
    needs: Mapping[str, str] = field(default_factory=dict)
    versions: str = "2 and later"
    mode: str = "quick"
    cases: tuple[str, ...] = ()
    why: str = ""
    note: str = ""


@dataclass(frozen=True)
class Engine:
    """An engine that is made up: its sources have the methods whose names they say."""

    name: str = "mine"
    title: str = "Mine"
    extras: str = "torch"
    methods: Mapping[str, Way] = field(default_factory=lambda: {"fast": Way(), "slow": Way()})

    def judged(self, source: str = "") -> Mapping[str, str]:
        if source == "/gone":
            raise RuntimeError("there is no folder '/gone'")
        own = [each for each in self.methods if each in source or not source]
        return {each: self.place(each, f"@{source}" if source else "") for each in own}

    def place(self, method: str, where: str) -> str:
        return f"engine:{method}{where}"

    def past(self, method: str, *, since: date, source: str = "") -> Sequence[Past]:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _mine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "packages", lambda: {"mine": Engine()})


def test_an_engine_stands_for_what_a_source_has() -> None:
    assert [*(adapters_of("mine") or ())] == ["engine:fast", "engine:slow"]
    assert [*(adapters_of("mine", "/a/slow/one") or ())] == ["engine:slow@/a/slow/one"]


def test_a_method_is_asked_for_whether_or_not_it_is_there() -> None:
    """Its adapter says what is missing."""
    assert [*(adapters_of("mine:fast", "/a/slow/one") or ())] == ["engine:fast@/a/slow/one"]


@pytest.mark.parametrize("name", ["torch-block", "mine.engine:Adapter", "./mine.py:Adapter", "min"])
def test_another_name_is_no_engine(name: str) -> None:
    assert adapters_of(name) is None


@pytest.mark.parametrize(
    ("name", "source", "error", "told"),
    [
        ("mine:fst", "", UnknownAdapter, "mine has no method 'fst': did you mean fast?"),
        ("mine:other", "", UnknownAdapter, "mine has no method 'other': it has fast, slow"),
        ("mine", "/a:b", UnknownAdapter, "'/a:b' has a colon, and an adapter's name ends there"),
        ("mine", "/gone", AdapterFailed, "mine: RuntimeError: there is no folder '/gone'"),
        ("mine", "/none", AdapterFailed, "none of the methods fast .2 and later., slow .2 and"),
    ],
)
def test_a_name_or_a_source_that_is_none_is_told(
    name: str, source: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        adapters_of(name, source)


def test_engines_are_found_by_entry_points() -> None:
    assert {"vllm", "sglang", "transformers"} <= {*packages()}
