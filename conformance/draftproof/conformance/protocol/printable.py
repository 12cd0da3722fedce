"""Untrusted text, such as names and errors, made safe to store in evidence and to print."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def printable(text: str) -> str:
    """Return the text on one line, in printable characters.

    White space becomes spaces; other unprintable characters, such as control characters of a
    terminal, marks of writing direction, and halves of surrogate pairs, become U+FFFD.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def unobeyed(text: str) -> str:
    """Return the text with a space inside every command of a GitHub workflow.

    A workflow's log executes a line that begins with "::", and "##[" anywhere in a line.
    """
    return _WORKFLOW_COMMAND.sub(r"\g<0> ", text)


_WORKFLOW_COMMAND = re.compile(r":(?=:)|##(?=\[)")


def printable_lines(value: Any) -> Any:
    """Return a document in which every line of every string is `printable`."""
    if isinstance(value, str):
        return "\n".join(map(printable, value.split("\n")))
    if isinstance(value, Mapping):
        return {printable_lines(key): printable_lines(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable_lines(each) for each in value]
    return value
