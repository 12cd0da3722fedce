"""The specification as data: the registry of requirements, the JSON schemas, the test vectors."""

from __future__ import annotations

from draftproof.spec.reading import (
    FileTooLarge,
    IrregularFile,
    NotJson,
    content_of,
    parsed,
    require_file,
    require_small,
)
from draftproof.spec.registry import Requirement, chapters, requirements, version, withdrawn
from draftproof.spec.schemas import MalformedDocument, schema, schema_files, validate
from draftproof.spec.vectors import VECTOR_KINDS, VECTOR_SIZES, vector_files

__all__ = [
    "VECTOR_KINDS",
    "VECTOR_SIZES",
    "FileTooLarge",
    "IrregularFile",
    "MalformedDocument",
    "NotJson",
    "Requirement",
    "chapters",
    "content_of",
    "parsed",
    "require_file",
    "require_small",
    "requirements",
    "schema",
    "schema_files",
    "validate",
    "vector_files",
    "version",
    "withdrawn",
]
