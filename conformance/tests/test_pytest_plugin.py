"""The plugin, in the way that a user meets it: pytest in a process and a folder of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from math import fsum, isclose
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from draftproof.conformance.campaign import FALSE_ALARM
from draftproof.spec import requirements

# Other people's packages take seconds to import. They are imported once, by a process that runs
# pytest in forks of itself.
SERVER = """
import json, os, sys
import gmpy2, joblib, jsonschema, networkx, pytest, scipy.optimize, sympy, torch

for line in sys.stdin:
    folder, arguments = json.loads(line)
    if os.fork() == 0:
        os.chdir(folder)
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream, file in enumerate([os.open(os.devnull, os.O_RDONLY), output, output]):
            os.dup2(file, stream)
        sys.exit(pytest.main(arguments))
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""

VERIFIERS = """
import warnings
from types import SimpleNamespace

import torch


class Wrong:
    name, version, algorithm = "wrong", "1.0", "token"

    def verify(self, request):
        warnings.warn("it is old", DeprecationWarning)
        path = request.draft_tokens[:, 0]
        q, p = request.draft_probs[:, 0], request.target_probs[:, 0]
        ratio = (p[:, :-1] / q).gather(-1, path[..., None])[..., 0]
        accepted = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)
        # The bonus is drawn from the draft.
        rows = torch.cat([(p[:, :-1] - q).clamp(min=0), q[:, -1:]], 1)
        token = torch.multinomial(rows[torch.arange(len(path)), accepted], 1)[:, 0]
        return SimpleNamespace(
            accepted_length=accepted, path=torch.zeros_like(accepted), next_token=token
        )


class Nameless:
    version = "1.0"
"""

# A conftest.py: nothing is judged, it is noted what is to be, and found what these tests need.
STUB = """
import json, os, sys
from types import ModuleType, SimpleNamespace

from draftproof.conformance.adapter import AdapterLost
from draftproof.conformance.decision import decisions
from draftproof.conformance.finding import Finding
from draftproof.conformance.loading import AdapterFailed

FOUND = json.loads(open("found.json").read())
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


def certify(name, **terms):
    with open("asked.jsonl", "a") as file:
        print(json.dumps({"worker": WORKER, "name": name, **terms}), file=file)
    for kind in (AdapterLost, AdapterFailed):
        if FOUND.get(terms["only"][0]) == kind.__name__:
            raise kind("it is\\x1bgone")
    found = []
    for each in terms["only"]:
        verdict, applies = FOUND.get(each, ("pass", True))
        found.append(Finding(each, "here", verdict, detail="so \\x1b it is", applies=applies))
    return SimpleNamespace(decisions=decisions(found, {"batch": True}), counterexample=None)


if WORKER:  # it must get along without the tasks, and so without torch
    sys.modules["draftproof.conformance.campaign"] = campaign = ModuleType("campaign")
else:
    from draftproof.conformance import campaign
campaign.certify = certify


def pytest_collection_modifyitems(items):
    marks = {item.name: [mark.args[0] for mark in item.iter_markers("xdist_group")] for item in items}
    with open(f"marks{WORKER}.json", "w") as file:
        json.dump(marks, file)
"""

PLUGIN = ("-p", "draftproof", "-p", "no:cacheprovider")

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run pytest in a folder, with the plugin and without all others; return code and output."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"},
    ) as server:
        stdin, stdout = server.stdin, server.stdout
        assert stdin is not None
        assert stdout is not None

        def ran(folder: Path, *arguments: str) -> tuple[int, str]:
            print(json.dumps([str(folder), [*PLUGIN, *arguments]]), file=stdin, flush=True)
            return int(stdout.readline()), (folder / "output.txt").read_text(encoding="utf-8")

        yield ran


def cases(file: Path) -> dict[str, ElementTree.Element]:
    """Return the test cases of a junit file by their class and name."""
    found = ElementTree.parse(file).iter("testcase")
    return {f"{case.get('classname')} {case.get('name')}": case for case in found}


def properties(case: ElementTree.Element) -> dict[str, str]:
    return {str(each.get("name")): str(each.get("value")) for each in case.iter("property")}


def outcome(case: ElementTree.Element) -> tuple[str, str]:
    """Return what became of a test, and the reason."""
    for kind in ("failure", "error", "skipped"):
        if (told := case.find(kind)) is not None:
            return kind, told.text if kind == "failure" and told.text else str(told.get("message"))
    return "passed", ""


# --- what is really judged -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """Two adapters, one right and one wrong, beside an ordinary test."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "verifiers.py").write_text(VERIFIERS)
    (folder / "test_ordinary.py").write_text("def test_ordinary(): pass")
    code, output = run(
        folder,
        *("--draftproof", "torch-token", "--draftproof", "./verifiers.py:Wrong"),
        *("--draftproof-mode", "quick", "--draftproof-seed", "7"),
        *("-v", "--junitxml", "junit.xml", "-k", "law or ordinary or joint or random.one"),
    )
    return folder, code, output


