"""The protocol's types, where adapters import them from."""

from draftproof.conformance.protocol.adapter import (
    DTYPES,
    INVALID_INPUTS,
    Adapter,
    AdapterLost,
    Declaration,
    DraftRequest,
    DraftResult,
    InvalidAdapter,
    Request,
    Result,
    TextRequest,
    Unfetched,
    declaration,
)

__all__ = [
    "DTYPES",
    "INVALID_INPUTS",
    "Adapter",
    "AdapterLost",
    "Declaration",
    "DraftRequest",
    "DraftResult",
    "InvalidAdapter",
    "Request",
    "Result",
    "TextRequest",
    "Unfetched",
    "declaration",
]
