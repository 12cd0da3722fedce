"""The example harnesses conform, and are as careful as they say."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from draftproof.conformance.protocol.adapter import AdapterFailed, Request
from draftproof.conformance.protocol.harness import HarnessError
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.conformance.run.certify import certify

EXAMPLES = Path(__file__).parents[1] / "harnesses"


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The C example, which must compile without a warning."""
    if shutil.which("cc") is None or shutil.which("make") is None:
        pytest.skip("there is no C compiler (cc, make)")
    folder = tmp_path_factory.mktemp("c")
    for file in ("Makefile", "token.c"):
        shutil.copy(EXAMPLES / "c" / file, folder)
    flags = "CFLAGS=-O2 -Wall -Wextra -Wpedantic -Wconversion -Werror"
    subprocess.run(["make", "CC=cc", flags], cwd=folder, check=True, timeout=60)
    return f"harness:{shlex.quote(str(folder / 'token'))}"


@pytest.fixture(scope="module")
def javascript() -> str:
    if shutil.which("node") is None:
        pytest.skip("there is no Node.js (node)")
    return f"harness:node {shlex.quote(str(EXAMPLES / 'javascript' / 'block.mjs'))}"


PYTHON = EXAMPLES / "python"


@pytest.fixture(scope="module")
def python() -> str:
    """The example whose engine has an environment of its own; here it is that of the tests."""
    return served("verifier.py", "Probed")


def served(file: str, *names: str) -> str:
    command = [sys.executable, str(PYTHON / "serve.py"), str(PYTHON / file), *names]
    return f"harness:{shlex.join(command)}"


@pytest.fixture(scope="module")
def rust(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Rust example, which must compile without a warning."""
    if shutil.which("rustc") is None:
        pytest.skip("there is no Rust compiler (rustc)")
    program = tmp_path_factory.mktemp("rust") / "token"
    source = EXAMPLES / "rust" / "token.rs"
    flags = ("--edition", "2021", "-O", "-D", "warnings")
    subprocess.run(["rustc", *flags, "-o", str(program), str(source)], check=True, timeout=60)
    return f"harness:{shlex.quote(str(program))}"


@pytest.fixture
def example(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


every = pytest.mark.parametrize("example", ["c", "javascript", "python", "rust"], indirect=True)


def missed(report: Any) -> dict[str, str]:
    return {
        decision.requirement.id: f"{decision.verdict} on {decision.worst.case}"
        for decision in report.decisions
        if decision.verdict not in ("pass", "skipped")
    }


@every
def test_an_example_conforms_on_the_probe_lane(example: str) -> None:
    """Recommendations included; `number.tail` is sampled, with a false alarm of 1e-9."""
    report = certify(example, mode="quick")
    assert missed(report) == {}
    (law,) = (each for each in report.decisions if each.requirement.id == "law.reference")
    assert (law.verdict, law.worst.lane) == ("pass", "probe")


def test_the_c_example_conforms_on_the_sample_lane(c: str) -> None:
    """A false alarm has probability 1e-9."""
    report = certify(f"{c} --seeded", mode="quick", lanes=("sample",))
    assert missed(report) == {}
    (law,) = (each for each in report.decisions if each.requirement.id == "law.reference")
    assert (law.verdict, law.worst.lane) == ("pass", "sample")


def test_the_python_example_conforms_on_the_sample_lane() -> None:
    """A false alarm has probability 1e-9."""
    report = certify(served("verifier.py", "Sampled"), mode="quick", lanes=("sample",))
    assert missed(report) == {}
    (law,) = (each for each in report.decisions if each.requirement.id == "law.reference")
    assert (law.verdict, law.worst.lane) == ("pass", "sample")


def test_the_python_example_needs_no_draftproof() -> None:
    lines = (
        "import runpy, sys",
        "sys.modules['draftproof'] = None",
        f"sys.argv = ['serve.py', {str(PYTHON / 'verifier.py')!r}, 'Probed']",
        f"runpy.run_path({str(PYTHON / 'serve.py')!r}, run_name='__main__')",
    )
    command = shlex.join([sys.executable, "-c", "; ".join(lines)])
    result = load_adapter(f"harness:{command}").verify(asked())
    assert result.next_token.tolist() == [0]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("verifier.py",), "usage: serve.py FILE NAME"),
        (("gone.py", "Probed"), "gone.py is no file of Python"),
        (("verifier.py", "Gone"), "verifier.py defines no Gone"),
    ],
)
def test_the_python_example_says_what_it_cannot_serve(names: tuple[str], message: str) -> None:
    with pytest.raises(AdapterFailed, match=message):
        load_adapter(served(*names))


def test_what_an_engine_prints_does_not_reach_the_protocol(tmp_path: Path) -> None:
    source = (PYTHON / "verifier.py").read_text(encoding="utf-8")
    loud = '\nimport os\n\nprint("hello")\nos.system("echo from a process")\n'
    (tmp_path / "loud.py").write_text(source + loud, encoding="utf-8")
    loud_one = served(str(tmp_path / "loud.py"), "Probed")
    assert load_adapter(loud_one).verify(asked()).next_token.tolist() == [0]


def asked(**changes: Any) -> Request:
    p = torch.tensor([[0.75, 0.25], [0.5, 0.5]], dtype=torch.float64)
    given = {
        "draft_tokens": torch.ones(1, 1, 1, dtype=torch.int64),
        "draft_probs": torch.full((1, 1, 1, 2), 0.5, dtype=torch.float64),
        "target_probs": p.reshape(1, 1, 2, 2),
        "noise": {
            "coins": torch.full((1, 1), 0.8125, dtype=torch.float64),
            "token": torch.full((1,), 0.25, dtype=torch.float64),
        },
    }
    return Request(**{**given, **changes})


@every
def test_an_example_answers_as_the_chapter_shows(example: str) -> None:
    result = load_adapter(example).verify(asked())
    columns = (result.accepted_length, result.path, result.next_token)
    assert [column.tolist() for column in columns] == [[0], [0], [0]]


@pytest.mark.requirement("input.rejected")
@every
def test_an_example_refuses_what_is_invalid_and_goes_on(example: str) -> None:
    adapter = load_adapter(example)
    half = torch.full((1, 1, 1, 2), 0.5, dtype=torch.float64)
    for change, message in (
        ({"draft_tokens": torch.full((1, 1, 1), 2)}, r"token 2 is not in 0\.\.1"),
        ({"draft_probs": half * torch.nan}, "is no probability"),
        ({"draft_probs": half * torch.inf}, "sums to"),
        ({"draft_probs": half / 2}, r"sums to 0\.5, not to 1"),
        ({"draft_probs": half * torch.tensor([2.0, 0.0])}, "token 1 has probability 0"),
        ({"target_probs": half}, "target_probs"),
        ({"draft_probs": half.repeat(1, 2, 1, 1)}, "draft_probs"),
    ):
        with pytest.raises(HarnessError, match=message):
            adapter.verify(asked(**change))
    assert adapter.verify(asked()).next_token.tolist() == [0]
