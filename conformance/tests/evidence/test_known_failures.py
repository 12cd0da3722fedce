from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from draftproof.conformance.cli import cli
from draftproof.conformance.evidence.certificate import exit_code, no_longer_known, statement
from draftproof.conformance.evidence.decision import report
from draftproof.conformance.evidence.known_failures import InvalidKnownFailures, read_known_failures
from draftproof.conformance.evidence.records import Record
from draftproof.conformance.run.campaign import Campaign, run

ISSUE = "https://example.org/issues/1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "known.txt"


def test_every_line_has_a_requirement_and_its_issue(file: Path) -> None:
    file.write_text(
        "# what we know\n"
        "\n"
        f"law.support {ISSUE}\n"
        f"  number.dtypes\thttp://example.org/2#c3   # since 1.0\n"
        "   # nothing more\n"
        f"random.one {ISSUE} #\n"
    )
    assert read_known_failures(file) == {
        "law.support": ISSUE,
        "number.dtypes": "http://example.org/2#c3",
        "random.one": ISSUE,
    }


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# nothing\n", b"\xef\xbb\xbf# nothing"])
def test_nothing_may_be_known(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert read_known_failures(file) == {}


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_lines_end_in_any_way(file: Path, end: str) -> None:
    file.write_bytes(f"\ufefflaw.support {ISSUE}{end}".encode())
    assert read_known_failures(file) == {"law.support": ISSUE}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("law.support", "expected the id of a requirement and the link to its issue, such as"),
        ("law.support 17", "got 'law.support 17'"),
        ("law.support #17", "got 'law.support #17'"),
        ("law.support # 17", "got 'law.support # 17'"),
        (f"law.support {ISSUE} and more", "expected the id of a requirement"),
        (f"{ISSUE} law.support", "expected the id of a requirement"),
        (f"law.supports {ISSUE}", "no requirement 'law.supports', did you mean 'law.support'?"),
        (f"LAW.SUPPORT {ISSUE}", "there is no requirement 'LAW.SUPPORT'"),
        (f"law.* {ISSUE}", "there is no requirement 'law.*'"),
        (f"xyz {ISSUE}", "there is no requirement 'xyz'"),
        (f"random.one {ISSUE}", "'random.one' is there twice"),
    ],
)
def test_a_line_that_is_none_is_refused(file: Path, line: str, message: str) -> None:
    file.write_text(f"random.one {ISSUE}\n{line}\n")
    with pytest.raises(InvalidKnownFailures, match=re.escape(message)) as caught:
        read_known_failures(file)
    assert str(caught.value).startswith(f"{file}, line 2: ")


def test_what_cannot_be_read_is_refused(tmp_path: Path, file: Path) -> None:
    file.write_bytes(b"\xff\xfe\0")
    with pytest.raises(InvalidKnownFailures, match="it is not UTF-8 text"):
        read_known_failures(file)
    for place, reason in ((tmp_path, "Is a directory"), (tmp_path / "none", "No such file")):
        with pytest.raises(InvalidKnownFailures, match=f"{re.escape(str(place))}': {reason}"):
            read_known_failures(place)


# --- what knowing changes -----------------------------------------------------------------

WRONG = "draftproof.conformance.museum.mutants:BonusFromDraft"


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """What judging a wrong verifier leaves, by one requirement that it misses and one that not."""
    left: list[Record] = []
    asked = ["law.lossless", "law.prefix"]
    run(Campaign(WRONG, mode="quick", seed=1, lanes=["exact"], only=asked), keep=left.append)
    return left


def certified(records: list[Record], *known: str) -> dict[str, Any]:
    told = [{"id": identity, "issue": ISSUE} for identity in known]
    header = {**records[0], "known_failures": told}
    return statement([header, *records[1:]], evidence="mine.jsonl", digest="0" * 64)


def test_a_known_failure_is_excused_and_fails_all_the_same(records: list[Record]) -> None:
    failing = [each.requirement.id for each in report(records).decisions if each.verdict == "fail"]
    assert failing == ["law.lossless"]
    assert exit_code(certified(records)) == 1
    excused = certified(records, *failing)
    assert exit_code(excused) == 0
    found = excused["predicate"]["draftproof"]
    assert found["verdict"] == "does not conform"
    assert excused["predicate"]["result"] == "FAILED"
    assert excused["predicate"]["failedTests"] == failing
    assert found["known_failures"] == [{"id": "law.lossless", "issue": ISSUE}]


def test_a_known_failure_excuses_nothing_else(records: list[Record]) -> None:
    other = certified(records, "law.prefix")
    assert exit_code(other) == 1
    assert no_longer_known([other]) == ["law.prefix"]
    assert no_longer_known([certified(records, "law.lossless")]) == []


def certify(file: Path, *arguments: str) -> Result:
    known = ["--known-failures", str(file), "--output", str(file.parent / "out")]
    return CliRunner().invoke(cli, ["certify", WRONG, *known, *arguments])


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("law.support", (), "line 1: expected the id of a requirement and the link"),
        (f"law.suport {ISSUE}", (), "did you mean 'law.support'?"),
        (f"law.support {ISSUE}", ("--mode", "certify"), "it takes no --case, --lane, --known"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_anything_is_judged(
    file: Path, content: str, arguments: tuple[str, ...], message: str
) -> None:
    file.write_text(content)
    ran = certify(file, *arguments)
    assert ran.exit_code == 2
    assert message in " ".join(ran.stderr.split())
    assert not (file.parent / "out").exists()


@pytest.mark.parametrize(
    "arguments", [("--seed", "1"), ("--lane", "exact"), ("--case", "generic.*")]
)
def test_certify_takes_no_terms(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ran = CliRunner().invoke(cli, ["certify", WRONG, "--mode", "certify", *arguments])
    assert ran.exit_code == 2
    assert "--mode certify judges every case on every lane" in ran.stderr


def test_unreadable_files_are_named(file: Path) -> None:
    for content, reason in ((None, "No such file"), (b"\xff\xfe\0", "it is not UTF-8 text")):
        if content is not None:
            file.write_bytes(content)
        ran = certify(file)
        assert ran.exit_code == 2
        assert reason in " ".join(ran.stderr.split())


def test_one_that_fails_no_more_is_an_error_that_json_has_too(
    file: Path, monkeypatch: pytest.MonkeyPatch, records: list[Record]
) -> None:
    def leave(campaign: Campaign, *, keep: Any, **_: Any) -> None:
        told = [{"id": each, "issue": issue} for each, issue in campaign.known_failures.items()]
        for record in [{**records[0], "known_failures": told}, *records[1:]]:
            keep(record)

    monkeypatch.setattr("draftproof.conformance.run.campaign.run", leave)
    file.write_text(f"law.lossless {ISSUE}\nlaw.prefix {ISSUE}\n")
    ran = certify(file, "--mode", "quick", "--json")
    assert f"Error: {file}: no longer failing: law.prefix; remove these lines" in ran.stderr
    assert (ran.exit_code, json.loads(ran.stdout)["exit_code"]) == (2, 2)
    file.write_text(f"law.lossless {ISSUE}\n")
    ran = certify(file, "--mode", "quick", "--json")
    assert (ran.exit_code, json.loads(ran.stdout)["exit_code"]) == (0, 0)
