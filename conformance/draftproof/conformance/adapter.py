"""The types of the adapter protocol, under the name from which adapters import them."""

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
