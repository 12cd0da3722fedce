"""The suite itself on trial: it must catch what is wrong, by the right requirement, and spare
what is right, in whatever style it is written."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.evidence.certificate import Certificate
from draftproof.conformance.failure.counterexample import silently
from draftproof.conformance.museum import mutants
from draftproof.conformance.museum.kill_matrix import kill_matrix
from draftproof.conformance.museum.mutants import EXHIBITS, texts, verifiers
from draftproof.conformance.museum.mutants.drafting import Drafting, DraftingSeveral
from draftproof.conformance.museum.mutants.mutant import Control
from draftproof.conformance.museum.mutants.pipelines import Writing
from draftproof.conformance.museum.mutants.trees import Tree
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.conformance.report import html
from draftproof.conformance.run.certify import certify
from draftproof.reference.ledger.instances import seeded
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS, emission_law

RIGHT = Path(__file__).parent / "right.py"

STYLES = tuple(
    line.split()[1].split("(")[0].rstrip(":")
    for line in RIGHT.read_text(encoding="utf-8").splitlines()
    if line.startswith("class ") and not line.startswith("class Verifier")
)

# The exact lane cannot look into these where a coin decides: the probe lane judges them.
UNSEEN = {"NumpyInside", "MathAndItem"}

# A style is a way to draw and to compare, whatever the numbers are.
FEW = ("generic.v2.*", "motivating", "zeros.both", "equal", "batch.pair", "runs", "inputs")

# What mutants are made from: these are judged on all quick cases.
MADE_FROM = tuple(
    f"{cls.__module__}:{cls.__name__}"
    for cls in (
        verifiers.Token,
        verifiers.Block,
        verifiers.GreedyBlock,
        verifiers.Ragged,
        verifiers.Supplied,
        verifiers.Logits,
        verifiers.Checked,
        texts.Recursive,
        Drafting,
        DraftingSeveral,
        Writing,
        Tree,
    )
)


MATRIX = json.loads((html.FOLDER / "kill_matrix.json").read_text(encoding="utf-8"))
SHIPPED = {exhibit["id"]: exhibit for exhibit in MATRIX["exhibits"]}


def missed(report: Certificate, *levels: str) -> dict[str, str]:
    return {
        decision.requirement.id: f"{decision.verdict} on {decision.worst.case}"
        for decision in report.decisions
        if decision.verdict not in ("pass", "skipped") and decision.requirement.level in levels
    }


@pytest.mark.parametrize("name", EXHIBITS)
def test_no_mutant_survives_and_every_control_is_spared(name: str) -> None:
    """Where chance decides (one mutant that only samples can see), a false alarm is 1e-9.

    Pages show the kill matrix that the suite ships with: it must be this one. A control, which is
    judged on all cases and not until it is caught, is judged on the quick ones here.
    """
    exhibit = EXHIBITS[name]
    mode = "quick" if isinstance(exhibit, Control) else "standard"
    (row,) = kill_matrix([exhibit], lanes=("exact",), mode=mode, seed=0, progress=silently)
    assert row.caught, row.cells
    found = {(cell.requirement, cell.lane, cell.verdict) for cell in row.cells}
    cells = SHIPPED[name]["cells"]
    if isinstance(exhibit, Control):
        # Some requirements are asked in larger modes only.
        cells = [c for c in cells if c["requirement"] in {cell.requirement for cell in row.cells}]
    assert found == {(c["requirement"], c["lane"], c["verdict"]) for c in cells}


@pytest.mark.parametrize("name", STYLES)
def test_what_is_right_conforms_in_every_style(name: str) -> None:
    few = [case for case in FEW if name != "OneAtATime" or not case.startswith("batch")]
    lanes = ("exact", "probe")
    report = certify(f"{RIGHT}:{name}", mode="quick", lanes=lanes, cases=few, progress=silently)
    assert missed(report, "MUST") == {}
    assert report.verdict == "pass"
    assert report.counterexample is None
    by_law = next(d for d in report.decisions if d.requirement.id == "law.lossless")
    assert ("probe" in {f.lane for f in by_law.findings}) == (name in UNSEEN)
    assert by_law.worst.distance is not None
    assert by_law.worst.distance < rational("1/1000000")


@pytest.mark.parametrize("name", MADE_FROM)
def test_what_mutants_are_made_from_conforms_to_all(name: str) -> None:
    """A mutant differs in one place; all other places must be right."""
    report = certify(name, mode="quick", lanes=("exact", "probe", "sample"), progress=silently)
    assert missed(report, "MUST", "SHOULD") == {}


@pytest.mark.parametrize("base", [texts.Scored, texts.ScoredGreedy])
def test_scored_texts_are_the_references(base: type[texts.Scored]) -> None:
    verifier = base()
    own = replace(ALGORITHMS[verifier.algorithm], verify=verifier.text)
    for instance in seeded(12, 2, length=2, drafts=2):
        assert emission_law(own, instance) == emission_law(ALGORITHMS[verifier.algorithm], instance)


def test_every_class_of_the_museum_is_judged() -> None:
    # Python adds names of slots to a class whose instances are copied.
    label = {"__slotnames__", "__module__", "__doc__", "name", "files"}
    made: list[Any] = [exhibit.make for exhibit in EXHIBITS.values()]
    # An exhibit without steps of its own is the class that it is of.
    judged = {cls.__base__ for cls in made if set(vars(cls)) <= label}
    loaded = {type(load_adapter(name)) for name in MADE_FROM}
    # These are steps on the way, from which others are made.
    parts = {"SampleMatches", "Drafter", "ReferenceStyle", "BlockText"}
    # At large vocabularies these texts take days; they are held against the reference below.
    parts |= {"Scored", "ScoredGreedy"}
    rooms = [room for room in vars(mutants).values() if hasattr(room, "MUTANTS")]
    rooms += [mutants.controls, texts, verifiers]
    assert len(rooms) > 10
    for room in rooms:
        for name, cls in vars(room).items():
            if inspect.isclass(cls) and cls.__module__ == room.__name__:
                assert cls in judged | loaded or name in parts, name
