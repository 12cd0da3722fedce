"""The plugin, in the way that a user meets it: pytest in a process and a folder of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import fsum, isclose
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from draftproof.conformance import pytest_plugin
from draftproof.conformance.protocol.adapter import declaration
from draftproof.conformance.protocol.loading import load_adapter, name_from
from draftproof.conformance.run.campaign import FALSE_ALARM, Campaign, tasks_of, terms_of
from draftproof.reference.extras import installation
from draftproof.spec import requirements

# Other people's packages take seconds to import. They are imported once, by a process that runs
# pytest in forks of itself.
OF_VERIFIERS = [name for name, each in requirements().items() if not each.is_of_engines]
"""The requirements that are tests; those of whole engines are judged by `draftproof engine`."""

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
        code = pytest.main(arguments)
        sys.stdout.flush()
        os._exit(code)  # to take torch down takes longer than most tests
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

from draftproof.conformance.protocol.adapter import AdapterLost
from draftproof.conformance.evidence.decision import decisions
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.protocol.adapter import AdapterFailed

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
    declared = {"batch": True, "algorithm": "token", "generates": False}
    return SimpleNamespace(decisions=decisions(found, declared), counterexample=None)


if WORKER:  # it must get along without the tasks, and so without torch
    modules = [ModuleType(name) for name in ("campaign", "certify")]
    for module in modules:
        sys.modules[f"draftproof.conformance.run.{module.__name__}"] = module
else:
    from draftproof.conformance.run import campaign
    from draftproof.conformance.run import certify as certifying

    modules = [campaign, certifying]
modules[0].UNJUDGED, modules[1].certify = (AdapterLost, AdapterFailed), certify


def pytest_collection_modifyitems(items):
    groups = {item.name: item.get_closest_marker("xdist_group").args[0] for item in items if WORKER}
    with open(f"groups{WORKER}.json", "w") as file:
        json.dump(groups, file)
"""

