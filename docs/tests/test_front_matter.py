"""The README is what happens and what is on record; the other front matter is in its form."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from building.pages import HOUSE
from telling import happens

from draftproof.conformance.cli import COMMANDS, EXIT_CODES
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import requirements

README = (HOUSE / "README.md").read_text(encoding="utf-8")
MATRIX: list[dict[str, Any]] = json.loads(
    (HOUSE / "adapters" / "matrix" / "matrix.json").read_text(encoding="utf-8")
)["rows"]
PROJECT: dict[str, Any] = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))


# --- the README -----------------------------------------------------------------------------


def test_the_readme_happens_as_it_is_told(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "adapters").symlink_to(HOUSE / "adapters")
    assert happens(README, tmp_path, programs) == 0


def test_so_many_runs_were_made() -> None:
    text = (HOUSE / "adapters" / "certificates" / "torch-block.json").read_text(encoding="utf-8")
    judged = json.loads(text)["predicate"]["draftproof"]["requirements"]
    (lossless,) = (each for each in judged if each["id"] == "law.lossless")
    assert f"here it took {lossless['runs']} runs" in " ".join(README.split())


def test_so_many_there_are() -> None:
    assert f"\n{len(requirements())} requirements " in README
    assert f"\n{len(ALGORITHMS)} verification algorithms, " in README


def test_the_exit_codes_are_those_of_the_command() -> None:
    for code, meaning in EXIT_CODES.items():
        assert str(code) in README
        assert meaning in README


def test_all_commands_are_listed_once() -> None:
    listed = re.findall(r"^\| `draftproof ([\w-]+)", README, re.M)
    assert sorted(listed) == sorted(COMMANDS)


WITHOUT_VERDICT = ("fails on every case", "cannot run here", "could not be fetched")


SOME = "conforms on some cases"


def outcome(row: Mapping[str, Any]) -> str:
    """Return what a row came to; not all cases are all that conforming asks."""
    is_partial = row["outcome"] == "conforms" and row["judged"]["cases"]
    return SOME if is_partial else str(row["outcome"])


def remark(row: Mapping[str, Any]) -> str:
    if row["design"]:
        return " (by design)"
    judged = row["judged"]
    return f" ({judged['asked']} of {judged['planned']})" if outcome(row) == SOME else ""


def glance(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the matrix as a table: of each verifier the newest version, by engine."""
    newest = {row["name"].partition("@")[0]: row for row in rows}
    outcomes = ("conforms", SOME, "does not conform", *WITHOUT_VERDICT)
    engines: dict[str, dict[str, list[str]]] = {}
    for name, row in newest.items():
        cells = engines.setdefault(row["engine"], {outcome: [] for outcome in outcomes})
        cells[outcome(row)].append(name + remark(row))
    lines = [" | ".join([name, *map(", ".join, cells.values())]) for name, cells in engines.items()]
    head = f"| {' | '.join(('engine', *outcomes))} |\n|{'---|' * (1 + len(outcomes))}\n"
    return head + "".join(f"| {line} |\n" for line in lines)


def test_the_matrix_is_what_is_on_record() -> None:
    assert f"\n{glance(MATRIX)}\n" in README


def test_a_matrix_with_another_outcome_would_be_seen() -> None:
    (first, *others) = MATRIX
    assert glance([{**first, "outcome": "does not conform"}, *others]) not in README


def test_a_row_that_conforms_on_some_cases_says_on_how_many_and_why() -> None:
    some = [row["judged"] for row in MATRIX if outcome(row) == SOME]
    assert all(0 < each["asked"] < each["planned"] for each in some)
    counted = Counter(each["why"] for each in some)
    told = "; ".join(f"{why} ({count})" for why, count in counted.most_common())
    assert f"The reasons, and of how many rows: {told}." in " ".join(README.split())


def test_the_rows_are_counted() -> None:
    by_design = {True: " by design", False: ""}
    count = Counter(
        outcome(row) + by_design[bool(row["design"]) and row["outcome"] != "conforms"]
        for row in MATRIX
    )
    told = (
        f"{count['conforms']} of {len(MATRIX)} rows conform, {count[SOME]} conform on the cases "
        f"that they are asked, {count['does not conform']} do not, "
        f"{count['does not conform by design']} do not by design, {count['fails on every case']} "
        f"fails on every case, {count['cannot run here']} cannot run here, and "
        f"{count['could not be fetched']} could not be fetched."
    )
    assert told in " ".join(README.split())


# --- the rest -------------------------------------------------------------------------------

FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


@pytest.mark.parametrize("name", FILES)
def test_links_lead_somewhere(name: str) -> None:
    text = (HOUSE / name).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    assert [each for each in targets if "://" not in each and not (HOUSE / each).exists()] == []


def test_the_citation_follows_version_1_2_0_of_its_format() -> None:
    """As far as this file goes: https://doi.org/10.5281/zenodo.5171937 has the whole of it."""
    citation: dict[str, Any] = yaml.safe_load((HOUSE / "CITATION.cff").read_text(encoding="utf-8"))
    known = {
        *("cff-version", "message", "type", "title", "abstract", "authors", "version", "license"),
        *("keywords", "date-released", "doi", "repository-code", "url"),
    }
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}
    assert citation.keys() <= known
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["authors"] == [{"name": "The Draftproof contributors"}]
    assert len(citation["keywords"]) == len({*citation["keywords"]})
    texts = [value for key, value in citation.items() if key not in ("authors", "keywords")]
    assert all(isinstance(each, str) and each for each in [*texts, *citation["keywords"]])


def test_the_citation_is_of_this_project() -> None:
    citation = yaml.safe_load((HOUSE / "CITATION.cff").read_text(encoding="utf-8"))
    for name in ("version", "license", "keywords"):
        assert citation[name] == PROJECT["project"][name]
    title, said = citation["title"], " ".join(README.split())
    assert f"*{title}*, version {citation['version']}." in said


def test_the_changelog_is_in_its_form() -> None:
    """https://keepachangelog.com/en/1.1.0/: versions, the newest first, each with its kinds."""
    lines = (HOUSE / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Changelog"
    versions = [line for line in lines if line.startswith("## ")]
    assert versions[0] == "## [Unreleased]"
    for version in versions[1:]:
        assert re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version)
    kinds = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    assert {*kinds} <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    own = lines[lines.index(versions[0]) : lines.index(versions[1]) if versions[1:] else None]
    unreleased = [line for line in own if line.startswith("### ")]
    assert len(unreleased) == len({*unreleased})
