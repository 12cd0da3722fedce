"""The files whose code runs are known, whatever an adapter declares."""

from __future__ import annotations

import gc
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import markupsafe._speedups
import pytest
import torch

from draftproof.adapters.fast import FastVerifier
from draftproof.conformance.cases import cases
from draftproof.conformance.evidence.certificate import statement
from draftproof.conformance.evidence.records import Record
from draftproof.conformance.evidence.sources import Source, sources
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.protocol.loading import load_adapter, load_program
from draftproof.conformance.report import words
from draftproof.conformance.run.campaign import Campaign, run
from draftproof.conformance.run.workers import Workers

WRAPPER = """
import wrapped

from draftproof.conformance.protocol.adapter import Result


class Wrapper:
    name, version, algorithm = "wrapper", "1", "token"

    def verify(self, request):
        return wrapped.verify(request)
"""

WRAPPED = """
from threading import Thread

from draftproof.adapters.fast import FastVerifier


def begin():
    pass


def verify(request):
    found = []
    thread = Thread(target=lambda: found.append(FastVerifier("token").verify(request)))
    thread.start()
    thread.join()
    return found[0]
"""

LITTER = """
import weakref
from functools import cache

import wrapped


class Ring:
    pass


@cache
def once():
    wrapped.begin()


def begin():
    once()
    ring = Ring()
    ring.itself = ring
    weakref.finalize(ring, wrapped.begin)
"""

SMALLEST = cases("quick")[:1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "wrapper.py").write_text(WRAPPER)
    (tmp_path / "wrapped.py").write_text(WRAPPED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wrapped", raising=False)
    return tmp_path


def written(place: Path, verify: str) -> Any:
    """Return an adapter whose `verify` begins with some lines, and goes on as the fast one."""
    file = place / "mine.py"
    file.write_text(
        f"{verify}\n\n\nclass Mine:\n"
        '    name, version, algorithm = "mine", "1", "token"\n\n'
        "    def verify(self, request):\n        begin()\n        return FAST.verify(request)\n"
    )
    return load_adapter(f"{file}:Mine")


FAST = 'from draftproof.adapters.fast import FastVerifier\n\nFAST = FastVerifier("token")\n'


def by_file(found: list[Source]) -> dict[str, Source]:
    assert len({each.file for each in found}) == len(found)
    return {each.file: each for each in found}


def asked(name: str) -> Campaign:
    return Campaign(name, mode="quick", seed=1, cases=("generic.v2.l1",), only=("law.lossless",))


def test_what_a_wrapper_wraps_is_known_and_told(place: Path) -> None:
    found = by_file(sources(load_program(f"{place / 'wrapper.py'}:Wrapper"), SMALLEST))
    assert found["wrapper.py"].declared
    assert not found["wrapped.py"].declared
    assert found["wrapped.py"].sha256 == sha256(WRAPPED.encode()).hexdigest()
    assert "draftproof/adapters/fast/token.py" in found  # in a thread of its own
    assert not [name for name in found if name.startswith(("torch/", "numpy/", "threading"))]
    told = {"sources": [vars(each) for each in found.values()]}
    (said,) = words.undeclared(told)
    assert "code ran in files that the adapter does not declare in `files`: " in said
    assert said.endswith(" and 4 more")
    assert "wrapper.py" not in said
    (said,) = words.undeclared(
        {"sources": [vars(found[f"{name}.py"]) for name in ("wrapper", "wrapped")]}
    )
    assert said.endswith(": wrapped.py")


def test_what_is_declared_is_not_told_of() -> None:
    found = sources(program_of(FastVerifier("block")), SMALLEST)
    assert {each.file.rpartition("/")[2] for each in found} >= {"block.py", "engine.py"}
    assert [*words.undeclared({"sources": [vars(each) for each in found]})] == []


def test_transformers_verifier_is_part_of_its_subject() -> None:
    found = by_file(sources(load_program("transformers"), SMALLEST))
    inner = found["transformers/generation/utils.py"]
    assert (inner.distribution, inner.declared) == ("transformers", True)
    assert inner.version == load_adapter("transformers").version


def test_compiled_libraries_are_known_by_the_modules_that_refer_to_them(tmp_path: Path) -> None:
    inner = Path(markupsafe._speedups.__file__)
    shared = tmp_path / "libmine.so"
    shared.write_bytes(inner.read_bytes())
    lines = (
        f"import ctypes\n\nfrom markupsafe import _speedups\n\nMINE = ctypes.CDLL({str(shared)!r})"
    )
    adapter = written(tmp_path, f"{lines}\n{FAST}\ndef begin():\n    pass")
    found = by_file(sources(program_of(adapter), SMALLEST))
    assert found["libmine.so"].sha256 == sha256(inner.read_bytes()).hexdigest()
    compiled = found[f"markupsafe/{inner.name}"]
    assert (compiled.distribution, compiled.declared) == ("MarkupSafe", False)


def test_garbage_and_first_calls_leave_no_trace(place: Path) -> None:
    """Garbage that is collected, and caches that are filled, hang on what came before."""
    adapter = written(place, f"{LITTER}\n{FAST}")
    before = gc.get_threshold()
    gc.set_threshold(20, 10**6, 10**6)
    try:
        found = by_file(sources(program_of(adapter), SMALLEST))
    finally:
        gc.set_threshold(*before)
    assert "mine.py" in found
    assert "wrapped.py" not in found


def test_an_adapter_that_raises_has_run(tmp_path: Path) -> None:
    adapter = written(tmp_path, f"{FAST}\ndef begin():\n    raise ValueError('no')")
    assert [*by_file(sources(program_of(adapter), SMALLEST))] == ["mine.py"]


def test_a_campaign_keeps_the_same_in_every_process(place: Path) -> None:
    state = torch.get_rng_state()
    kept: list[list[Record]] = []
    for jobs in (1, 2):
        kept.append([])
        campaign = asked(f"{place / 'wrapper.py'}:Wrapper")
        run(campaign, keep=kept[-1].append, workers=Workers(jobs=jobs))
    assert torch.equal(torch.get_rng_state(), state)
    here, elsewhere = ([r for r in each if r["record"] == "sources"] for each in kept)
    assert here == elsewhere
    (record,) = here
    assert "wrapped.py" in [each["file"] for each in record["files"]]
    document = statement(kept[0], evidence="mine.jsonl", digest="0" * 64)
    assert document["predicate"]["draftproof"]["sources"] == record["files"]
