"""Tokens that an engine wrote somewhere else, as lines of JSON.

Each line is one answer:

    {"prompt_ids": [3, 4], "token_ids": [5, 3, 4], "speculation": true}

`speculation` is false for the control; a name such as "eagle" counts as true. `temperature`,
`top_k`, `top_p` and `min_p` may stand beside it, where they were not the defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftproof.conformance.checkpoint.rows import Rows
from draftproof.conformance.lanes.engine.asking import Sampling, Tokens
from draftproof.spec import FileTooLarge, MalformedDocument, parsed, require_file

MOST_LINES = 1_000_000
MOST_LENGTH = 2**22


class UnreadableTokens(ValueError):
    """A file of tokens cannot be read; the message says which line, and what is right."""


@dataclass(frozen=True)
class Written:
    """One answer: its prompt, its tokens, how they were drawn, and whether the engine drafted."""

    prompt: Tokens
    tokens: Tokens
    sampling: Sampling
    speculation: str
    """The name of what was on, empty for none."""


def read_tokens(path: Path, rows: Rows) -> Iterator[Written]:
    """Yield the answers in a file. Raises `UnreadableTokens`."""
    try:
        require_file(path)
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MOST_LENGTH + 1):
                number += 1
                where = f"{path}, line {number}"
                if len(line) > MOST_LENGTH:
                    raise UnreadableTokens(f"{where}: it has more than {MOST_LENGTH:,} bytes")
                if number > MOST_LINES:
                    raise UnreadableTokens(f"{path}: it has more than {MOST_LINES:,} lines")
                if line.strip():
                    yield _written(line, rows, where)
    except OSError as error:
        raise UnreadableTokens(f"cannot read {str(path)!r}: {error.strerror}") from None


def _written(line: bytes, rows: Rows, where: str) -> Written:
    right = 'a line is like {"prompt_ids": [3, 4], "token_ids": [5, 3], "speculation": true}'
    try:
        document = parsed(line)
    except (FileTooLarge, MalformedDocument, ValueError) as error:
        raise UnreadableTokens(f"{where}: {error}; {right}") from None
    if not isinstance(document, dict):
        raise UnreadableTokens(f"{where}: it is no object; {right}")
    unknown = document.keys() - {*_KEYS, *_SETTINGS}
    if unknown:
        raise UnreadableTokens(f"{where}: unknown {', '.join(sorted(unknown))}; {right}")
    prompt, tokens = (_ids(document.get(key), rows, f"{where}: {key}") for key in _KEYS[:2])
    if len(prompt) < rows.memory:
        raise UnreadableTokens(
            f"{where}: a prompt has at least {rows.memory} tokens, on which rows depend"
        )
    speculation = document.get("speculation", True)
    if not isinstance(speculation, (bool, str)):
        raise UnreadableTokens(f"{where}: speculation is true, false or a name; {right}")
    name = speculation if isinstance(speculation, str) else "on" if speculation else ""
    plain = {"temperature": float(rows.temperature)}
    return Written(prompt, tokens, Sampling(**(plain | _settings(document, where))), name)


_KEYS = ("prompt_ids", "token_ids", "speculation")
_SETTINGS = ("temperature", "top_k", "top_p", "min_p")


def _ids(value: Any, rows: Rows, where: str) -> Tokens:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise UnreadableTokens(f"{where} is a list of token ids, got {str(value)[:80]}")
    outside = next((each for each in value if not 0 <= each < rows.vocabulary), None)
    if outside is not None:
        raise UnreadableTokens(f"{where}: ids are below {rows.vocabulary}, got {outside}")
    return tuple(value)


def _settings(document: dict[str, Any], where: str) -> dict[str, Any]:
    found = {}
    for name in _SETTINGS:
        value = document.get(name)
        if value is None:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not value > 0 or (name == "top_k" and value != int(value)):
            raise UnreadableTokens(f"{where}: {name} is a positive number, got {value!r}")
        found[name] = int(value) if name == "top_k" else float(value)
    return found
