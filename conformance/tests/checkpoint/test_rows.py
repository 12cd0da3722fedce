from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftproof.conformance.checkpoint.chain import chain
from draftproof.conformance.checkpoint.rows import (
    KnownRows,
    UnreadableRows,
    read_rows,
    rows_to_json,
    write_rows,
)
from draftproof.conformance.checkpoint.writing import rows_of

pytest.importorskip("torch")


def rows() -> KnownRows:
    return rows_of(chain(memory=2, vocabulary=8), kind="memory-2", dtype="float32")


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_rows(rows(), tmp_path / "rows.json")
    assert read_rows(tmp_path / "rows.json") == rows()


def test_texts_lead_to_ids_and_states() -> None:
    own = rows()
    assert own.words == (3, 4, 5, 6, 7)
    assert [own.id_of[each] for each in "abcde"] == [*own.words]
    assert own.state_of == {word: state for state, word in enumerate(own.words, start=1)}


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda d: d["target"][0].__setitem__(0, 5), "target/0: a row has 5 parts that sum to"),
        (lambda d: d["draft"].pop(), "draft: 36 contexts have a row each, got 35 rows"),
        (lambda d: d["words"][0].update(id=9), "ids increase and are below the vocabulary of 8"),
        (lambda d: d["words"][0].update(text="b"), "two of them have the same text"),
        (lambda d: d.pop("memory"), "'memory' is a required property"),
        (lambda d: d.update(format=2), "format"),
        (lambda d: d.update(temperature="0"), "temperature is positive, got '0'"),
        (lambda d: d.update(temperature="-1"), "temperature"),
        (lambda d: d["bounds"].update(float32=1), "bounds"),
        (lambda d: d["bounds"].pop("bfloat16"), "bounds"),
    ],
)
def test_a_file_that_holds_no_rows_is_told(tmp_path: Path, edit: object, told: str) -> None:
    document = rows_to_json(rows())
    edit(document)  # type: ignore[operator]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UnreadableRows, match=told):
        read_rows(path)


@pytest.mark.parametrize(("text", "told"), [("", "not JSON"), ("{", "not JSON"), ("[]", "chain")])
def test_a_file_that_is_no_document_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(UnreadableRows, match=f"{told}.*`draftproof checkpoint OUT` writes"):
        read_rows(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRows, match=r"cannot read .*rows\.json': No such file"):
        read_rows(tmp_path / "rows.json")
