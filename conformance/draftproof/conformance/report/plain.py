"""Documents and lines made safe to print: without control sequences or workflow commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from draftproof.conformance.protocol.printable import printable, unobeyed


def plain(value: Any) -> Any:
    """Return a document in which every string can be shown.

    White space becomes spaces; other unprintable characters, such as control characters of a
    terminal, marks of writing direction, and halves of surrogate pairs, become U+FFFD. A space
    breaks up every command of a GitHub workflow, wherever a line may break.
    """
    if isinstance(value, str):
        return unobeyed(printable(value))
    if isinstance(value, Mapping):
        return {plain(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def plain_lines(text: str) -> str:
    """Return the lines of a text, each `plain`."""
    return "\n".join(map(plain, text.split("\n")))


def json_text(document: Any, *, indent: int | None = 2) -> str:
    """Return a document as complete JSON in ASCII, without GitHub workflow commands.

    Raises `ValueError` for a number that JSON does not have.
    """
    return json.dumps(document, indent=indent, allow_nan=False).replace("##[", "#\\u0023[")
