"""`draftproof init`: what it writes runs at once, and nothing is ever lost."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from draftproof.conformance.cli import starting
from draftproof.conformance.cli.starting import init
from draftproof.conformance.protocol.adapter import INVALID_INPUTS, Request, declaration
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.spec import validate

WORKFLOW = ".github/workflows/draftproof.yml"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(*arguments: str) -> Result:
    return CliRunner().invoke(init, arguments)


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def files(folder: Path) -> list[str]:
    return [name for name in everything(folder) if (folder / name).is_file()]


def test_three_files_are_written_and_named(here: Path) -> None:
    ran = started("mine")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert files(here) == [WORKFLOW, "mine.py", "test_mine.py"]
    assert ran.stdout.splitlines() == [
        "mine.py: a working example; replace the marked block with your verifier",
        "test_mine.py: judges the adapter with pytest",
        f"{WORKFLOW}: certifies the adapter on every push",
        "  replace OWNER/draftproof@COMMIT with your copy of draftproof on GitHub, or do without:",
        "  the page 'Certify in continuous integration' of the documentation has both ways",
        "",
        "Now run",
        "  draftproof certify ./mine.py:Mine",
        "  pytest test_mine.py",
    ]
    for name in files(here):
        text = (here / name).read_bytes()
        assert b"\r" not in text
        assert text.endswith(b"\n")
        for line in text.decode("ascii").splitlines():
            assert len(line) <= 100
            assert line == line.rstrip()


@pytest.mark.parametrize(
    ("name", "module", "adapter"),
    [
        ("mine", "mine", "Mine"),
        ("mine-verifier", "mine_verifier", "MineVerifier"),
        ("my_GPU-verifier2", "my_gpu_verifier2", "MyGPUVerifier2"),
        ("match", "match", "Match"),
        ("x-1", "x_1", "X1"),
        ("simple-namespace", "simple_namespace", "SimpleNamespace"),
    ],
)
def test_a_name_makes_a_module_and_a_class(
    here: Path, name: str, module: str, adapter: str
) -> None:
    ran = started(name, "--json")
    document = json.loads(ran.stdout)
    validate(document, "init")
    assert document == {
        "adapter": f"./{module}.py:{adapter}",
        "files": [f"{module}.py", f"test_{module}.py", WORKFLOW],
        "commands": [f"draftproof certify ./{module}.py:{adapter}", f"pytest test_{module}.py"],
        "action": None,
    }
    declared = declaration(load_adapter(document["adapter"]))
    assert (declared.name, declared.version, declared.algorithm) == (name, "0.1", "token")
    assert tuple(declared.undefined) == INVALID_INPUTS
    assert f"adapter: ./{module}.py:{adapter}\n" in (here / WORKFLOW).read_text()
    test = (here / f"test_{module}.py").read_text()
    assert f"def test_{module}():" in test
    assert f"""with_name('{module}.py')}}:{adapter}\"""" in test


def test_the_adapter_runs_as_it_stands(here: Path) -> None:
    """Token 1 is never said by the target and always by the draft: nothing else can be emitted."""
    started("mine")
    result = load_adapter("./mine.py:Mine").verify(
        Request(
            draft_tokens=torch.ones(3, 1, 2, dtype=torch.int64),
            draft_probs=torch.tensor([0.0, 1.0]).expand(3, 1, 2, 2),
            target_probs=torch.tensor([1.0, 0.0]).expand(3, 1, 3, 2),
        )
    )
    assert result.accepted_length.tolist() == [0, 0, 0]
    assert result.path.tolist() == [0, 0, 0]
    assert result.next_token.tolist() == [0, 0, 0]


def test_it_needs_no_torch(here: Path) -> None:
    (here / "not" / "here").mkdir(parents=True)
    (here / "not" / "here" / "torch.py").write_text("raise ImportError('not here')\n")
    call = "from draftproof.conformance.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", call, "init", "mine", "--folder", "new"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "not/here"},
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert files(here / "new") == [WORKFLOW, "mine.py", "test_mine.py"]


def test_a_folder_is_made_and_quoted(here: Path) -> None:
    ran = started("mine", "--folder", "my work/new", "--json")
    document = json.loads(ran.stdout)
    assert files(here) == [f"my work/new/{name}" for name in (WORKFLOW, "mine.py", "test_mine.py")]
    assert sorted(document["files"]) == files(here)
    certify, test = (shlex.split(command) for command in document["commands"])
    assert certify == ["draftproof", "certify", "./my work/new/mine.py:Mine"]
    assert test == ["pytest", "my work/new/test_mine.py"]
    assert load_adapter(certify[-1]).name == "mine"


def test_an_absolute_folder_names_an_absolute_adapter(here: Path) -> None:
    document = json.loads(started("mine", "--folder", str(here / "new"), "--json").stdout)
    assert document["adapter"] == f"{here}/new/mine.py:Mine"
    assert load_adapter(document["adapter"]).name == "mine"


@pytest.mark.parametrize("there", ["mine.py", "test_mine.py", WORKFLOW])
def test_nothing_is_overwritten(here: Path, there: str) -> None:
    (here / there).parent.mkdir(parents=True, exist_ok=True)
    (here / there).write_text("precious")
    before = everything(here)
    ran = started("mine")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"already exists: {there}. Nothing was written; choose a different name" in ran.stderr
    assert everything(here) == before
    assert (here / there).read_text() == "precious"


def test_all_that_is_there_is_named(here: Path) -> None:
    started("mine")
    ran = started("mine")
    assert f"already exists: mine.py, test_mine.py, {WORKFLOW}. " in ran.stderr


def test_a_link_that_leads_nowhere_is_there(here: Path) -> None:
    (here / "mine.py").symlink_to("elsewhere.py")
    assert "already exists: mine.py. " in started("mine").stderr
    assert everything(here) == ["mine.py"]


def test_what_cannot_be_finished_is_taken_back(here: Path) -> None:
    (here / "new").mkdir()
    (here / "new" / ".github").write_text("a file")
    ran = started("mine", "--folder", "new")
    assert (ran.exit_code, ran.stdout) == (2, "")
    message = f"cannot write 'new/{WORKFLOW}': Not a directory. Nothing was written"
    assert message in ran.stderr
    assert everything(here) == ["new", "new/.github"]


def test_a_full_disk_leaves_nothing_behind(here: Path) -> None:
    """No file may grow: what is opened is there, what is written to it fails."""
    call = "from draftproof.conformance.cli.starting import init; init()"
    python = shlex.join([sys.executable, "-c", call, "mine", "--folder", "deep/new"])
    ran = subprocess.run(
        ["/bin/bash", "-c", f"ulimit -f 0; exec {python}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 2
    assert "cannot write 'deep/new/mine.py': File too large. Nothing was written" in ran.stderr
    assert everything(here) == []


def test_an_interruption_leaves_nothing_behind(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Path.mkdir

    def interrupted(path: Path) -> None:
        if path.name == "workflows":
            raise KeyboardInterrupt
        made(path)

    monkeypatch.setattr(Path, "mkdir", interrupted)
    assert started("mine", "--folder", "deep/new").exit_code == 1
    assert everything(here) == []


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("file", "Directory 'file' is a file."),
        ("file/new", "cannot write 'file/new/mine.py': Not a directory. Nothing was written"),
        ("x" * 300, "File name too long. Nothing was written"),
        ("nowhere", "cannot write 'nowhere/mine.py': No such file or directory"),
    ],
)
def test_a_folder_that_cannot_be_is_named(here: Path, folder: str, message: str) -> None:
    (here / "file").write_text("a file")
    (here / "nowhere").symlink_to("gone")
    ran = started("mine", "--folder", folder)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert everything(here) == ["file", "nowhere"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_without_leave_to_write_is_named(here: Path) -> None:
    (here / "locked").mkdir(mode=0o555)
    ran = started("mine", "--folder", "locked")
    assert ran.exit_code == 2
    assert "cannot write 'locked/mine.py': Permission denied. Nothing was written" in ran.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "must begin with a letter"),
        ("2mine", "such as 'my-verifier'; got '2mine'"),
        ("_mine", "must begin with a letter"),
        ("mine-", "have only letters, digits and single - or _"),
        ("a--b", "have only letters, digits and single - or _"),
        ("a b", "have only letters, digits and single - or _"),
        ("../mine", "got '../mine'"),
        ("mine.py", "got 'mine.py'"),
        ("mine\n", "got 'mine\\n'"),
        ("míne", "got 'míne'"),
        ("class", "'class' is a Python keyword; call it 'class-verifier', for example"),
        ("none", "'none' is a Python keyword"),
        ("token", "token.py would hide the existing module 'token'; call it 'token-verifier'"),
        ("Random", "random.py would hide the existing module 'random'; call it 'Random-verifier'"),
        ("test", "test.py would hide the existing module 'test'"),
        ("torch", "torch.py would hide the existing module 'torch'"),
        ("numpy", "numpy.py would hide the existing module 'numpy'"),
        ("draftproof", "draftproof.py would hide the existing module 'draftproof'"),
        ("conftest", "conftest.py would hide the existing module 'conftest'"),
        ("test-mine", "pytest would collect test_mine.py as tests; choose a name without 'test'"),
        ("mine_test", "pytest would collect mine_test.py as tests; choose a name without 'test'"),
        ("a" * 300, "File name too long. Nothing was written"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_what_would_be_right(
    here: Path, name: str, message: str
) -> None:
    ran = started(name)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert everything(here) == []


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("origin", "action"),
    [
        (None, None),
        ({"url": "file:///home/me/draftproof", "dir_info": {"editable": True}}, None),
        ({"url": "https://github.com/me/draftproof/archive/main.zip", "archive_info": {}}, None),
        (
            {"url": "https://github.com/me/draftproof.git", "vcs_info": {"commit_id": COMMIT}},
            f"me/draftproof@{COMMIT}",
        ),
        (
            {"url": "ssh://git@github.com/me/my.draftproof", "vcs_info": {"commit_id": COMMIT}},
            f"me/my.draftproof@{COMMIT}",
        ),
        ({"url": "https://gitlab.com/me/draftproof", "vcs_info": {"commit_id": COMMIT}}, None),
        ({"url": "https://github.com/me/../x/y", "vcs_info": {"commit_id": COMMIT}}, None),
    ],
)
def test_the_workflow_pins_the_commit_that_was_installed(
    here: Path, monkeypatch: pytest.MonkeyPatch, origin: Any, action: str | None
) -> None:
    installed = SimpleNamespace(read_text=lambda name: origin and json.dumps(origin))
    monkeypatch.setattr(starting, "distribution", lambda name: installed)
    ran = started("mine", "--json")
    assert json.loads(ran.stdout)["action"] == action
    used = f"{action or 'OWNER/draftproof@COMMIT'} # draftproof {version('draftproof')}\n"
    assert f"- uses: {used}" in (here / WORKFLOW).read_text()


def test_a_workflow_that_is_pinned_needs_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_action", lambda: f"me/draftproof@{COMMIT}")
    assert "put in" not in started("mine").stdout
