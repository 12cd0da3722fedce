"""Files that appear whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from draftproof.spec import require_file


def write_output(text: str, path: Path) -> None:
    """Write to a place that a user names: a regular file whole, anything else directly.

    Raises `OSError`.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8", newline="\n")
    else:
        write_whole(text, path.resolve())


def write_whole(text: str, path: Path) -> None:
    """Write a file of UTF-8 text; if that fails, the file is unchanged. Raises `OSError`."""
    unfinished = path.with_name(path.name + ".part")
    with suppress(FileNotFoundError):
        require_file(unfinished)
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
