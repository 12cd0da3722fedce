from __future__ import annotations

import io
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from draftproof.conformance.cli.explaining import explain
from draftproof.conformance.evidence.certificate import sealed, statement, write
from draftproof.conformance.lanes.observe import EXACT
from draftproof.conformance.protocol.adapter import declaration
from draftproof.conformance.report.explanation import print_explanation
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding, finding_to_json
from draftproof.reference.rational import ONE, ZERO
from draftproof.spec import validate

INSTANCE = {"vocabulary": 2, "length": 1, "target": ["0", "1"], "draft": ["1/2", "1/2"]}

BONUS: dict[str, Any] = {
    "requirement": "law.lossless",
    "distance": 0.25,
    "instance": INSTANCE,
    "draft": [[1]],
    "observed": [
        {"path": 0, "accepted": [1], "next": 0, "probability": 0.5},
        {"path": 0, "accepted": [1], "next": 1, "probability": 0.5},
    ],
    "expected": [{"path": 0, "accepted": [1], "next": 1, "probability": 1.0}],
    "words": ["law.lossless fails at V=2, L=1, K=1: distance 1/4", "drafted: [1]"],
}


class Mine:
    name, version, algorithm = "mine", "1", "token"

    def verify(self, request: Any) -> Any:
        raise NotImplementedError


def certificate(
    counterexample: Any = BONUS,
    *,
    verdict: str = FAIL,
    detail: str = "",
    place: str = "./mine.py:Mine",
) -> dict[str, Any]:
    """Return a certificate with one requirement, as a campaign would write it."""
    distance = ONE / 4 if verdict == FAIL else ZERO
    finding = Finding("law.lossless", "generic.v2.l1", verdict, distance, ZERO, EXACT, 5, detail)
    identity = {"version": "1", "sha256": "0" * 64}
    told = {"requirement": "law.lossless", **finding_to_json(finding)}
    records: list[dict[str, Any]] = [
        {
            "record": "header",
            "created": "2026-01-01T12:00:00+00:00",
            "subject": {"name": "mine", **identity},
            "specification": identity,
            "suite": identity,
            "environment": {},
            "campaign": {
                "mode": "quick",
                "lanes": [EXACT],
                "blind": {},
                "seed": 1,
                "false_alarm": 1e-9,
                "tests": 0,
                "only": ["law.lossless"],
            },
            "adapter": {
                **vars(declaration(Mine())),
                "dtypes": ["float32"],
                "place": place,
            },
            "known_failures": [],
        },
        {"record": "result", "findings": [told], "compared": []},
        {"record": "counterexample", "counterexample": counterexample},
    ]
    return statement(records, evidence="mine.jsonl", digest="0" * 64)


FILE = "mine.json"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def explained(document: Any, *options: str) -> Result:
    if isinstance(document, str):
        Path(FILE).write_text(document)
    else:
        write(document, Path(FILE))
    return CliRunner().invoke(explain, [FILE, *options])


def test_a_failure_is_explained() -> None:
    ran = explained(certificate(BONUS, detail="it is slow"))
    assert (ran.exit_code, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0] == "mine 1 does not conform"
    assert "  law.lossless: fail on generic.v2.l1: it is slow" in lines
    assert lines.index("Likely cause") < lines.index("The smallest counterexample found")
    assert lines[lines.index("The smallest counterexample found") :][1:4] == [
        "  emits [1] then 0: probability",
        "    should   0 ·",
        "    is     0.5 ████████████████████",
    ]
    assert lines.index("What the verifier emits") < lines.index("Failed requirements")
    assert "  law.lossless fails at V=2, L=1, K=1: distance 1/4" in lines
    assert [line.split() for line in lines if line.startswith("anything")] == [
        ["anything", "0,", "1", "1/2,", "1/2"]
    ]
    assert [line.split() for line in lines if line.startswith("[1] then")] == [
        ["[1]", "then", "0", "0.5", "0"],
        ["[1]", "then", "1", "0.5", "1"],
    ]
    assert "# mine: law.lossless fails; written by draftproof explain mine.json" in lines
    assert lines[-1] == '    print(tokens, emitted.count(tokens) / runs, "should be", probability)'


