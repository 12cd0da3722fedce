"""The command that does not believe a certificate, and those who would like it to."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from draftproof.conformance.cli import cli
from draftproof.conformance.evidence.certificate import parsed_certificate, statement, write
from draftproof.conformance.evidence.records import EvidenceError, Record, canonical, read_finished
from draftproof.conformance.run.campaign import Campaign, run
from draftproof.reference.extras import installation
from draftproof.spec import MalformedDocument, validate

RIGHT = Path(__file__).parents[1] / "meta" / "right.py"
WRONG = "draftproof.conformance.museum.mutants:BonusFromDraft"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with certificates and their evidence: of what is right, wrong, and sampled."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "mine.py").write_text(RIGHT.read_text())
    mine = f"{folder / 'mine.py'}:Batched"
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "right": (mine, {"only": ["batch.order"]}),
        "wrong": (WRONG, {"only": ["law.lossless"], "lanes": ["exact"]}),
        "sampled": (mine, {"only": ["law.support"], "lanes": ["sample"]}),
    }
    for stem, (name, terms) in asked.items():
        records: list[Record] = []
        run(Campaign(name, mode="quick", seed=3, **terms), keep=records.append)
        certify(records, folder / f"{stem}.json")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """The same files, to be spoiled."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def certify(records: list[Record], path: Path) -> None:
    """Write evidence and the certificate that follows from it, as `certify` or a forger does."""
    lines, digest = [], ""
    for record in records:
        body = canonical(record)
        digest = sha256(f"{digest}\n{body}".encode()).hexdigest()
        lines.append(f'{body[:-1]},"digest":"{digest}"}}\n'.encode())
    evidence = path.with_suffix(".jsonl")
    evidence.write_bytes(b"".join(lines))
    whole = sha256(evidence.read_bytes()).hexdigest()
    write(statement(records, evidence=evidence.name, digest=whole), path)


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        cli, ["check-certificate", *map(str, arguments)], catch_exceptions=False
    )


def refused(path: Path, error: str) -> str:
    """Why a certificate is refused, which must be this error, in a way that everybody sees."""
    told = json.loads(check(path, "--json").stdout)
    validate(told, "check")
    assert told["exit_code"] == 5
    ran = check(path)
    assert (ran.exit_code, ran.stdout) == (5, "")
    message = told["certificates"][0]["error"]
    assert message.startswith(f"{error}: ")
    assert " ".join(ran.stderr.split()) == " ".join(f"Error: {message}".split())
    return str(message)


def test_what_is_as_it_was_written_is_said_to_be_so(folder: Path) -> None:
    ran = check(folder / "right.json", folder / "wrong.json", folder / "sampled.json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert f"{folder / 'right.json'}: Batched conforms (quick), unchanged" in ran.stdout
    assert f"{folder / 'wrong.json'}: bonus-from-draft does not conform, unchanged" in ran.stdout
    assert "9 verdicts on samples follow from their counts" in ran.stdout
    told = json.loads(check(folder / "sampled.json", "--json").stdout)
    validate(told, "check")
    (only,) = told["certificates"]
    assert (only["error"], only["recounted"], only["rerun"]) == (None, 9, None)
    assert only["records"] == (folder / "sampled.jsonl").read_bytes().count(b"\n")


def test_a_copy_of_both_files_is_as_good(folder: Path) -> None:
    (folder / "far").mkdir()
    shutil.copy(folder / "right.json", folder / "far" / "renamed.json")
    assert "No such file" in refused(folder / "far" / "renamed.json", "MissingEvidence")
    shutil.copy(folder / "right.jsonl", folder / "far")
    assert check(folder / "far" / "renamed.json").exit_code == 0


# --- carelessness -------------------------------------------------------------------------


def test_no_byte_of_a_certificate_can_be_another_one(made: Path) -> None:
    content = (made / "right.json").read_bytes()
    chance = random.Random(0)
    for position in range(0, len(content), 3):
        changed = bytes([content[position] ^ chance.randrange(1, 256)])
        with pytest.raises(EvidenceError, match="right"):
            parsed_certificate(content[:position] + changed + content[position + 1 :], "right")


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (lambda content: b"", "EmptyEvidence"),
        (lambda content: b" \n", "EmptyEvidence"),
        (lambda content: content + b"\n", "EditedEvidence"),
        (lambda content: content[:-1], "EditedEvidence"),
        (lambda content: content[:-3], "EditedEvidence"),
        (lambda content: content.replace(b"\n", b"\r\n"), "EditedEvidence"),
        (lambda content: b"\xef\xbb\xbf" + content, "EditedEvidence"),
        (lambda content: content.replace(b"conforms", b"conf\0rms"), "EditedEvidence"),
        (lambda content: b"\0" * 100, "NoCertificate"),
        (lambda content: b"[" * 100_000, "MalformedEvidence"),
        (lambda content: b"[]", "NoCertificate"),
        (lambda content: json.dumps(json.loads(content)).encode(), "EditedEvidence"),
        (lambda content: content.replace(b"1e-09", b"1E-9"), "EditedEvidence"),
        (lambda content: content.replace(b'"seed": 3', b'"seed": 3.0'), "EditedEvidence"),
        (lambda content: content.replace(b'"conforms"', b'"inconclusive"'), "EditedEvidence"),
        (lambda content: content.replace(b'"conforms"', b'"splendid"'), "MalformedEvidence"),
        (lambda content: content.replace(b'"_type"', b'"type_"'), "MalformedEvidence"),
        (lambda content: content.replace(b"right.jsonl", b"wrong.jsonl"), "EditedEvidence"),
    ],
)
def test_an_edited_certificate_is_refused(
    folder: Path, edit: Callable[[bytes], bytes], error: str
) -> None:
    path = folder / "right.json"
    before = path.read_bytes()
    path.write_bytes(edit(before))
    assert path.read_bytes() != before
    assert str(path) in refused(path, error)


