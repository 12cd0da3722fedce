from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from draftproof.conformance.evidence.whole_file import write_output, write_whole
from draftproof.spec import IrregularFile


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("a\n", "é\n"):
        write_whole(text, path)
        assert path.read_bytes() == text.encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_in_the_way_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json.part")
    with pytest.raises(IrregularFile, match="it is a pipe, not a file"):
        write_whole("a\n", tmp_path / "a.json")
    assert [each.name for each in tmp_path.iterdir()] == ["a.json.part"]


def test_an_output_is_a_file_or_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a.md")
    write_output("a\n", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a.md").read_bytes() == b"a\n"
    write_output("a\n", Path("/dev/null"))
    with pytest.raises(IsADirectoryError):
        write_output("a\n", tmp_path)
    with pytest.raises(OSError, match="No space left"):
        write_output("a\n", Path("/dev/full"))


@pytest.mark.parametrize("write", [write_whole, write_output])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[str, Path], None]
) -> None:
    def fill(path: Path, *_text: str, **_options: str) -> None:
        path.write_bytes(b"b")
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.json"
    path.write_bytes(b"a")
    monkeypatch.setattr(Path, "write_text", fill)
    with pytest.raises(OSError, match="No space left"):
        write("b\n", path)
    assert path.read_bytes() == b"a"
    assert list(tmp_path.iterdir()) == [path]
