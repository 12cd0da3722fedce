"""The certificates of the fast verifiers: as they were written, and current where they claim it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
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
    Listed,
    listed,
    readme,
)

from draftproof.conformance.evidence.certificate import checked
from draftproof.conformance.evidence.staleness import (
    CURRENT,
    STALE,
    STATES,
    UNKNOWN,
    Comparison,
    Currency,
)
from draftproof.conformance.requirements.finding import PASS

SEEN_THROUGH = {"torch": "exact", "triton": "probe"}
"""The lane that decides on laws, by the form."""


def claims(text: str) -> dict[str, str]:
    """Return the states that a list claims, by name."""
    row = rf"^\| ([\w-]+) \| ({'|'.join(STATES)}) \|"
    return dict(re.findall(row, text, re.MULTILINE))


def false_claim(name: str, claimed: str, found: Currency) -> str | None:
    """Return why a claimed state is false, None if it is not.

    A claim is false only if it says current: sources that change make a certificate stale, and
    nobody has to say so in the same commit.
    """
    if claimed != CURRENT or found.state == CURRENT:
        return None
    return (
        f"{README.name} calls {name} current, but it is {found.state}: {found.reason}; "
        f"`python adapters/certificates/fast.py --list` corrects the list, "
        f"`make certificates` judges again"
    )


@cache
def found(name: str) -> dict[str, Any]:
    """Return what a certificate says."""
    document, _ = checked(FOLDER / f"{name}.json")
    return document["predicate"]["draftproof"]  # type: ignore[no-any-return]  # schema


@cache
def row(name: str) -> Listed:
    return listed(name)


@cache
def claimed() -> dict[str, str]:
    return claims(README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_every_form_is_certified_and_current_where_it_claims_to_be(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    """`make certificates` judges again those that are stale; the last line counts them."""
    said = found(name)
    assert (said["verdict"], said["mode"]) == ("conforms", "certify")
    standing = row(name).standing
    record_property("certificate", standing.state)
    assert false_claim(name, claimed()[name], standing) is None
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
    """Laws at vocabularies of up to 262,144 tokens are sampled, of what is not computed.

    Suites of older certificates sampled those of the torch forms, too.
    """
    said = found(name)
    lanes: dict[str, set[str]] = defaultdict(set)
    for each in said["requirements"]:
        for finding in each["findings"]:
            lanes[finding["lane"]].add(each["id"])
    large = {"number.vocabulary"}
    assert lanes["sample"] <= large
    computed = lanes[SEEN_THROUGH[name.partition("-")[0]]]
    assert (lanes["sample"] == large) != (large <= computed)
    if row(name).standing.state == CURRENT:
        assert (lanes["sample"] == large) == name.startswith("triton-")


def test_all_are_made_anew_in_the_workflow() -> None:
    house = Path(__file__).parents[2]
    workflow = yaml.safe_load((house / ".github/workflows/certificates.yml").read_text())
    matrix = workflow["jobs"]["certify"]["strategy"]["matrix"]
    assert {f"{form}-{text}" for form in matrix["form"] for text in matrix["text"]} == {*NAMES}


# --- what is claimed ----------------------------------------------------------------------


def test_the_list_says_what_the_certificates_say() -> None:
    """`python adapters/certificates/fast.py --list` writes it; its states are claims."""
    assert tuple(claimed()) == NAMES
    assert README.read_text(encoding="utf-8") == readme(map(row, NAMES), claimed())


OTHER = {"name": "torch-token", "version": "0.0.1", "sha256": "0" * 64}


def now_current() -> Listed:
    """A certificate as if it had been made now."""
    one = row("torch-token")
    subject, specification, suite = (
        replace(part, then=part.now or {}) for part in one.standing.parts.values()
    )
    standing = replace(one.standing, subject=subject, specification=specification, suite=suite)
    return replace(one, standing=standing)


@pytest.mark.parametrize(
    ("part", "name"), [("subject", "verifier"), ("specification",) * 2, ("suite",) * 2]
)
def test_a_stale_certificate_that_claims_to_be_current_is_noticed(part: str, name: str) -> None:
    """Nothing is amiss where the list says stale, whether sources have changed or not."""
    current = now_current().standing
    then = Comparison(OTHER, getattr(current, part).now)
    changes: dict[str, Any] = {part: then}
    stale = replace(current, **changes)
    assert (current.state, stale.state) == (CURRENT, STALE)
    assert false_claim("torch-token", CURRENT, current) is None
    assert false_claim("torch-token", STALE, current) is None
    assert false_claim("torch-token", STALE, stale) is None
    told = false_claim("torch-token", CURRENT, stale) or ""
    assert told.startswith(
        f"README.md calls torch-token current, but it is stale: the {name} has changed; "
    )


def test_what_cannot_be_compared_is_not_current() -> None:
    current = now_current().standing
    absent = replace(current, subject=Comparison(OTHER, None, "there is no Triton"))
    assert absent.state == UNKNOWN
    told = false_claim("triton-token", CURRENT, absent) or ""
    assert "it is unknown: the verifier was not compared: there is no Triton; " in told


def test_the_list_is_read_as_it_is_written() -> None:
    one = now_current()
    for state in (CURRENT, STALE, UNKNOWN):
        assert claims(readme([one], {one.name: state})) == {one.name: state}


def test_what_is_lacking_is_what_has_changed() -> None:
    assert lacking("torch-token") == row("torch-token").standing.reason


COUNTED = """
import pytest

@pytest.mark.parametrize("state", ["current", "stale", "stale"])
def test_one(state, record_property):
    record_property("certificate", state)
    assert state == "current" or FINE

def test_another():
    pytest.skip("it takes long")
"""


@pytest.mark.parametrize("processes", [[], ["-n", "1"]])
@pytest.mark.parametrize("is_fine", [True, False])
def test_the_states_are_counted_in_the_last_line(
    tmp_path: Path, processes: list[str], is_fine: bool
) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_counted.py").write_text(COUNTED.replace("FINE", str(is_fine)))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *processes]
    ran = subprocess.run([*command, tmp_path], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == (0 if is_fine else 1), ran.stdout
    *_, counted, summary = ran.stdout.splitlines()
    assert counted == "3 certificates: 1 current, 2 stale (`make certificates` judges again)"
    assert summary.startswith("=====")


def test_nothing_is_counted_where_no_certificate_was_looked_at(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_none.py").write_text("def test_one(): ...\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, tmp_path], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, "certificates" in ran.stdout) == (0, False)