def test_edited_evidence_is_refused(folder: Path) -> None:
    path, evidence = folder / "right.json", folder / "right.jsonl"
    content = evidence.read_bytes()
    lines = content.splitlines(keepends=True)
    for spoiled, error in (
        (b"", "EmptyEvidence"),
        (b"".join(lines[:-1]), "MissingFooter"),
        (content[:-1], "MissingFooter"),
        (b"".join([lines[0], *lines[2:]]), "EditedEvidence"),
        (b"".join([lines[0], lines[2], lines[1], *lines[3:]]), "EditedEvidence"),
        (content + b"\n", "EditedEvidence"),
        (content.replace(b'"pass"', b'"fail"', 1), "EditedEvidence"),
    ):
        evidence.write_bytes(spoiled)
        assert str(evidence) in refused(path, error)
    evidence.unlink()
    assert f"cannot read '{evidence}': No such file" in refused(path, "MissingEvidence")
    evidence.mkdir()
    assert f"cannot read '{evidence}': Is a directory" in refused(path, "MissingEvidence")


def test_the_evidence_of_something_else_is_refused(folder: Path) -> None:
    shutil.copy(folder / "wrong.jsonl", folder / "right.jsonl")
    said = refused(folder / "right.json", "EditedEvidence")
    assert f"{folder / 'right.jsonl'} is not the evidence of {folder / 'right.json'}" in said


# --- forgery ------------------------------------------------------------------------------


def resealed(document: dict[str, Any]) -> bytes:
    """A certificate whose own digest is computed anew."""
    found = document["predicate"]["draftproof"]
    del found["digest"]
    found["digest"] = sha256(canonical(document).encode()).hexdigest()
    return (json.dumps(document, indent=2) + "\n").encode()


def test_a_certificate_that_says_more_than_its_evidence_is_refused(folder: Path) -> None:
    path = folder / "wrong.json"
    document = json.loads(path.read_bytes())
    document["predicate"]["draftproof"]["verdict"] = "conforms"
    path.write_bytes(resealed(document))
    assert f"{path}: its verdict does not follow from its requirements" in refused(
        path, "EditedEvidence"
    )
    certify(list(read_finished(folder / "wrong.jsonl")[0].records), path)
    document = json.loads(path.read_bytes())
    document["predicate"]["draftproof"]["created"] = "2001-01-01T00:00:00+00:00"
    path.write_bytes(resealed(document))
    said = refused(path, "EditedEvidence")
    assert f"{path} does not follow from its evidence {folder / 'wrong.jsonl'}" in said


