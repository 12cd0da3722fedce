"""`diff`: what changed between certificates before a change and after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from draftproof.conformance.cli import cli

RIGHT = (Path(__file__).parents[1] / "meta" / "right.py").read_text(encoding="utf-8")
WRONG = f"""{RIGHT}

class Batched(Batched):
    def verify(self, request):
        request.target_probs[:, :, -1] = request.draft_probs[:, :, -1]
        return super().verify(request)
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with a certificate of a right verifier, of the same made wrong, and with none."""
    made = {"none": tmp_path_factory.mktemp("none")}
    for name, text in (("right", RIGHT), ("wrong", WRONG)):
        folder = tmp_path_factory.mktemp(name)
        (folder / "mine.py").write_text(text, encoding="utf-8")
        made[name] = folder / "certificates"
        own = ["--mode", "quick", "--seed", "0", "--case", "generic.v2.l2"]
        place = f"{folder}/mine.py:Batched"
        CliRunner().invoke(cli, ["certify", *own, "--output", str(made[name]), place])
    return made


def diff(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["diff", *map(str, arguments)])


def test_a_verifier_that_became_wrong_is_worse(folders: dict[str, Path]) -> None:
    ran = diff(folders["right"], folders["wrong"], "--json")
    assert ran.exit_code == 1, ran.stderr
    (found,) = json.loads(ran.stdout)["adapters"]
    assert found["is_worse"]
    changed = {each["id"]: (each["before"], each["after"]) for each in found["changed"]}
    assert changed["law.lossless"] == ("pass", "fail")
    assert "law.lossless" in found["failed"]
    assert found["before"]["files"] != found["after"]["files"]
    told = diff(folders["right"], folders["wrong"]).stdout
    assert "law.lossless pass → fail" in told
    assert found["counterexample"]["words"][0] in told


def test_one_that_became_right_is_not(folders: dict[str, Path]) -> None:
    ran = diff(folders["wrong"], folders["right"])
    assert ran.exit_code == 0
    assert "law.lossless fail → pass" in ran.stdout


def test_what_was_wrong_before_is_told_and_no_worse(folders: dict[str, Path]) -> None:
    (file,) = folders["wrong"].glob("*.json")
    ran = diff(file, file)
    assert ran.exit_code == 0
    assert "nothing: files are identical" in ran.stdout


@pytest.mark.parametrize(("before", "after", "code"), [("none", "right", 0), ("right", "none", 1)])
def test_what_is_on_one_side_alone(
    folders: dict[str, Path], before: str, after: str, code: int
) -> None:
    """A verifier that is not judged any more is worse, a new one that conforms is not."""
    ran = diff(folders[before], folders[after])
    assert ran.exit_code == code
    assert "not judged" in ran.stdout
    assert "not compared" in ran.stdout
    assert diff(folders["none"], folders["wrong"]).exit_code == 1


def test_a_comment_has_a_table_and_the_counterexample(folders: dict[str, Path]) -> None:
    lines = diff(folders["right"], folders["wrong"], "--markdown").stdout.splitlines()
    assert lines[:2] == ["| verifier | before | after | changed |", "|---|---|---|---|"]
    assert lines[2].startswith("| **")
    assert any(line.endswith("the smallest counterexample found") for line in lines)


def test_two_empty_folders_are_no_success(folders: dict[str, Path]) -> None:
    ran = diff(folders["none"], folders["none"])
    assert ran.exit_code == 3
    assert "nothing was judged: neither folder has a certificate" in ran.stderr


def test_what_is_no_certificate_is_told(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    assert diff(tmp_path, folders["right"]).exit_code == 5
    missing = diff(tmp_path / "gone", folders["right"])
    assert missing.exit_code == 2
    assert "there is no file or folder" in missing.stderr
