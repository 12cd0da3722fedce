"""The museum's catalogue: what stands on the labels."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from draftproof.conformance.museum.mutants import (
    CONTROLS,
    EXHIBITS,
    MUTANTS,
    Control,
    Mutant,
    mutant,
)
from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.conformance.protocol.adapter import declaration
from draftproof.spec import requirements

SOURCE = re.compile(
    r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+"
    r"|arXiv \d{4}\.\d{5}"
    r"|draftproof"
    r"|.+, (found by (running|reading)( and reading)? (it|its tests)|an issue of that fork)"
)


def test_there_are_many_and_none_twice() -> None:
    assert len(MUTANTS) >= 60
    assert len(CONTROLS) >= 8
    assert len(EXHIBITS) == len(MUTANTS) + len(CONTROLS)
    assert len({exhibit.what for exhibit in EXHIBITS.values()}) == len(EXHIBITS)


@pytest.mark.parametrize("name", EXHIBITS)
def test_every_label_is_complete(name: str) -> None:
    exhibit = EXHIBITS[name]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", exhibit.id)
    assert re.fullmatch(r"[A-Z][^\n]+\.", exhibit.what), "one sentence, on one line"
    assert re.fullmatch(r"[^A-Z\n][^\n]+[^.\n]", exhibit.why), "half a sentence"
    for source in exhibit.source:
        assert SOURCE.fullmatch(source), source
    must = (exhibit.breaks, *exhibit.also) if isinstance(exhibit, Mutant) else exhibit.fails
    assert set(must) <= set(requirements())
    assert len(must) == len(set(must))
    assert declaration(exhibit.make()).name == name


def test_every_requirement_has_a_mutant() -> None:
    """Every requirement is shown to catch something: by the mutants that name it."""
    named = {r for each in MUTANTS for r in (each.breaks, *each.also)}
    assert set(requirements()) - named == set()


def test_a_mark_is_not_inherited() -> None:
    @mutant.mutant("wrong-on-purpose", "draftproof", breaks="law.lossless", why="it is a test")
    class Wrong(Token):
        """Does nothing wrong."""

    class Right(Wrong):
        """Is made from it."""

    room = ModuleType("room")
    for cls in (Token, Wrong, Right):
        setattr(room, cls.__name__, cls)
    Wrong.__module__ = Right.__module__ = "room"
    (found,) = mutant.exhibits(room)
    assert found == Mutant(
        "wrong-on-purpose",
        "Does nothing wrong.",
        "it is a test",
        ("draftproof",),
        "law.lossless",
        (),
        Wrong,
    )
    assert Token.name == "token"


def test_a_control_says_what_it_fails() -> None:
    @mutant.control("slow-on-purpose", "draftproof", why="it is a test", fails=("law.reference",))
    class Slow(Token):
        """Does nothing wrong."""

    (found,) = (vars(Slow)["exhibit"],)
    assert isinstance(found, Control)
    assert found.fails == ("law.reference",)
