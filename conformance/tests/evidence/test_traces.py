"""Traces: what a program reads while it is loaded and judged is recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, sys
sys.path.insert(0, "modules")
from draftproof.conformance.evidence.traces import trace, traced

with traced():
    exec(sys.argv[1])
found = trace()
files = {name.rpartition("/")[2]: digest for name, digest in found.files.items()}
print(json.dumps([files, found.variables, found.closed, found.changed()]))
"""


class Traced:
    """What a program left, run in a process of its own."""

    def __init__(self, code: str, folder: Path, **variables: str) -> None:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **variables}
        command = [sys.executable, "-c", PROGRAM, code]
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        found: list[Any] = json.loads(ran.stdout.splitlines()[-1])
        self.files, self.variables, self.closed, self.changed = found


def test_a_module_that_is_imported_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "mine.py").write_text("import json\n")
    found = Traced("import mine", tmp_path)
    assert found.files["mine.py"] is not None
    assert not {"decoder.py", "traces.py", "codecs.py"} & found.files.keys()


def test_a_file_that_is_opened_or_missed_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("1")
    code = "open('data.txt').close()\ntry: open('absent')\nexcept OSError: pass\nopen('out', 'w')"
    found = Traced(code, tmp_path)
    assert found.files["data.txt"] is not None
    assert found.files["absent"] is None
    assert "out" not in found.files


@pytest.mark.parametrize(
    "read",
    [
        "os.environ['ASKED']",
        "os.environ.get('ASKED')",
        "os.getenv('ASKED')",
        "'ASKED' in os.environ",
        "dict(os.environ)",
        "os.environ.copy()",
        "os.getenvb(b'ASKED')",
    ],
)
@pytest.mark.parametrize("value", ["1", None])
def test_a_variable_that_is_asked_for_is_recorded(
    tmp_path: Path, read: str, value: str | None
) -> None:
    variables = {} if value is None else {"ASKED": value}
    code = f"import os\ntry: {read}\nexcept KeyError: pass"
    found = Traced(code, tmp_path, **variables)
    if value is not None or ("dict" not in read and "copy" not in read):
        assert "ASKED" in found.variables
        assert (found.variables["ASKED"] is None) == (value is None)


def test_a_variable_that_the_program_sets_is_no_input(tmp_path: Path) -> None:
    found = Traced("import os\nos.environ['OWN'] = '1'\nos.environ['OWN']", tmp_path)
    assert "OWN" not in found.variables
    assert found.changed is None


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import subprocess; subprocess.run(['true'])", "it starts other programs"),
        ("import os; os.system('true')", "it starts other programs"),
        (
            "import socket\ntry: socket.create_connection(('127.0.0.1', 9), 1)\n"
            "except OSError: pass",
            "it reaches over a network",
        ),
    ],
)
def test_what_reaches_beyond_closes_the_store(tmp_path: Path, code: str, told: str) -> None:
    assert Traced(code, tmp_path).closed == told
