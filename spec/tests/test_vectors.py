from __future__ import annotations

import json
import re

import pytest

from draftproof.spec import (
    VECTOR_KINDS,
    VECTOR_SIZES,
    MalformedDocument,
    validate,
    vector_files,
)


def test_every_size_has_a_file_of_every_kind_and_comes_with_those_before_it() -> None:
    files = vector_files()
    assert [(f.parent.name, f.stem) for f in files] == [
        (size, kind) for size in VECTOR_SIZES for kind in VECTOR_KINDS
    ]
    assert vector_files("tiny") == files[:4]
    assert vector_files("small") == files[:8]
    assert vector_files("standard") == files
    with pytest.raises(KeyError, match="there is no size 'large'; known: tiny, small, standard"):
        vector_files("large")


def test_there_is_no_other_file_of_vectors() -> None:
    folder = vector_files()[0].parents[1]
    assert sorted(folder.rglob("*.json")) == sorted(vector_files())
    assert (folder / "README.md").is_file()


@pytest.mark.parametrize("file", vector_files("small"), ids=lambda f: f"{f.parent.name}-{f.stem}")
def test_files_follow_their_schema_and_say_what_they_are(file: object) -> None:
    path = next(each for each in vector_files() if each == file)
    document = json.loads(path.read_text(encoding="utf-8"))
    validate(document, "vectors")
    assert (document["size"], document["kind"]) == (path.parent.name, path.stem)


def test_a_vector_of_another_kind_is_refused() -> None:
    laws, decisions = (
        json.loads(path.read_text(encoding="utf-8")) for path in vector_files("tiny")[:2]
    )
    with pytest.raises(MalformedDocument, match="vectors: vectors/0: "):
        validate({**laws, "vectors": decisions["vectors"]}, "vectors")
    with pytest.raises(MalformedDocument, match="vectors: the document: 'instances' is a required"):
        validate({key: each for key, each in laws.items() if key != "instances"}, "vectors")


def test_all_of_it_is_small_enough_to_be_carried_about() -> None:
    assert sum(file.stat().st_size for file in vector_files()) < 3_500_000
    assert sum(file.stat().st_size for file in vector_files("tiny")) < 200_000


def test_the_readme_quotes_vectors_that_are_there() -> None:
    readme = (vector_files()[0].parents[1] / "README.md").read_text(encoding="utf-8")
    text = "".join(file.read_text(encoding="utf-8") for file in vector_files())
    quoted = re.findall(r'"id": ("(?:law|decision|value|error)\.[^"]+")', readme)
    assert len(quoted) >= 5
    assert [identity for identity in quoted if f'"id": {identity}' not in text] == []
    for line in (
        '"law": [[0, 0, 0, "2/9"], [0, 1, 0, "7/18"], [0, 1, 1, "7/18"]]',
        '{"numbers": ["7/9", "1/2"], "asked": [["coin", "7/9"], ["draw", "1", "1"]]',
    ):
        assert line in readme
        assert line in text
