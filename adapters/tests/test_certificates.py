"""The certificates of the fast verifiers: as they were written, and by the code that is here."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from certificates.fast import lacking
from certificates.listing import (
    FOLDER,
    NAMES,
    README,
    currency,
    listed,
    readme,
)

from draftproof.conformance.evidence.certificate import checked
from draftproof.conformance.requirements.finding import PASS
from draftproof.conformance.run.staleness import CURRENT

SEEN_THROUGH = {"torch": "exact", "triton": "probe"}
"""The lane that decides on laws, by the form."""

SAMPLED_LAWS = {"triton-k-seq"}
"""Whose law on one case, `tree.iid.deep.b2x2x2`, is sampled: its drafts would take the probe lane
more than four million rows."""

SAMPLED_TAILS = {
    "torch-greedy-block",
    "torch-recursive-greedy-block",
    "torch-scored-greedy-block",
}
"""That look the drawn token up, for the state that they hand on: each token is a run of its own."""

LAWS = {
    *("law.lossless", "law.reference", "law.support", "law.prefix"),
    *("length.expected", "length.bounded"),
}
"""The requirements that are judged on that case."""


@cache
def found(name: str) -> dict[str, Any]:
    """Return what a certificate says."""
    document, _ = checked(FOLDER / f"{name}.json")
    return document["predicate"]["draftproof"]  # type: ignore[no-any-return]  # schema


@pytest.mark.always
@pytest.mark.parametrize("name", NAMES)
def test_every_form_is_certified_by_the_code_that_is_here(name: str) -> None:
    """`make certificates` judges again what has changed; the store knows the rest."""
    said, standing = found(name), currency(name)
    assert (said["verdict"], said["mode"]) == ("conforms", "certify")
    assert (standing.state, standing.reason) == (CURRENT, None)
    assert standing.requirements == len(said["requirements"])
    passed = {each["id"]: each for each in said["requirements"] if each["verdict"] == PASS}
    lane = "sample" if name in SAMPLED_LAWS else SEEN_THROUGH[name.partition("-")[0]]
    assert passed["law.lossless"]["grade"] == lane
    assert "number.dtypes" in passed


def test_no_certificate_is_of_anything_else() -> None:
    assert {file.name for file in FOLDER.glob("*.json*")} == {f"{name}.json" for name in NAMES}


def test_all_of_them_take_a_megabyte_at_most() -> None:
    assert sum(file.stat().st_size for file in FOLDER.glob("*.json")) <= 2**20


@pytest.mark.parametrize("name", NAMES)
def test_all_that_is_not_sampled_is_decided_without(name: str) -> None:
    """Of what is not computed, laws of many rows and of large vocabularies are sampled."""
    sampled = {each["id"] for each in found(name)["requirements"] if each["grade"] == "sample"}
    expected = {"batch.large", "number.tail"} if name.startswith("triton-") else set()
    expected |= {"number.tail"} if name in SAMPLED_TAILS else set()
    assert sampled == expected | (LAWS if name in SAMPLED_LAWS else set())


def test_all_are_made_anew_in_the_workflow() -> None:
    house = Path(__file__).parents[2]
    workflow = yaml.safe_load((house / ".github/workflows/certificates.yml").read_text())
    matrix = workflow["jobs"]["certify"]["strategy"]["matrix"]
    asked = {f"{form}-{text}" for form in matrix["form"] for text in matrix["text"]}
    assert asked - {f"{each['form']}-{each['text']}" for each in matrix["exclude"]} == {*NAMES}


def test_the_list_says_what_the_certificates_say() -> None:
    """`python adapters/certificates/fast.py --list` writes it."""
    assert README.read_text(encoding="utf-8") == readme(map(listed, NAMES))


def test_nothing_is_lacking() -> None:
    assert lacking("torch-token") is None