def test_requirements_are_tests_beside_the_others(judged: tuple[Path, int, str]) -> None:
    _, code, output = judged
    assert code == 1, output
    assert "draftproof: torch-token, wrong; mode quick, seed 7\n" in output
    assert "collected 59 items / 46 deselected / 13 selected" in output
    lines = re.findall(r"^(\S+) (PASSED|FAILED|SKIPPED)", output, re.M)
    assert lines == [
        ("test_ordinary.py::test_ordinary", "PASSED"),
        ("draftproof::torch-token::law.lossless", "PASSED"),
        ("draftproof::torch-token::law.reference", "PASSED"),
        ("draftproof::torch-token::law.support", "PASSED"),
        ("draftproof::torch-token::law.prefix", "PASSED"),
        ("draftproof::torch-token::draft.joint", "SKIPPED"),
        ("draftproof::torch-token::random.one", "PASSED"),
        ("draftproof::wrong::law.lossless", "FAILED"),
        ("draftproof::wrong::law.reference", "FAILED"),
        ("draftproof::wrong::law.support", "FAILED"),
        ("draftproof::wrong::law.prefix", "PASSED"),
        ("draftproof::wrong::draft.joint", "SKIPPED"),
        ("draftproof::wrong::random.one", "PASSED"),
    ]


def test_a_failure_says_what_is_wrong_and_shows_it(judged: tuple[Path, int, str]) -> None:
    _, _, output = judged
    (failure,) = re.findall(r"^_+ law.lossless of wrong _+\n(.*?)\n_", output, re.M | re.S)
    first, what, where, *rest = failure.splitlines()
    assert re.fullmatch(r"law.lossless: fail: observed \d.\d\de-01, allowed \d.\d\de-06", first)
    assert what == "  what: Losslessness, a MUST of chapter 02-laws"
    assert re.fullmatch(r"  where: case \S+, exact lane, \d+ runs, seed 7", where)
    assert rest == [
        "",
        "The smallest counterexample found",
        "  law.lossless fails at V=2, L=1, K=1: distance 1/4",
        "  target: (0, 1) in every context",
        "  draft: (1/2, 1/2) in every context",
        "  drafted: [1], which has probability 1/2",
        "  the accepted length has the right law, what follows it has not",
        "  accepts [1], next token 0: probability 1/2, should be 0",
        "  accepts [1], next token 1: probability 1/2, should be 1",
        "  over all drafts, the text [1, 1] has probability 3/4, the target says 1",
    ]
    assert "Traceback" not in output
    assert "pytest_plugin.py" not in output


def test_what_does_not_bind_warns(judged: tuple[Path, int, str]) -> None:
    _, _, output = judged
    (_, summary) = output.split("warnings summary")
    assert "draftproof::wrong::random.one:1: MissedShould: random.one: fail: rand_like" in summary
    assert "what: Noise of exactly one, a SHOULD of chapter 06-randomness" in summary
    # What the verifier itself warns of is told, too.
    assert "DeprecationWarning: it is old" in summary


def test_junit_has_what_was_found(judged: tuple[Path, int, str]) -> None:
    folder, _, _ = judged
    found = cases(folder / "junit.xml")
    assert len(found) == 13
    right, wrong = (found[f"draftproof.{each} law.lossless"] for each in ("torch-token", "wrong"))
    told = properties(right)
    assert (told["verdict"], told["lane"], told["seed"]) == ("pass", "exact", "7")
    assert 0 < float(told["observed"]) <= float(told["allowed"])
    assert int(told["runs"]) > 0
    told = properties(wrong)
    assert told["verdict"] == "fail"
    assert float(told["observed"]) > 0.01 > float(told["allowed"])
    assert outcome(wrong)[1].startswith("law.lossless: fail: observed")
    unasked = found["draftproof.wrong draft.joint"]
    assert outcome(unasked) == ("skipped", "inapplicable: it has no drafter (draft)")
    assert properties(unasked) == {
        "seed": "7",
        "verdict": "inapplicable",
        "case": "none",
        "runs": "0",
    }


def test_settings_known_failures_and_filters_that_make_errors(run: Run, tmp_path: Path) -> None:
    (tmp_path / "verifiers.py").write_text(VERIFIERS)
    (tmp_path / "known.txt").write_text(
        "".join(
            f"{each} https://example.org/{number}\n"
            for number, each in enumerate(["law.lossless", "law.prefix", "draft.joint"])
        )
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\ndraftproof_adapters =\n  ./verifiers.py:Wrong\n"
        "draftproof_mode = quick\ndraftproof_known_failures = known.txt\n"
    )
    (folder := tmp_path / "below").mkdir()
    ids = ("law.lossless", "law.prefix", "draft.joint", "random.one")
    code, output = run(
        folder, "--junitxml", "junit.xml", *(f"../draftproof::wrong::{each}" for each in ids)
    )
    assert code == 1, output
    found = {name: outcome(case) for name, case in cases(folder / "junit.xml").items()}
    assert found.pop("draftproof.wrong law.lossless") == ("skipped", "https://example.org/0")
    assert {kind for kind, _ in found.values()} == {"failure"}
    for number, each, verdict in ((1, "law.prefix", "pass"), (2, "draft.joint", "inapplicable")):
        first, *_, last = found[f"draftproof.wrong {each}"][1].splitlines()
        assert first.startswith(f"{each}: {verdict}: ")
        assert last == f"it is known to fail, and does not: https://example.org/{number}"
    # The verifier's own warning is no error, or it would raise, and law.prefix fail.
    assert found["draftproof.wrong random.one"][1].startswith("random.one: fail: rand_like gives 1")
    assert "Traceback" not in output
    assert "During handling" not in output
