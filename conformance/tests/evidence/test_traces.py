"""Traces: what a program reads while it is loaded and judged is recorded."""

from __future__ import annotations

import importlib
import os
import py_compile
import shutil
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Thread
from typing import Any
from zipfile import ZipFile

import pytest

from draftproof.conformance.evidence.traces import (
    Trace,
    recording,
    trace,
    traced,
    unheard,
    untraced,
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that this process is in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def read_by(code: str) -> Trace:
    """Return the trace of a program that is run here."""
    with recording():
        with traced():
            exec(code, {})
        return trace()


def test_a_module_that_is_imported_is_recorded(here: Path) -> None:
    (here / "own_module.py").write_text("import json\n")
    found = read_by("import own_module")
    assert found.files[str(here / "own_module.py")] is not None
    assert not {"decoder.py", "traces.py", "codecs.py"} & {Path(each).name for each in found.files}


def test_a_file_that_is_opened_or_missed_is_recorded(here: Path) -> None:
    (here / "data.txt").write_text("1")
    code = (
        "open('data.txt').close()\ntry: open('absent')\nexcept OSError: pass\n"
        "open('out', 'w').close()"
    )
    files = read_by(code).files
    assert files[str(here / "data.txt")] is not None
    assert files[str(here / "absent")] is None
    assert str(here / "out") not in files


EVERY = ("dict(os.environ)", "repr(os.environ)", "os.environ.copy()")
"""Programs that read the variables that there are."""


@pytest.mark.parametrize(
    "read",
    [
        "os.environ['ASKED']",
        "os.environ.get('ASKED')",
        "os.getenv('ASKED')",
        "'ASKED' in os.environ",
        *EVERY,
        "os.getenvb(b'ASKED')",
    ],
)
@pytest.mark.parametrize("value", ["1", None])
def test_a_variable_that_is_asked_for_is_recorded(
    here: Path, monkeypatch: pytest.MonkeyPatch, read: str, value: str | None
) -> None:
    monkeypatch.delenv("ASKED", raising=False)
    if value is not None:
        monkeypatch.setenv("ASKED", value)
    found = read_by(f"import os\ntry: {read}\nexcept KeyError: pass")
    if value is not None or read not in EVERY:
        assert (found.variables["ASKED"] is None) == (value is None)
    assert not found.closed
    assert found.changed() is None
    monkeypatch.setenv("ASKED", "2")
    assert found.changed() is not None


def test_the_number_of_variables_is_recorded(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_by("import os; len(os.environ)")
    assert found.changed() is None
    monkeypatch.setenv("ONE_MORE", "1")
    assert found.changed() == "the variable *"


def test_a_variable_that_the_program_sets_is_no_input(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN", "0")
    found = read_by("import os\nos.environ['OWN'] = '1'\nos.environ['OWN']")
    assert "OWN" not in found.variables
    assert found.changed() is None


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import subprocess; subprocess.run(['true'])", "it starts other programs"),
        ("import os; os.system('true')", "it starts other programs"),
        (
            "import os\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)",
            "it starts other programs",
        ),
        (
            "from multiprocessing import Process, process\n"
            "class P(Process):\n"
            "    def _Popen(self, _): raise SystemExit\n"
            "try: P().start()\nexcept SystemExit: pass",
            "it starts other programs",
        ),
        (
            "import socket\ntry: socket.create_connection(('127.0.0.1', 9), 1)\n"
            "except OSError: pass",
            "it reaches over a network",
        ),
        ("import socket; socket.gethostname()", "it asks for the name of the machine"),
        ("import sqlite3; sqlite3.connect('data.db').close()", "it opens a database"),
        (
            "import ctypes\ntry: ctypes.CDLL('libno_such.so')\nexcept OSError: pass",
            "it loads the library 'libno_such.so', wherever that is found",
        ),
        (
            "import os; os.close(os.open('data', os.O_RDONLY, dir_fd=os.open('/', os.O_RDONLY)))\n",
            "it opens 'data' by `os.open`, and the folder is not known",
        ),
    ],
)
def test_what_reaches_beyond_closes_the_trace(here: Path, code: str, told: str) -> None:
    (here / "data").touch()
    if "dir_fd" in code:
        code = code.replace("'/'", repr(str(here)))
    assert read_by(code).closed == told


def test_a_fork_of_the_suite_is_none_of_the_program(here: Path) -> None:
    """One requirement asks a process and its fork; a program that forks is told so (above)."""
    found = read_by(
        "from draftproof.conformance.requirements._defaults import _forked\n"
        "with _forked(lambda: 1) as result: assert result() == 1"
    )
    assert not found.closed


def test_what_is_no_file_closes_the_trace(here: Path) -> None:
    os.mkfifo(here / "pipe")
    code = f"import os; os.close(os.open({str(here / 'pipe')!r}, os.O_RDONLY | os.O_NONBLOCK))"
    assert read_by(code).closed == f"it reads {here / 'pipe'}, which is no regular file"
    assert Trace({str(here / "pipe"): None}, {}).changed() is None, "nor does asking wait for it"


@pytest.mark.parametrize(
    "code",
    [
        "open('data', 'a+').close()",
        "open('data', 'r+').close()",
        "import os; os.close(os.open(PATH, os.O_RDONLY | os.O_CREAT))",
        "import os; os.close(os.open(PATH, os.O_RDWR | os.O_CREAT))",
    ],
)
def test_what_is_opened_to_be_read_and_written_is_recorded(here: Path, code: str) -> None:
    data = here / "data"
    data.write_text("1")
    assert read_by(code.replace("PATH", repr(str(data)))).files[str(data)] is not None


def test_what_is_written_anew_is_no_input(here: Path) -> None:
    read = read_by("import tempfile\nopen('out', 'w').close()\ntempfile.TemporaryFile().close()")
    assert not read.closed
    assert str(here / "out") not in read.files


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no memory file system")
def test_a_file_in_memory_is_a_file(here: Path) -> None:
    with NamedTemporaryFile(dir="/dev/shm") as file:
        assert file.name in read_by(f"open({file.name!r}).close()").files


def test_what_was_compiled_stands_for_its_source(here: Path) -> None:
    source, cached = here / "held.py", here / "gone.py"
    for each in (source, cached):
        each.write_text("F = 0\n")
        py_compile.compile(str(each))
    alone = here / "alone.pyc"
    Path(cache_from_source(str(cached))).rename(alone)
    read = read_by(
        "from importlib.machinery import SourceFileLoader, SourcelessFileLoader\n"
        "import importlib.util as u\n"
        "for kind, name, file in ((SourceFileLoader, 'held', 'held.py'),"
        " (SourcelessFileLoader, 'alone', 'alone.pyc')):\n"
        f"    loader = kind(name, {str(here)!r} + '/' + file)\n"
        "    loader.exec_module(u.module_from_spec(u.spec_from_loader(name, loader)))"
    )
    assert not {"held", "alone"} & sys.modules.keys()
    assert {str(source), str(alone)} <= read.files.keys()


def test_a_file_that_changes_meanwhile_closes_the_trace(here: Path) -> None:
    data = here / "data"
    data.write_text("0")
    with recording():
        with traced():
            data.read_text()
        first = trace()
        data.write_text("1")
        assert trace().closed == f"{data} was changed while it was judged"
    assert first.files[str(data)] == sha256(b"0").hexdigest()
    assert first.changed() == str(data)


def test_other_threads_are_always_recorded(here: Path) -> None:
    """Reads of a program's threads are its own, whatever the suite does meanwhile."""
    for name in ("ours", "its"):
        (here / name).touch()
    with recording():
        (here / "ours").read_text()
        thread = Thread(target=(here / "its").read_text)
        thread.start()
        thread.join()
        with traced(), untraced():
            (here / "ours").read_text()
        found = trace()
    assert str(here / "its") in found.files
    assert str(here / "ours") not in found.files


def test_what_was_not_recorded_is_closed(here: Path) -> None:
    assert trace().closed == "what it reads was not recorded"


def test_a_module_that_comes_to_stand_before_another_is_noticed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("one", "two"):
        (here / folder).mkdir()
    (here / "two" / "helping_twice.py").write_text("F = 0\n")
    monkeypatch.setattr(sys, "path", [str(here / "one"), str(here / "two"), *sys.path])
    read = read_by(
        "from contextlib import suppress\nimport helping_twice\n"
        "with suppress(ImportError): import helping_nowhere"
    )
    monkeypatch.delitem(sys.modules, "helping_twice")
    assert read.changed() is None
    for new in ("one/helping_twice.py", "two/helping_nowhere.py", "two/helping_twice/__init__.py"):
        (here / new).parent.mkdir(exist_ok=True)
        (here / new).touch()
        assert f"by the name of {Path(new.removesuffix('/__init__.py')).stem}" in (
            read.changed() or ""
        )
        (here / new).unlink()
        if "__init__" in new:
            (here / new).parent.rmdir()
    assert read.changed() is None


@pytest.mark.parametrize("beside", ["package/own.py", "package.py"])
def test_a_folder_that_becomes_a_package_is_noticed(here: Path, beside: str) -> None:
    """Without a file of its own, it was one of several parts, or nothing but data."""
    (here / "package").mkdir()
    (here / beside).write_text("")
    found = read_by("import sys, package\ndel sys.modules['package']")
    assert found.changed() is None
    (here / "package" / "__init__.py").write_text("")
    assert found.changed() == f"what {here} has by the name of package"


def test_an_archive_in_which_modules_are_looked_for_is_recorded(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ZipFile(here / "archive.zip", "w") as archive:
        archive.writestr("other.py", "")
    (here / "archived.py").write_text("")
    monkeypatch.syspath_prepend(str(here / "archive.zip"))
    __import__("other")  # it is open now
    found = read_by("import archived")
    del sys.modules["archived"], sys.modules["other"]
    assert found.changed() is None
    with ZipFile(here / "archive.zip", "a") as archive:
        archive.writestr("archived.py", "")
    assert found.changed() == f"what {here / 'archive.zip'} has by the name of archived"


def test_a_compiled_module_that_is_forgotten_is_recorded(here: Path) -> None:
    compiled = here / f"forgotten{EXTENSION_SUFFIXES[0]}"
    shutil.copy(str(importlib.import_module("_multiprocessing").__file__), compiled)
    found = read_by(
        "from importlib.util import module_from_spec, spec_from_file_location\n"
        f"spec = spec_from_file_location('_multiprocessing', {str(compiled)!r})\n"
        "spec.loader.exec_module(module_from_spec(spec))"
    )
    assert found.files[str(compiled)] is not None


def test_a_link_among_the_files_of_others_is_recorded(here: Path) -> None:
    """A file that is Python's own today may be the user's tomorrow."""
    link = here / "link.py"
    link.symlink_to(str(importlib.import_module("abc").__file__))
    found = read_by("open('link.py').close()")
    assert found.changed() is None
    link.unlink()
    link.write_text("")
    assert found.changed() == str(link)


def test_how_progress_is_shown_is_not_read_by_the_program(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(steps: Iterator[Any]) -> Iterator[Any]:
        os.environ.get("SHOWN")
        yield from steps

    def steps() -> Iterator[Any]:
        yield os.environ.get("STEP")

    with recording(), traced():
        assert [*unheard(shown)(steps())] == [None]
        found = trace()
    assert "STEP" in found.variables
    assert "SHOWN" not in found.variables