PLUGIN = ("-p", "draftproof", "-p", "no:cacheprovider")

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run pytest in a folder, with the plugin and without all others; return code and output."""
    # These tests may run in a worker of xdist; what they run does not.
    here = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**here, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"},
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
    assert "collected 75 items / 58 deselected / 17 selected" in output
    lines = re.findall(r"^(\S+) (PASSED|FAILED|SKIPPED)", output, re.M)
    assert lines == [
        ("test_ordinary.py::test_ordinary", "PASSED"),
        ("draftproof::torch-token::law.lossless", "PASSED"),
        ("draftproof::torch-token::law.long", "PASSED"),
        ("draftproof::torch-token::law.reference", "PASSED"),
        ("draftproof::torch-token::law.state", "SKIPPED"),
        ("draftproof::torch-token::law.support", "PASSED"),
        ("draftproof::torch-token::law.prefix", "PASSED"),
        ("draftproof::torch-token::draft.joint", "PASSED"),
        ("draftproof::torch-token::random.one", "PASSED"),
        ("draftproof::wrong::law.lossless", "FAILED"),
        ("draftproof::wrong::law.long", "FAILED"),
        ("draftproof::wrong::law.reference", "FAILED"),
        ("draftproof::wrong::law.state", "SKIPPED"),
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
        "  Accepted length: correct. Next token: wrong distribution.",
        "  accepts [1], next token 0: probability 1/2, should be 0",
        "  accepts [1], next token 1: probability 1/2, should be 1",
        "  over all drafts, the text [1, 1] has probability 3/4, should be 1",
    ]
    assert "Traceback" not in output
    assert "pytest_plugin.py" not in output


def test_what_does_not_bind_warns(judged: tuple[Path, int, str]) -> None:
    _, _, output = judged
    (_, summary) = output.split("warnings summary")
    assert "draftproof::wrong::random.one:1: MissedShould: random.one: fail: rand_like" in summary
    assert "what: Noise of exactly one, a SHOULD of chapter 08-randomness" in summary
    # What the verifier itself warns of is told, too.
    assert "DeprecationWarning: it is old" in summary


def test_junit_has_what_was_found(judged: tuple[Path, int, str]) -> None:
    folder, _, _ = judged
    found = cases(folder / "junit.xml")
    assert len(found) == 17
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
        assert last == f"a known failure that no longer fails: https://example.org/{number}"
    # The verifier's own warning is no error, or it would raise, and law.prefix fail.
    assert found["draftproof.wrong random.one"][1].startswith("random.one: fail: rand_like gives 1")
    assert "Traceback" not in output
    assert "During handling" not in output


# --- what is asked for, and what becomes of it ---------------------------------------------------


def stubbed(folder: Path, **found: object) -> None:
    """Let nothing be judged in a folder; dots in the names of requirements are underscores."""
    named = {name.replace("_", "."): what for name, what in found.items()}
    (folder / "found.json").write_text(json.dumps(named))
    (folder / "conftest.py").write_text(STUB)


def asked(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "asked.jsonl").read_text().splitlines()]


EVERYTHING = {
    "law_lossless": ("fail", True),
    "law_reference": ("inconclusive", True),
    "law_support": ("error", True),
    "length_expected": ("skipped", True),
    "length_optimal": ("skipped", False),
    "random_one": ("error", True),
    "random_boundary": ("skipped", True),
    "batch_invariant": "AdapterLost",
    "batch_order": "AdapterFailed",
}


@pytest.fixture(scope="module")
def certified(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """Every verdict in mode certify, where there is nothing but the requirements."""
    stubbed(folder := tmp_path_factory.mktemp("certified"), **EVERYTHING)
    code, output = run(
        folder,
        *("--draftproof", "torch-token", "--draftproof-mode", "certify"),
        *("--junitxml", "junit.xml"),
    )
    return folder, code, output


def test_every_verdict_has_its_outcome(certified: tuple[Path, int, str]) -> None:
    folder, code, output = certified
    assert code == 1, output
    found = {
        name.removeprefix("draftproof.torch-token "): outcome(case)
        for name, case in cases(folder / "junit.xml").items()
    }
    assert list(found) == list(OF_VERIFIERS)
    missed = {name: told for name, (kind, told) in found.items() if kind == "failure"}
    for name, verdict in (
        ("law.lossless", "fail"),
        ("law.reference", "inconclusive"),
        ("law.support", "error"),
        ("length.expected", "skipped"),  # mode certify skips nothing that binds
    ):
        # What cannot be printed has been replaced.
        assert missed.pop(name).startswith(
            f"{name}: {verdict}: so \N{REPLACEMENT CHARACTER} it is\n"
        )
    gone = "torch-token could not run: it is\N{REPLACEMENT CHARACTER}gone"
    assert missed == {"batch.invariant": gone, "batch.order": gone}
    skipped = {name: told for name, (kind, told) in found.items() if kind == "skipped"}
    assert skipped == {
        "length.optimal": "inapplicable: so \N{REPLACEMENT CHARACTER} it is",
        "random.boundary": "skipped: so \N{REPLACEMENT CHARACTER} it is",
    }
    assert "MissedShould: random.one: error: so" in output
    assert "6 failed, 29 passed, 2 skipped, 1 warning" in output
    assert "Traceback" not in output


def test_what_is_judged_together_is_judged_once(certified: tuple[Path, int, str]) -> None:
    folder, _, output = certified
    calls = asked(folder)
    judged = [each for call in calls for each in call["only"]]
    assert sorted(judged) == sorted(OF_VERIFIERS)
    (laws,) = (call["only"] for call in calls if "law.lossless" in call["only"])
    assert {"law.reference", "length.bounded", "random.fresh"} <= set(laws)
    assert ["batch.invariant"] in [call["only"] for call in calls]
    (seed,) = {call["seed"] for call in calls}
    assert f"draftproof: torch-token; mode certify, seed {seed}\n" in output
    assert {call["mode"] for call in calls} == {"certify"}


def test_all_together_the_calls_have_the_campaign_s_share_of_false_alarms(
    certified: tuple[Path, int, str],
) -> None:
    whole = Campaign("torch-token", mode="certify")
    shares, each = [], []
    for call in asked(certified[0]):
        part = replace(whole, only=call["only"], false_alarm=call["false_alarm"])
        own = tasks_of(part, declaration(load_adapter(whole.name)))
        if own:
            each.append(terms_of(part, own).false_alarm)
            shares.append(call["false_alarm"])
    # To within the rounding of two divisions and a product.
    assert all(isclose(one, each[0], rel_tol=1e-14) for one in each)
    assert isclose(fsum(shares), FALSE_ALARM, rel_tol=1e-13)


def test_with_runxfail_and_a_filter_nothing_is_excused_and_nothing_told(
    run: Run, tmp_path: Path
) -> None:
    stubbed(tmp_path, law_lossless=("fail", True), random_one=("fail", True))
    (tmp_path / "known.txt").write_text("law.lossless http://a.b\nlaw.prefix http://a.b\n")
    code, output = run(
        tmp_path,
        *("--draftproof", "torch-token", "--draftproof-mode", "quick", "--runxfail"),
        *("--draftproof-known-failures", "known.txt", "-m", "draftproof"),
        *("-W", "ignore::draftproof.conformance.pytest_plugin.MissedShould"),
        *("--deselect", "draftproof::torch-token::batch.order"),
    )
    assert code == 1
    assert "FAILED draftproof::torch-token::law.lossless - Failed: law.lossless: fail" in output
    assert "1 failed, 35 passed, 1 deselected" in output
    assert "MissedShould" not in output


def test_workers_share_one_seed_and_keep_together_what_is_judged_together(
    run: Run, tmp_path: Path
) -> None:
    stubbed(tmp_path)
    code, output = run(
        tmp_path,
        *("-p", "xdist", "-n", "2", "--draftproof", "torch-token", "--junitxml", "junit.xml"),
    )
    assert code == 0, output
    assert "37 passed" in output
    (seed,) = re.findall(r"^draftproof: torch-token; mode standard, seed (\d+)$", output, re.M)
    found = cases(tmp_path / "junit.xml")
    assert set(found) == {f"draftproof.torch-token {each}" for each in OF_VERIFIERS}
    assert {properties(case)["seed"] for case in found.values()} == {seed}
    calls = asked(tmp_path)
    assert {call["worker"] for call in calls} == {"gw0", "gw1"}
    assert {str(call["seed"]) for call in calls} == {seed}
    groups = json.loads((tmp_path / "groupsgw0.json").read_text())
    assert groups == json.loads((tmp_path / "groupsgw1.json").read_text())
    for call in calls:
        own = {groups[each] for each in call["only"]}
        assert own == {f"torch-token.{call['only'][0]}"}


def test_tests_are_listed_and_found_by_their_ids(run: Run, tmp_path: Path) -> None:
    # A folder of that name is no reason to look for them there.
    (tmp_path / "draftproof").mkdir()
    listing = ("--draftproof", "torch-token", "--collect-only", "-q")
    first, *_, last = (f"draftproof::torch-token::{each}" for each in OF_VERIFIERS)
    code, output = run(tmp_path, *listing, last, first)
    assert code == 0, output
    assert output.splitlines()[:3] == [first, last, ""]
    code, output = run(tmp_path, *listing, "draftproof::torch-token::law.losless")
    assert (code, output) == (
        4,
        "ERROR: not found: draftproof::torch-token::law.losless, "
        "did you mean draftproof::torch-token::law.lossless?\n\n",
    )


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--draftproof-mode", "certify", "--draftproof-seed", "1"), "draws a random seed"),
        (
            ("--draftproof-mode", "certify", "--draftproof-known-failures", "good.txt"),
            "mode certify allows no known failures",
        ),
        (("--draftproof-seed", "-1"), "--draftproof-seed must not be negative, got -1"),
        (("-o", "draftproof_mode=fast"), "one of quick, standard, certify, got 'fast'"),
        (("--draftproof-known-failures", "none.txt"), "none.txt': No such file or directory"),
        (("--draftproof-known-failures", "bytes.txt"), "bytes.txt': it is not UTF-8 text"),
        (
            ("--draftproof-known-failures", "bad.txt"),
            "bad.txt, line 1: there is no requirement 'law.losless', did you mean 'law.lossless'?",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "good.txt").write_text("law.lossless https://example.org/1")
    (tmp_path / "bad.txt").write_text("law.losless https://example.org/1")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    code, output = run(tmp_path, "--draftproof", "torch-token", *arguments)
    assert code == 4
    assert output.startswith("ERROR: ")
    assert message in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("torch-tokens", "no built-in adapter is called 'torch-tokens'"),
        ("./verifiers.py:Right", "verifiers.py has no attribute 'Right'"),
        ("./verifiers.py:Nameless", "an adapter needs 'name', a non-empty printable string"),
        ("./leaves.py:Mine", "leaves.py could not be imported: SystemExit: 3"),
        ("harness:false", "the harness ended with exit code 1"),
    ],
)
def test_adapters_that_cannot_be_loaded_are_refused(
    tmp_path: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "verifiers.py").write_text(VERIFIERS)
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    with pytest.raises(pytest.UsageError, match=re.escape(message)) as refused:
        list(pytest_plugin._asked(Campaign(name), []))
    assert str(refused.value).startswith(f"--draftproof {name}: ")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("./mine.py:Mine", "/there/mine.py:Mine"),
        ("/here/mine.py:Mine", "/here/mine.py:Mine"),
        ("package.module:Mine", "package.module:Mine"),
        ("torch-token", "torch-token"),
        ("harness:python mine.py:Mine", "harness:python mine.py:Mine"),
    ],
)
def test_files_are_found_from_every_folder(name: str, found: str) -> None:
    assert name_from(Path("/there"), name) == found


def test_two_adapters_of_one_name_are_told_apart() -> None:
    taken: list[Path] = []
    asked = [
        next(pytest_plugin._asked(Campaign(name), taken))
        for name in ("torch-token", "draftproof.adapters.fast:torch_token")
    ]
    assert [each.label for each in asked] == ["torch-token", "torch-token-2"]


def test_without_torch_it_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')")
    code, output = alone(tmp_path, "--draftproof", "torch-token")
    assert (code, output) == (
        4,
        f"ERROR: --draftproof needs PyTorch: {installation('torch')}\n\n",
    )


# --- what it costs where nothing is asked for ----------------------------------------------------


LEAN = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:xdist")


def alone(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest in a new process, with the plugin as it is found, and without what is slow."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *LEAN, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_nothing_is_imported_where_nothing_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_costs.py").write_text(
        """
import sys


def test_costs(pytestconfig):
    assert pytestconfig.pluginmanager.hasplugin("draftproof")
    ours = {name for name in sys.modules if name.startswith("draftproof.")}
    assert ours == {
        "draftproof.conformance",
        "draftproof.conformance.protocol",
        "draftproof.conformance.protocol.modes",
        "draftproof.conformance.pytest_plugin",
        "draftproof.reference",
        "draftproof.reference.errors",
    }
    assert not {"torch", "numpy", "sympy", "networkx"} & sys.modules.keys()
"""
    )
    code, output = alone(tmp_path, "-W", "error")
    assert (code, "1 passed" in output) == (0, True), output
    assert "seed" not in output


def test_it_can_be_left_out(tmp_path: Path) -> None:
    code, output = alone(tmp_path, "-p", "no:draftproof", "--draftproof", "torch-token")
    assert code == 4
    assert "error: unrecognized arguments: --draftproof" in output
