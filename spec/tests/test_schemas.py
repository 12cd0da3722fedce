from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from draftproof.spec import MalformedDocument, schema, validate
from draftproof.spec.schemas import _registry as registry
from draftproof.spec.schemas import _surely_follows as surely_follows
from draftproof.spec.schemas import names

INSTANCE = {"vocabulary": 2, "length": 1, "target": ["1/2", "1/2"], "draft": {"": ["1", "0"]}}


@pytest.mark.parametrize("name", names())
def test_every_schema_is_a_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$id"] == f"{name}.schema.json"


def test_all_schemas_are_there() -> None:
    assert names() == (
        "audit-plan",
        "audit",
        "benchmark",
        "certificate",
        "certify",
        "chain",
        "check",
        "checkpoint",
        "claims",
        "compare",
        "diff",
        "engines",
        "envelope",
        "evidence",
        "explain",
        "harness",
        "histories",
        "init",
        "instance",
        "law",
        "list",
        "matrix",
        "mutants",
        "optimum",
        "proof",
        "rows",
        "traceability",
        "vectors-outcome",
        "vectors",
    )
    with pytest.raises(KeyError, match="there is no schema 'laws'; known: audit-plan, audit, "):
        schema("laws")


def test_a_valid_document_passes() -> None:
    validate(INSTANCE, "instance")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary": 0}, "instance: vocabulary: 0 is less than the minimum of 1"),
        ({"colour": 1}, "instance: the document: Additional properties are not allowed"),
        ({"scheme": "magic"}, "instance: scheme: 'magic' is not one of"),
        ({"scheme": "tree"}, "instance: the document: 'branching' is a required property"),
        ({"target": [0.5, 0.5]}, "instance: target: "),
        ({"draft": {"a": ["1"]}}, "instance: draft: "),
    ],
)
def test_a_malformed_document_is_refused_with_its_place(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(MalformedDocument, match=message):
        validate({**INSTANCE, **change}, "instance")


def test_schemas_refer_to_each_other() -> None:
    with pytest.raises(MalformedDocument, match="certify: certificates/0: "):
        validate({"certificates": [{}], "errors": [], "exit_code": 0}, "certify")


def patterns(part: Any) -> Iterator[str]:
    """Every pattern of a schema, also those of the names of properties."""
    if isinstance(part, dict):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        for each in part.values():
            yield from patterns(each)
    elif isinstance(part, list):
        for each in part:
            yield from patterns(each)


@pytest.mark.parametrize("name", names())
def test_no_pattern_ends_before_a_line_feed(name: str) -> None:
    """A dollar is the end alone to ECMA, and to Python a line feed before the end, too."""
    assert not [each for each in patterns(schema(name)) if "$" in each]


def test_what_a_dollar_would_let_pass_is_refused() -> None:
    with pytest.raises(MalformedDocument, match="instance: draft: "):
        validate({**INSTANCE, "draft": {"": ["1", "0"], "0\n": ["1", "0"]}}, "instance")


@pytest.mark.parametrize("part", ["sha256", "time"])
def test_what_a_certificate_quotes_is_one_word(part: str) -> None:
    own = {"$ref": f"certificate.schema.json#/$defs/{part}"}
    right = {"sha256": "0" * 64, "time": "2026-01-01T12:00:00+00:00"}[part]
    validator = Draft202012Validator(own, registry=registry())
    validator.validate(right)
    for wrong in (f"{right}\n", f"\n{right}", f"{right} ", f"{right}\x1b[2J", "yesterday", ""):
        assert not validator.is_valid(wrong)


# --- the validator in Rust, which says yes alone -----------------------------------------------

HOUSE = Path(__file__).parents[2]
WRITTEN = {
    "certificate": HOUSE / "adapters" / "certificates" / "torch-block.json",
    "matrix": HOUSE / "adapters" / "matrix" / "matrix.json",
}
TEXTS = st.text(st.characters(exclude_categories=()), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just("1/2"),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXTS, each, max_size=3),
    max_leaves=6,
)


def places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where something stands, or could, in a document, lists by their first part."""
    parts = dict(enumerate(document[:1])) if isinstance(document, list) else document
    if isinstance(document, dict):
        yield (*place, "other")
    for key, part in parts.items() if isinstance(parts, dict) else ():
        yield (*place, key)
        yield from places(part, (*place, key))


def changed(document: Any, place: tuple[Any, ...], value: Any, *, is_gone: bool) -> Any:
    document = deepcopy(document)
    *way, last = place
    inner = document
    for key in way:
        inner = inner[key]
    if is_gone and last != "other":
        del inner[last]
    else:
        inner[last] = value
    return document


def read(name: str) -> Any:
    """A document that is written, with few of its rows and findings."""
    document = json.loads(WRITTEN[name].read_text(encoding="utf-8"))
    if name == "matrix":
        return {**document, "rows": document["rows"][:2]}
    return document


DOCUMENTS = {"instance": INSTANCE, **{name: read(name) for name in WRITTEN}}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_written_is_known_to_follow_its_schema(name: str) -> None:
    assert surely_follows(DOCUMENTS[name], name)


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(deadline=None)
@given(data=st.data(), value=VALUES, is_gone=st.booleans())
def test_what_is_said_to_follow_its_schema_does(
    name: str, data: st.DataObject, value: Any, is_gone: bool
) -> None:
    document = DOCUMENTS[name]
    place = data.draw(st.sampled_from([*places(document)]))
    other = changed(document, place, value, is_gone=is_gone)
    if surely_follows(other, name):
        validator = Draft202012Validator(schema(name), registry=registry())
        assert next(validator.iter_errors(other), None) is None
