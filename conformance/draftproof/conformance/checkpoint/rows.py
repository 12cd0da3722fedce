"""File `rows.json` beside a checkpoint: its exact distribution, and the bounds for engines.

The judge needs only this file, not the weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from draftproof.conformance.checkpoint.chain import DENOMINATOR
from draftproof.reference.rational import Rational, rational
from draftproof.spec import FileTooLarge, MalformedDocument, content_of, parsed, validate

FORMAT = 1

Row = tuple[Rational, ...]
Context = tuple[int, ...]
"""States of the last tokens, earliest first."""


class UnreadableRows(ValueError):
    """Error of an unreadable file of rows; the message says why, and which command writes one."""


@dataclass(frozen=True)
class KnownRows:
    """Rows of a target and of its draft: exact distributions of the next token, by context.

    `texts` has the text of every token that has mass, by its id, and these have the states 1, 2,
    ... in this order; all other tokens lead to state 0. No row in `target` or `draft` gives a token
    without text any probability. An engine in a dtype is correct if each of its rows is within
    `bounds[dtype]` in total variation.
    """

    kind: str
    vocabulary: int
    memory: int
    temperature: Rational
    texts: Mapping[int, str]
    target: Mapping[Context, Row]
    draft: Mapping[Context, Row]
    bounds: Mapping[str, float]
    dtype: str
    seed: int
    special: Mapping[str, int]

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The ids of the tokens that have mass; rows are in this order."""
        return tuple(self.texts)

    @cached_property
    def state_of(self) -> Mapping[int, int]:
        """The state of each token with mass."""
        return {word: state for state, word in enumerate(self.words, start=1)}

    @cached_property
    def id_of(self) -> Mapping[str, int]:
        """The id of each text."""
        return {text: word for word, text in self.texts.items()}

    @property
    def bound(self) -> float:
        """The largest distance of a correct engine's rows in the dtype of the checkpoint."""
        return self.bounds[self.dtype]


def rows_to_json(rows: KnownRows) -> dict[str, Any]:
    """Return the document, whose rows are whole numbers of parts of `denominator`."""
    return {
        "format": FORMAT,
        "kind": rows.kind,
        "dtype": rows.dtype,
        "seed": rows.seed,
        "vocabulary": rows.vocabulary,
        "memory": rows.memory,
        "temperature": str(rows.temperature),
        "special": dict(rows.special),
        "words": [{"id": word, "text": text} for word, text in rows.texts.items()],
        "bounds": dict(rows.bounds),
        "denominator": DENOMINATOR,
        "target": [_in_parts(row) for row in rows.target.values()],
        "draft": [_in_parts(row) for row in rows.draft.values()],
    }


def rows_from_json(document: Mapping[str, Any]) -> KnownRows:
    """Return the rows of a document. Raises `MalformedDocument` unless they are distributions."""
    validate(document, "chain")
    words, memory = document["words"], document["memory"]
    _require_words(document)
    temperature = document["temperature"]
    if len(temperature) > 40 or not rational(temperature) > 0:
        raise MalformedDocument(f"chain: temperature is positive, got {temperature[:40]!r}")
    contexts = [*product(range(len(words) + 1), repeat=memory)]
    return KnownRows(
        kind=document["kind"],
        vocabulary=document["vocabulary"],
        memory=memory,
        temperature=rational(document["temperature"]),
        texts={each["id"]: each["text"] for each in words},
        bounds=document["bounds"],
        dtype=document["dtype"],
        seed=document["seed"],
        special=document["special"],
        **{of: _table(document, of, contexts) for of in ("target", "draft")},
    )


def read_rows(path: Path) -> KnownRows:
    """Return the rows in a file. Raises `UnreadableRows`."""
    again = "`draftproof checkpoint OUT` writes OUT/rows.json"
    try:
        return rows_from_json(parsed(content_of(path)))
    except OSError as error:
        raise UnreadableRows(f"cannot read {str(path)!r}: {error.strerror}; {again}") from None
    except (FileTooLarge, MalformedDocument) as error:
        raise UnreadableRows(f"{path}: {error}; {again}") from None
    except ValueError as error:
        raise UnreadableRows(f"{path} is not JSON: {error}; {again}") from None


def write_rows(rows: KnownRows, path: Path) -> None:
    """Write the rows to a file. Raises `OSError`."""
    document = rows_to_json(rows)
    validate(document, "chain")
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def _in_parts(row: Row) -> list[int]:
    return [int(each * DENOMINATOR) for each in row]


def _require_words(document: Mapping[str, Any]) -> None:
    """Raise `MalformedDocument` unless ids increase within the vocabulary, and texts differ."""
    ids = [each["id"] for each in document["words"]]
    if ids != sorted({*ids}) or ids[-1] >= document["vocabulary"]:
        raise MalformedDocument(
            f"chain: words: ids increase and are below the vocabulary of "
            f"{document['vocabulary']}, got {ids}"
        )
    texts = [each["text"] for each in document["words"]]
    if len({*texts}) < len(texts):
        raise MalformedDocument(f"chain: words: two of them have the same text: {texts}")


def _table(document: Mapping[str, Any], of: str, contexts: list[Context]) -> dict[Context, Row]:
    table, whole = document[of], document["denominator"]
    if len(table) != len(contexts):
        raise MalformedDocument(
            f"chain: {of}: {len(contexts)} contexts have a row each, got {len(table)} rows"
        )
    width = len(document["words"])
    for place, row in enumerate(table):
        if len(row) != width or sum(row) != whole:
            raise MalformedDocument(
                f"chain: {of}/{place}: a row has {width} parts that sum to {whole}, got "
                f"{len(row)} that sum to {sum(row)}"
            )
    rows = [tuple(rational(each) / whole for each in row) for row in table]
    return dict(zip(contexts, rows, strict=True))