def test_json_follows_its_schema() -> None:
    ran = explained(certificate(BONUS), "--json")
    document = json.loads(ran.stdout)
    validate(document, "explain")
    assert document["counterexample"] == BONUS
    assert document["failures"][0]["id"] == "law.lossless"
    assert document["reason"] == ""
    assert document["script"].startswith("# mine: law.lossless fails; written by draftproof")


def test_the_script_is_written_and_runs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(
        "from types import SimpleNamespace\n"
        "class Mine:\n"
        "    def verify(self, request):\n"
        "        one = request.draft_tokens[:, 0, 0]\n"
        "        return SimpleNamespace(path=one * 0, accepted_length=one, next_token=one * 0)\n"
    )
    assert explained(certificate(BONUS), "--script", "shown.py").exit_code == 0
    runpy.run_path("shown.py")
    assert capsys.readouterr().out.splitlines() == [
        "(1, 0) 1.0 should be 0",
        "(1, 1) 0.0 should be 1",
    ]


def test_a_conforming_certificate_has_nothing_to_explain() -> None:
    document = certificate(None, verdict=PASS)
    ran = explained(document)
    assert ran.exit_code == 0
    assert ran.stdout == "mine 1 conforms\nNothing to explain: no requirement fails.\n"
    ran = explained(document, "--json")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["reason"] == "the certificate has no counterexample"
    ran = explained(document, "--script", "shown.py")
    assert ran.exit_code == 2
    assert "no script to write: the certificate has no counterexample" in ran.stderr


def test_a_failure_without_a_counterexample_is_told() -> None:
    ran = explained(certificate(None, detail="it drew from another generator"))
    assert ran.exit_code == 0
    assert "law.lossless: fail on generic.v2.l1: it drew from another generator" in ran.stdout
    told = (
        "the certificate has no counterexample: Draftproof reduces only failures of single calls "
        "and of batches, on the exact or the probe lane. law.lossless fails on case "
        "generic.v2.l1; to judge this case again, run: draftproof certify ./mine.py:Mine "
        "--mode quick --case generic.v2.l1\n"
    )
    assert ran.stdout.endswith(told)
    assert json.loads(explained(certificate(None), "--json").stdout)["reason"] == told.strip()


def test_no_command_for_adapters_is_advised_for_a_server() -> None:
    document = certificate(
        None, detail="its tokens are not drawn from the rows", place="http://127.0.0.1:8000"
    )
    assert json.loads(explained(document, "--json").stdout)["reason"] == (
        "the certificate has no counterexample: a server is judged by its tokens, not by its "
        "calls. law.lossless fails on generic.v2.l1: its tokens are not drawn from the rows"
    )


def test_it_is_a_must_that_is_judged_again() -> None:
    """In its chapter random.generator comes before random.calls, which makes the verdict."""
    document = certificate(None)
    found = document["predicate"]["draftproof"]
    (law,) = found["requirements"]
    document["predicate"]["warnedTests"] = ["random.generator"]
    document["predicate"]["failedTests"] = ["random.calls"]
    found["requirements"] = [
        {
            **law,
            "id": identity,
            "level": level,
            "worst": {**law["worst"], "case": case, "detail": ""},
        }
        for identity, level, case in (
            ("random.generator", "SHOULD", "runs"),
            ("random.calls", "MUST", "calls.same"),
        )
    ]
    ran = explained(sealed(document))
    assert ran.stdout.split("Failed requirements\n")[1].splitlines()[:2] == [
        "  random.calls: fail on calls.same",
        "  random.generator: fail (SHOULD) on runs",
    ]
    assert "random.calls fails on case calls.same; to judge this case again, run: " in ran.stdout
    assert ran.stdout.endswith("--case calls.same\n")


