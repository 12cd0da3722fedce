"""The certificates of the fast verifiers: as they were written, and of the sources as they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from certificates.fast import FOLDER, NAMES

from draftproof.conformance.adapter import declaration
from draftproof.conformance.certificate import checked
from draftproof.conformance.finding import PASS
from draftproof.conformance.identity import subject
from draftproof.conformance.loading import load_adapter

SEEN_THROUGH = {"torch": "exact", "triton": "probe"}
"""The lane that decides on laws, by the form."""


@cache
def found(name: str) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return what a certificate says, and the header of its evidence."""
    document, evidence = checked(FOLDER / f"{name}.json")
    return document["predicate"]["draftproof"], evidence.header


@pytest.mark.parametrize("name", NAMES)
def test_every_form_is_certified_as_it_is_now(name: str) -> None:
    """`make certificates` makes those that are not."""
    said, header = found(name)
    assert (said["verdict"], said["mode"]) == ("conforms", "certify")
    adapter = load_adapter(name)
    declared = declaration(adapter)
    assert header["subject"] == subject(adapter, declared)
    passed = {each["id"]: each for each in said["requirements"] if each["verdict"] == PASS}
    form = name.partition("-")[0]
    assert {each["lane"] for each in passed["law.lossless"]["findings"]} == {SEEN_THROUGH[form]}
    dtypes = {each["case"].rpartition(".")[2] for each in passed["number.dtypes"]["findings"]}
    assert dtypes == {"float32", "float64", "float16", "bfloat16"}


def test_no_certificate_is_of_anything_else() -> None:
    expected = {f"{name}.{kind}" for name in NAMES for kind in ("json", "jsonl")}
    assert {file.name for file in FOLDER.glob("*.json*")} == expected


@pytest.mark.parametrize("name", NAMES)
def test_all_that_is_not_sampled_is_decided_without(name: str) -> None:
    """Only vocabularies of up to 262,144 tokens have laws that are sampled."""
    said, _ = found(name)
    lanes: dict[str, set[str]] = defaultdict(set)
    for each in said["requirements"]:
        for finding in each["findings"]:
            lanes[finding["lane"]].add(each["id"])
    assert lanes["sample"] == {"number.vocabulary"}


def test_all_are_made_anew_in_the_workflow() -> None:
    house = Path(__file__).parents[2]
    workflow = yaml.safe_load((house / ".github/workflows/certificates.yml").read_text())
    matrix = workflow["jobs"]["certify"]["strategy"]["matrix"]
    assert {f"{form}-{text}" for form in matrix["form"] for text in matrix["text"]} == {*NAMES}
