from __future__ import annotations

import os
import socket
import time
from contextlib import chdir
from io import BytesIO
from pathlib import Path

import pytest

from draftproof.spec import (
    FileTooLarge,
    IrregularFile,
    MalformedDocument,
    NotJson,
    content_of,
    parsed,
    validate,
)


def test_a_document_is_read() -> None:
    assert parsed(b'{"a": [1, -2.5, "x", null, true]}') == {"a": [1, -2.5, "x", None, True]}
    assert parsed(b"[" * 64 + b"]" * 64)
    assert parsed(b"9" * 100) == int("9" * 100)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"", NotJson, "it is not JSON: Expecting value"),
        (b'{"a": 1, "b": 2, "a": 1}', NotJson, "the key 'a' appears twice"),
        (b"NaN", NotJson, "NaN is no number in JSON"),
        (b"-Infinity", NotJson, "-Infinity is no number in JSON"),
        (b"-1e400", NotJson, "the number -1e400 is larger than floats are"),
        (b"9" * 101, FileTooLarge, "a number of it has 101 digits, the most that are read are 100"),
        (b"0." + b"9" * 99, FileTooLarge, "a number of it has 101 digits"),
        (
            b"[" * 65 + b"]" * 65,
            FileTooLarge,
            "it has more than 64 lists and objects in each other",
        ),
        (b"[" * 100_000, FileTooLarge, "it has more than 64 lists and objects in each other"),
        (b'{"a":' * 100_000, FileTooLarge, "it has more than 64 lists and objects in each other"),
        (b"[" + b"0," * 500_000 + b"0]", FileTooLarge, "it has more than 500,000 values"),
        (b"[" + b"[]," * 500_000 + b"0]", FileTooLarge, "it has more than 500,000 values"),
        (b" " * (2**25 + 1), FileTooLarge, "it has more than 33,554,432 bytes"),
    ],
)
def test_what_is_not_read_says_why(content: bytes, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        parsed(content)


def test_a_key_that_comes_twice_is_found_at_once() -> None:
    content = b"{" + b",".join(b'"%d": 0' % n for n in range(100_000)) + b', "0": 1}'
    started = time.process_time()
    with pytest.raises(NotJson, match="the key '0' appears twice"):
        parsed(content)
    # By the square of the keys it takes a minute.
    assert time.process_time() - started < 10


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    with pytest.raises(FileTooLarge, match="it has more than 10 bytes, the most that are read"):
        content_of(BytesIO(b"0" * 11), most=10)
    assert content_of(BytesIO(b"0" * 10), most=10) == b"0" * 10


def test_nobody_waits_for_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound, chdir(tmp_path):
        bound.bind("socket")
    (tmp_path / "link").symlink_to("pipe")
    for place, told in (
        (tmp_path / "pipe", "it is a pipe, not a file"),
        (tmp_path / "link", "it is a pipe, not a file"),
        (tmp_path / "socket", "it is a socket, not a file"),
        (Path("/dev/zero"), "it is a device, not a file"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(IrregularFile, match=told) as refused:
            content_of(place)
        assert refused.value.filename == str(place)
    with pytest.raises(FileNotFoundError):
        content_of(tmp_path / "none")


def test_of_many_problems_one_is_told_in_short() -> None:
    started = time.process_time()
    with pytest.raises(MalformedDocument) as refused:
        validate({"row": [{"x" * 1000: 0}] * 20_000}, "rows")
    assert len(str(refused.value)) < 1500
    assert time.process_time() - started < 10
