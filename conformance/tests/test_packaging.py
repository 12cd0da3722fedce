"""The distribution: the sdist is enough to build the wheel, and the wheel to run."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

HOUSE = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
CLASSIFIERS: list[str] = PROJECT["project"]["classifiers"]
PROMISED = [each.rpartition(" ")[2] for each in CLASSIFIERS if "Python :: 3." in each]


def built(folder: Path, target: str, *, out: Path) -> Path:
    """Build the sdist or the wheel of the sources in a folder, asking no index."""
    call = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (file,) = out.iterdir()
    return file


@pytest.mark.skipif(find_spec("hatchling") is None, reason="needs hatchling")
def test_the_wheel_of_the_sdist_runs(tmp_path: Path) -> None:
    sdist = built(HOUSE, "sdist", out=tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "sources", filter="data")
    (sources,) = (tmp_path / "sources").iterdir()
    wheel = built(sources, "wheel", out=tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    # Without `site`, an editable installation of the same sources is not seen.
    call = "import sys; from draftproof.conformance.cli import main; sys.exit(main())"
    libraries = f"{tmp_path / 'installed'}:{sysconfig.get_path('purelib')}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", call, "list", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": libraries},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "law.lossless" in done.stdout


def test_extras_are_for_users_alone() -> None:
    assert not EXTRAS.keys() & {"test", "docs", "dev"}
    assert PROJECT["dependency-groups"].keys() >= {"test", "docs", "dev"}


# --- locks ----------------------------------------------------------------------------------


def locked(name: str) -> dict[str, list[Requirement]]:
    """Return the requirements of a lock by name; each one must have a version and a hash."""
    text = (HOUSE / "locks" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, list[Requirement]] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        asked, *hashes = line.split("--hash=")
        requirement = Requirement(asked)
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), line
        assert hashes, f"{requirement.name} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", each) for each in hashes), line
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def missing(lock: dict[str, list[Requirement]], asked: Iterable[str]) -> set[str]:
    """Return what is asked for, directly or by what is installed, and not locked here."""
    waiting, seen, lacking = [Requirement(each) for each in asked], set(), set()
    while waiting:
        each = waiting.pop()
        for extra in each.extras or {""}:
            if each.marker and not each.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(each.name)
            pins = [pin for pin in lock.get(name, ()) if not pin.marker or pin.marker.evaluate()]
            if not any(each.specifier.contains(str(pin.specifier)[2:]) for pin in pins):
                lacking.add(str(each))
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for text in needed(name, pins):
                inner = Requirement(text)
                if not inner.marker or inner.marker.evaluate({"extra": extra}):
                    inner.marker = None
                    waiting.append(inner)
    return lacking


def needed(name: str, pins: Iterable[Requirement]) -> list[str]:
    """Return what a distribution needs, nothing where another version than the locked is here."""
    try:
        here = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return []
    if pins and not any(pin.specifier.contains(here) for pin in pins):
        return []
    return importlib.metadata.requires(name) or []


def test_all_that_the_action_installs_is_locked() -> None:
    asked = [
        *PROJECT["project"]["dependencies"],
        *(each for own in EXTRAS.values() for each in own),
    ]
    others = [each for each in asked if not each.startswith("draftproof[")]
    lock = locked("draftproof.txt")
    assert missing(lock, others) == set()
    assert missing({**lock, "rpds-py": []}, others)
    assert missing(locked("builder.txt"), [*PROJECT["build-system"]["requires"], "pip"]) == set()


def pins(name: str) -> list[Requirement]:
    """Return what a file pins, a requirement a line."""
    text = (HOUSE / name).read_text(encoding="utf-8")
    return [Requirement(each) for each in text.splitlines() if each and each[0] != "#"]


def test_locks_have_the_versions_of_the_constraints() -> None:
    pinned = pins("constraints.txt")
    for file in ("builder.txt", "draftproof.txt", "torch.txt"):
        lock = locked(file)
        for each in pinned:
            for pin in lock.get(canonicalize_name(each.name), ()):
                assert pin.specifier == each.specifier, f"{file}: run make locks"


def test_each_promised_python_has_a_build_of_torch() -> None:
    text = (HOUSE / "locks" / "torch.txt").read_text(encoding="utf-8")
    assert locked("torch.txt").keys() == {"torch"}
    assert text.count("--hash=") == len(PROMISED)


def test_every_python_that_is_promised_is_tested() -> None:
    tests = yaml.safe_load((HOUSE / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    assert tests["jobs"]["test"]["strategy"]["matrix"]["python"] == PROMISED
    assert PROJECT["project"]["requires-python"] == f">={PROMISED[0]}"


def test_the_oldest_torch_and_triton_that_are_promised_are_tested() -> None:
    """By `make versions`; with a newer one there, the extras would promise what nobody tries."""
    tested = {each.name: str(each.specifier) for each in pins("versions.txt")}
    assert tested.keys() == {"numpy", "torch", "triton"}
    for name in ("torch", "triton"):
        (asked,) = (Requirement(each) for each in EXTRAS[name] if each.startswith(f"{name}>"))
        (oldest,) = (each.version for each in asked.specifier)
        assert tested[name] == f"=={oldest}.0"


def test_numpy_is_one_that_the_oldest_triton_interprets_with() -> None:
    """Triton 3.6 makes a number of an array with one element, which NumPy 2.4 refuses."""
    (numpy,) = (each for each in pins("versions.txt") if each.name == "numpy")
    (pin,) = numpy.specifier
    assert pin.operator == "=="
    assert Version(pin.version) < Version("2.4")


# --- workflows and releases -----------------------------------------------------------------

WORKFLOWS = sorted((HOUSE / ".github/workflows").glob("*.yml"))
RELEASE = yaml.safe_load((HOUSE / ".github/workflows/release.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    for line in workflow.read_text(encoding="utf-8").splitlines():
        if used := re.search(r"uses: (.*)", line):
            pinned = r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
            assert re.fullmatch(rf"{pinned}|\./[\w./-]*", used[1]), line


def test_only_a_tag_is_attested_and_only_an_allowed_one_published() -> None:
    jobs = RELEASE["jobs"]
    assert jobs["attest"]["needs"] == ["build", "test"]
    assert jobs["attest"]["if"] == "github.ref_type == 'tag'"
    assert jobs["publish"]["needs"] == "attest"
    assert jobs["publish"]["if"] == "github.ref_type == 'tag' && vars.PUBLISH == 'pypi'"
    assert jobs["publish"]["environment"] == "pypi"
    allowed = {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})}
    assert allowed == {"attest", "publish"}
    assert RELEASE["permissions"] == {"contents": "read"}


def checked(folder: Path, *, tag: str, version: str, heading: str) -> tuple[int, str]:
    """Run the check of a release in a folder with a version and a changelog."""
    (folder / "pyproject.toml").write_text(f'[project]\nname = "any"\nversion = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## [Unreleased]\n\n{heading}\n")
    (step,) = (
        each for each in RELEASE["jobs"]["build"]["steps"] if "Check that" in each.get("name", "")
    )
    bash = shutil.which("bash")
    assert bash
    run = subprocess.run(  # the workflow's own
        [bash, "-e", "-c", step["run"]],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "GITHUB_REF_NAME": tag},
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout


def test_a_release_has_the_version_of_its_tag_and_a_section_of_the_changelog(
    tmp_path: Path,
) -> None:
    dated = "## [0.2.0] - 2026-11-28"
    assert checked(tmp_path, tag="v0.2.0", version="0.2.0", heading=dated) == (0, "")
    code, said = checked(tmp_path, tag="v0.3.0", version="0.2.0", heading=dated)
    assert (code, said) == (
        1,
        "::error::the tag is v0.3.0, and pyproject.toml has version 0.2.0\n",
    )
    code, said = checked(tmp_path, tag="v0.2.0", version="0.2.0", heading="## [0.1.0] - 2026-01-01")
    assert (code, said) == (1, "::error::CHANGELOG.md has no section [0.2.0] with a date\n")