@pytest.mark.parametrize("place", [".", "certificates", "elsewhere/deep"])
def test_the_script_runs_from_anywhere(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """The adapter was named from the folder of the campaign, and is found from that of its file.

    So is what it imports.
    """
    (here / "beside.py").write_text("def accepts(tokens):\n    return tokens[:, 0, 0]\n")
    (here / "mine.py").write_text(
        "from types import SimpleNamespace\n"
        "from beside import accepts\n"
        "class Mine:\n"
        "    def verify(self, request):\n"
        "        one = accepts(request.draft_tokens)\n"
        "        return SimpleNamespace(path=one * 0, accepted_length=one, next_token=one * 0)\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    (here / place).mkdir(parents=True, exist_ok=True)
    (here / ".git").mkdir()
    monkeypatch.chdir(here / place)
    assert explained(certificate(BONUS), "--script", "shown.py").exit_code == 0
    assert json.dumps(str(here / "mine.py")) in Path("shown.py").read_text()
    (here / "other").mkdir()
    monkeypatch.chdir(here / "other")
    runpy.run_path(str(here / place / "shown.py"))
    assert "(1, 0) 1.0 should be 0" in capsys.readouterr().out


@pytest.mark.parametrize("root", ["project", "project/deep/deeper", None])
def test_a_file_outside_the_repository_is_another_one(
    here: Path, monkeypatch: pytest.MonkeyPatch, root: str | None
) -> None:
    """Without a repository, too, a file far above the certificate has only its name in common."""
    (here / "mine.py").touch()
    folder = here / "project/deep/deeper"
    folder.mkdir(parents=True)
    if root is not None:
        (here / root / ".git").mkdir()
    monkeypatch.chdir(folder)
    assert explained(certificate(BONUS), "--script", "shown.py").exit_code == 0
    assert "mine.py" in Path("shown.py").read_text()
    assert str(here / "mine.py") not in Path("shown.py").read_text()


def test_a_batch_is_explained() -> None:
    outcomes = [
        {"path": 0, "accepted": [0], "next": 0},
        {"failure": "raised IndexError: [index 7]"},
    ]
    pair = {
        "requirement": "batch.invariant",
        "distance": 0.5,
        "rows": [
            {"instance": {**INSTANCE, "draft": {"": ["1", "0"]}}, "draft": [[0]]},
            {"instance": INSTANCE, "draft": [[1]]},
        ],
        "observed": [{"rows": outcomes, "probability": 1.0}],
        "expected": [{"rows": outcomes[:1] * 2, "probability": 1.0}],
        "words": [],
    }
    ran = explained(certificate(pair))
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert "Probabilities given to the verifier of request 0" in ran.stdout
    assert "nothing  0, 1    1, 0" in ran.stdout
    assert "Probabilities given to the verifier of request 1" in ran.stdout
    assert "[0] then 0 | raised IndexError: [index 7]  1         0" in ran.stdout
    assert "[0] then 0 | [0] then 0                    0         1" in ran.stdout
    ran = explained(certificate(pair), "--json")
    validate(json.loads(ran.stdout), "explain")


def test_standard_input_is_read() -> None:
    write(certificate(BONUS), Path(FILE))
    ran = CliRunner().invoke(explain, ["-"], input=Path(FILE).read_text())
    assert ran.exit_code == 0
    assert "mine 1 does not conform" in ran.stdout


def test_a_traceback_is_that_of_the_script(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "mine.py").write_text(
        "class Mine:\n    def verify(self, request):\n        raise IndexError('no row')\n"
    )
    failure = {"failure": "raised IndexError: no row (mine.py:3)", "probability": 1.0}
    write(certificate({**BONUS, "observed": [failure]}), Path(FILE))
    with pytest.raises(SystemExit):
        explain([FILE, "--traceback", "--json"])
    shown = capfd.readouterr()
    assert 'mine.py", line 3, in verify' in shown.err
    assert shown.err.endswith("IndexError: no row\n")
    assert json.loads(shown.out)["verdict"] == "does not conform"


@pytest.mark.parametrize(
    ("counterexample", "reason"),
    [
        (BONUS, "the counterexample raises no error"),
        (None, "the certificate has no counterexample"),
    ],
)
def test_what_raises_nothing_has_no_traceback(counterexample: Any, reason: str) -> None:
    ran = explained(certificate(counterexample), "--traceback")
    assert ran.exit_code == 2
    assert f"no traceback to show: {reason}" in ran.stderr


def test_a_missing_file_exits_with_2() -> None:
    ran = CliRunner().invoke(explain, ["nowhere.json"])
    assert ran.exit_code == 2
    assert "there is no file 'nowhere.json'" in ran.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "EmptyEvidence: mine.json: the file is empty"),
        ('{"_type": "https', "EditedEvidence: mine.json is not the JSON that was written: "),
        (
            "[]",
            "NoCertificate: mine.json is no certificate; `draftproof certify ADAPTER` writes one",
        ),
        ("{}", "NoCertificate: mine.json is no certificate; "),
        ("import torch", "NoCertificate: mine.json is no certificate; "),
        (
            '{"_type": "x"}',
            "MalformedEvidence: mine.json: certificate: the document: 'subject' is a required",
        ),
    ],
)
def test_broken_evidence_exits_with_5(text: str, message: str) -> None:
    refused(text, message)