@pytest.mark.parametrize("name", ["right.json", "right.jsonl"])
def test_a_pipe_is_refused_at_once(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    said = refused(folder / "right.json", "MissingEvidence")
    assert said == f"MissingEvidence: cannot read '{folder / name}': it is a pipe, not a file"


@pytest.mark.parametrize(
    ("place", "error"),
    [("../right.jsonl", "MalformedEvidence"), ("", "MalformedEvidence")],
)
def test_a_certificate_names_evidence_beside_it(folder: Path, place: str, error: str) -> None:
    path = folder / "right.json"
    document = json.loads(path.read_bytes())
    document["predicate"]["configuration"][2]["name"] = place
    path.write_bytes(resealed(document))
    refused(path, error)


def forged(path: Path, edit: Callable[[list[Record]], Any]) -> None:
    """Edit the records, and compute every digest, and the certificate, anew."""
    records = copy.deepcopy(list(read_finished(path.with_suffix(".jsonl"))[0].records))
    edit(records)
    certify(records, path)


def results(records: list[Record]) -> list[Record]:
    return [record for record in records if record["record"] == "result"]


def acquit(records: list[Record]) -> None:
    for record in results(records):
        for finding in record["findings"]:
            finding.update(verdict="pass", distance=0.0, law=None)
    records[-2]["counterexample"] = None


def test_forged_verdicts_on_samples_do_not_follow_from_their_counts(folder: Path) -> None:
    path = folder / "sampled.json"
    forged(path, lambda records: results(records)[8]["findings"][0].update(verdict="fail"))
    assert "the verdicts on task 8 do not follow from its counts" in refused(path, "EditedEvidence")


def test_a_verdict_that_its_own_figures_contradict_is_forged(folder: Path) -> None:
    def flattered(records: list[Record]) -> None:
        for record in results(records):
            for finding in record["findings"]:
                finding.update(verdict="pass")
        records[-2]["counterexample"] = None

    path = folder / "wrong.json"
    forged(path, flattered)
    said = refused(path, "EditedEvidence")
    assert re.search(r"law\.lossless on \S+ is 'pass' at a distance of", said)


@pytest.mark.parametrize("stem", ["wrong", "sampled"])
def test_a_distance_that_its_own_law_contradicts_is_forged(folder: Path, stem: str) -> None:
    def nearer(records: list[Record]) -> None:
        finding = results(records)[0]["findings"][0]
        assert finding["law"]
        finding["distance"] += 1e-9

    path = folder / f"{stem}.json"
    forged(path, nearer)
    said = refused(path, "EditedEvidence")
    told = rf"{stem}.jsonl, line \d+: law.lossless on generic.v2.l1 has a distance of \S+, where "
    assert re.search(rf"{told}the law beside it has one of \S+$", said)


def dropped(records: list[Record]) -> None:
    del results(records)[0]["findings"][1]


def repeated(records: list[Record]) -> None:
    findings = results(records)[0]["findings"]
    findings.append(findings[1])


def moved(records: list[Record]) -> None:
    results(records)[0]["findings"][1]["case"] = "generic.v3.l2"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (dropped, "has no finding of law.reference on generic.v2.l1"),
        (repeated, "has a finding too many of law.reference on generic.v2.l1"),
        (moved, "has no finding of law.reference on generic.v2.l1"),
    ],
)
def test_a_result_has_one_finding_of_each_requirement_that_was_asked(
    folder: Path, edit: Callable[[list[Record]], None], message: str
) -> None:
    path = folder / "wrong.json"
    forged(path, edit)
    said = refused(path, "EditedEvidence")
    assert re.search(rf"wrong.jsonl, line \d+: task 0, generic.v2.l1, {message}", said)


def test_no_case_is_left_out_where_backends_are_compared(folder: Path) -> None:
    """Two backends share cases that no plan names: only the suite that asked knows them."""
    same = (
        "from draftproof.conformance.museum.mutants.verifiers import Checked\n\n\n"
        "class Mine(Checked):\n    same_as = Checked()\n"
    )
    (folder / "two.py").write_text(same)
    records: list[Record] = []
    asked = Campaign(f"{folder / 'two.py'}:Mine", mode="quick", seed=3, only=["batch.backends"])
    run(asked, keep=records.append)
    path = folder / "two.json"
    certify(records, path)
    assert check(path).exit_code == 0
    forged(path, dropped)
    said = refused(path, "EditedEvidence")
    assert (
        said
        == "EditedEvidence: task 0, backends, has no finding of batch.backends on "
        + (records[-4]["findings"][1]["case"])
    )
    forged(path, repeated)
    assert "task 0, backends, has " in refused(path, "EditedEvidence")


