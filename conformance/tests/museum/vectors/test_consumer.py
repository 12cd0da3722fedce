"""The consumer in JavaScript meets the vectors, and misses them as soon as it is wrong."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from draftproof.spec import vector_files

FOLDER = vector_files()[0].parents[1]
PARTS = ("consumer.mjs", "verifiers.mjs")

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js (node)")


def consumed(folder: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", str(folder / "consumer.mjs"), *map(str, files)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def files(size: str, *kinds: str) -> list[Path]:
    return [path for path in vector_files(size) if path.stem in kinds]


@pytest.mark.requirement("law.reference", "random.boundary")
def test_the_consumer_meets_all_laws_and_decisions_of_what_it_verifies() -> None:
    asked = files("standard", "laws", "decisions")
    vectors = [v for path in asked for v in json.loads(path.read_text(encoding="utf-8"))["vectors"]]
    count = sum(vector["algorithm"] in ("token", "block") for vector in vectors)
    ran = consumed(FOLDER, *asked)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"{count} vectors met, 0 missed\n"
    assert count > 150


def test_the_consumer_is_short() -> None:
    """So that it can be read, and written again in another language."""
    for part in PARTS:
        lines = (FOLDER / part).read_text(encoding="utf-8").splitlines()
        assert sum(bool(line.strip()) and not line.lstrip().startswith("//") for line in lines) < 40
        assert max(map(len, lines)) <= 100


FAULTS = {
    "a number on the threshold passes": (
        "consumer.mjs",
        "below(mul(number, sum(weights)), sum(weights.slice(0, i + 1)))",
        "!below(sum(weights.slice(0, i + 1)), mul(number, sum(weights)))",
        {"decisions"},
    ),
    "every token is accepted": (
        "verifiers.mjs",
        "=> place === 0;",
        "=> true;",
        {"laws", "decisions"},
    ),
    "no token is accepted": (
        "verifiers.mjs",
        "=> place === 0;",
        "=> false;",
        {"laws", "decisions"},
    ),
    "the residual is not normalised": (
        "consumer.mjs",
        "mul(number, sum(weights))",
        "number",
        {"decisions"},
    ),
    "corrections come from the target": (
        "verifiers.mjs",
        "below(x, y) ? y : x);\n",
        "below(x, y) ? y : x);\nconst excess = (p) => p;\n",
        {"laws", "decisions"},
    ),
    "the bonus comes from the draft": (
        "verifiers.mjs",
        "yield p[path.length]",
        "yield q.at(-1)",
        {"laws", "decisions"},
    ),
    "weights are not capped": (
        "verifiers.mjs",
        "div(share, max(q[i][x], share))",
        "div(share, q[i][x])",
        {"laws", "decisions"},
    ),
    "prefixes are tested by their weights alone": (
        "verifiers.mjs",
        "below(zero, against) ? div(sum(owed), against) : one",
        "weight[i]",
        {"laws", "decisions"},
    ),
    "the row before is read": (
        "consumer.mjs",
        "path.slice(0, i)",
        "path.slice(0, i - 1)",
        {"laws", "decisions"},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_misses_vectors(tmp_path: Path, name: str) -> None:
    part, right, wrong, seen_by = FAULTS[name]
    for each in PARTS:
        text = (FOLDER / each).read_text(encoding="utf-8")
        if each == part:
            assert right in text
            text = text.replace(right, wrong)
            # What is replaced by something new is not defined twice.
            text = re.sub(r"\nconst excess = \(p, q.*", "", text) if "(p) => p" in wrong else text
        (tmp_path / each).write_text(text, encoding="utf-8")
    for kind in ("laws", "decisions"):
        ran = consumed(tmp_path, *files("small", kind))
        assert ran.returncode == (1 if kind in seen_by else 0), (kind, ran.stderr)
        assert ("missed 1: " in ran.stderr) == (kind in seen_by), ran.stderr


def test_a_consumer_that_meets_nothing_fails() -> None:
    ran = consumed(FOLDER)
    assert (ran.returncode, ran.stdout) == (1, "0 vectors met, 0 missed\n")


def test_the_readme_shows_what_happens() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ node consumer\.mjs (.*)\n(.*)$", readme, re.M)
    for arguments, printed in shown:
        ran = consumed(FOLDER, *(FOLDER / file for file in arguments.split()))
        assert ran.stdout == f"{printed}\n"
    assert shown
