"""Tokens that an engine wrote elsewhere, as lines of JSON.

Each line is one answer:

    {"prompt_ids": [3, 4], "token_ids": [5, 3, 4], "speculation": true}

`speculation` is false for the control; a name such as "eagle" counts as true. A line may also have
`temperature`, `top_k`, `top_p` and `min_p`, if they were not the defaults, and `steps`, the number
of passes of the target. Answers with the same speculation and settings are one part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from draftproof.conformance.checkpoint.rows import KnownRows
from draftproof.conformance.lanes.engine.asking import (
    FILTERS,
    Answer,
    Generation,
    SamplingParams,
    Tokens,
)
from draftproof.conformance.lanes.engine.owed import plain_sampling
from draftproof.conformance.lanes.engine.parts import Part
from draftproof.spec import FileTooLarge, MalformedDocument, parsed, require_file

MOST_TOKENS = 20_000_000
MOST_LENGTH = 2**22
MOST_PARTS = 64

Batch = tuple[list[Generation], list[Answer]]
"""Requests, and the answers to them."""


class UnreadableTokens(ValueError):
    """Error of an unreadable file of tokens; the message names the line and what is valid."""


@dataclass(frozen=True)
class Written:
    """Parts of a file of tokens, and their answers in the order of the file."""

    parts: tuple[Part, ...]
    answers: Mapping[tuple[str, bool], Sequence[Batch]]
    """Answers by case, and by whether they belong to the control."""

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        batches = (answers for each in self.answers.values() for _, answers in each)
        return sum(len(answer.tokens) for answers in batches for answer in answers)


def read_tokens(path: Path, rows: KnownRows) -> Written:
    """Return the answers in a file. Raises `UnreadableTokens`."""
    by_sampling: dict[SamplingParams, dict[str, list[tuple[Generation, Answer]]]] = {}
    tokens = 0
    for name, request, answer in _lines(path, rows):
        tokens += len(answer.tokens)
        if tokens > MOST_TOKENS:
            raise UnreadableTokens(f"{path}: it has more than {MOST_TOKENS:,} tokens; split it")
        by_sampling.setdefault(request.sampling, {}).setdefault(name, []).append((request, answer))
    parts, answers = [], {}
    for sampling, by_name in by_sampling.items():
        control = by_name.pop("", [])
        # Without anything to compare it with, a control is judged by itself.
        for name, own in by_name.items() or [("", control)]:
            part = _part(name, sampling, rows)
            part = replace(part, has_control=bool(name and control))
            parts.append(part)
            answers[part.case, False] = _batches(own)
            if part.has_control:
                answers[part.case, True] = _batches(control)
    if not tokens:
        raise UnreadableTokens(f"{path}: it has no tokens; {_RIGHT}")
    if len(parts) > MOST_PARTS:
        raise UnreadableTokens(
            f"{path}: it has {len(parts)} kinds of speculation and settings; {MOST_PARTS} at most"
        )
    return Written(tuple(parts), answers)


def _part(name: str, sampling: SamplingParams, rows: KnownRows) -> Part:
    """Return the part of all answers with one speculation and one sampling."""
    plain = plain_sampling(rows)
    settings = {each: getattr(sampling, each) for each in ("temperature", *FILTERS)}
    # Names have no colon, and numbers are told whole: no two kinds of answers are one case.
    told = [f"{key}={value!r}" for key, value in settings.items() if value != getattr(plain, key)]
    return Part(
        ":".join([name or "control", *told]),
        "engine.parameters" if told else "engine.lossless",
        share=1.0,
        samplings=(sampling,),
        speculation=bool(name),
    )


def _batches(found: Sequence[tuple[Generation, Answer]]) -> list[Batch]:
    cuts = range(0, len(found), _BATCH)
    groups = (found[start : start + _BATCH] for start in cuts)
    return [([each for each, _ in group], [each for _, each in group]) for group in groups]


_BATCH = 64


# --- lines --------------------------------------------------------------------------------------

_RIGHT = 'a line is like {"prompt_ids": [3, 4], "token_ids": [5, 3], "speculation": true}'


def _lines(path: Path, rows: KnownRows) -> Iterator[tuple[str, Generation, Answer]]:
    """Yield each answer with its request and its kind of speculation, empty for none."""
    try:
        require_file(path)
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MOST_LENGTH + 1):
                number += 1
                where = f"{path}, line {number}"
                if len(line) > MOST_LENGTH:
                    raise UnreadableTokens(f"{where}: it has more than {MOST_LENGTH:,} bytes")
                if line.strip():
                    yield _read(line, rows, where)
    except OSError as error:
        raise UnreadableTokens(f"cannot read {str(path)!r}: {error.strerror}") from None


def _read(line: bytes, rows: KnownRows, where: str) -> tuple[str, Generation, Answer]:
    try:
        document = parsed(line)
    except (FileTooLarge, MalformedDocument, ValueError) as error:
        raise UnreadableTokens(f"{where}: {error}; {_RIGHT}") from None
    if not isinstance(document, dict):
        raise UnreadableTokens(f"{where}: it is no object; {_RIGHT}")
    unknown = document.keys() - _KEYS
    if unknown:
        raise UnreadableTokens(f"{where}: unknown {', '.join(sorted(unknown))}; {_RIGHT}")
    prompt, tokens = (
        _ids(document.get(key), rows, f"{where}: {key}") for key in ("prompt_ids", "token_ids")
    )
    if len(prompt) < rows.memory:
        raise UnreadableTokens(
            f"{where}: a prompt has at least {rows.memory} tokens, on which rows depend"
        )
    speculation = document.get("speculation", True)
    name = "drafted" if speculation is True else speculation or ""
    if speculation is not False and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise UnreadableTokens(
            f"{where}: speculation is true, false or a name of letters and digits, "
            f"got {str(speculation)[:80]!r}"
        )
    steps = document.get("steps")
    if steps is not None and (type(steps) is not int or steps < 0):
        raise UnreadableTokens(f"{where}: steps is a number of passes, got {str(steps)[:80]}")
    sampling = _sampling(document, rows, where)
    request = Generation(prompt, len(tokens), sampling, speculation=bool(name))
    return name, request, Answer(tokens, steps)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_KEYS = {"prompt_ids", "token_ids", "speculation", "steps", "temperature", *FILTERS}


def _ids(value: Any, rows: KnownRows, where: str) -> Tokens:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise UnreadableTokens(f"{where} is a list of token ids, got {str(value)[:80]}")
    outside = next((each for each in value if not 0 <= each < rows.vocabulary), None)
    if outside is not None:
        raise UnreadableTokens(f"{where}: ids are below {rows.vocabulary}, got {outside}")
    return tuple(value)


def _sampling(document: Mapping[str, Any], rows: KnownRows, where: str) -> SamplingParams:
    """Return the sampling of an answer; the default temperature is the checkpoint's own."""
    found: dict[str, Any] = {"temperature": float(rows.temperature)}
    for name in ("temperature", *FILTERS):
        value = document.get(name)
        if value is None or (type(value) in (int, float) and value in _OFF.get(name, ())):
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        most = _MOST[name]
        if not is_number or not 0 < value <= most or (name == "top_k" and value != int(value)):
            raise UnreadableTokens(
                f"{where}: {name} is a positive number up to {most:,}, got {str(value)[:80]}"
            )
        found[name] = int(value) if name == "top_k" else float(value)
    sampling = SamplingParams(**found)
    if len(sampling.filters) > 1:
        told = " and ".join(sampling.filters)
        raise UnreadableTokens(f"{where}: it has {told}; engines differ in the order of filters")
    return sampling


_MOST = {"temperature": 10**6, "top_k": 2**31, "top_p": 1, "min_p": 1}
_OFF = {"top_k": (0, -1), "top_p": (1,), "min_p": (0,)}
"""Value of a filter that is off."""