def test_a_search_says_what_each_requirement_came_to(folder: Path) -> None:
    def unsaid(records: list[Record]) -> None:
        (search,) = (record for record in records if record["record"] == "search")
        del search["findings"][0]

    records: list[Record] = []
    terms: dict[str, Any] = {"only": ["law.lossless"], "lanes": ["exact"], "examples": 3}
    cases = ("generic.v2.l1",)
    run(Campaign(WRONG, mode="quick", seed=3, cases=cases, **terms), keep=records.append)
    path = folder / "sought.json"
    certify(records, path)
    assert check(path).exit_code == 0
    forged(path, unsaid)
    said = refused(path, "EditedEvidence")
    assert said == "EditedEvidence: the search has no finding of law.lossless"


def test_what_conforms_can_be_required(folder: Path) -> None:
    paths = folder / "right.json", folder / "wrong.json"
    assert check(*paths).exit_code == 0
    assert check(paths[0], "--require", "conforms").exit_code == 0
    ran = check(*paths, "--require", "conforms")
    assert ran.exit_code == 1
    assert f"{paths[1]}: does not conform, where 'conforms' is required" in ran.stderr


def test_nothing_is_run_that_only_a_certificate_names(folder: Path) -> None:
    path = folder / "right.json"
    ran = check(path, "--rerun")
    assert ran.exit_code == 3
    assert "--rerun would run" in ran.stderr
    assert "name the verifier with --adapter, or trust the certificate with --trust" in ran.stderr
    assert "judged again" not in ran.stdout


def test_a_forgery_is_found_out_by_doing_it_again(folder: Path) -> None:
    path = folder / "wrong.json"
    forged(path, acquit)
    assert check(path).exit_code == 0
    ran = check(path, "--rerun", "--trust")
    assert ran.exit_code == 5
    assert "conforms (quick): exact, off by at most 0 where" in ran.stdout
    assert "DIFFERENT: task 0, result: findings/0/verdict was 'pass', is 'fail'" in ran.stdout
    assert "DIFFERENT: the counterexample" in ran.stdout
    assert "Error: judging again gave different evidence" in ran.stderr


def test_a_number_that_nobody_can_read_is_refused(folder: Path) -> None:
    path = folder / "right.json"
    records = list(read_finished(path.with_suffix(".jsonl"))[0].records)
    results(records)[0]["findings"][0]["distance"] = 10**400
    with pytest.raises(OverflowError):
        certify(records, path)
    digest = sha256((folder / "right.jsonl").read_bytes()).hexdigest()
    document = json.loads(path.read_bytes())
    document["predicate"]["configuration"][2]["digest"]["sha256"] = digest
    path.write_bytes(resealed(document))
    assert "a number of it has 401 digits" in refused(path, "MalformedEvidence")


# --- staleness ----------------------------------------------------------------------------

OTHER = {"version": "0.0.1", "sha256": "0" * 64}


