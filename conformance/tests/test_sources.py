"""The files whose code runs are known, whatever an adapter declares."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
import torch

from draftproof.adapters.fast import FastVerifier
from draftproof.conformance.campaign import Campaign, run
from draftproof.conformance.evidence import Record
from draftproof.conformance.loading import load_adapter
from draftproof.conformance.report import words
from draftproof.conformance.sources import sources

WRAPPER = """
import wrapped

from draftproof.conformance.adapter import Result


class Wrapper:
    name, version, algorithm = "wrapper", "1", "token"

    def verify(self, request):
        return wrapped.verify(request)
"""

WRAPPED = """
from draftproof.adapters.fast import FastVerifier


def verify(request):
    return FastVerifier("token").verify(request)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "wrapper.py").write_text(WRAPPER)
    (tmp_path / "wrapped.py").write_text(WRAPPED)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_what_a_wrapper_wraps_is_known_and_told(place: Path) -> None:
    found = {each.file: each for each in sources(load_adapter(f"{place / 'wrapper.py'}:Wrapper"))}
    assert found["wrapper.py"].declared
    assert not found["wrapped.py"].declared
    assert found["wrapped.py"].sha256 == sha256(WRAPPED.encode()).hexdigest()
    assert "draftproof/adapters/fast/token.py" in found
    assert not [name for name in found if name.startswith(("torch/", "numpy/"))]
    told = {"sources": [vars(each) for each in found.values()]}
    (said,) = words.undeclared(told)
    assert "code ran in files that the adapter does not declare (files): " in said
    assert "wrapped.py" in said
    assert "wrapper.py" not in said


def test_what_is_declared_is_not_told_of() -> None:
    found = sources(FastVerifier("block"))
    assert {each.file.rpartition("/")[2] for each in found} >= {"block.py", "engine.py"}
    assert [*words.undeclared({"sources": [vars(each) for each in found]})] == []


def test_a_campaign_keeps_them_and_leaves_the_generators_alone(place: Path) -> None:
    records: list[Record] = []
    state = torch.get_rng_state()
    adapter = f"{place / 'wrapper.py'}:Wrapper"
    asked = Campaign(adapter, mode="quick", cases=("generic.v2.l1",), only=("law.lossless",))
    run(asked, keep=records.append)
    assert torch.equal(torch.get_rng_state(), state)
    assert "wrapped.py" in [each["file"] for each in records[0]["sources"]]
