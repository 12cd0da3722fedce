"""The README is what happens and what is on record; the other front matter is in its form."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from building import bug, glance
from building.engines import record
from building.pages import HOUSE
from telling import happens

from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import requirements

README = (HOUSE / "README.md").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))


# --- the README -----------------------------------------------------------------------------


def test_the_readme_happens_as_it_is_told(programs: Path, tmp_path: Path) -> None:
    assert happens(README, tmp_path, programs) == 1


def test_the_pictures_of_the_readme_are_those_of_its_bug() -> None:
    for place, content in bug.files().items():
        assert f'"docs/{place}"' in README
        assert (HOUSE / "docs" / place).read_bytes() == content, "python -m building.bug, in docs"


def test_so_many_there_are() -> None:
    said = " ".join(README.split())
    assert f" the {len(requirements())} [requirements](spec)" in said
    assert f" {len(ALGORITHMS)} verification algorithms " in said


def test_the_rows_are_counted() -> None:
    assert told(glance.counted(record())) in " ".join(README.split())
    assert sum(bool(row["unreachable"]) for row in record()) == 4


def test_a_matrix_with_another_outcome_would_be_seen() -> None:
    (first, *others) = record()
    changed = {**first, "outcome": "cannot run here"}
    assert told(glance.counted([changed, *others])) not in " ".join(README.split())


def told(count: Mapping[str, int]) -> str:
    """Return the numbers of the matrix in the words of the README."""
    return (
        f"Of {sum(count.values())} rows, {count['conforms']} conform, "
        f"{count['no fault found']} show no fault in the cases selected for them, "
        f"{count['suboptimal']} conform but keep fewer sampled drafts than they could, "
        f"{count['lossy']} are lossy (users of the release cannot reach 4 of these), "
        f"{count['lossy by design']} are lossy by design, "
        f"{count['fails on every case']} fails on every case, "
        f"{count['cannot run here']} cannot run here, and "
        f"{count['could not be fetched']} could not be fetched."
    )


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


def test_every_page_names_the_version() -> None:
    version = PROJECT["project"]["version"]
    settings = (HOUSE / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"\ncopyright: Draftproof {version}, Apache-2.0\n" in settings


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