@pytest.fixture(scope="module")
def of_ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of a verifier that is built in, and current."""
    records: list[Record] = []
    run(Campaign("torch-token", mode="quick", seed=3, only=["batch.order"]), keep=records.append)
    path = tmp_path_factory.mktemp("ours") / "ours.json"
    certify(records, path)
    return path


def changed(path: Path, **parts: Any) -> Path:
    """A certificate like another, but for who judged what; its evidence is beside it."""
    records = copy.deepcopy(list(read_finished(path.with_suffix(".jsonl"))[0].records))
    records[0].update(parts)
    other = path.with_name("changed.json")
    certify(records, other)
    return other


def state(*arguments: str | Path) -> dict[str, Any]:
    told = json.loads(check(*arguments, "--json").stdout)
    validate(told, "check")
    found: dict[str, Any] = told["certificates"][0]["standing"]
    return found


def test_a_current_certificate_is_said_to_be_so(of_ours: Path) -> None:
    ran = check(of_ours)
    assert (ran.exit_code, ran.stderr) == (0, "")
    told = "  current: its verifier is unchanged, and the same code would judge it"
    assert told in ran.stdout
    assert (state(of_ours)["state"], state(of_ours)["reason"]) == ("current", None)


def test_a_stale_certificate_is_no_error_and_cannot_be_overlooked(of_ours: Path) -> None:
    now = state(of_ours)
    path = changed(
        of_ours, suite=OTHER, subject={"name": "torch-token", "version": "1", "sha256": "1" * 64}
    )
    ran = check(path)
    assert (ran.exit_code, ran.stderr) == (0, "")
    suite, subject = now["suite"]["now"], now["subject"]["now"]
    assert ran.stdout.splitlines()[:5] == [
        f"{path}: torch-token conforms (quick), unchanged and consistent with its evidence",
        "  stale: the verifier has changed",
        f"    verifier: was torch-token 1 (111111111111), is torch-token {subject['version']} "
        f"({subject['sha256'][:12]})",
        f"    suite: was 0.0.1 (000000000000), is {suite['version']} ({suite['sha256'][:12]})",
        "    judge again: draftproof certify torch-token --mode quick",
    ]
    told = state(path)
    assert (told["state"], told["suite"]["then"]) == ("stale", OTHER)
    assert told["command"] == "draftproof certify torch-token --mode quick"
    ran = check(path, "--rerun", "--trust")
    assert ran.exit_code == 5
    assert "  stale: the verifier has changed" in ran.stdout
    assert "StaleEvidence: it was judged by suite 0.0.1 (000000000000)" in ran.stderr
    assert "`draftproof certify` judges by this one" in ran.stderr


def test_a_changed_specification_is_told(of_ours: Path) -> None:
    ran = check(changed(of_ours, specification=OTHER | {"version": "99.0.0"}))
    assert "  stale: the specification has changed\n    specification: was 99.0.0 (" in ran.stdout


def test_another_minor_version_with_the_same_keys_is_as_good(of_ours: Path) -> None:
    assert state(changed(of_ours, specification=OTHER))["state"] == "current"


def test_another_suite_with_the_same_keys_is_as_good(of_ours: Path) -> None:
    assert state(changed(of_ours, suite=OTHER))["state"] == "current"


def test_several_are_counted(of_ours: Path, folder: Path) -> None:
    other = {"name": "torch-token", "version": "1", "sha256": "1" * 64}
    stale = changed(of_ours, suite=OTHER, subject=other)
    ran = check(of_ours, stale, folder / "right.json")
    assert ran.exit_code == 0
    assert ran.stdout.splitlines()[-1] == "3 certificates: 1 current, 1 stale, 1 unknown"


def test_a_verifier_of_others_is_compared_where_it_is_named(folder: Path) -> None:
    path, file = folder / "right.json", folder / "mine.py"
    ran = check(path)
    assert ran.exit_code == 0
    assert "  unknown: the verifier was not compared: it is not built in" in ran.stdout
    assert "    compare the verifier: --adapter ./FILE.py:ATTRIBUTE" in ran.stdout
    assert state(path, "--adapter", f"{file}:Batched")["state"] == "current"
    file.write_text(file.read_text() + "\n")
    ran = check(path, "--adapter", f"{file}:Batched")
    assert ran.exit_code == 0
    assert "  stale: the verifier has changed" in ran.stdout
    ran = check(path, "--adapter", f"{folder / 'none.py'}:Batched")
    assert ran.exit_code == 3
    assert "  unknown: the verifier was not compared: there is no file" in ran.stdout
    assert f"Error: cannot compare {folder / 'none.py'}:Batched: there is no file" in ran.stderr


def test_what_was_judged_again_is_of_the_same_verifier(folder: Path) -> None:
    assert state(folder / "right.json", "--rerun", "--trust")["state"] == "current"


def test_what_is_not_as_it_was_written_is_neither(folder: Path) -> None:
    path = folder / "right.json"
    path.write_bytes(b"")
    told = json.loads(check(path, "--json").stdout)
    assert told["certificates"][0]["standing"] is None


def test_no_version_reaches_a_terminal_as_it_is(of_ours: Path) -> None:
    odd = {"name": "torch-token", "version": "\x1b[2J\n  current: ", "sha256": "0" * 64}
    with pytest.raises(MalformedDocument, match="subject/0/annotations/version"):
        changed(of_ours, subject=odd)


def test_nothing_beside_a_certificate_is_imported(of_ours: Path, tmp_path: Path) -> None:
    """A folder may have a draftproof.adapters.fast of its own, for whoever checks in it."""
    fast = tmp_path / "draftproof" / "adapters" / "fast"
    fast.mkdir(parents=True)
    for place in (fast.parent, fast):
        (place / "__init__.py").write_text("open('ran', 'w')")
    program = (
        "import sys; sys.path[:] = [each for each in sys.path if each]\n"
        "from draftproof.conformance.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "check-certificate", str(of_ours)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "  current: " in ran.stdout
    assert not (tmp_path / "ran").exists()


# --- judging again ------------------------------------------------------------------------


def test_what_is_judged_again_comes_out_the_same(folder: Path) -> None:
    ran = check(folder / "right.json", "--rerun", "--trust")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert "judged again: 4 parts identical, to the bit" in ran.stdout
    assert "DIFFERENT" not in ran.stdout


@pytest.mark.parametrize(("share", "code"), [(1.9, 0), (2.1, 5)])
def test_on_another_processor_rounding_is_no_difference(
    folder: Path, share: float, code: int
) -> None:
    path = folder / "right.json"

    def move(records: list[dict[str, Any]]) -> None:
        records[0]["environment"]["processor"] = "Abacus 2000"
        (finding, *_) = (f for r in results(records) for f in r["findings"] if f["allowed"])
        moved = finding["distance"] + share * finding["allowed"]
        finding.update(distance=moved, verdict="inconclusive")

    forged(path, move)
    ran = check(path, "--rerun", "--trust")
    assert ran.exit_code == code
    assert "elsewhere: processor was 'Abacus 2000', is '" in ran.stdout
    said = "1 parts identical up to rounding: a distance moved by"
    assert (said in ran.stdout) == (code == 0)
    assert ("DIFFERENT: " in ran.stdout) == (code == 5)


def test_an_adapter_that_moved_is_named(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    shutil.copy(made / "mine.py", folder / "mine.py")
    records = list(read_finished(made / "right.jsonl")[0].records)
    records[0]["adapter"]["place"] = "./gone.py:Batched"
    certify(records, folder / "right.json")
    ran = check(folder / "right.json", "--rerun", "--trust")
    assert ran.exit_code == 3
    assert "there is no file 'gone.py'; name it with --adapter" in ran.stderr
    moved = ("--rerun", "--adapter", f"{folder / 'mine.py'}:Batched", "--json")
    told = json.loads(check(folder / "right.json", *moved).stdout)
    validate(told, "check")
    assert told["certificates"][0]["rerun"] == {
        "same": 4,
        "near": 0,
        "different": [],
        "elsewhere": [],
        "moved": None,
        "turned": [],
    }
    other = folder / "other.py"
    other.write_text((folder / "mine.py").read_text() + "\n")
    ran = check(folder / "right.json", "--rerun", "--adapter", f"{other}:Batched")
    assert ran.exit_code == 5
    assert re.search("StaleEvidence: .* is another one than was judged: sha256 was", ran.stderr)


def test_the_gravest_of_several_decides(folder: Path) -> None:
    (folder / "mine.py").write_text("raise RuntimeError('not today')")
    records = list(read_finished(folder / "right.jsonl")[0].records)
    records[0]["adapter"]["place"] = f"{folder / 'mine.py'}:Batched"
    certify(records, folder / "right.json")
    ran = check(folder / "right.json", "--rerun", "--trust")
    assert ran.exit_code == 3
    assert "could not be imported: RuntimeError: not today" in ran.stderr
    (folder / "wrong.json").write_bytes(b"")
    told = json.loads(
        check(folder / "right.json", folder / "wrong.json", "--rerun", "--trust", "--json").stdout
    )
    assert told["exit_code"] == 5
    assert len(told["certificates"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'CERTIFICATE.json...'"),
        (("none.json",), "'none.json' does not exist"),
        (
            ("right.json", "--address", "tcp://x:1"),
            "--address needs a cluster: add --backend dask or --backend ray",
        ),
        (("right.json", "--backend", "dask", "--jobs", "2"), "a cluster has its own"),
    ],
)
def test_wrong_usage_says_why(
    folder: Path, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ran = check(*arguments)
    assert ran.exit_code == 2
    assert message in " ".join(ran.stderr.split())


def test_it_checks_where_there_is_no_torch(folder: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from draftproof.conformance.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "check-certificate", "sampled.json", "--json"]
    for more, code, error in (
        ([], 0, None),
        (["--rerun", "--trust"], 3, f"--rerun needs PyTorch: {installation('torch')}"),
    ):
        ran = subprocess.run([*command, *more], cwd=folder, capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (code, "")
        (told,) = json.loads(ran.stdout)["certificates"]
        assert (told["error"], told["recounted"]) == (error, None)
        assert told["standing"]["state"] == "unknown"


def test_it_compares_where_there_is_no_torch(of_ours: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from draftproof.conformance.cli import main; main()"
    )
    for path, first in (
        (of_ours, "unknown: the verifier was not compared: draftproof.adapters.fast could not be"),
        (
            changed(of_ours, specification={**OTHER, "version": "1.0.0"}),
            "stale: the specification has changed",
        ),
    ):
        command = [sys.executable, "-c", program, "check-certificate", str(path)]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.splitlines()[1].startswith(f"  {first}")
