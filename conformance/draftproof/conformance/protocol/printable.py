"""Text of others, such as names and errors, made fit to be kept in evidence and to be shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def printable(text: str) -> str:
    """Return the text on one line, in characters that can be printed.

    White space becomes spaces; what else cannot be printed, such as the control characters of a
    terminal, what turns the direction of writing, and halves of surrogate pairs, becomes U+FFFD.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def unobeyed(text: str) -> str:
    """Return the text with a space in what begins a command of a GitHub workflow.

    Its log obeys a line that begins with "::", and "##[" anywhere in one.
    """
    return _WORKFLOW_COMMAND.sub(r"\g<0> ", text)


_WORKFLOW_COMMAND = re.compile(r":(?=:)|##(?=\[)")


def printable_lines(value: Any) -> Any:
    """Return a document, every line of every string of which is `printable`."""
    if isinstance(value, str):
        return "\n".join(map(printable, value.split("\n")))
    if isinstance(value, Mapping):
        return {printable_lines(key): printable_lines(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable_lines(each) for each in value]
    return value
