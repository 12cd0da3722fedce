"""The shim that rounds as another processor might: what it moves, and what it keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy
import pytest

FOLDER = Path(__file__).parents[2] / "rounding"


@pytest.fixture
def shim(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module, without what it does to a Python that starts with a seed."""
    monkeypatch.delenv("ROUNDING", raising=False)
    found = spec_from_file_location("rounding_shim", FOLDER / "shim.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("seed", [1, 2])
def test_floats_move_by_one_and_never_past_each_other(
    shim: ModuleType, dtype: str, seed: int
) -> None:
    size = numpy.dtype(dtype).itemsize
    ends = [numpy.array(value, dtype).view(f"u{size}") for value in (0.0, 1.0, 2.0, numpy.inf)]
    near = sorted({max(int(end) + step, 0) for end in ends for step in range(-250, 250)})
    bits = numpy.array([each for each in near if each <= int(ends[-1])], f"u{size}")
    own = numpy.uint64(shim.seeded(seed, "exp"))
    after = shim.moved(bits, dtype, own, keep=numpy.False_, short=False, ones=True)
    by = after.astype("i8") - bits.astype("i8")
    assert {*by.tolist()} == {-1, 0, 1}
    assert (numpy.diff(after.view(dtype)) >= 0).all()
    kept = [numpy.array(value, dtype).view(f"u{size}") for value in (0.0, 1.0, numpy.inf)]
    assert not by[numpy.isin(bits, kept)].any()
    # Rounding to nearest knows no sign.
    sign = bits.dtype.type(1 << (8 * size - 1))
    below = shim.moved(bits | sign, dtype, own, keep=numpy.False_, short=False, ones=True)
    assert (below == after | sign).all()


def under(seed: int, script: str) -> str:
    """Return what a script prints in a Python that starts with the shim."""
    path = os.pathsep.join(filter(None, (str(FOLDER), os.environ.get("PYTHONPATH"))))
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "PYTHONPATH": path, "ROUNDING": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


OF_TORCH = """
import torch
torch.manual_seed(0)
third = torch.full((3,), 1 / 3)
print(torch.backends.cpu.get_cpu_capability().endswith(", rounding 1"))
print(torch.arange(1.0, 9.0).exp().log().eq(torch.arange(1.0, 9.0)).all().item())
print({torch.full((n,), 1 / n).sum().item() for n in range(3, 50)} == {1.0})
# What is exact on every processor.
print(torch.tensor([0.0, -torch.inf]).exp().tolist(), torch.ones(2).log().tolist())
print(torch.full((4,), 0.25).sum().item(), torch.zeros(2).softmax(0).tolist())
numbers, whole = torch.arange(81.0).view(9, 9), torch.arange(9)
print(torch.equal(torch.eye(9)[[4, 2]] @ numbers, numbers[[4, 2]]))
print(whole.sum().item(), whole.cumsum(0)[-1].item(), torch.ones(1).softmax(0).item())
# Nothing leaves its range, the same call gives the same bits, and memory stays the tensor's own.
rows = torch.randn(100, 7).softmax(-1)
print(((rows > 0) & (rows <= 1)).all().item(), (rows.cumsum(-1).diff() >= 0).all().item())
print(torch.equal(rows.log(), rows.log()), rows.log().untyped_storage().resizable())
"""


def test_results_of_torch_are_moved_unless_they_are_exact() -> None:
    assert under(1, OF_TORCH).splitlines() == [
        "True",
        "False",
        "False",
        "[1.0, 0.0] [0.0, 0.0]",
        "1.0 [0.5, 0.5]",
        "True",
        "36 36 1.0",
        "True True",
        "True True",
    ]


OF_PYTHON = """
import math, numpy
numbers = [n / 7 for n in range(1, 200)]
print(*(f(n).hex() for n in numbers for f in (math.exp, math.log)), sep="\\n")
print(*(float(f(n)).hex() for n in numbers for f in (numpy.exp, numpy.log)), sep="\\n")
print(*(n.hex() for n in numpy.exp(numpy.array(numbers)).tolist()), sep="\\n")
"""


def test_results_of_numpy_and_math_are_moved_by_one() -> None:
    one, two = ([float.fromhex(line) for line in under(seed, OF_PYTHON).split()] for seed in (1, 2))
    assert one != two
    # Both are off the same number by one at most; ulp() is that of the larger exponent.
    pairs = zip(one, two, strict=True)
    assert all(abs(a - b) <= numpy.spacing(max(abs(a), abs(b))) for a, b in pairs)


def test_a_law_is_computed_as_before() -> None:
    """The exact lane follows noise through operators that are moved."""
    script = """
import torch
from draftproof.conformance.lanes.exact import exact_law
weights = torch.tensor([0.25, 0.25, 0.5])
print(exact_law(lambda: (weights / -torch.rand(3).log()).argmax()).law[2])
"""
    assert under(1, script).strip() == "1/2"
