from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from draftproof.conformance.cli.reporting import report
from draftproof.conformance.evidence.certificate import sealed, write
from draftproof.conformance.report import FORMATS, rendered
from draftproof.conformance.report.terminal import console, print_certificate
from draftproof.reference.extras import installation
from draftproof.spec import MalformedDocument, validate

Make = Any

CONFORMS = "conforms (standard): exact, off by at most 1.00e-08 where 1.00e-05 is allowed"


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(report, arguments, **options)


@pytest.fixture
def files(tmp_path: Path, conforming: dict[str, Any], failing: dict[str, Any]) -> list[str]:
    paths = [tmp_path / "mine.json", tmp_path / "lossy.json"]
    for path, document in zip(paths, (conforming, failing), strict=True):
        write(sealed(document), path)
    return list(map(str, paths))


def test_a_terminal_is_the_default_and_whatever_they_say_is_no_failure(files: list[str]) -> None:
    result = run(*files)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"mine {CONFORMS}\nversion 1.0, ")
    assert f"\ncertificate: {files[0]}\n" in result.output
    assert "\nlossy does not conform: " in result.output
    assert f"\ncertificate: {files[1]}\n" in result.output
    assert "law.lossless is a known failure: https://example.org/issues/1" in result.output
    assert "batch.ragged" not in result.output
    assert "1 inapplicable; -v lists them" in result.output
    assert "batch.ragged     inapplicable" in run(*files, "-v").output
    assert "the probe lane cannot see this adapter: it draws elsewhere" in result.output


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_printed_can_be_written(files: list[str], tmp_path: Path, form: str) -> None:
    printed = run(*files, "--format", form)
    assert printed.exit_code == 0
    output = tmp_path / "report"
    written = run(*files, "--format", form, "--output", str(output))
    assert (written.exit_code, written.output) == (0, "")
    assert output.read_text(encoding="utf-8") == printed.output


def test_json_is_what_certify_prints(files: list[str], failing: dict[str, Any]) -> None:
    document = json.loads(run(*files, "--format", "json").output)
    validate(document, "certify")
    assert document["errors"] == []
    assert document["exit_code"] == 1
    assert document["certificates"][1] == sealed(failing)


def test_the_exit_code_in_json_is_that_of_the_gravest(certificate: Make, decision: Make) -> None:
    def code(*documents: Any) -> int:
        return int(json.loads(rendered(documents, "json"))["exit_code"])

    lossy = certificate(decision(verdict="fail"), verdict="does not conform")
    unsure = certificate(decision(verdict="inconclusive"), verdict="inconclusive")
    assert code() == 0
    assert code(certificate()) == 0
    assert code(certificate(), unsure) == 4
    assert code(unsure, lossy, certificate()) == 1


def test_standard_input_is_read_once(files: list[str]) -> None:
    text = Path(files[0]).read_text(encoding="utf-8")
    assert "\ncertificate: -\n" in run("-", input=text).output
    result = run("-", "-", input=text)
    assert result.exit_code == 2
    assert "standard input (-) can be named only once" in result.output


def test_what_cannot_be_read_is_a_usage_error_or_broken_evidence(
    files: list[str], tmp_path: Path
) -> None:
    result = run(str(tmp_path / "nothing.json"))
    assert result.exit_code == 2
    assert "there is no file" in result.output
    assert run().exit_code == 2
    assert run(files[0], "--format", "pdf").exit_code == 2
    edited = tmp_path / "edited.json"
    edited.write_text(Path(files[1]).read_text().replace("does not conform", "conforms"))
    for content in (edited.read_text(), "", "{", "[]", "\ud800".encode(errors="surrogatepass")):
        edited.write_bytes(content if isinstance(content, bytes) else content.encode())
        result = run(str(edited))
        assert result.exit_code == 5, content
        assert str(edited) in result.output


def test_what_cannot_be_written_is_a_usage_error(files: list[str], tmp_path: Path) -> None:
    result = run(files[0], "--format", "junit", "--output", str(tmp_path / "no" / "where"))
    assert result.exit_code == 2
    assert "cannot write" in result.output
    assert "No such file or directory" in result.output


def test_a_kill_matrix_is_for_the_page(files: list[str], tmp_path: Path) -> None:
    matrix = tmp_path / "mutants.json"
    matrix.write_text('{"mode": "quick", "lanes": ["probe"], "seed": 1, "exhibits": []}')
    result = run(files[0], "--format", "html", "--kill-matrix", str(matrix))
    assert result.exit_code == 0
    assert "0 mutants, 0 controls, mode quick, lanes probe" in result.output
    result = run(files[0], "--kill-matrix", str(matrix))
    assert result.exit_code == 2
    assert "--kill-matrix needs --format html" in result.output
    matrix.write_text("{}")
    result = run(files[0], "--format", "html", "--kill-matrix", str(matrix))
    assert result.exit_code == 2
    assert "is not a kill matrix: mutants: the document: 'mode' is a required" in result.output


def test_without_jinja2_it_says_what_to_install(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = run(files[0], "--format", "html")
    assert result.exit_code == 3
    assert result.output == (
        f"Error: cannot make html: the page needs jinja2: {installation('report')}\n"
    )


PROGRAM = """
import sys
sys.modules["torch"] = None
from draftproof.conformance.cli.reporting import report
for form in sys.argv[2:]:
    report([sys.argv[1], "--format", form], standalone_mode=False)
"""


def test_it_needs_no_torch(files: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, files[0], *FORMATS],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stdout.startswith("mine conforms")
    assert ran.stdout.endswith('"exit_code": 0\n}\n')
    assert ran.stderr == ""


def test_a_hostile_certificate_cannot_steer_a_terminal(hostile: dict[str, Any]) -> None:
    for form in FORMATS[:-1]:
        if form == "terminal":
            out = StringIO()
            print_certificate(console(file=out), hostile, Path("hostile.json"))
            text = out.getvalue()
        else:
            text = rendered([hostile], form)
        assert "\x1b" not in text, form
        assert ("�\\[31m" if form == "markdown" else "�[31m") in text


def test_a_certificate_that_cannot_be_printed_is_malformed(
    tmp_path: Path, hostile: dict[str, Any]
) -> None:
    # A certificate that was written has whole characters only.
    hostile = json.loads(json.dumps(hostile).replace("\\ud800", ""))
    with pytest.raises(MalformedDocument, match=r"adapter/name: .* does not match"):
        sealed(hostile)


@pytest.mark.parametrize("command", ["::error file=a.py::gone", "##[add-mask]a", ":::stop::"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("ahead", [0, 199, 200])
def test_no_line_of_a_report_is_a_workflow_command(
    certificate: Make, decision: Make, failing: dict[str, Any], command: str, form: str, ahead: int
) -> None:
    text = "a" * ahead + command
    shown_case = failing["predicate"]["draftproof"]["counterexample"]
    document = certificate(
        decision(text, verdict="fail", detail=text),
        counterexample={**shown_case, "words": [text]},
        verdict="does not conform",
        known={"law.lossless": text},
        limits=text,
    )
    if form == "terminal":
        out = StringIO()
        print_certificate(console(file=out), document, Path(f"{command}.json"))
        shown = out.getvalue()
    else:
        shown = rendered([document], form)
    assert "##[" not in shown
    assert not any(line.strip().startswith("::") for line in shown.splitlines())
    if form == "json":
        assert json.loads(shown)["certificates"] == [document]
