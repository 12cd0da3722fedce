from __future__ import annotations

from pathlib import Path

import pytest

from draftproof.conformance.whole_file import write_whole


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("a\n", "é\n"):
        write_whole(text, path)
        assert path.read_bytes() == text.encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(path: Path, *_text: str, **_options: str) -> None:
        path.write_bytes(b"b")
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.json"
    path.write_bytes(b"a")
    monkeypatch.setattr(Path, "write_text", fill)
    with pytest.raises(OSError, match="No space left"):
        write_whole("b\n", path)
    assert path.read_bytes() == b"a"
    assert list(tmp_path.iterdir()) == [path]
