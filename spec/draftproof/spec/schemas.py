"""JSON Schemas of the documents that the project reads and writes."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema_rs

from draftproof.spec._files import FOLDER


class MalformedDocument(ValueError):
    """A document does not follow its schema; the message says where and how."""


_LONGEST = 600
_MOST_PROBLEMS = 100


@cache
def schema(name: str) -> dict[str, Any]:
    """Return the schema `name`, such as "instance". Raises `KeyError` if there is none."""
    path = FOLDER / "schemas" / f"{name}.schema.json"
    if not path.is_file():
        raise KeyError(f"there is no schema {name!r}; known: {', '.join(names())}")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


@cache
def names() -> tuple[str, ...]:
    """Return the names of all schemas."""
    return tuple(file.name.removesuffix(".schema.json") for file in schema_files())


def schema_files() -> tuple[Path, ...]:
    """Return the files of all schemas, in the order of their names."""
    return tuple(sorted((FOLDER / "schemas").glob("*.schema.json")))


def validate(document: Any, name: str) -> None:
    """Raise `MalformedDocument` unless the document follows the schema `name`."""
    if _surely_follows(document, name):
        return
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema(name), registry=_registry())
    # One is told, and there may be as many as values.
    found = islice(validator.iter_errors(document), _MOST_PROBLEMS)
    problems = sorted(found, key=lambda error: list(error.path))
    if problems:
        where = "/".join(map(str, problems[0].absolute_path)) or "the document"
        where, told = (_shortened(each) for each in (where, problems[0].message))
        raise MalformedDocument(f"{name}: {where}: {told}")


def _shortened(text: str) -> str:
    """Return a text without its middle, if it quotes a document at length."""
    return (
        text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    )


def _surely_follows(document: Any, name: str) -> bool:
    """Return True only if a document follows a schema, and False also for some that follow it.

    A validator in Rust decides a thousand times faster than the one in Python, which decides on the
    documents that the Rust one refuses, and finds their errors. A tuple counts as a list, which it
    is in JSON.
    """
    try:
        return _validator(name).is_valid(document)
    except ValueError:
        # No JSON: other keys than words, lone surrogates, objects.
        return False


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(_in_rust(name), registry=_registry_in_rust())


@cache
def _registry_in_rust() -> jsonschema_rs.Registry:
    return jsonschema_rs.Registry([(f"{name}.schema.json", _in_rust(name)) for name in names()])


def _in_rust(name: str) -> Any:
    """Return a schema without the surrogates in its patterns: no text in Rust has any."""
    return json.loads(json.dumps(schema(name)).replace(r"\\ud800-\\udfff", ""))


@cache
def _registry() -> Any:
    from referencing import Registry, Resource

    resources = ((f"{name}.schema.json", schema(name)) for name in names())
    return Registry[Any]().with_resources(
        (file, Resource.from_contents(document)) for file, document in resources
    )
