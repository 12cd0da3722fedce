"""What is required: the registry of requirements, and the schema of every JSON document."""

from __future__ import annotations

from draftproof.spec.registry import Requirement, chapters, requirements
from draftproof.spec.schemas import MalformedDocument, schema, schema_files, validate

__all__ = [
    "MalformedDocument",
    "Requirement",
    "chapters",
    "requirements",
    "schema",
    "schema_files",
    "validate",
]
