"""The types of the protocols of verifiers and engines, as adapters import them."""

from draftproof.conformance.evidence.traces import untraced
from draftproof.conformance.lanes.engine.asking import Answer, Engine, Generation, SamplingParams
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
    "Answer",
    "Declaration",
    "DraftRequest",
    "DraftResult",
    "Engine",
    "Generation",
    "InvalidAdapter",
    "Request",
    "Result",
    "SamplingParams",
    "TextRequest",
    "Unfetched",
    "declaration",
    "untraced",
]
