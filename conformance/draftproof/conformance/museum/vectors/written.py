"""Canonical form of vectors.

Keys, vectors and names have an order, rationals are in lowest terms, and a value that fits on a
line of 100 columns is on one line; lists without objects are filled line by line. So two exports
are equal byte for byte, and a diff shows exactly the change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from draftproof.reference.errors import NotRational
from draftproof.reference.rational import rational

_WIDTH = 100

_KEYS = (
    "format",
    "id",
    "kind",
    "size",
    "requirements",
    "flags",
    "instances",
    "vectors",
    "bugClass",
    "description",
    "mutants",
    "sources",
    "algorithm",
    "instance",
    "vocabulary",
    "length",
    "drafts",
    "scheme",
    "branching",
    "target",
    "draft",
    "paths",
    "probability",
    "law",
    "numbers",
    "asked",
    "emits",
    "runs",
    "expected_accepted",
    "optimum",
    "acceptance_rate",
    "stateless",
    "stateful",
    "value",
    "certificate",
    "expected",
    "reason",
)
"""Order of keys, except for those that name a flag, an instance or a context."""

_NUMBER = re.compile(r"[+-]?[0-9]+(/[0-9]+|\.[0-9]+)?")


def canonical(document: Any) -> Any:
    """Return the document with its vectors by id, its keys in order, its rationals reduced."""
    if isinstance(document, Mapping):
        if "vectors" in document and isinstance(document["vectors"], list):
            vectors = sorted(document["vectors"], key=_identity)
            document = {**document, "vectors": vectors}
        return {key: canonical(document[key]) for key in sorted(document, key=_place)}
    if isinstance(document, list):
        return [canonical(each) for each in document]
    return _reduced(document) if isinstance(document, str) else document


def text(document: Any) -> str:
    """Return the text of a document in its canonical form."""
    return "".join(_lines(canonical(document), "", "")) + "\n"


def _identity(vector: Any) -> str:
    return str(vector.get("id")) if isinstance(vector, Mapping) else ""


def _place(key: str) -> tuple[Any, ...]:
    """Return the position of a key: known keys first, then contexts by length, then names."""
    if key in _KEYS:
        return (0, _KEYS.index(key))
    if re.fullmatch(r"([0-9]+(,[0-9]+)*)?", key):
        context = [int(token) for token in key.split(",")] if key else []
        return (1, len(context), context)
    return (2, key)


def _reduced(value: str) -> str:
    if not _NUMBER.fullmatch(value):
        return value
    try:
        return str(rational(value))
    except NotRational:
        return value


def _lines(value: Any, indent: str, before: str) -> Iterator[str]:
    """Yield the pieces of a value that follows `before` on its line."""
    flat = _flat(value)
    # A comma may follow.
    if len(indent) + len(before) + len(flat) < _WIDTH or not isinstance(value, (dict, list)):
        yield flat
        return
    inner = indent + " "
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    pairs = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    items = [("" if key is None else f"{_flat(key)}: ", each) for key, each in pairs]
    if _is_filled(value, flat):
        yield opened
        yield from _filled(items, inner, len(inner) + len(before))
        yield closed
        return
    yield opened
    for number, (name, each) in enumerate(items):
        yield f"{',' if number else ''}\n{inner}{name}"
        yield from _lines(each, inner, name)
    yield f"\n{indent}{closed}"


def _is_filled(value: Any, flat: str) -> bool:
    """Return True if items share lines: those of lists without objects, and of small objects."""
    if isinstance(value, list):
        return not _holds_objects(value)
    short = len(flat) < 2 * _WIDTH and all(
        len(_flat(each)) < _WIDTH * 3 // 4 for each in value.values()
    )
    return short and not any(map(_holds_objects, value.values()))


def _filled(items: Sequence[tuple[str, Any]], indent: str, column: int) -> Iterator[str]:
    """Yield the items, as many to a line as fit; the first follows a bracket at a column."""
    for number, (name, each) in enumerate(items):
        flat = name + _flat(each)
        # Two brackets, or a bracket and a comma, may follow.
        fits = column + len(flat) + 4 <= _WIDTH
        if number:
            yield ", " if fits else f",\n{indent}"
            column = column + 2 if fits else len(indent)
        yield flat
        column += len(flat)


def _flat(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _holds_objects(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_holds_objects, value))
    return isinstance(value, dict)
