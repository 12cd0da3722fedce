"""Users' files, read within limits, so that a large or deep file cannot block the reader."""

from __future__ import annotations

import json
import math
import stat
from errno import EINVAL, EISDIR
from os import strerror
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from draftproof.spec.schemas import MalformedDocument

MOST_BYTES = 2**25
"""Maximum number of bytes of a file. The largest shipped file has a 30th of that."""

MOST_VALUES = 500_000
"""Maximum number of values in one document: numbers, strings, lists, objects and their keys."""

MOST_DEPTH = 64
"""Maximum depth of nested lists and objects."""

MOST_DIGITS = 100
"""Maximum number of characters of a number in JSON; floats can hold numbers of that size."""


class FileTooLarge(MalformedDocument):
    """A file is larger than the limit; the message names the limit."""


class NotJson(MalformedDocument):
    """A file is not JSON, or has a key twice; the message says where."""


class IrregularFile(OSError):
    """A path leads to a pipe, a socket, a device or a folder instead of a regular file."""


def require_file(path: Path) -> None:
    """Raise `IrregularFile` for anything but a regular file, `OSError` for a missing file.

    Opening a pipe waits for its other end, and opening a device may do anything.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IrregularFile(EISDIR, strerror(EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = next((told for is_one, told in _KINDS if is_one(mode)), "something else")
        raise IrregularFile(EINVAL, f"it is {kind}, not a file", str(path))


_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def content_of(file: Path | BinaryIO, *, most: int = MOST_BYTES) -> bytes:
    """Return all bytes of a file, or of a stream to its end.

    Raises `FileTooLarge`, `IrregularFile` for a path to anything but a regular file, and `OSError`.
    """
    if isinstance(file, Path):
        require_file(file)
        with file.open("rb") as opened:
            return content_of(opened, most=most)
    # One byte more tells; a stream without an end is not read to it.
    content = file.read(most + 1)
    if len(content) > most:
        raise FileTooLarge(f"it has more than {most:,} bytes, the most that are read")
    return content


def parsed(content: bytes) -> Any:
    """Return the JSON document in UTF-8 bytes.

    Raises `FileTooLarge` for more than `MOST_BYTES`, `MOST_VALUES`, `MOST_DEPTH` or `MOST_DIGITS`,
    `NotJson` for text that is not JSON, a key that comes twice, and a number that floats cannot
    hold, and `UnicodeDecodeError`.
    """
    if len(content) > MOST_BYTES:
        raise FileTooLarge(f"it has more than {MOST_BYTES:,} bytes, the most that are read")
    # A list takes more memory than its brackets; before they are read they are counted.
    if sum(map(content.count, (b",", b"[", b"{"))) > 2 * MOST_VALUES:
        raise FileTooLarge(f"it has more than {MOST_VALUES:,} values, the most that are read")
    text = content.decode("utf-8")
    try:
        document = json.loads(
            text,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_no_number,
            object_pairs_hook=_distinct,
        )
    except RecursionError:
        raise FileTooLarge(
            f"it has more than {MOST_DEPTH} lists and objects in each other, the most that are read"
        ) from None
    except json.JSONDecodeError as error:
        raise NotJson(f"it is not JSON: {error}") from None
    require_small(document)
    return document


def require_small(document: Any) -> None:
    """Raise `FileTooLarge` beyond `MOST_VALUES` values, or a depth of `MOST_DEPTH`."""
    level, values, depth = [document], 0, 0
    while level:
        values += len(level)
        held = [each for each in level if isinstance(each, (dict, list))]
        if held and depth >= MOST_DEPTH:
            raise FileTooLarge(
                f"it has more than {MOST_DEPTH} lists and objects in each other, the most that "
                f"are read"
            )
        if values > MOST_VALUES:
            raise FileTooLarge(f"it has more than {MOST_VALUES:,} values, the most that are read")
        level = [
            inner for each in held for inner in (each.values() if isinstance(each, dict) else each)
        ]
        depth += 1


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise NotJson(f"the key {name[:MOST_DIGITS]!r} appears twice")
            seen.add(name)
    return document


def _integer(written: str) -> int:
    _require_short(written)
    return int(written)


def _float(written: str) -> float:
    _require_short(written)
    value = float(written)
    if not math.isfinite(value):
        raise NotJson(f"the number {written} is larger than floats are")
    return value


def _require_short(written: str) -> None:
    if len(written) > MOST_DIGITS:
        raise FileTooLarge(
            f"a number of it has {len(written):,} digits, the most that are read are {MOST_DIGITS}"
        )


def _no_number(written: str) -> NoReturn:
    raise NotJson(f"{written} is no number in JSON")