def test_an_edited_certificate_exits_with_5() -> None:
    write(certificate(BONUS), Path(FILE))
    kinder = Path(FILE).read_text().replace('"does not conform"', '"conforms"')
    refused(kinder, "EditedEvidence: mine.json is not what was written: its digest does not follow")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draft": [[1, 0]]}, "its counterexample: path (1, 0) must have 1 tokens, has 2"),
        (
            {"expected": BONUS["observed"][:1]},
            "the expected law of its counterexample sums to 0.5",
        ),
    ],
)
def test_evidence_that_contradicts_itself_exits_with_5(
    change: dict[str, Any], message: str
) -> None:
    refused(certificate({**BONUS, **change}), f"malformed evidence: mine.json: {message}")


def refused(document: Any, message: str) -> None:
    for options in ([], ["--json"]):
        ran = explained(document, *options)
        assert ran.exit_code == 5
        assert f"Error: {message}" in ran.stderr
        assert ran.stdout == ""


def test_binary_files_and_folders_exit_with_5(here: Path) -> None:
    (here / "binary.json").write_bytes(b"\xff\xfe\x00")
    (here / "folder.json").mkdir()
    for file, message in (
        ("binary.json", "NoCertificate: binary.json is no certificate; "),
        ("folder.json", "cannot read 'folder.json': Is a directory"),
    ):
        ran = CliRunner().invoke(explain, [file])
        assert ran.exit_code == 5
        assert message in ran.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_script_exits_with_2(here: Path) -> None:
    (here / "closed").mkdir(mode=0o500)
    ran = explained(certificate(BONUS), "--script", "closed/shown.py")
    assert ran.exit_code == 2
    assert "cannot write 'closed/shown.py'" in ran.stderr


def test_a_script_in_no_folder_exits_with_2() -> None:
    ran = explained(certificate(BONUS), "--script", "nowhere/shown.py")
    assert ran.exit_code == 2
    assert "cannot write 'nowhere/shown.py': No such file or directory" in ran.stderr


LONG = {
    **BONUS,
    "instance": {"vocabulary": 60, "length": 1, "target": ["1/60"] * 60, "draft": ["1/60"] * 60},
}


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("counterexample", [BONUS, LONG])
def test_tables_keep_to_the_width_of_a_terminal_and_the_script_does_not(
    width: int, counterexample: Any
) -> None:
    document = json.loads(explained(certificate(counterexample), "--json").stdout)
    out = Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system=None, highlight=False
    )
    print_explanation(out, document)
    assert isinstance(out.file, io.StringIO)
    told, script = out.file.getvalue().split("Script that reproduces it\n\n")
    assert max(map(len, told.splitlines())) <= width
    assert told.count("1/60") == (120 if counterexample is LONG else 0)
    assert script == document["script"]
    compile(script, "script", "exec")


def test_of_many_outcomes_the_most_wrong_are_shown() -> None:
    entries = [{"path": 0, "accepted": [1], "next": n, "probability": 1 / 60} for n in range(60)]
    ran = explained(certificate({**LONG, "observed": entries, "expected": None}))
    assert "and 40 with smaller errors" in ran.stdout
    assert "expected" not in ran.stdout
