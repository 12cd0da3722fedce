"""The distribution: the sdist is enough to build the wheel, and the wheel to run."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HOUSE = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]


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
