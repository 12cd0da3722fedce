from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import draftproof.conformance
import draftproof.reference
from draftproof.conformance.evidence import identity
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.protocol.loading import load_adapter, source_digest
from draftproof.spec import chapters, schema_files


@pytest.fixture(autouse=True)
def computed_anew() -> Iterator[None]:
    """What was computed for other tests is not known here, nor what is computed here elsewhere."""
    for known in (identity.suite, identity.specification):
        known.cache_clear()
    yield
    for known in (identity.suite, identity.specification):
        known.cache_clear()


def test_the_subject_is_the_adapters_files() -> None:
    adapter = load_adapter("torch-token")
    assert identity.subject(program_of(adapter)) == {
        "name": "torch-token",
        "version": adapter.version,
        "sha256": source_digest(adapter),
    }


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of the rooms whose sources are the suite, and they are the suite."""
    for room in (draftproof.reference, draftproof.conformance):
        name = room.__name__.rpartition(".")[2]
        ignored = shutil.ignore_patterns("__pycache__", "templates")
        shutil.copytree(room.__path__[0], tmp_path / name, ignore=ignored)
        monkeypatch.setattr(room, "__path__", [str(tmp_path / name)])
    return tmp_path


def again() -> str:
    identity.suite.cache_clear()
    return identity.suite()["sha256"]


def test_what_judges_nothing_does_not_count(rooms: Path) -> None:
    first = again()
    for room in ("conformance/cli", "conformance/museum/mutants", "reference/ledger"):
        (rooms / room / "__init__.py").write_text("changed = True\n")
        assert again() == first, room
    (rooms / "conformance" / "report" / "new.py").write_text("")
    (rooms / "conformance" / "pytest_plugin.py").unlink()
    assert again() == first
    (rooms / "conformance" / "run" / "new.py").write_text("")
    assert again() != first


def test_every_source_that_judges_counts_and_where_it_lies_does_not(rooms: Path) -> None:
    first = again()
    shutil.rmtree(rooms / "conformance" / "protocol" / "harness")
    shutil.rmtree(rooms / "reference" / "ledger")
    without = again()
    for file in sorted((rooms / "reference").rglob("*.py"))[::9]:
        content = file.read_bytes()
        file.write_bytes(content + b"#")
        assert again() not in (first, without), file
        file.write_bytes(content)
    assert again() == without
    finding, task = (
        rooms / "conformance" / "requirements" / f"{name}.py" for name in ("finding", "task")
    )
    finding.rename(rooms / "swapped")
    task.rename(finding)
    (rooms / "swapped").rename(task)
    assert again() != without
    (rooms / "conformance" / "__pycache__").mkdir()
    before = again()
    (rooms / "conformance" / "__pycache__" / "finding.pyc").write_bytes(b"compiled")
    assert again() == before


def test_the_specification_is_its_chapters_and_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = identity.specification()
    assert re.fullmatch("[0-9a-f]{64}", whole["sha256"])
    for files in (chapters(), schema_files()):
        assert len(files) > 1
    for name, files in (("chapters", chapters()[1:]), ("schema_files", schema_files()[1:])):
        with monkeypatch.context() as patched:
            patched.setattr(identity, name, lambda files=files: files)
            identity.specification.cache_clear()
            assert identity.specification() != whole


def test_the_specification_has_a_version_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "version", lambda: "7.0.0")
    monkeypatch.setattr(identity, "released", lambda package: f"1.2.3 of {package}")
    assert identity.specification()["version"] == "7.0.0"
    assert identity.suite()["version"] == "1.2.3 of draftproof"


def test_the_environment_is_what_results_depend_on() -> None:
    found = identity.environment()
    assert found["torch"] == torch.__version__
    assert found["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert {"python", "platform", "processor", "numpy", "scipy", "sympy"} <= found.keys()
    assert all(type(value) is str and value for value in found.values())


CORES = """\
processor\t: {core}
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC 9B14

"""


@pytest.mark.parametrize(
    ("told", "model"),
    [
        (CORES.format(core=0) + CORES.format(core=1), "AMD EPYC 9B14, cpu family 25, model 17"),
        ("processor : 0\nBogoMIPS : 243.75\n", "abacus"),
        (None, "abacus"),
    ],
)
def test_the_processor_is_its_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str | None, model: str
) -> None:
    file = tmp_path / "cpuinfo"
    if told is not None:
        file.write_text(told)
    monkeypatch.setattr(identity, "Path", lambda _: file)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    assert identity.processor() == model


def test_the_environment_tells_whether_kernels_are_interpreted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = pytest.importorskip("triton").__version__
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert identity.environment()["triton"] == f"{found} interpreted"
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert identity.environment()["triton"] == found
