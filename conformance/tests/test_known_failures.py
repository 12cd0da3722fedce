from __future__ import annotations

import re
from pathlib import Path

import pytest

from draftproof.conformance.known_failures import InvalidKnownFailures, read_known_failures

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


def test_what_cannot_be_read_raises(tmp_path: Path, file: Path) -> None:
    file.write_bytes(b"\xff\xfe\0")
    with pytest.raises(UnicodeDecodeError):
        read_known_failures(file)
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(OSError, match=re.escape(str(place))):
            read_known_failures(place)
