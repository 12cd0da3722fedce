"""Documents and lines that nothing obeys: neither a terminal nor the log of a workflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from draftproof.conformance.protocol.printable import printable, unobeyed


def plain(value: Any) -> Any:
    """Return a document in which every string can be shown.

    White space becomes spaces; what else cannot be printed, such as the control characters of a
    terminal, what turns the direction of writing, and halves of surrogate pairs, becomes U+FFFD.
    A space goes into what begins a command of a GitHub workflow, wherever a line may break.
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
    """Return a document as JSON in ASCII that says all of it, and nothing to a log of GitHub.

    Raises `ValueError` for a number that JSON does not have.
    """
    return json.dumps(document, indent=indent, allow_nan=False).replace("##[", "#\\u0023[")
