from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from draftproof.spec import MalformedDocument, schema, validate
from draftproof.spec.schemas import _registry as registry
from draftproof.spec.schemas import names

INSTANCE = {"vocabulary": 2, "length": 1, "target": ["1/2", "1/2"], "draft": {"": ["1", "0"]}}


@pytest.mark.parametrize("name", names())
def test_every_schema_is_a_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$id"] == f"{name}.schema.json"


def test_all_schemas_are_there() -> None:
    assert names() == (
        "benchmark",
        "certificate",
        "certify",
        "check",
        "claims",
        "compare",
        "evidence",
        "explain",
        "harness",
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
    with pytest.raises(KeyError, match="there is no schema 'laws'; known: benchmark, "):
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
