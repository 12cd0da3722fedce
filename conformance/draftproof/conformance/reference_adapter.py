"""The reference's verifiers as adapters, by the names under which certificates know them."""

from __future__ import annotations

from typing import Any

from draftproof.conformance.protocol import reference


def __getattr__(name: str) -> Any:
    return getattr(reference, name)
