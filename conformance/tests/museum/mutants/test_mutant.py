"""The museum's catalogue: what stands on the labels."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
import torch

from draftproof.conformance.museum import mutants as museum
from draftproof.conformance.museum.engines import mutants as engines
from draftproof.conformance.museum.mutants import (
    CONTROLS,
    EXHIBITS,
    MUTANTS,
    Control,
    Mutant,
    mutant,
)
from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.conformance.protocol.adapter import UnknownAdapter, declaration
from draftproof.conformance.protocol.loading import files_of, load_adapter
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
    must = exhibit.must_fail
    assert set(must) <= set(requirements())
    assert len(must) == len(set(must))
    assert declaration(exhibit.make()).name == name


def test_every_requirement_has_a_mutant() -> None:
    """Every requirement is shown to catch something: by the mutants that name it.

    Graphs are captured on CUDA alone, where no mutant of the museum is: faults are planted in a
    stand-in for it, beside the requirement.
    """
    named = {r for each in MUTANTS for r in each.must_fail}
    of_verifiers = {each.id for each in requirements().values() if not each.is_of_engines}
    assert of_verifiers - named == {"device.graph"}
    # A token without probability is judged by itself, whichever mutant writes it.
    of_engines = set(requirements()) - of_verifiers
    assert of_engines - {each.breaks for each in engines.MUTANTS} == {"engine.support"}


def test_a_mutant_differs_from_what_it_is_of_in_its_steps() -> None:
    wrong = mutant.mutant(
        "wrong-on-purpose",
        what="Passes everything.",
        why="it is a test",
        also=("length.bounded",),
        passed=lambda coins, ratio: coins == coins,
    )
    expected = ("law.lossless", "length.bounded")
    assert wrong == Mutant(
        "wrong-on-purpose",
        "Passes everything.",
        "it is a test",
        ("draftproof",),
        expected,
        wrong.make,
    )
    assert wrong.breaks == "law.lossless"
    made: Any = wrong.make()
    assert isinstance(made, Token)
    assert made.passed(torch.ones(2), torch.zeros(2)).all()
    assert (made.name, Token.name) == ("wrong-on-purpose", "token")
    assert [file.name for file in files_of(made)] == ["verifiers.py", "test_mutant.py"]


def test_a_control_says_what_it_fails() -> None:
    slow = mutant.control("slow", what="Is slow.", why="it is a test", fails=("law.reference",))
    assert isinstance(slow, Control)
    assert slow.must_fail == ("law.reference",)


def test_every_exhibit_is_loaded_by_the_name_of_its_class() -> None:
    for exhibit in EXHIBITS.values():
        assert pickle.loads(pickle.dumps(exhibit.make)) is exhibit.make
    assert type(load_adapter(f"{museum.__name__}:BonusFromDraft")) is museum.BonusFromDraft
    with pytest.raises(UnknownAdapter, match="has no attribute 'Bonus'"):
        load_adapter(f"{museum.__name__}:Bonus")
